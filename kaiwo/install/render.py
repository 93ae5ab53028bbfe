"""Renders the parts of an installation."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from kaiwo.api.installation import DEFAULT_NAMESPACE
from kaiwo.install.namespace import namespace
from kaiwo.install.network_policy import API_SERVER_PORTS, network_policies
from kaiwo.install.operator import operator_deployment
from kaiwo.install.pod_options import PodOptions, with_pod_options
from kaiwo.install.roles import operator_roles
from kaiwo.install.scheduler import scheduler_objects
from kaiwo.install.user_roles import user_roles
from kaiwo.install.webhooks import WebhookOptions, webhook_objects, webhook_rights
from kaiwo.install.workload_policy import workload_policy
from kaiwo.install.write_policy import write_policy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaiwo.install.monitoring_options import MonitoringOptions
    from kaiwo.install.rendered_manifest import RenderedManifest
    from kaiwo.install.restrictions import Restriction
    from kaiwo.plugin.registry import Plugins

Part: TypeAlias = Literal["rbac", "operator", "scheduler"]

PARTS: Final[tuple[Part, ...]] = ("rbac", "operator", "scheduler")

OPERATOR_IMAGE: Final = f"ghcr.io/silogen/kaiwo-operator:{version('kaiwo')}"

SCHEDULER_IMAGE: Final = "registry.k8s.io/kube-scheduler:v1.36.3"
"""Where Kubernetes publishes its scheduler. The version is the one Kaiwo is tested with; a scheduler may be
one minor version older than the API server and never newer."""


REPLICAS: Final = 2
"""Pods of operator and scheduler: one leads, the other one takes over when it is gone."""


@dataclass(frozen=True, slots=True)
class InstallOptions:
    """Where Kaiwo is installed and from what.

    Attributes:
        namespace: of operator and scheduler.
        image: of the operator.
        scheduler_image: of the scheduler.
        workload_namespaces: the only namespaces whose workloads run, sorted; empty for all.
        replicas: pods of the operator, and of the scheduler.
        restrict_namespace: whether the namespace enforces the pod security standard ``restricted``.
        plugin_settings: ``spec.plugins`` of KaiwoConfig; rights of settings that are off are left out.
        restricted: what workloads may name only with a right to it, in every namespace.
        webhooks: what the webhooks do; None for none.
        pods: what is the same in the pods of operator and scheduler.
        network_policy: whether NetworkPolicies limit what operator and scheduler reach, and who reaches them.
        allowed_plugins: the plugins that the operator may import; None for no such list.
        shard: which of several operators is rendered; empty for the only one.
        monitoring: where the operator reads the use of GPUs; None for not at all.
        secrets: names of Secrets that are mounted into the operator.
        api_server_ports: ports at which the API server's processes listen, for NetworkPolicies.
    """

    namespace: str = DEFAULT_NAMESPACE
    image: str = OPERATOR_IMAGE
    scheduler_image: str = SCHEDULER_IMAGE
    workload_namespaces: tuple[str, ...] = ()
    replicas: int = REPLICAS
    restrict_namespace: bool = False
    plugin_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    restricted: tuple[Restriction, ...] = ()
    webhooks: WebhookOptions | None = None
    pods: PodOptions = field(default_factory=PodOptions)
    network_policy: bool = False
    monitoring: MonitoringOptions | None = None
    api_server_ports: tuple[int, ...] = API_SERVER_PORTS
    allowed_plugins: tuple[str, ...] | None = None
    secrets: tuple[str, ...] = ()
    shard: str = ""


def render(parts: Iterable[Part], plugins: Plugins, installation: InstallOptions) -> list[RenderedManifest]:
    """The objects of some parts, in an order in which they can be created, none of them twice.

    Args:
        parts: what to render; the order does not matter.
        plugins: loaded plugins.
        installation: namespace and images.
    """
    chosen = set(parts)
    where, webhooks = installation.namespace, installation.webhooks
    found = [namespace(where, restricted=installation.restrict_namespace)] if chosen else []
    if "rbac" in chosen:
        found += operator_roles(
            plugins, where, installation.workload_namespaces, installation.plugin_settings,
            sharded=bool(installation.shard),
        )  # fmt: skip
        found += webhook_rights(where, webhooks) if webhooks else []
        found += write_policy(where, own_certificates=bool(webhooks and not webhooks.certificates))
        found += workload_policy(plugins.backends, where, installation.restricted)
        found += user_roles(plugins, where)
    if "operator" in chosen:
        found += operator_deployment(
            plugins,
            where,
            installation.image,
            installation.workload_namespaces,
            replicas=installation.replicas,
            webhooks=webhooks,
            allowed=installation.allowed_plugins,
            monitoring=installation.monitoring,
            shard=installation.shard,
            secrets=installation.secrets,
        )
        if webhooks:
            found += webhook_objects(plugins, where, installation.workload_namespaces, webhooks)
    if "scheduler" in chosen:
        found += scheduler_objects(
            plugins, where, installation.scheduler_image, replicas=installation.replicas
        )
    found = with_pod_options(found, installation.pods)
    if installation.network_policy:
        found += network_policies(found, where, installation.api_server_ports, installation.monitoring)
    return found
