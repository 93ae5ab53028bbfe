"""Compares an installation with what this version renders for it; a check of ``kaiwo doctor``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.config_names import SHARD_LABEL
from kaiwo.cli import kit
from kaiwo.cli.cluster_installation import plugin_settings
from kaiwo.cli.uninstalling.live_objects import label_of, labelled
from kaiwo.cli.uninstalling.plan import operator_fact, read_operators
from kaiwo.client.doctor.result import ok, some, warning
from kaiwo.engine.errors import NotFound
from kaiwo.engine.shard import MAIN
from kaiwo.install.inventory import COMPARED_KINDS, installed_objects
from kaiwo.install.render import InstallOptions, render

if TYPE_CHECKING:
    from kaiwo.cli.uninstalling.plan import OperatorFact
    from kaiwo.client.doctor.result import DoctorCheck, DoctorScope
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.registry import Plugins

_RULES = ("ClusterRole", "Role")
_APPLY = "as an administrator: kaiwo manifests rbac --from-cluster -n {} | kubectl apply --server-side -f -"


async def check_installed(api: Client, scope: DoctorScope) -> list[DoctorCheck]:
    """Whether roles are as this version renders them, and whether objects of another version are left."""
    del scope
    found: list[DoctorCheck] = []
    for deployment in await read_operators(api):
        operator = operator_fact(deployment)
        if operator.shard not in ("", MAIN):
            continue  # its rights are those of the main one
        loaded = kit.plugins(",".join(operator.plugins))
        if {plugin.name for plugin in loaded.loaded} >= set(operator.plugins):
            found += [*await _roles(api, operator, loaded), *await _leftovers(api, operator, loaded)]
    return found


async def _roles(api: Client, operator: OperatorFact, plugins: Plugins) -> list[DoctorCheck]:
    from kaiwo.api.config_names import SINGLETON
    from kaiwo.api.crds import KAIWO_CONFIG

    try:
        config: Object | None = await api.get(KAIWO_CONFIG, None, SINGLETON)
    except NotFound:
        config = None
    options = InstallOptions(
        namespace=operator.namespace,
        workload_namespaces=operator.watched,
        plugin_settings=plugin_settings(config),
        shard=operator.shard,
    )
    rendered = [manifest.obj for manifest in render(("rbac",), plugins, options)]
    wanted = {_key(obj): obj["rules"] for obj in rendered if obj["kind"] in _RULES}
    live = {
        (item.resource.kind, item.namespace, item.name): obj.get("rules")
        async for item, obj in labelled(api, operator.namespace, COMPARED_KINDS)
        if item.resource.kind in _RULES
    }
    other = [
        f"{kind} {name}"
        for kind, where, name in wanted
        if live.get((kind, where, name)) != wanted[kind, where, name]
    ]
    if other:
        text = f"not as this version renders them for the operator in {operator.namespace}: {some(other)}"
        return [warning("roles", text, _APPLY.format(operator.namespace))]
    return [ok("roles", f"{len(wanted)} roles of {operator.namespace} are as this version renders them")]


async def _leftovers(api: Client, operator: OperatorFact, plugins: Plugins) -> list[DoctorCheck]:
    known = {
        (item.resource, item.namespace, item.name)
        for item in installed_objects(plugins, operator.namespace, operator.watched)
    }
    left = [
        item
        async for item, obj in labelled(api, operator.namespace, COMPARED_KINDS)
        if (item.resource, item.namespace, item.name) not in known and not label_of(obj, SHARD_LABEL)
    ]
    if not left:
        return []
    names = [f"{item.resource} {item.name}" for item in left]
    text = f"objects of another version are left in the installation {operator.namespace}: {some(names)}"
    return [warning("leftovers", text, "; ".join(item.delete_command for item in left))]


def _key(obj: Object) -> tuple[str, str, str]:
    metadata = obj["metadata"]
    return obj["kind"], metadata.get("namespace", ""), metadata["name"]
