"""Reads what an uninstallation removes."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from kaiwo.api.crd_compat import GROUPS
from kaiwo.api.crds import WORKLOADS
from kaiwo.cli.failures import Failure
from kaiwo.engine.errors import NotFound
from kaiwo.engine.resource import CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT
from kaiwo.install.inventory import ROLE_BINDING, installed_objects, old_name
from kaiwo.install.operator import WATCH_VARIABLE
from kaiwo.install.rendered_manifest import INSTANCE, OPERATOR, SCHEDULER, installed_name
from kaiwo.install.roles import WORKLOAD_ROLE
from kaiwo.plugin.removals import Removal
from kaiwo.plugin.selection import NAMES_VARIABLE, PluginReference

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object
    from kaiwo.install.inventory import InstalledObject
    from kaiwo.plugin.registry import Plugins

WorkloadChoice: TypeAlias = Literal["delete", "hand-over"]
"""What becomes of workloads: deleted with everything they own, or their objects stay without them."""

_NAME, _PART_OF = "app.kubernetes.io/name", "app.kubernetes.io/part-of"
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class OperatorFact:
    """One installed operator, as its Deployment describes it.

    Attributes:
        namespace: of the installation.
        watched: the only namespaces whose workloads it runs; empty for all.
        plugins: names of its plugins.
    """

    namespace: str
    watched: tuple[str, ...]
    plugins: tuple[str, ...]

    def runs(self, namespace: str) -> bool:
        """Whether it runs the workloads of a namespace."""
        return not self.watched or namespace in self.watched


@dataclass(frozen=True, slots=True)
class UninstallRequest:
    """What the user asked for.

    Attributes:
        namespace: of the installation.
        workloads: what becomes of workloads; None refuses to go on while there are any.
        operator_only: whether all but the programs, their roles and policies stays.
    """

    namespace: str
    workloads: WorkloadChoice | None = None
    operator_only: bool = False


@dataclass(frozen=True, slots=True)
class UninstallPlan:
    """What an uninstallation removes, in this order.

    Attributes:
        operator: the operator's Deployment, None when there is none.
        workloads: KaiwoJobs and KaiwoServices.
        marks: what plugins made and wrote on objects of others.
        objects: the other objects of the installation.
        crds: definitions of Kaiwo's kinds; their objects go with them.
        notes: what stays, and why.
    """

    operator: Removal | None = None
    workloads: tuple[Removal, ...] = ()
    marks: tuple[Removal, ...] = ()
    objects: tuple[Removal, ...] = ()
    crds: tuple[Removal, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def removals(self) -> list[Removal]:
        """All of it, in order."""
        first = [self.operator] if self.operator else []
        return [*first, *self.workloads, *self.marks, *self.objects, *self.crds]


async def read_plan(client: Client, request: UninstallRequest, plugins: Plugins) -> UninstallPlan:
    """What there is to remove.

    Args:
        client: of the cluster.
        request: what the user asked for.
        plugins: loaded plugins.

    Raises:
        Failure: workloads exist and nothing is said about them, or a plugin of the operator is not loaded
            here.
    """
    operators = [operator_fact(obj) for obj in await _operators(client)]
    here = next((item for item in operators if item.namespace == request.namespace), None)
    # Also those that were taken from the list: applying roles anew deletes none.
    bound = await _bound_namespaces(client, request.namespace)
    mine = here or OperatorFact(request.namespace, bound, ())
    others = [item for item in operators if item.namespace != request.namespace]
    _require_plugins(mine, plugins)
    shared = bool(others) or request.operator_only
    workloads = () if request.operator_only else tuple(await abandoned_workloads(client, mine, others))
    if workloads and request.workloads is None:
        raise workloads_exist(workloads)
    handed_over = bool(workloads) and request.workloads == "hand-over"
    everything = not shared and not handed_over
    notes = _notes(request, others, handed_over=handed_over)
    items = installed_objects(plugins, request.namespace, tuple(sorted({*mine.watched, *bound})))
    if handed_over:
        items = [item for item in items if item.app != SCHEDULER]
    if handed_over or request.operator_only:
        items = [item for item in items if not item.is_history]
    objects, foreign = await _live(client, items, request.namespace, with_old_names=not others)
    crds, unknown = await _crds(client, plugins) if everything else ((), ())
    return UninstallPlan(
        operator=next((item for item in objects if _is_operator(item)), None),
        workloads=workloads,
        marks=tuple(await marks(client, plugins)) if everything else (),
        objects=tuple(item for item in objects if not _is_operator(item)),
        crds=crds,
        notes=(*notes, *foreign, *unknown),
    )


def operator_fact(deployment: Object) -> OperatorFact:
    """What the Deployment of an operator says about it."""
    containers = deployment["spec"]["template"]["spec"]["containers"]
    env = {entry["name"]: entry.get("value", "") for entry in containers[0].get("env", ())}
    names = [PluginReference.parse(part).name for part in env.get(NAMES_VARIABLE, "").split(",") if part]
    watched = tuple(part.strip() for part in env.get(WATCH_VARIABLE, "").split(",") if part.strip())
    return OperatorFact(deployment["metadata"]["namespace"], watched, tuple(names))


async def marks(client: Client, plugins: Plugins) -> list[Removal]:
    """What the controllers of plugins made, and wrote on objects of others."""
    found: list[Removal] = []
    for plugin in plugins.loaded:
        for controller in plugin.controllers:
            if controller.removals is None:
                continue
            module, _, name = controller.removals.partition(":")
            found += await getattr(importlib.import_module(module), name)(client)
    return found


async def _operators(client: Client) -> list[Object]:
    selector = f"{_NAME}={OPERATOR},{_PART_OF}=kaiwo"
    return [obj async for obj in client.list(DEPLOYMENT, label_selector=selector)]


async def _bound_namespaces(client: Client, installation: str) -> tuple[str, ...]:
    """The chosen namespaces in which an operator has rights, in their order; none where it had all."""
    name = installed_name(WORKLOAD_ROLE, installation)
    bound = client.list(ROLE_BINDING, label_selector=f"{INSTANCE}={installation}")
    return tuple(
        sorted([obj["metadata"]["namespace"] async for obj in bound if obj["metadata"]["name"] == name])
    )


def _is_operator(item: Removal) -> bool:
    return item.resource == DEPLOYMENT and item.name == OPERATOR


def _require_plugins(mine: OperatorFact, plugins: Plugins) -> None:
    """Only a plugin knows what it wrote in the cluster.

    Raises:
        Failure: a plugin of the operator is not loaded here.
    """
    loaded = {plugin.name for plugin in plugins.loaded}
    missing = [name for name in mine.plugins if name not in loaded]
    if missing:
        raise Failure(
            f"plugins of the operator are not loaded here: {', '.join(missing)}; what they wrote in the "
            "cluster cannot be found",
            "install them here, see kaiwo plugins",
        )


async def abandoned_workloads(
    client: Client, mine: OperatorFact | None = None, others: Sequence[OperatorFact] = ()
) -> list[Removal]:
    """Workloads that no operator runs after this one is gone.

    Without another installation all count, also those that nobody runs now: they go with the CRDs.

    Args:
        client: of the cluster.
        mine: the operator that is removed.
        others: operators that stay.
    """
    chosen = mine.watched if mine and others else ()
    found: list[Removal] = []
    for kind in WORKLOADS.values():
        try:
            found += [
                Removal.of(kind, obj)
                for namespace in chosen or (None,)
                async for obj in client.list(kind, namespace)
                if not any(other.runs(obj["metadata"]["namespace"]) for other in others)
            ]
        except NotFound:
            continue  # the kind is not served
    return found


def workloads_exist(workloads: Sequence[Removal]) -> Failure:
    """The refusal to remove anything under workloads."""
    named = ", ".join(f"{item.namespace}/{item.name}" for item in workloads[:_SHOWN])
    more = f" and {len(workloads) - _SHOWN} more" if len(workloads) > _SHOWN else ""
    return Failure(
        f"workloads exist: {named}{more}",
        "give --workloads=delete to delete them with everything they own, or --workloads=hand-over to leave "
        "their Jobs, Deployments, Ray objects and volumes running without Kaiwo",
    )


def _notes(
    request: UninstallRequest, others: Sequence[OperatorFact], *, handed_over: bool
) -> tuple[str, ...]:
    notes = [f"namespace {request.namespace} stays; delete it when nothing else is in it"]
    if others:
        names = ", ".join(sorted(item.namespace for item in others))
        notes.append(
            f"CRDs, configuration, queues and labels stay for the installations in: {names}",
        )
    elif request.operator_only:
        notes.append("workloads, CRDs, configuration, queues and labels stay (--operator-only)")
    elif handed_over:
        notes.append(
            "CRDs, configuration, queues, the scheduler and labels stay, because what is handed over uses "
            "them; run kaiwo uninstall again when it has ended"
        )
    return tuple(notes)


async def _live(
    client: Client, items: Iterable[InstalledObject], installation: str, *, with_old_names: bool
) -> tuple[list[Removal], list[str]]:
    """Those of the objects that exist and are Kaiwo's, and notes about the others."""
    found: list[Removal] = []
    notes: list[str] = []
    for item in items:
        obj = await _get(client, item)
        if obj is not None and (item.is_kept_by_program or _label(obj, INSTANCE) == installation):
            found.append(Removal.of(item.resource, obj))
        elif obj is not None and item.namespace == installation and _label(obj, _PART_OF) == "kaiwo":
            found.append(Removal.of(item.resource, obj))  # rendered before objects had the label
        elif obj is not None:
            notes.append(f"{item.resource} {item.name} stays; it is not labelled {INSTANCE}={installation}")
        before = old_name(item, installation) if with_old_names else None
        old = await _get(client, before) if before else None
        if before and old and _label(old, _PART_OF) == "kaiwo" and not _label(old, INSTANCE):
            found.append(Removal.of(before.resource, old))
    return found, notes


async def _get(client: Client, item: InstalledObject) -> Object | None:
    try:
        return await client.get(item.resource, item.namespace or None, item.name)
    except NotFound:
        return None


def _label(obj: Object, key: str) -> str:
    return str((obj["metadata"].get("labels") or {}).get(key, ""))


async def _crds(client: Client, plugins: Plugins) -> tuple[tuple[Removal, ...], tuple[str, ...]]:
    """The definitions of Kaiwo's kinds, and notes about others in its groups."""
    names = {crd["metadata"]["name"] for crd in plugins.crds()}
    live = [
        crd
        async for crd in client.list(CUSTOM_RESOURCE_DEFINITION)
        if crd["spec"]["group"] in GROUPS or crd["metadata"]["name"] in names
    ]
    found = [Removal.of(CUSTOM_RESOURCE_DEFINITION, crd) for crd in live if crd["metadata"]["name"] in names]
    unknown = [
        f"CRD {crd['metadata']['name']} stays; no loaded plugin declares it"
        for crd in live
        if crd["metadata"]["name"] not in names
    ]
    return tuple(found), tuple(unknown)
