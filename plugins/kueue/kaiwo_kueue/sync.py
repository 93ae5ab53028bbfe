"""What to write so that Kueue's objects become what a KaiwoQueueConfig asks for.

Everything follows from what is wanted and what is there, so a pass that was cut off is simply done again. The
one long way round: a flavor that Kueue does not let change is replaced. Kueue's finalizer holds it while any
ClusterQueue lists it, so our queues drop it first, on hold for the moment, and take it back afterwards.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from kaiwo.workload.json_access import lenient_maps
from kaiwo_kueue.conversion import contains
from kaiwo_kueue.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, SYNCED, TOPOLOGY
from kaiwo_kueue.objects import SyncProblem, flavors_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from kaiwo.engine.resource import Object
    from kaiwo_kueue.objects import DesiredObject, Identity, LiveObject, Severity

RefusedChange: TypeAlias = tuple[str, str]
"""uid of a live object, and the hash of what was wanted of it."""


@dataclass(frozen=True, slots=True)
class ApplyObject:
    """Create or change an object.

    Attributes:
        wanted: what it is to be.
        found: the object to change, None to create it.
        owned: whether the KaiwoQueueConfig owns it.
        why: for the log.
        as_found: only if the object is still as it was found. Of a queue that is being deleted Kueue follows
            no change, and what such a change takes out it holds for ever.
    """

    wanted: DesiredObject
    found: LiveObject | None
    owned: bool
    why: str
    as_found: bool = False


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Delete an object that is ours."""

    found: LiveObject
    why: str


@dataclass(frozen=True, slots=True)
class ReleaseObject:
    """Let go of an object that was there before and is not listed any more: it stays, unmanaged."""

    found: LiveObject


@dataclass(frozen=True, slots=True)
class TouchObject:
    """Let Kueue look again at a flavor that is being deleted and that no queue lists any more."""

    found: LiveObject


Action: TypeAlias = ApplyObject | DeleteObject | ReleaseObject | TouchObject


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """What to do, in order, and what is to be told.

    Attributes:
        actions: in the order of execution.
        problems: what keeps something from being as described.
    """

    actions: tuple[Action, ...]
    problems: tuple[SyncProblem, ...]


class _Planner:
    """One pass; its methods collect actions and problems."""

    def __init__(
        self,
        wanted: Sequence[DesiredObject],
        live: Iterable[LiveObject],
        refused: Collection[RefusedChange],
        holders: Callable[[str], Sequence[str]],
        unusable: Collection[Identity],
    ) -> None:
        self.unusable = unusable
        self.wanted: Mapping[Identity, DesiredObject] = {item.identity: item for item in wanted}
        self.live: Mapping[Identity, LiveObject] = {item.identity: item for item in live}
        self.refused = refused
        self.holders = holders
        self.actions: list[Action] = []
        self.problems: list[SyncProblem] = []
        self.listing: dict[str, list[LiveObject]] = defaultdict(list)
        for item in self.live.values():
            if item.kind == CLUSTER_QUEUE:
                for flavor in flavors_of(item.form):
                    self.listing[flavor].append(item)
        self.held: set[Identity] = set()
        self.replaced = self._replaced()

    def is_refused(self, item: DesiredObject, there: LiveObject) -> bool:
        return (there.uid, item.digest) in self.refused

    def _replaced(self) -> dict[Identity, LiveObject]:
        """Flavors and topologies that have to go before they can be made anew."""
        found: dict[Identity, LiveObject] = {}
        for identity, item in self.wanted.items():
            there = self.live.get(identity)
            if there is None or item.kind not in (RESOURCE_FLAVOR, TOPOLOGY):
                continue
            if there.deleting or (there.ours and self.is_refused(item, there)):
                found[identity] = there
        gone = {there.name for there in found.values() if there.kind == TOPOLOGY}
        for identity in self.wanted:
            there = self.live.get(identity)
            if there is not None and there.ours and there.form.get("topologyName") in gone:
                found[identity] = there
        self.held = {identity for identity, there in found.items() if self._held_by_others(there)}
        return {identity: there for identity, there in found.items() if identity not in self.held}

    def _held_by_others(self, there: LiveObject) -> bool:
        """Whether a queue of somebody else lists a flavor that is to be replaced; then it has to wait."""
        if there.kind != RESOURCE_FLAVOR:
            return False
        others = sorted(
            queue.name
            for queue in self.listing[there.name]
            if queue.identity not in self.wanted and not queue.ours
        )
        if others:
            text = (
                f"ResourceFlavor {there.name} cannot be replaced while ClusterQueue {', '.join(others)} "
                "lists it, which is not Kaiwo's; take it out there"
            )
            self._report(there, "FlavorInUse", text)
        return bool(others)

    def _report(self, about: LiveObject, reason: str, text: str, *, failed: bool = False) -> None:
        severity: Severity = "FAILED" if failed else "PENDING"
        self.problems.append(SyncProblem(about.kind, about.name, reason, text, severity))

    def run(self) -> SyncPlan:
        order = {kind: at for at, kind in enumerate(SYNCED)}
        for item in sorted(self.wanted.values(), key=lambda item: order[item.kind]):
            self._one(item)
        listed = {*self.wanted, *self.unusable}
        unlisted = [there for identity, there in self.live.items() if identity not in listed]
        for there in sorted(unlisted, key=lambda there: (-order[there.kind], there.identity)):
            self._unlisted(there)
        return SyncPlan(tuple(self.actions), tuple(self.problems))

    def _one(self, item: DesiredObject) -> None:
        there = self.live.get(item.identity)
        if there is None:
            self._missing(item)
        elif item.identity in self.replaced:
            self._replace(there)
        elif item.identity in self.held:
            return
        elif there.deleting:
            self._terminating(there)
        elif item.kind == LOCAL_QUEUE and not there.ours:
            self._foreign_local_queue(item, there)
        elif self.is_refused(item, there):
            self._immutable(there)
        else:
            self._compare(item, self._reduced(item), there)

    def _waits_for_topology(self, item: DesiredObject) -> bool:
        topology = (TOPOLOGY.plural, "", str(item.spec.get("topologyName", "")))
        return item.kind == RESOURCE_FLAVOR and topology in self.replaced

    def _missing(self, item: DesiredObject) -> None:
        if self._waits_for_topology(item):
            text = f"ResourceFlavor {item.name} waits for its topology, which is being replaced"
            self.problems.append(
                SyncProblem(item.kind, item.name, "ResourceFlavorReplacing", text, "PENDING")
            )
            return
        self.actions.append(ApplyObject(self._reduced(item), None, owned=True, why="it is listed"))

    def _reduced(self, item: DesiredObject) -> DesiredObject:
        """A queue without the flavors that are being replaced, on hold for the moment."""
        if item.kind != CLUSTER_QUEUE:
            return item
        going = {name for plural, _, name in self.replaced if plural == RESOURCE_FLAVOR.plural}
        going |= {flavor.name for flavor in self.wanted.values() if self._waits_for_topology(flavor)}
        if not going & flavors_of(item.spec):
            return item
        groups = []
        for group in lenient_maps(item.spec.get("resourceGroups")):
            left = [f for f in lenient_maps(group.get("flavors")) if f.get("name") not in going]
            if left:
                groups.append({**group, "flavors": left})
        spec: Object = {**item.spec, "resourceGroups": groups, "stopPolicy": "Hold"}
        return replace(item, spec=spec)

    def _replace(self, there: LiveObject) -> None:
        if there.kind == RESOURCE_FLAVOR:
            users = [queue.name for queue in self.listing[there.name]]
        else:
            users = [
                item.name
                for item in self.live.values()
                if item.kind == RESOURCE_FLAVOR and item.form.get("topologyName") == there.name
            ]
        if not users and not there.deleting:
            self.actions.append(DeleteObject(there, "it cannot be changed, it is made anew"))
        self._touch(there)
        kind = there.kind.kind
        text = f"{kind} {there.name} is being replaced"
        if users:
            text += f"; still listed by {', '.join(sorted(users))}"
        self._report(there, f"{kind}Replacing", text)

    def _touch(self, there: LiveObject) -> None:
        if there.kind == RESOURCE_FLAVOR and there.deleting and not self.listing[there.name]:
            self.actions.append(TouchObject(there))

    def _terminating(self, there: LiveObject) -> None:
        self._touch(there)
        kind = there.kind.kind
        text = f"{kind} {there.name} is being deleted"
        if there.kind == CLUSTER_QUEUE:
            names = self.holders(there.name)
            if names:
                text += f", which waits for the workloads it has admitted: {', '.join(names[:5])}"
                text += f" and {len(names) - 5} more" if len(names) > 5 else ""  # noqa: PLR2004  one line
        elif there.kind == RESOURCE_FLAVOR and self.listing[there.name]:
            users = sorted(queue.name for queue in self.listing[there.name])
            text += f", which waits for ClusterQueue {', '.join(users)} to drop it"
        if there.identity in self.wanted:
            text += "; it is made again then"
        self._report(there, f"{kind}Terminating", text)

    def _foreign_local_queue(self, item: DesiredObject, there: LiveObject) -> None:
        points_to = there.form.get("clusterQueue")
        if points_to != item.spec["clusterQueue"]:
            text = (
                f"LocalQueue {there.namespace}/{there.name} was made by somebody else and leads to "
                f"ClusterQueue {points_to}; it is used as it is. Delete it to have Kaiwo make one"
            )
            self._report(there, "LocalQueueConflict", text, failed=True)

    def _immutable(self, there: LiveObject) -> None:
        kind = there.kind.kind
        if there.ours:
            self.actions.append(DeleteObject(there, "it cannot be changed, it is made anew"))
            self._report(there, f"{kind}Replacing", f"{kind} {there.name} is being replaced")
            return
        text = (
            f"{kind} {there.name} was made by somebody else, and Kueue does not let it change; delete it "
            "to have Kaiwo make it as listed"
        )
        self._report(there, "Immutable", text, failed=True)

    def _compare(self, whole: DesiredObject, item: DesiredObject, there: LiveObject) -> None:
        marked = there.ours or there.managed
        labelled = contains(dict(there.labels), dict(item.labels))
        if marked and labelled and there.applied == item.digest and contains(there.form, item.form):
            return
        if not marked:
            why = "it was there before, it is managed from now on"
        elif there.applied != item.digest:
            why = "what is listed changed"
        else:
            why = "somebody changed it"
        self.actions.append(ApplyObject(item, there, owned=there.ours, why=why, as_found=item is not whole))

    def _unlisted(self, there: LiveObject) -> None:
        if there.ours:
            if there.deleting:
                self._terminating(there)
            elif not self._in_use(there):
                self.actions.append(DeleteObject(there, "it is not listed any more"))
        elif there.managed and not there.deleting:
            self.actions.append(ReleaseObject(there))

    def _in_use(self, there: LiveObject) -> bool:
        """Whether a queue still lists a flavor: deleted now, it could not come back should the queue keep it.

        A queue that is to drop it does so first, and what it says then calls for the next pass.
        """
        users = self.listing[there.name] if there.kind == RESOURCE_FLAVOR else []
        keeping = sorted(queue.name for queue in users if self._keeps(queue, there.name))
        if keeping:
            text = (
                f"ResourceFlavor {there.name} is not listed any more and stays while ClusterQueue "
                f"{', '.join(keeping)} lists it; take it out there"
            )
            self._report(there, "FlavorInUse", text)
        return bool(users)

    def _keeps(self, queue: LiveObject, flavor: str) -> bool:
        """Whether a queue is going to list a flavor after this pass, too."""
        item = self.wanted.get(queue.identity)
        if item is not None:
            return flavor in flavors_of(item.spec)
        return not queue.ours or queue.identity in self.unusable


def plan(
    wanted: Sequence[DesiredObject],
    live: Iterable[LiveObject],
    *,
    refused: Collection[RefusedChange] = (),
    holders: Callable[[str], Sequence[str]] = lambda _: (),
    unusable: Collection[Identity] = (),
) -> SyncPlan:
    """What to do.

    Args:
        wanted: objects that are asked for, each identity once.
        live: all objects of the kinds, of whomever.
        refused: changes that Kueue refused because something is immutable.
        holders: names of the workloads that a ClusterQueue has admitted.
        unusable: what is listed with a mistake: a typing error takes no running queue away.
    """
    return _Planner(wanted, live, refused, holders, unusable).run()
