"""Renders the operator's service account and roles, from the rights of the host and of loaded plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from kaiwo.api.installation import OPERATOR, head, installed_name
from kaiwo.api.kaiwoconfig import GPU_TIME, HISTORY
from kaiwo.install.host_rules import CLUSTER_RULES, SHARD_RULES, WORKLOAD_RULES
from kaiwo.install.object_policy import object_policies
from kaiwo.install.rendered_manifest import RenderedManifest
from kaiwo.plugin.backends import Backend
from kaiwo.plugin.sources import DownloadSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.rbac import PolicyRule
    from kaiwo.plugin.registry import LoadedPlugin, Plugins

RBAC: Final = "rbac.authorization.k8s.io"
API_VERSION: Final = f"{RBAC}/v1"

WORKLOAD_ROLE: Final = f"{OPERATOR}-workloads"
"""Name of the Role and its binding in each namespace of workloads, where these are chosen, before the
namespace of the installation is added."""

_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")


def operator_roles(
    plugins: Plugins,
    namespace: str,
    workload_namespaces: Sequence[str] = (),
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    sharded: bool = False,
) -> list[RenderedManifest]:
    """Service account, roles, bindings, and the policies for what roles cannot express.

    Args:
        plugins: loaded plugins; declarations that cannot run yet add no rights.
        namespace: of the operator.
        workload_namespaces: the only namespaces in which it has rights to workloads and other namespaced
            objects; empty for all.
        settings: of plugins, by their names, as KaiwoConfig has them; the defaults for what is missing.
        sharded: whether several operators share the namespaces.
    """
    everywhere = [
        *((rule, "host") for rule in CLUSTER_RULES + (SHARD_RULES if sharded else ())),
        *declared(plugins, settings, namespaced=False),
    ]
    within = [
        *((rule, "host") for rule in WORKLOAD_RULES),
        *declared(plugins, settings, namespaced=True),
    ]
    limits = object_policies((rule for rule, _ in (*everywhere, *within)), namespace)
    if not workload_namespaces:
        everywhere += within
    limited = [obj for chosen in workload_namespaces for obj in _workload_role(within, namespace, chosen)]
    cluster_name = installed_name(OPERATOR, namespace)
    cluster_role = head(API_VERSION, "ClusterRole", cluster_name, app=OPERATOR, installation=namespace)
    return [
        service_account(OPERATOR, namespace),
        _role(cluster_role, everywhere),
        cluster_binding(cluster_name, role=cluster_name, account=OPERATOR, namespace=namespace),
        _own_namespace(namespace, sharded=sharded),
        binding(OPERATOR, role=("Role", OPERATOR), account=OPERATOR, namespace=namespace),
        *limited,
        *limits,
    ]


def _workload_role(
    needs: Iterable[tuple[PolicyRule, str]], installation: str, namespace: str
) -> list[RenderedManifest]:
    """The Role in one namespace of workloads, and its binding."""
    name = installed_name(WORKLOAD_ROLE, installation)
    role = head(API_VERSION, "Role", name, app=OPERATOR, installation=installation, namespace=namespace)
    return [
        _role(role, needs),
        binding(name, role=("Role", name), account=OPERATOR, namespace=installation, within=namespace),
    ]


def _role(role: Object, needs: Iterable[tuple[PolicyRule, str]]) -> RenderedManifest:
    rules, whys = merged(needs)
    return RenderedManifest(role | {"rules": rules}, whys)


def declared(
    plugins: Plugins, settings: Mapping[str, Mapping[str, Any]] | None = None, *, namespaced: bool
) -> Iterator[tuple[PolicyRule, str]]:
    """The rights that loaded plugins need, each rule with the plugin's name.

    Args:
        plugins: loaded plugins.
        settings: of plugins, by their names, as KaiwoConfig has them.
        namespaced: whether to return the rights to kinds with namespaces or those to all others. Those of
            backends and download sources are for objects of workloads, which have namespaces.
    """
    for plugin in plugins.loaded:
        for declaration in plugin.declarations():
            if isinstance(declaration, Backend) and not declaration.built:
                continue
            if isinstance(declaration, DownloadSource) and declaration.downloader is None:
                continue
            of_workloads = isinstance(declaration, Backend | DownloadSource)
            for rule in getattr(declaration, "rules", ()):
                if (of_workloads or rule.namespaced) != namespaced:
                    continue
                if _is_needed(rule, plugin, (settings or {}).get(plugin.name) or {}):
                    yield rule, plugin.name


def _is_needed(rule: PolicyRule, plugin: LoadedPlugin, section: Mapping[str, Any]) -> bool:
    """Whether a rule's setting is on; a section that cannot be used counts as absent, as in the operator."""
    model = plugin.settings_model()
    if not rule.setting or model is None:
        return True
    try:
        read = model.model_validate(section)
    except ValidationError:
        read = model.model_validate({})
    return bool(read.model_dump(by_alias=True)[rule.setting])


def merged(rules: Iterable[tuple[PolicyRule, str]]) -> tuple[list[Object], tuple[tuple[str, ...], ...]]:
    """Merge rules into those of a role, in a stable order, with the reasons for each.

    Resources of one group with the same verbs for the same reasons share a rule. A resource that several
    need has the verbs of all of them and the reasons of each.

    Args:
        rules: each with the name of what needs it.
    """
    verbs: dict[tuple[str, str], set[str]] = {}
    whys: dict[tuple[str, str], set[str]] = {}
    for rule, who in rules:
        for place in ((group, resource) for group in rule.groups for resource in rule.resources):
            verbs.setdefault(place, set()).update(rule.verbs)
            whys.setdefault(place, set()).add(f"{who}: {rule.why}")
    shared: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for group, resource in sorted(verbs):
        place = (group, resource)
        key = (group, tuple(sorted(verbs[place], key=_order)), tuple(sorted(whys[place])))
        shared.setdefault(key, []).append(resource)
    made = [
        {"apiGroups": [group], "resources": resources, "verbs": list(allowed)}
        for (group, allowed, _), resources in shared.items()
    ]
    return made, tuple(reasons for _, _, reasons in shared)


def _order(verb: str) -> tuple[int, str]:
    return (_VERBS.index(verb) if verb in _VERBS else len(_VERBS), verb)


def _own_namespace(namespace: str, *, sharded: bool) -> RenderedManifest:
    """The rights in the operator's own namespace: its Lease, and its two ConfigMaps.

    Shards read each other's Leases, and more shards need no other Role.
    """
    lease = lease_role(OPERATOR, namespace)
    if sharded:
        rule = {**lease.obj["rules"][0], "verbs": ["get", "list", "create", "update"]}
        lease = RenderedManifest(
            lease.obj | {"rules": [rule]}, (("leader election, and the handover of namespaces",),)
        )
    history = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [HISTORY, GPU_TIME],
        "verbs": ["get", "create", "patch"],
    }
    rules = [*lease.obj["rules"], history]
    why = "the last specs of the KaiwoConfig are kept, and the GPU time of the metrics"
    return RenderedManifest(lease.obj | {"rules": rules}, (*lease.whys, (why,)))


def lease_role(name: str, namespace: str) -> RenderedManifest:
    """The right to the one Lease that has the name and namespace of its holder."""
    role = head(API_VERSION, "Role", name, app=name, installation=namespace, namespace=namespace)
    leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    role["rules"] = [
        {**leases, "verbs": ["create"]},
        {**leases, "resourceNames": [name], "verbs": ["get", "update"]},
    ]
    return RenderedManifest(role, (("a right to create cannot be limited to a name",), ("leader election",)))


def service_account(name: str, namespace: str) -> RenderedManifest:
    """A service account whose token is mounted only into pods that request it."""
    account = head("v1", "ServiceAccount", name, app=name, installation=namespace, namespace=namespace)
    return RenderedManifest(account | {"automountServiceAccountToken": False})


def cluster_binding(name: str, *, role: str, account: str, namespace: str) -> RenderedManifest:
    """A ClusterRole for a service account, in all namespaces."""
    obj = head(API_VERSION, "ClusterRoleBinding", name, app=account, installation=namespace)
    return RenderedManifest(obj | _bound(("ClusterRole", role), account, namespace))


def binding(
    name: str, *, role: tuple[str, str], account: str, namespace: str, within: str | None = None
) -> RenderedManifest:
    """A role for a service account in one namespace.

    Args:
        name: of the binding.
        role: kind and name of the role.
        account: name of the service account.
        namespace: of the service account.
        within: where the role counts, None for the account's own namespace.
    """
    obj = head(
        API_VERSION, "RoleBinding", name, app=account, installation=namespace, namespace=within or namespace
    )
    return RenderedManifest(obj | _bound(role, account, namespace))


def _bound(role: tuple[str, str], account: str, namespace: str) -> Object:
    kind, name = role
    return {
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }
