"""The addon Kueue: its CRDs, its webhooks and its manager."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from kaiwo_sandbox import objects
from kaiwo_sandbox.addons import probes, webhooks
from kaiwo_sandbox.addons.base import Addon
from kaiwo_sandbox.ports import LOOPBACK

if TYPE_CHECKING:
    from pathlib import Path

    from kaiwo_sandbox.api import Object
    from kaiwo_sandbox.control_plane import Layout

NAMESPACE = "kueue-system"
_HEALTH, _WEBHOOK = "kueue_health", "kueue_webhook"
_CERTIFICATES = "kueue-webhook"
_CONVERT = "/convert"
_GROUP = "kueue.x-k8s.io"

_MANAGED_NAMESPACES: Object = {
    "matchExpressions": [
        {
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": ["kube-system", NAMESPACE],
        }
    ]
}
"""Selects the namespaces that Kueue manages. The webhooks and the configuration must use the same selector:
otherwise a webhook suspends jobs that the controller ignores."""

_CONVERTED_RESOURCES = ("clusterqueues", "localqueues", "workloads", "cohorts", "multikueueclusters")
"""The resources with a conversion webhook, as in the project's own deployment. The older generation has one
version of each, and no conversion."""

FRAMEWORKS = (
    "batch/job",
    "ray.io/rayjob",
    "ray.io/raycluster",
    "ray.io/rayservice",
    "workload.codeflare.dev/appwrapper",
    "pod",
    "deployment",
    "statefulset",
)


def _static_objects(manifests: Path) -> list[Object]:
    definitions = objects.read_kinds(manifests, "CustomResourceDefinition")
    return [objects.namespace(NAMESPACE), *definitions]


def _secret(layout: Layout) -> Object:
    """The Secret of webhook certificates. Kueue would create it by itself, which takes half a minute."""
    files = {
        "ca.crt": webhooks.AUTHORITY,
        "ca.key": "webhook-ca.key",
        "tls.crt": "webhook.crt",
        "tls.key": "webhook.key",
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "kueue-webhook-server-cert", "namespace": NAMESPACE},
        "data": {key: webhooks.base64_of(layout.pki / file) for key, file in files.items()},
    }


def _webhook_objects(manifests: Path, layout: Layout) -> list[Object]:
    configurations = webhooks.configurations(manifests, layout, prefix="kueue", port=_WEBHOOK)
    for webhook in (webhook for each in configurations for webhook in each["webhooks"]):
        if not any(_GROUP in rule["apiGroups"] for rule in webhook["rules"]):
            webhook["namespaceSelector"] = _MANAGED_NAMESPACES
    conversions = [_conversion(layout, plural) for plural in _converted_resources(layout)]
    return [_secret(layout), *configurations, *conversions]


def _converted_resources(layout: Layout) -> tuple[str, ...]:
    return () if layout.is_older else _CONVERTED_RESOURCES


def _conversion(layout: Layout, plural: str) -> Object:
    """The conversion webhook of a CRD, to be applied to it."""
    webhook = {
        "clientConfig": webhooks.client_config(layout, _WEBHOOK, _CONVERT),
        "conversionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{_GROUP}"},
        "spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}},
    }


def configuration(layout: Layout) -> Object:
    """The configuration of the manager, in the version and with the frameworks of its generation."""
    frameworks = [name for name in FRAMEWORKS if not (layout.is_older and name == "ray.io/rayservice")]
    gates = {"TopologyAwareScheduling": True} if layout.is_older else {}  # on by default in the newer one
    return {
        "apiVersion": f"config.kueue.x-k8s.io/{'v1beta1' if layout.is_older else 'v1beta2'}",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"{LOOPBACK}:{layout.ports[_HEALTH]}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {
            "host": LOOPBACK,
            "port": layout.ports[_WEBHOOK],
            "certDir": str(layout.directory / _CERTIFICATES),
        },
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"qps": 200, "burst": 400},
        # The aggregated API server would need a Service with a reachable endpoint.
        "featureGates": {"VisibilityOnDemand": False, **gates},
        "managedJobsNamespaceSelector": _MANAGED_NAMESPACES,
        "integrations": {"frameworks": frameworks},
    }


def _write_files(layout: Layout) -> None:
    webhooks.write_certificates(layout, _CERTIFICATES)
    (layout.directory / "kueue.yaml").write_text(yaml.safe_dump(configuration(layout), sort_keys=False))


def _command(binary: Path, layout: Layout) -> list[str]:
    return [str(binary), f"--config={layout.directory / 'kueue.yaml'}", "--zap-log-level=info"]


def _ready(manifests: Path, layout: Layout) -> bool:
    conversion = [_CONVERT] if _converted_resources(layout) else []
    return probes.is_ready(layout.ports[_HEALTH], "/readyz") and probes.serves_webhooks(
        layout.ports[_WEBHOOK], [*webhooks.paths(manifests), *conversion], layout.pki / webhooks.AUTHORITY
    )


KUEUE = Addon(
    name="kueue",
    program="kueue",
    port_names=(_HEALTH, _WEBHOOK),
    static_objects=_static_objects,
    webhook_objects=_webhook_objects,
    write_files=_write_files,
    command=_command,
    environment=lambda _layout: {},
    ready=_ready,
)
