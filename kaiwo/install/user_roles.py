"""Renders the rights of users: additions to the cluster's own roles, and roles to bind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaiwo.api.crds import KAIWO_CONFIG, WORKLOADS
from kaiwo.api.installation import head, installed_name
from kaiwo.engine.resource import NODE, PRIORITY_CLASS, STORAGE_CLASS
from kaiwo.install.host_rules import READ
from kaiwo.install.rendered_manifest import RenderedManifest
from kaiwo.install.roles import API_VERSION, RBAC, merged
from kaiwo.plugin.rbac import PolicyRule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo.engine.resource import Resource
    from kaiwo.plugin.registry import Plugins

_CHANGE = ("create", "update", "patch", "delete", "deletecollection")

_RUNNING: Final = (
    PolicyRule(("",), ("pods",), READ, "what runs is shown with the workload"),
    PolicyRule(("",), ("events",), READ, "why something waits is shown with the workload"),
    PolicyRule(("",), ("pods/log",), ("get",), "kaiwo logs"),
)
"""What the cluster's role ``view`` has, too."""

_ENTERING: Final = (
    PolicyRule(("",), ("pods/exec", "pods/portforward"), ("get", "create"), "kaiwo exec and port-forward"),
)
"""What the cluster's role ``edit`` has, too."""


def user_roles(plugins: Plugins, installation: str) -> list[RenderedManifest]:
    """The ClusterRoles for users; each is complete, so that it can also be bound by itself.

    * ``kaiwo-view``, ``kaiwo-edit`` and ``kaiwo-admin`` are aggregated into ``view``, ``edit`` and ``admin``:
      whoever reads or runs Jobs in a namespace reads or runs workloads there. Of other kinds they hold
      nothing that those roles do not have, and each includes the one before.
    * ``kaiwo-cluster-view`` reads what ``kaiwo plan`` checks against, and the queues for ``kaiwo queue``. It
      is aggregated into ``view``, which gives it to those who have ``view`` in the whole cluster.
    * ``kaiwo-queue-admin`` configures the queues, where a plugin has some.

    Args:
        plugins: loaded plugins.
        installation: the namespace of the installation.
    """
    workloads = tuple(WORKLOADS.values())
    checked = (NODE, PRIORITY_CLASS, STORAGE_CLASS, KAIWO_CONFIG)
    kinds = tuple(kind.resource for kind in plugins.kinds())
    own = (*workloads, *(kind for kind in kinds if kind.namespaced))
    queue = plugins.queue_system
    read_kinds = dict.fromkeys((*queue.reads, *queue.usage_reads, *queue.flavor_reads)) if queue else {}
    queues = tuple(kind for kind in read_kinds if kind not in queue.owned) if queue else ()
    queued = tuple(kind for kind in queue.usage_reads if kind.namespaced) if queue else ()
    configured = [
        kind.resource
        for plugin in plugins.loaded
        if plugin.queue_systems
        for controller in plugin.controllers
        for kind in controller.kinds
    ]
    seen = [
        *_rule(queued, READ, "who waits and who holds quota is read with Jobs"),
        *_rule(workloads, ("get",), "kubectl get --subresource=status", "/status"),
        *_RUNNING,
    ]
    read = [*_rule(own, READ, "workloads are read with Jobs"), *seen]
    change = [*_rule(own, (*READ, *_CHANGE), "workloads are run and read with Jobs"), *seen]
    found = [
        _role(installation, "view", read, into="view"),
        _role(installation, "edit", change, into="edit"),
        _role(installation, "admin", [*change, *_ENTERING], into="admin"),
        _role(
            installation,
            "cluster-view",
            [
                *_rule(checked, READ, "a plan is checked against nodes, classes and the configuration"),
                *_rule((*kinds, *queues), READ, "a plan is checked against the queues"),
            ],
            into="view",
        ),
    ]
    if configured:
        rules = [
            *_rule(configured, (*READ, *_CHANGE), "the configuration of the queues"),
            *_rule(queues, READ, "the queues that come of it"),
        ]
        found.append(_role(installation, "queue-admin", rules))
    return found


def _rule(
    kinds: Iterable[Resource], verbs: tuple[str, ...], why: str, subresource: str = ""
) -> list[PolicyRule]:
    return [PolicyRule((kind.group,), (f"{kind.plural}{subresource}",), verbs, why) for kind in kinds]


def _role(installation: str, name: str, rules: Iterable[PolicyRule], *, into: str = "") -> RenderedManifest:
    full = installed_name(f"kaiwo-{name}", installation)
    role = head(API_VERSION, "ClusterRole", full, app="kaiwo", installation=installation)
    if into:
        role["metadata"]["labels"][f"{RBAC}/aggregate-to-{into}"] = "true"
    made, whys = merged((rule, "users") for rule in rules)
    return RenderedManifest(role | {"rules": made}, whys)
