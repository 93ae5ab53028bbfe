"""Kueue: its CRDs and webhooks, with the manager on this machine instead of in a pod.

The API server calls the webhooks at ``https://127.0.0.1:PORT``, with an authority of ours as CA bundle.
So neither a Service nor an address besides loopback is needed, nor root to make one.
"""

from __future__ import annotations

import base64
import shutil
from typing import TYPE_CHECKING

import yaml

from kaiwo_sandbox import objects
from kaiwo_sandbox.addons import health
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

_OTHER_NAMESPACES: Object = {
    "matchExpressions": [
        {
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": ["kube-system", NAMESPACE],
        }
    ]
}
"""Which namespaces' jobs and pods Kueue looks at. The webhooks and the configuration must agree: a job that
the webhook suspends and the controller then ignores waits for ever."""

_CONVERTED = ("clusterqueues", "localqueues", "workloads", "cohorts", "multikueueclusters")
"""The kinds whose versions differ and are converted by the webhook, as in the project's own deployment."""

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


def _objects(manifests: Path) -> list[Object]:
    definitions = objects.read_kinds(manifests, "CustomResourceDefinition")
    return [objects.namespace(NAMESPACE), *definitions]


def _webhooks(manifests: Path) -> list[Object]:
    return objects.read_kinds(manifests, "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def _client_config(layout: Layout, path: str) -> Object:
    bundle = _base64(layout.pki / "webhook-ca.crt")
    return {"url": f"https://{LOOPBACK}:{layout.ports[_WEBHOOK]}{path}", "caBundle": bundle}


def _base64(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()


def _secret(layout: Layout) -> Object:
    """The Secret that Kueue would make and fill by itself, which takes it half a minute."""
    files = {
        "ca.crt": "webhook-ca.crt",
        "ca.key": "webhook-ca.key",
        "tls.crt": "webhook.crt",
        "tls.key": "webhook.key",
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "kueue-webhook-server-cert", "namespace": NAMESPACE},
        "data": {key: _base64(layout.pki / file) for key, file in files.items()},
    }


def _wiring(manifests: Path, layout: Layout) -> list[Object]:
    wired = [_secret(layout)]
    for configuration in _webhooks(manifests):
        name = configuration["metadata"]["name"].removeprefix("kueue-")
        configuration["metadata"]["name"] = (
            f"kueue-{name}"  # as in the release; in the module it has no prefix
        )
        for webhook in configuration["webhooks"]:
            webhook["clientConfig"] = _client_config(layout, webhook["clientConfig"]["service"]["path"])
            if not any(_GROUP in rule["apiGroups"] for rule in webhook["rules"]):
                webhook["namespaceSelector"] = _OTHER_NAMESPACES
        wired.append(configuration)
    wired += [_conversion(layout, plural) for plural in _CONVERTED]
    return wired


def _conversion(layout: Layout, plural: str) -> Object:
    """The part of a CRD that says where its versions are converted, to be merged into it."""
    webhook = {"clientConfig": _client_config(layout, _CONVERT), "conversionReviewVersions": ["v1"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{_GROUP}"},
        "spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}},
    }


def configuration(layout: Layout) -> Object:
    """The manager's configuration file."""
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
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
        # Its aggregated API would need a server that the API server reaches through a Service.
        "featureGates": {"VisibilityOnDemand": False},
        "managedJobsNamespaceSelector": _OTHER_NAMESPACES,
        "integrations": {"frameworks": list(FRAMEWORKS)},
    }


def _configure(layout: Layout) -> None:
    certificates = layout.directory / _CERTIFICATES
    certificates.mkdir(mode=0o700, exist_ok=True)
    for ending in ("crt", "key"):
        shutil.copy(layout.pki / f"webhook.{ending}", certificates / f"tls.{ending}")
    shutil.copy(layout.pki / "webhook-ca.crt", certificates / "ca.crt")
    (layout.directory / "kueue.yaml").write_text(yaml.safe_dump(configuration(layout), sort_keys=False))


def _command(binary: Path, layout: Layout) -> list[str]:
    return [str(binary), f"--config={layout.directory / 'kueue.yaml'}", "--zap-log-level=info"]


def _paths(manifests: Path) -> list[str]:
    paths = [
        webhook["clientConfig"]["service"]["path"]
        for configuration in _webhooks(manifests)
        for webhook in configuration["webhooks"]
    ]
    return [*paths, _CONVERT]


def _ready(manifests: Path, layout: Layout) -> bool:
    return health.answers(layout.ports[_HEALTH], "/readyz") and health.serves(
        layout.ports[_WEBHOOK], _paths(manifests), layout.pki / "webhook-ca.crt"
    )


KUEUE = Addon(
    name="kueue",
    program="kueue",
    port_names=(_HEALTH, _WEBHOOK),
    objects=_objects,
    wiring=_wiring,
    configure=_configure,
    command=_command,
    environment={},
    ready=_ready,
)
