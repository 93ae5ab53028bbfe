"""Reads what an uninstallation removes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from kaiwo.api.config_names import SHARD_LABEL, SHARD_VARIABLE, WATCH_VARIABLE, watched_namespaces
from kaiwo.api.crd_compat import GROUPS
from kaiwo.api.crds import WORKLOADS
from kaiwo.api.installation import (
    INSTANCE,
    NAME,
    OPERATOR,
    PART_OF,
    SCHEDULER,
    installed_name,
)
from kaiwo.api.status_words import TERMINAL
from kaiwo.cli.failures import Failure
from kaiwo.cli.uninstalling.live_objects import read_objects
from kaiwo.cli.uninstalling.rights import READING, needed, require
from kaiwo.engine.errors import NotFound
from kaiwo.engine.resource import CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, NAMESPACE
from kaiwo.engine.shard import MAIN
from kaiwo.install.inventory import ROLE_BINDING, installed_objects
from kaiwo.install.roles import WORKLOAD_ROLE
from kaiwo.plugin.removals import Removal
from kaiwo.plugin.selection import NAMES_VARIABLE, PluginReference
from kaiwo.plugin.targets import imported
from kaiwo.workload.json_access import lenient_map
from kaiwo.workload.labels import ADOPTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.install.inventory import InstalledObject
    from kaiwo.plugin.registry import Plugins

WorkloadChoice: TypeAlias = Literal["delete", "hand-over"]
"""What becomes of workloads: deleted with everything they own, or their objects stay without them."""

AdoptedChoice: TypeAlias = Literal["hand-back", "delete"]
"""What becomes of Jobs that users made and Kaiwo adopted, when workloads are deleted."""

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class OperatorFact:
    """One installed operator, as its Deployment describes it.

    Attributes:
        namespace: of the installation.
        watched: the only namespaces whose workloads it runs; empty for all.
        plugins: names of its plugins.
        shard: which of several operators of the installation it is; empty for the only one.
    """

    namespace: str
    watched: tuple[str, ...]
    plugins: tuple[str, ...]
    shard: str = ""

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
        adopted: what becomes of adopted Jobs when workloads are deleted.
    """

    namespace: str
    workloads: WorkloadChoice | None = None
    operator_only: bool = False
    adopted: AdoptedChoice = "hand-back"

    def orphans(self, workload: FoundWorkload) -> bool:
        """Whether the objects of a workload stay."""
        return self.workloads == "hand-over" or (workload.adopted and self.adopted == "hand-back")


@dataclass(frozen=True, slots=True)
class FoundWorkload:
    """A KaiwoJob or KaiwoService.

    Attributes:
        removal: its deletion.
        kind: its kind.
        adopted: whether it was made for a Job that a user had made.
        ended: whether it has come to its end.
    """

    removal: Removal
    kind: str
    adopted: bool = False
    ended: bool = False

    @classmethod
    def of(cls, resource: Resource, obj: Object) -> FoundWorkload:
        """A live workload."""
        status = lenient_map(obj.get("status"))
        labels = lenient_map(obj["metadata"].get("labels"))
        child = status.get("childUID")
        return cls(
            Removal.of(resource, obj),
            resource.kind,
            adopted=bool(child) and labels.get(ADOPTED) == child,
            ended=status.get("status") in TERMINAL,
        )


@dataclass(frozen=True, slots=True)
class UninstallPlan:
    """What an uninstallation removes, in this order.

    Attributes:
        webhooks: configurations by which the API server calls the operator.
        operator: the operator's Deployment, None when there is none.
        workloads: KaiwoJobs and KaiwoServices.
        marks: what plugins made and wrote on objects of others.
        objects: the other objects of the installation.
        crds: definitions of Kaiwo's kinds; their objects go with them.
        notes: what stays, and why.
        left_to_helm: the commands that remove the rest, one for each Helm release.
    """

    webhooks: tuple[Removal, ...] = ()
    operator: Removal | None = None
    workloads: tuple[FoundWorkload, ...] = ()
    marks: tuple[Removal, ...] = ()
    objects: tuple[Removal, ...] = ()
    crds: tuple[Removal, ...] = ()
    notes: tuple[str, ...] = ()
    left_to_helm: tuple[str, ...] = ()

    def removals(self) -> list[Removal]:
        """All of it, in order."""
        programs = [*self.webhooks, *([self.operator] if self.operator else [])]
        workloads = [workload.removal for workload in self.workloads]
        return [*programs, *workloads, *self.marks, *self.objects, *self.crds]


async def read_plan(client: Client, request: UninstallRequest, plugins: Plugins) -> UninstallPlan:
    """What there is to remove.

    Args:
        client: of the cluster.
        request: what the user asked for.
        plugins: loaded plugins.

    Raises:
        Failure: a right is missing, workloads exist and nothing is said about them, or a plugin of the
            operator is not loaded here.
    """
    await require(client, READING)
    operators = [operator_fact(obj) for obj in await read_operators(client)]
    here = next((item for item in operators if item.namespace == request.namespace), None)
    _require_no_shards(operators, request.namespace)
    # Also those that were taken from the list: applying roles anew deletes none.
    bound = await _bound_namespaces(client, request.namespace)
    mine = here or OperatorFact(request.namespace, bound, ())
    others = [item for item in operators if item.namespace != request.namespace]
    _require_plugins(mine, plugins)
    shared = bool(others) or request.operator_only
    workloads = () if request.operator_only else tuple(await abandoned_workloads(client, mine, others))
    if workloads and request.workloads is None:
        raise workloads_exist(workloads)
    ending = await _ending_namespaces(client) if workloads else set()
    lasting = [item for item in workloads if item.removal.namespace not in ending]
    handed_over = bool(lasting) and request.workloads == "hand-over"
    handed_back = [item for item in lasting if not handed_over and request.orphans(item)]
    # What runs on may hold quota of a queue, and stands on labels of nodes.
    stays_in_use = handed_over or not all(item.ended for item in handed_back)
    everything = not shared and not stays_in_use

    def is_kept(item: InstalledObject) -> bool:
        return (stays_in_use and item.app == SCHEDULER) or (
            (stays_in_use or request.operator_only) and item.is_record
        )

    live = await read_objects(
        client,
        installed_objects(plugins, request.namespace, tuple(sorted({*mine.watched, *bound}))),
        request.namespace,
        with_old_names=not others,
        is_kept=is_kept,
    )
    crds, unknown = await _crds(client, plugins) if everything else ((), ())
    plan = UninstallPlan(
        webhooks=live.webhooks,
        operator=live.operator,
        workloads=workloads,
        marks=tuple(await marks(client, plugins)) if everything else (),
        objects=live.others,
        crds=crds,
        notes=(*_notes(request, others, handed_back, stays_in_use=stays_in_use), *live.notes, *unknown),
        left_to_helm=live.left_to_helm,
    )
    await require(client, needed(plan.removals()))
    return plan


def operator_fact(deployment: Object) -> OperatorFact:
    """What the Deployment of an operator says about it."""
    containers = deployment["spec"]["template"]["spec"]["containers"]
    env = {entry["name"]: entry.get("value", "") for entry in containers[0].get("env", ())}
    names = [PluginReference.parse(part).name for part in env.get(NAMES_VARIABLE, "").split(",") if part]
    watched = watched_namespaces(env.get(WATCH_VARIABLE, ""))
    return OperatorFact(
        deployment["metadata"]["namespace"], watched, tuple(names), env.get(SHARD_VARIABLE, "")
    )


async def marks(client: Client, plugins: Plugins) -> list[Removal]:
    """What the controllers of plugins made, and wrote on objects of others."""
    found: list[Removal] = []
    for plugin in plugins.loaded:
        for controller in plugin.controllers:
            if controller.removals is None:
                continue
            found += await imported(controller.removals)(client)
    return found


async def read_operators(client: Client) -> list[Object]:
    """The Deployments of all operators in a cluster."""
    selector = f"{NAME}={OPERATOR},{PART_OF}=kaiwo"
    return [obj async for obj in client.list(DEPLOYMENT, label_selector=selector)]


async def _ending_namespaces(client: Client) -> set[str]:
    """Namespaces that are being deleted: nothing in them runs on, whoever owns it."""
    return {
        obj["metadata"]["name"]
        async for obj in client.list(NAMESPACE)
        if obj["metadata"].get("deletionTimestamp")
    }


async def _bound_namespaces(client: Client, installation: str) -> tuple[str, ...]:
    """The chosen namespaces in which an operator has rights, in their order; none where it had all."""
    name = installed_name(WORKLOAD_ROLE, installation)
    bound = client.list(ROLE_BINDING, label_selector=f"{INSTANCE}={installation}")
    return tuple(
        sorted([obj["metadata"]["namespace"] async for obj in bound if obj["metadata"]["name"] == name])
    )


def _require_no_shards(operators: Iterable[OperatorFact], namespace: str) -> None:
    """Operators of further shards would go on writing while the main one is removed.

    Raises:
        Failure: there is one in the installation.
    """
    names = sorted({one.shard for one in operators if one.namespace == namespace} - {"", MAIN})
    if names:
        raise Failure(
            f"operators of the shards {', '.join(names)} are installed in namespace {namespace}",
            f"kubectl -n {namespace} delete deployment,pdb,networkpolicy -l {SHARD_LABEL}",
        )


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
) -> list[FoundWorkload]:
    """Workloads that no operator runs after this one is gone.

    Without another installation all count, also those that nobody runs now: they go with the CRDs.

    Args:
        client: of the cluster.
        mine: the operator that is removed.
        others: operators that stay.
    """
    chosen = mine.watched if mine and others else ()
    found: list[FoundWorkload] = []
    for kind in WORKLOADS.values():
        try:
            found += [
                FoundWorkload.of(kind, obj)
                for namespace in chosen or (None,)
                async for obj in client.list(kind, namespace)
                if not any(other.runs(obj["metadata"]["namespace"]) for other in others)
            ]
        except NotFound:
            continue  # the kind is not served
    return found


def workloads_exist(workloads: Sequence[FoundWorkload]) -> Failure:
    """The refusal to remove anything under workloads."""
    shown = [f"{item.removal.namespace}/{item.removal.name}" for item in workloads[:_SHOWN]]
    more = f" and {len(workloads) - _SHOWN} more" if len(workloads) > _SHOWN else ""
    kinds = Counter(item.kind for item in workloads)
    counts = [f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in sorted(kinds.items())]
    if ended := sum(item.ended for item in workloads):
        counts.append(f"{ended} of them ended")
    adopted = sum(item.adopted for item in workloads)
    extra = f"; {adopted} of them adopted: their Jobs stay unless you give --adopted-jobs=delete"
    return Failure(
        f"{len(workloads)} workloads exist: {', '.join(shown)}{more} ({', '.join(counts)})"
        if len(workloads) > 1
        else f"1 workload exists: {shown[0]} ({', '.join(counts)})",
        "give --workloads=delete to delete them with everything they own, or --workloads=hand-over to leave "
        f"their Jobs, Deployments, Ray objects and volumes running without Kaiwo{extra if adopted else ''}",
    )


def _notes(
    request: UninstallRequest,
    others: Sequence[OperatorFact],
    handed_back: Sequence[FoundWorkload],
    *,
    stays_in_use: bool,
) -> list[str]:
    notes = [f"namespace {request.namespace} stays; delete it when nothing else is in it"]
    if handed_back:
        named = ", ".join(f"{item.removal.namespace}/{item.removal.name}" for item in handed_back)
        notes.append(f"Jobs that users made stay: {named}; --adopted-jobs=delete deletes them, too")
    if others:
        names = ", ".join(sorted(item.namespace for item in others))
        notes.append(
            f"CRDs, configuration, queues and labels stay for the installations in: {names}",
        )
    elif request.operator_only:
        notes.append("workloads, CRDs, configuration, queues and labels stay (--operator-only)")
    elif stays_in_use:
        notes.append(
            "CRDs, configuration, queues, the scheduler and labels stay, because what runs on uses them; run "
            "kaiwo uninstall again when it has ended"
        )
    return notes


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
