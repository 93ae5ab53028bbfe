"""The operator's Deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaiwo.api.config_names import SHARD_VARIABLE, WATCH_VARIABLE
from kaiwo.api.installation import OPERATOR
from kaiwo.engine.shard import MAIN
from kaiwo.install.deployment import deployment, probe, resources
from kaiwo.install.monitoring_options import monitoring_variables
from kaiwo.install.webhooks import CERTIFICATES, PORT, PORT_NAME, webhook_variables
from kaiwo.plugin.claims import own_distribution
from kaiwo.plugin.commands import Command
from kaiwo.plugin.selection import ALLOWED_VARIABLE, NAMES_VARIABLE, normalised

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.engine.resource import Object
    from kaiwo.install.monitoring_options import MonitoringOptions
    from kaiwo.install.rendered_manifest import RenderedManifest
    from kaiwo.install.webhooks import WebhookOptions
    from kaiwo.plugin.registry import Plugins

_PORT = 8080

SECRETS: Final = "/etc/kaiwo"
"""Folder of the container in which mounted Secrets have a folder each, by their names."""

VOLUME: Final = "certificates"
"""Name of the volume with the webhooks' certificates; no mounted Secret has it."""


def operator_deployment(
    plugins: Plugins,
    namespace: str,
    image: str,
    workload_namespaces: Sequence[str] = (),
    *,
    replicas: int,
    webhooks: WebhookOptions | None = None,
    allowed: Sequence[str] | None = None,
    monitoring: MonitoringOptions | None = None,
    shard: str = "",
    secrets: Sequence[str] = (),
) -> list[RenderedManifest]:
    """The operator, with the list of plugins that its roles and the CRDs were rendered for.

    Args:
        plugins: loaded plugins.
        namespace: of the operator.
        image: holds ``kaiwo`` and these plugins.
        workload_namespaces: the only namespaces whose workloads run; empty for all.
        replicas: number of pods.
        webhooks: what the webhooks do; None for none.
        allowed: the plugins that may be imported, see `kaiwo.plugin.allow_list`; None for no such list.
        monitoring: where the use of GPUs is read; None for not at all.
        shard: the namespaces that it serves, `MAIN` for those without the label; empty for the only operator.
        secrets: Secrets of its namespace whose keys it reads as files, each in its own folder of `SECRETS`.
    """
    container: Object = {
        "name": "operator",
        "image": image,
        "command": ["kaiwo", "operator", "run"],
        "env": [
            # Set even when empty: otherwise every plugin in the image would be loaded, without rights.
            {"name": NAMES_VARIABLE, "value": ",".join(operator_plugins(plugins))},
            *([{"name": ALLOWED_VARIABLE, "value": " ".join(allowed)}] if allowed is not None else []),
            # A rollout overlaps two processes, and only one of them may write.
            {"name": "KAIWO_LEADER_ELECTION", "value": "true"},
            # The role is for the Lease of this name.
            {"name": "KAIWO_LEASE_NAME", "value": OPERATOR},
            {
                "name": "KAIWO_OPERATOR_NAMESPACE",
                "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
            },
            {"name": "KAIWO_METRICS_ADDRESS", "value": f":{_PORT}"},
            {"name": "KAIWO_LOG_FORMAT", "value": "json"},
            *(
                [{"name": WATCH_VARIABLE, "value": ",".join(workload_namespaces)}]
                if workload_namespaces
                else []
            ),
            *([{"name": SHARD_VARIABLE, "value": shard}] if shard else []),
            *(webhook_variables(webhooks) if webhooks else []),
            *(monitoring_variables(monitoring) if monitoring else []),
        ],
        "ports": [{"name": "metrics", "containerPort": _PORT, "protocol": "TCP"}],
        "livenessProbe": probe("/healthz", "metrics", period=10),
        "readinessProbe": probe("/readyz", "metrics", period=5),
        # 10,000 workloads take 145 MiB, 50,000 take 357 (bench/README.md); plugins with watches of their own
        # come on top.
        "resources": resources("100m", "320Mi", "1Gi"),
    }
    mounts: list[Object] = []
    volumes: list[Object] = []
    if webhooks:
        container["ports"].append({"name": PORT_NAME, "containerPort": PORT, "protocol": "TCP"})
    if webhooks and webhooks.certificates:
        mounts.append({"name": VOLUME, "mountPath": CERTIFICATES, "readOnly": True})
        volumes.append({"name": VOLUME, "secret": {"secretName": webhooks.certificates}})
    for name in secrets:
        mounts.append({"name": name, "mountPath": f"{SECRETS}/{name}", "readOnly": True})
        # An operator that waits for a Secret would run no workloads.
        volumes.append({"name": name, "secret": {"secretName": name, "optional": True}})
    if mounts:
        container["volumeMounts"] = mounts
    other = shard if shard != MAIN else ""
    return deployment(OPERATOR, namespace, container, replicas=replicas, volumes=volumes, shard=other)


def operator_plugins(plugins: Plugins) -> list[str]:
    """The loaded plugins that an operator uses: those that declare more than commands.

    A plugin whose distribution is not named after it is listed with its distribution.
    """
    return [
        plugin.name
        if normalised(plugin.distribution) == own_distribution(plugin.name)
        else f"{plugin.name}@{plugin.distribution}"
        for plugin in plugins.loaded
        if not all(isinstance(declaration, Command) for declaration in plugin.declarations())
    ]
