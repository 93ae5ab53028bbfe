"""Whom to end for a workload that waits for GPUs: free GPUs on the nodes that it may use, and idle ones."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kaiwo.plugin.kit.endings import Beneficiary, Choice, GpuDemand, GpuHolder, GpuRoom, anywhere, choose
from kaiwo.plugin.kit.json_access import lenient_map
from kaiwo.plugin.kit.nodes import node_hardware
from kaiwo_gpu_preemption.node_fit import may_use
from kaiwo_gpu_preemption.pods import WaitingPods

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.queue_relief import QueueRelief
    from kaiwo.plugin.vendors import GpuVendor
    from kaiwo_gpu_preemption.pods import GpuPodFacts
    from kaiwo_gpu_preemption.tracked import Tracked

NO_FIT: Final = {
    "NoCandidates": "no fit: no workload that could make room has had idle GPUs for its grace period",
    "WouldNotHelp": "no fit: ending every workload with idle GPUs would not give it enough",
    "NotNeeded": "no fit: there are enough free GPUs on nodes that it may use, so something else holds it up",
    "QueueHolds": "no fit: its queue would not admit it, whoever ends",
    "OthersFirst": "no fit: its queue would give what becomes free to another workload, or stops at one",
    "OtherNamespaces": "no fit: the operator reads pods of chosen namespaces only, what is free is unknown",
}


@dataclass(frozen=True, slots=True)
class Pressure:
    """A workload that waits for GPUs.

    Attributes:
        tracked: the workload.
        demand: what it waits for: of its pods that ask alike for the most GPUs.
        place: where these may run.
    """

    tracked: Tracked
    demand: GpuDemand
    place: Object


def pressure_of(tracked: Tracked) -> Pressure | None:
    """What a workload waits for; None where it is not known since when."""
    groups: dict[tuple[str, int, str, str], list[WaitingPods]] = {}
    for waiting in (*_pending(tracked.pods), *tracked.queued):
        place = json.dumps(waiting.place, sort_keys=True)
        groups.setdefault((waiting.key, waiting.gpus, waiting.cause, place), []).append(waiting)
    if not groups:
        return None
    most = max(groups, key=lambda group: (group[1] * sum(one.count for one in groups[group]), group))
    pods, owner = groups[most], tracked.owner
    whom = Beneficiary(owner.resource.kind, owner.namespace, owner.name, owner.uid)
    demand = GpuDemand(
        whom, pods[0].key, sum(one.count for one in pods), pods[0].gpus, min(one.since for one in pods),
        pods[0].cause,
    )  # fmt: skip
    return Pressure(tracked, demand, pods[0].place)


def _pending(pods: Iterable[GpuPodFacts]) -> list[WaitingPods]:
    return [
        WaitingPods(
            pod.lacks, 1, pod.gpus[pod.lacks], pod.since, pod.place or {}, "quota" if pod.gated else "nodes"
        )
        for pod in pods
        if pod.lacks and pod.since is not None
    ]


class Rooms:
    """Free GPUs on the nodes that pods may use, worked out once for pods that may run on the same nodes."""

    def __init__(
        self, nodes: Sequence[Object], pods: Sequence[GpuPodFacts], vendors: Sequence[GpuVendor]
    ) -> None:
        """Set up.

        Args:
            nodes: all nodes.
            pods: all pods with GPUs.
            vendors: the loaded vendors, which read GPUs of nodes.
        """
        self._nodes = nodes
        self._pods = pods
        self._vendors = vendors
        self._known: dict[tuple[str, str], list[GpuRoom]] = {}

    def of(self, place: Object, key: str) -> list[GpuRoom]:
        """Free GPUs of a key on the nodes that a pod may use.

        Args:
            place: node selector, node affinity and tolerations of the pod.
            key: the resource key.
        """
        known = (json.dumps(place, sort_keys=True), key)
        if known not in self._known:
            self._known[known] = self._read(place, key)
        return self._known[known]

    def _read(self, place: Object, key: str) -> list[GpuRoom]:
        used: Counter[str] = Counter()
        for pod in self._pods:
            if pod.node and not pod.over:
                used[pod.node] += pod.gpus.get(key, 0)
        rooms = []
        for node in self._nodes:
            if not may_use(place, node):
                continue
            # A vendor that cannot read a node has no free GPUs there, and spoils no other node.
            count = dict(node_hardware(node, self._vendors).resources).get(key, 0)
            if count > 0:
                metadata = node["metadata"]
                name = str(metadata["name"])
                rooms.append(GpuRoom(name, count - used[name], labels=lenient_map(metadata.get("labels"))))
        return rooms


def holder_of(tracked: Tracked, key: str) -> GpuHolder | None:
    """A workload whose idle GPUs of a key may be taken back; None where it has none of them."""
    timing = tracked.timing
    if timing is None or not timing.due or timing.since is None:
        return None
    on_nodes: Counter[str] = Counter()
    for pod in tracked.pods:
        if pod.node and pod.gpus.get(key):
            on_nodes[pod.node] += pod.gpus[key]
    gpus = sum(on_nodes.values())
    if not gpus:
        return None
    owner = tracked.owner
    idle_since = tracked.assessment.idle_since if tracked.assessment is not None else None
    return GpuHolder(
        owner.resource.kind, owner.namespace, owner.name, owner.uid, owner.resource_version, key, gpus,
        idle_since or timing.since, on_nodes,
    )  # fmt: skip


def victims_for(
    demand: GpuDemand,
    candidates: Sequence[Tracked],
    rooms: Sequence[GpuRoom],
    relief: QueueRelief | None = None,
) -> tuple[list[Tracked], str]:
    """Whose GPUs to take back for a workload that waits, or why nobody's; longest idle first.

    Args:
        demand: what it waits for.
        candidates: workloads whose GPUs may be taken back.
        rooms: free GPUs on the nodes that it may use.
        relief: what the queue that holds it would give; None where none holds it. Only workloads with quota
            of that queue, or of one that shares quota with it, are of use then.
    """
    by_uid = {
        one.owner.uid: one
        for one in candidates
        if one.owner.uid != demand.workload.uid and (relief is None or one.owner.uid in relief.members)
    }
    holders = [found for one in by_uid.values() if (found := holder_of(one, demand.resource_key)) is not None]
    choice = choose(demand, holders, rooms, relief.place if relief is not None else anywhere)
    if not isinstance(choice, Choice):
        return [], choice
    return [by_uid[victim.uid] for victim in choice.victims], ""
