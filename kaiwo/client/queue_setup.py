"""The default queue set-up: what is there, what would change, and writing it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kaiwo.api.config_names import SINGLETON
from kaiwo.api.crds import KAIWO_CONFIG
from kaiwo.api.errors import InvalidConfig
from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.client.errors import ClientError, PluginFailed
from kaiwo.client.lookup import not_installed
from kaiwo.client.record import Record
from kaiwo.engine.errors import AlreadyExists, Conflict, NotFound
from kaiwo.engine.resource import NODE
from kaiwo.plugin.queue_setup import SetupChange, SetupFacts, SetupPlan
from kaiwo.plugin.settings import configured_vendors
from kaiwo.workload.gpus.node_pools import NODEPOOL
from kaiwo.workload.gpus.nodes import labels_of

if TYPE_CHECKING:
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.plugin.registry import Plugins


class SetupObject(Record, frozen=True):
    """One object of the set-up.

    Attributes:
        kind: its kind.
        name: its name.
        action: ``create``, ``update`` or ``unchanged``.
        written_by: ``init``, or ``operator`` for what the operator makes of the others.
        diff: lines of a unified diff of its spec, as YAML; none for an unchanged one.
    """

    kind: str
    name: str
    action: Literal["create", "update", "unchanged"]
    written_by: Literal["init", "operator"]
    diff: tuple[str, ...]


class SetupReport(Record, frozen=True):
    """The set-up, compared with the cluster.

    Attributes:
        objects: all objects, in the order of writing.
        notes: what an administrator should know.
        applied: whether the changes were written.
    """

    objects: tuple[SetupObject, ...]
    notes: tuple[str, ...]
    applied: bool = False


@dataclass(frozen=True, slots=True)
class QueueSetupState:
    """A planned set-up.

    Attributes:
        changes: all objects.
        live: the objects that exist, by kind and name.
        notes: for the administrator.
        field_manager: in whose name objects are written.
    """

    changes: tuple[SetupChange, ...]
    live: dict[tuple[Resource, str], Object]
    notes: tuple[str, ...]
    field_manager: str

    @property
    def writes(self) -> list[SetupChange]:
        """What has to be written."""
        return [one for one in self.changes if not one.by_operator and one.before != one.after]

    def report(self, *, applied: bool = False) -> SetupReport:
        """The set-up as it is shown."""
        return SetupReport(objects=tuple(map(shown, self.changes)), notes=self.notes, applied=applied)


async def read_setup(api: Client, plugins: Plugins) -> QueueSetupState:
    """Plan the set-up from the nodes and compare it with the cluster.

    Raises:
        ClientError: Kaiwo's kinds are not served, KaiwoConfig is invalid, or a plugin fails.
    """
    live: dict[tuple[Resource, str], Object] = {}
    try:
        configs = await _list(api, KAIWO_CONFIG)
    except NotFound as error:
        raise not_installed(KAIWO_CONFIG) from error
    live |= {(KAIWO_CONFIG, obj["metadata"]["name"]): obj for obj in configs}
    config = live.get((KAIWO_CONFIG, SINGLETON))
    try:
        resolved = ResolvedConfig.from_object(config) if config else ResolvedConfig.defaults()
    except InvalidConfig as error:
        what = f"KaiwoConfig {SINGLETON} is invalid: {error}"
        raise ClientError(what, f"kubectl edit kaiwoconfig {SINGLETON}") from error
    if config is None:
        # As the operator creates it.
        name = resolved.default_cluster_queue_name
        first = SetupChange(KAIWO_CONFIG, SINGLETON, None, {"defaultClusterQueueName": name})
    else:
        written = config.get("spec") or {}
        first = SetupChange(KAIWO_CONFIG, SINGLETON, written, written)
    plan = SetupPlan((), ("no loaded plugin has queues to set up",))
    setup = plugins.queue_system.setup if plugins.queue_system else None
    if setup is not None:
        objects: dict[Resource, tuple[Object, ...]] = {}
        for kind in setup.reads:
            try:
                objects[kind] = tuple(await _list(api, kind))
            except NotFound as error:
                if kind in {own.resource for own in plugins.kinds()}:
                    raise not_installed(kind) from error
        live |= {(kind, obj["metadata"]["name"]): obj for kind, found in objects.items() for obj in found}
        nodes = with_predicted_labels(await _list(api, NODE), plugins, resolved)
        vendors = configured_vendors(plugins, resolved.plugins)
        try:
            plan = setup.plan(SetupFacts(nodes, vendors, resolved, objects))
        except Exception as error:
            raise PluginFailed(plugins.queue_plugin, "plan the set-up of queues", error) from error
    return QueueSetupState((first, *plan.changes), live, plan.notes, plan.field_manager)


async def apply_setup(api: Client, state: QueueSetupState) -> None:
    """Write what differs.

    Raises:
        ClientError: an object changed since it was read; what was written before stays.
    """
    for change in state.writes:
        live = state.live.get((change.resource, change.name))
        try:
            if live is None:
                obj = {
                    "apiVersion": change.resource.api_version,
                    "kind": change.resource.kind,
                    "metadata": {"name": change.name},
                    "spec": change.after,
                }
                await api.create(change.resource, obj, field_manager=state.field_manager)
            else:
                before = change.before or {}
                patch = {key: change.after.get(key) for key in sorted({*before, *change.after})}
                await api.merge_patch(
                    change.resource,
                    None,
                    change.name,
                    {"spec": {key: value for key, value in patch.items() if before.get(key) != value}},
                    uid=live["metadata"]["uid"],
                    resource_version=live["metadata"]["resourceVersion"],
                    field_manager=state.field_manager,
                )
        except (AlreadyExists, Conflict, NotFound) as error:
            what = f"{change.resource.kind} {change.name} changed since it was read: {error}"
            raise ClientError(what, "kaiwo init shows the difference again") from error


def with_predicted_labels(
    nodes: list[Object], plugins: Plugins, config: ResolvedConfig
) -> tuple[Object, ...]:
    """Nodes with the labels that a loaded plugin is going to write on those without a pool.

    Raises:
        PluginFailed: its code failed.
    """
    vendors = configured_vendors(plugins, config.plugins)
    predicted: dict[str, dict[str, str]] = {}
    for controller in plugins.controllers:
        if controller.node_labels is not None:
            try:
                found = controller.node_labels(nodes, vendors, config)
            except Exception as error:
                raise PluginFailed(controller.plugin, "predict the labels of nodes", error) from error
            for name, labels in found.items():
                predicted.setdefault(name, {}).update(labels)
    return tuple(_labelled(node, predicted.get(node["metadata"]["name"], {})) for node in nodes)


def _labelled(node: Object, predicted: dict[str, str]) -> Object:
    labels = labels_of(node)
    if NODEPOOL in labels or not predicted:
        return node
    return {**node, "metadata": {**node["metadata"], "labels": {**labels, **predicted}}}


def shown(change: SetupChange) -> SetupObject:
    """An object of the set-up with its difference."""
    action: Literal["create", "update", "unchanged"] = "unchanged"
    if change.before != change.after:
        action = "create" if change.before is None else "update"
    before = [] if change.before is None else _yaml(change.before)
    lines = list(difflib.unified_diff(before, _yaml(change.after), lineterm="", n=2))[2:]
    if action == "create":
        lines = lines[1:]  # the place in a file that does not exist
    return SetupObject(
        kind=change.resource.kind,
        name=change.name,
        action=action,
        written_by="operator" if change.by_operator else "init",
        diff=tuple(lines),
    )


def _yaml(value: Object) -> list[str]:
    import yaml

    return yaml.safe_dump(value, sort_keys=True, width=1000).splitlines()


async def _list(api: Client, kind: Resource) -> list[Object]:
    return [obj async for obj in api.list(kind)]
