"""Renders kaiwo-scheduler, a kube-scheduler that fills nodes whose GPUs are in use before it uses others."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import yaml

from kaiwo.api.installation import SCHEDULER, SYSTEM_NAMESPACE, head, installed_name
from kaiwo.install.deployment import deployment, probe, resources
from kaiwo.install.rendered_manifest import RenderedManifest
from kaiwo.install.roles import binding, cluster_binding, lease_role, service_account

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.registry import Plugins
    from kaiwo.plugin.vendors import GpuVendor

_PORT = 10259  # of kube-scheduler's probes and metrics, https
_DIRECTORY = "/etc/kaiwo-scheduler"
_FILE = "scheduler.yaml"

_VERSION = re.compile(r"v?(\d+)\.(\d+)")
_IMAGE_VERSION = re.compile(r":v?(\d+)\.(\d+)[^:/]*$")

_WEIGHT: Final = 5
_FULL: Final = 10  # the best score of a shape; kube-scheduler counts from 0 to 10 here


def scheduler_objects(
    plugins: Plugins, namespace: str, image: str, *, replicas: int
) -> list[RenderedManifest]:
    """Render service account, bindings, configuration and Deployment of the scheduler.

    It gets the roles that Kubernetes has for a kube-scheduler.

    Args:
        plugins: loaded plugins; their vendors' GPUs are packed.
        namespace: of the scheduler.
        image: a kube-scheduler, not newer than the cluster's API server.
        replicas: number of pods.
    """
    stored = head("v1", "ConfigMap", SCHEDULER, app=SCHEDULER, installation=namespace, namespace=namespace)
    text = yaml.safe_dump(configuration(gpu_keys(plugins.vendors), namespace), sort_keys=False)
    stored["data"] = {_FILE: text}
    name = installed_name(SCHEDULER, namespace)
    account = {"account": SCHEDULER, "namespace": namespace}
    return [
        service_account(SCHEDULER, namespace),
        cluster_binding(name, role="system:kube-scheduler", **account),
        cluster_binding(
            installed_name(f"{SCHEDULER}-volumes", namespace), role="system:volume-scheduler", **account
        ),
        binding(
            installed_name(f"{SCHEDULER}-authentication", namespace),
            role=("Role", "extension-apiserver-authentication-reader"),
            within=SYSTEM_NAMESPACE,
            **account,
        ),
        lease_role(SCHEDULER, namespace),
        binding(SCHEDULER, role=("Role", SCHEDULER), **account),
        RenderedManifest(stored),
        *_deployment(namespace, image, text, replicas),
    ]


def version_problem(image: str, server: str) -> str:
    """Why a scheduler does not fit an API server; empty when it does, or when its tag is no version.

    A kube-scheduler may be one minor version older than the API server, and never newer (the version skew
    policy of Kubernetes).

    Args:
        image: of the scheduler.
        server: version of the API server, as its ``gitVersion``.
    """
    tag, api = _IMAGE_VERSION.search(image.partition("@")[0]), _VERSION.match(server)
    if tag is None or api is None:
        return ""
    behind = int(api[2]) - int(tag[2])
    if tag[1] == api[1] and behind in (0, 1):
        return ""
    return (
        f"scheduler image {image} does not fit the API server {server}: a kube-scheduler may be one minor "
        "version older than it and never newer"
    )


def gpu_keys(vendors: tuple[GpuVendor, ...]) -> list[str]:
    """Resource keys to pack, without families (``nvidia.com/mig-*``): a configuration names keys in full."""
    return sorted({key for vendor in vendors for key in vendor.resource_keys if "*" not in key})


def configuration(keys: list[str], namespace: str) -> Object:
    """The scheduler's configuration file.

    Args:
        keys: resources to pack; without any the profile scores as the default scheduler does.
        namespace: of the Lease.
    """
    profile: Object = {"schedulerName": SCHEDULER}
    if keys:
        profile |= {"pluginConfig": [_packing(keys)], "plugins": {"score": _SCORE}}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {
            "leaderElect": True,
            "resourceLock": "leases",
            "resourceName": SCHEDULER,
            "resourceNamespace": namespace,
        },
        "profiles": [profile],
    }


_SCORE: Final[Object] = {
    # Balancing GPUs against CPU and memory would pull pods apart again.
    "disabled": [{"name": "NodeResourcesFit"}, {"name": "NodeResourcesBalancedAllocation"}],
    "enabled": [{"name": "NodeResourcesFit", "weight": _WEIGHT}],
}


def _packing(keys: list[str]) -> Object:
    shape = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": _FULL}]
    strategy = {
        "type": "RequestedToCapacityRatio",
        "resources": [{"name": key, "weight": _WEIGHT} for key in keys],
        "requestedToCapacityRatio": {"shape": shape},
    }
    return {"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}


def _deployment(namespace: str, image: str, text: str, replicas: int) -> list[RenderedManifest]:
    container: Object = {
        "name": "scheduler",
        "image": image,
        "command": ["kube-scheduler", f"--config={_DIRECTORY}/{_FILE}", f"--secure-port={_PORT}"],
        "ports": [{"name": "https", "containerPort": _PORT, "protocol": "TCP"}],
        "livenessProbe": probe("/livez", "https", scheme="HTTPS", period=10),
        "readinessProbe": probe("/readyz", "https", scheme="HTTPS", period=5),
        "resources": resources("100m", "128Mi", "1Gi"),
        "volumeMounts": [{"name": "configuration", "mountPath": _DIRECTORY, "readOnly": True}],
    }
    volume = {"name": "configuration", "configMap": {"name": SCHEDULER}}
    # A kube-scheduler reads its configuration once: another one needs another pod.
    digest = {"kaiwo.silogen.ai/configuration": sha256(text.encode()).hexdigest()[:16]}
    return deployment(
        SCHEDULER, namespace, container, replicas=replicas, volumes=[volume], annotations=digest
    )
