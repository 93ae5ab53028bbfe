"""Chooses whom to end for a workload that waits for GPUs. Pure: equal input gives an equal choice.

The choice is the smallest set of workloads past their duration that lets the waiting one run. Among sets of
one size the one whose members are longest past their deadlines is taken. Nothing is chosen where ending all
of them would not help, or where nothing needs to be ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain, combinations, islice
from typing import TYPE_CHECKING, Literal, TypeAlias

from kaiwo.workload.ending.record import WorkloadIdentity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from kaiwo.workload.ending.record import Beneficiary

    Place = Callable[[frozenset[str]], "Mapping[str, str] | None"]

MOST_SETS = 2000
"""Sets that are tried for the smallest one. With more, the choice is one from which nobody can be spared, but
perhaps not the smallest: the number of sets grows with the power of their size."""


@dataclass(frozen=True, slots=True)
class GpuDemand:
    """A workload that waits for GPUs.

    Attributes:
        workload: the workload.
        resource_key: what its pods request.
        pods: how many pods wait.
        gpus_per_pod: GPUs of each.
        models: models that they may run on, as nodes are labelled; empty for any.
        since: since when they wait.
        cause: ``quota`` where a queue holds it, ``nodes`` where its pods find no node.
    """

    workload: Beneficiary
    resource_key: str
    pods: int
    gpus_per_pod: int
    since: datetime
    cause: Literal["quota", "nodes"]
    models: frozenset[str] = frozenset()

    @property
    def gpus(self) -> int:
        """GPUs of all pods that wait."""
        return self.pods * self.gpus_per_pod


@dataclass(frozen=True, slots=True)
class GpuHolder(WorkloadIdentity):
    """A workload that holds GPUs and may be ended for another one.

    Attributes:
        resource_version: the version that was read.
        resource_key: which GPUs.
        gpus: how many.
        deadline: since when it may be ended: its duration passed, or its GPUs have been idle for long enough.
        on_nodes: GPUs of its pods by node.
        adopted: whether somebody else made what runs it, so that it cannot be made again.
    """

    resource_version: str
    resource_key: str
    gpus: int
    deadline: datetime
    on_nodes: Mapping[str, int] = field(default_factory=dict)
    adopted: bool = False


@dataclass(frozen=True, slots=True)
class GpuRoom:
    """The GPUs of one key on one usable node.

    Attributes:
        name: the node.
        free: GPUs that no pod has; negative where pods have more than there are, because a GPU has failed.
        model: the model as nodes are labelled, empty where it is not known.
        labels: labels of the node.
    """

    name: str
    free: int
    model: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Choice:
    """Whom to end.

    Attributes:
        victims: the workloads to end, longest past their deadline first.
        nodes: nodes on which the pods of the waiting workload then find room, with the pods of each.
        gpus: GPUs that become free.
    """

    victims: tuple[GpuHolder, ...]
    nodes: Mapping[str, int]

    @property
    def gpus(self) -> int:
        """GPUs that become free."""
        return sum(victim.gpus for victim in self.victims)


NoChoice: TypeAlias = Literal["NotNeeded", "WouldNotHelp", "NoCandidates"]
"""Why nobody is chosen: it can run as it is, ending all would not help, nobody is past the duration."""


def anywhere(_: frozenset[str]) -> Mapping[str, str] | None:
    """The place where no queue says where a workload may run: any node, whoever ends."""
    return {}


def choose(
    demand: GpuDemand,
    holders: Sequence[GpuHolder],
    rooms: Sequence[GpuRoom],
    place: Place = anywhere,
    *,
    most_sets: int = MOST_SETS,
) -> Choice | NoChoice:
    """Whom to end so that a waiting workload can run.

    Args:
        demand: the waiting workload.
        holders: workloads that may be ended for it: of its queue or cohort, past their duration.
        rooms: usable nodes with GPUs of the requested key.
        place: labels of the nodes on which a queue would let it run once those with these uids are gone; None
            where its quota is not enough then. Whoever ends besides can only make more room.
        most_sets: how many sets are tried for the smallest.
    """
    ranked = sorted(
        (holder for holder in holders if holder.resource_key == demand.resource_key and holder.gpus > 0),
        key=lambda holder: (holder.deadline, holder.namespace, holder.name, holder.kind, holder.uid),
    )
    search = _Search(demand, rooms, place)
    if search.enough(()):
        return "NotNeeded"
    if not ranked:
        return "NoCandidates"
    if not search.enough(ranked):
        return "WouldNotHelp"
    victims = _smallest(ranked, search, most_sets)
    return Choice(tuple(victims), search.placed(victims))


def _smallest(ranked: Sequence[GpuHolder], search: _Search, most_sets: int) -> Sequence[GpuHolder]:
    """The first sufficient set by size, then by deadline; by exclusion where there are too many sets."""
    best = min((_spared(order, search) for order in _orders(ranked)), key=len)
    left = most_sets
    for size in range(search.least(ranked), len(best)):
        for some in islice(combinations(ranked, size), left):
            left -= 1
            if search.enough(some):
                return some
        if left <= 0:
            return best
    # Of its own size it may still not be the first.
    for some in islice(combinations(ranked, len(best)), left):
        if search.enough(some):
            return some
    return best


def _orders(ranked: Sequence[GpuHolder]) -> tuple[Sequence[GpuHolder], ...]:
    """In which orders to take until it is enough: longest past the deadline, and with most GPUs."""
    return ranked, sorted(ranked, key=lambda holder: -holder.gpus)


def _spared(order: Sequence[GpuHolder], search: _Search) -> list[GpuHolder]:
    """The shortest sufficient beginning of an order, without those of it that can be spared."""
    low, high = 1, len(order)
    while low < high:  # more workloads never make less room
        middle = (low + high) // 2
        if search.enough(order[:middle]):
            high = middle
        else:
            low = middle + 1
    kept = list(order[:low])
    for holder in reversed(order[:low]):
        fewer = [other for other in kept if other is not holder]
        if search.enough(fewer):
            kept = fewer
    return sorted(kept, key=lambda holder: (holder.deadline, holder.namespace, holder.name))


class _Search:
    """Answers whether a set is sufficient; quota and nodes are worked out once."""

    def __init__(self, demand: GpuDemand, rooms: Sequence[GpuRoom], place: Place) -> None:
        self._demand = demand
        self._place = place
        self._rooms = {room.name: room for room in rooms if not demand.models or room.model in demand.models}
        self._fitting: dict[tuple[tuple[str, str], ...], dict[str, GpuRoom]] = {}
        self._pods: dict[tuple[tuple[str, str], ...], int] = {}

    def enough(self, ended: Sequence[GpuHolder]) -> bool:
        """Whether all pods of the demand find a node once these have ended."""
        labels = self._place(frozenset(holder.uid for holder in ended))
        if labels is None:
            return False
        key = tuple(sorted(labels.items()))
        rooms, size = self._rooms_with(key), self._demand.gpus_per_pod
        fits = self._pods[key] + sum(
            max(0, rooms[node].free + gpus) // size - max(0, rooms[node].free) // size
            for node, gpus in _freed(ended, rooms).items()
        )
        return fits >= self._demand.pods

    def least(self, ranked: Sequence[GpuHolder]) -> int:
        """How many must end at least for the GPUs alone; nobody knows what a queue gives."""
        free = sum(room.free for room in self._rooms.values() if room.free > 0)
        for size, holder in enumerate(sorted(ranked, key=lambda holder: -holder.gpus), 1):
            free += max(holder.gpus, sum(holder.on_nodes.values()))
            if free >= self._demand.gpus:
                return size
        return 1

    def placed(self, ended: Sequence[GpuHolder]) -> dict[str, int]:
        """The pods of the demand by node, on nodes of those that end first."""
        labels = self._place(frozenset(holder.uid for holder in ended)) or {}
        rooms = self._rooms_with(tuple(sorted(labels.items())))
        freed = _freed(ended, rooms)
        left, size = self._demand.pods, self._demand.gpus_per_pod
        placed: dict[str, int] = {}
        others = (node for node in _sorted_names(rooms) if node not in freed and rooms[node].free >= size)
        for node in chain(sorted(freed), others):
            pods = min(left, max(0, rooms[node].free + freed.get(node, 0)) // size)
            if pods > 0:
                placed[node] = pods
                left -= pods
            if left <= 0:
                break
        return placed

    def _rooms_with(self, labels: tuple[tuple[str, str], ...]) -> dict[str, GpuRoom]:
        if labels not in self._fitting:
            size = self._demand.gpus_per_pod
            found = self._rooms
            for name, value in labels:
                found = {node: room for node, room in found.items() if room.labels.get(name) == value}
            self._fitting[labels] = found
            self._pods[labels] = sum(room.free // size for room in found.values() if room.free > 0)
        return self._fitting[labels]


def _freed(ended: Sequence[GpuHolder], rooms: Mapping[str, GpuRoom]) -> dict[str, int]:
    """What becomes free on these nodes."""
    freed: dict[str, int] = {}
    for holder in ended:
        for node, gpus in holder.on_nodes.items():
            if node in rooms:
                freed[node] = freed.get(node, 0) + gpus
    return freed


def _sorted_names(rooms: Mapping[str, GpuRoom]) -> Iterator[str]:
    """The names in order; there are thousands, and usually none of them is needed."""
    yield from sorted(rooms)
