"""Kueue: its CRDs and webhooks, with the manager on this machine instead of in a pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from kaiwo_sandbox import objects
from kaiwo_sandbox.addons import health, webhooks
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
"""The kinds whose versions differ and are converted by the webhook, as in the project's own deployment. The
older generation has one version of each."""

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


def _secret(layout: Layout) -> Object:
    """The Secret that Kueue would make and fill by itself, which takes it half a minute."""
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
        "data": {key: webhooks.encoded(layout.pki / file) for key, file in files.items()},
    }


def _wiring(manifests: Path, layout: Layout) -> list[Object]:
    configurations = webhooks.wired(manifests, layout, prefix="kueue", port=_WEBHOOK)
    for webhook in (webhook for each in configurations for webhook in each["webhooks"]):
        if not any(_GROUP in rule["apiGroups"] for rule in webhook["rules"]):
            webhook["namespaceSelector"] = _OTHER_NAMESPACES
    conversions = [_conversion(layout, plural) for plural in _converted(layout)]
    return [_secret(layout), *configurations, *conversions]


def _converted(layout: Layout) -> tuple[str, ...]:
    return () if layout.is_older else _CONVERTED


def _conversion(layout: Layout, plural: str) -> Object:
    """The part of a CRD that says where its versions are converted, to be merged into it."""
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
    """The manager's configuration file, of the version and with the frameworks that its generation knows."""
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
        # Its aggregated API would need a server that the API server reaches through a Service.
        "featureGates": {"VisibilityOnDemand": False, **gates},
        "managedJobsNamespaceSelector": _OTHER_NAMESPACES,
        "integrations": {"frameworks": frameworks},
    }


def _configure(layout: Layout) -> None:
    webhooks.write_certificates(layout, _CERTIFICATES)
    (layout.directory / "kueue.yaml").write_text(yaml.safe_dump(configuration(layout), sort_keys=False))


def _command(binary: Path, layout: Layout) -> list[str]:
    return [str(binary), f"--config={layout.directory / 'kueue.yaml'}", "--zap-log-level=info"]


def _ready(manifests: Path, layout: Layout) -> bool:
    conversion = [_CONVERT] if _converted(layout) else []
    return health.answers(layout.ports[_HEALTH], "/readyz") and health.serves(
        layout.ports[_WEBHOOK], [*webhooks.paths(manifests), *conversion], layout.pki / webhooks.AUTHORITY
    )


KUEUE = Addon(
    name="kueue",
    program="kueue",
    port_names=(_HEALTH, _WEBHOOK),
    objects=_objects,
    wiring=_wiring,
    configure=_configure,
    command=_command,
    environment=lambda _layout: {},
    ready=_ready,
)
