"""Whom to end for a workload that waits for GPUs: free GPUs on the nodes that it may use, and idle ones."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Final

from kaiwo.plugin.kit.endings import Beneficiary, Choice, GpuDemand, GpuHolder, GpuRoom, choose
from kaiwo_gpu_preemption.node_fit import may_use

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.vendors import GpuVendor
    from kaiwo_gpu_preemption.pods import GpuPodFacts
    from kaiwo_gpu_preemption.tracked import Tracked

NO_FIT: Final = {
    "NoCandidates": "no fit: no workload has had idle GPUs of this kind for its grace period",
    "WouldNotHelp": "no fit: ending every workload with idle GPUs would not give it enough",
    "NotNeeded": "no fit: there are enough free GPUs on nodes that it may use, so something else holds it up",
    "QueueHolds": "no fit: its queue holds it, and idle GPUs outside of the queue are no quota",
    "OtherNamespaces": "no fit: the operator reads pods of chosen namespaces only, what is free is unknown",
}


def demand_of(tracked: Tracked) -> tuple[GpuDemand, Object] | None:
    """What a workload waits for: of its pods that ask alike for the most GPUs; and where they may run."""
    groups: dict[tuple[str, int, str], list[GpuPodFacts]] = {}
    for pod in tracked.pods:
        if pod.lacks and pod.since is not None:
            place = json.dumps(pod.place or {}, sort_keys=True)
            groups.setdefault((pod.lacks, pod.gpus[pod.lacks], place), []).append(pod)
    if not groups:
        return None
    (key, each, _), pods = max(groups.items(), key=lambda item: (item[0][1] * len(item[1]), item[0]))
    owner = tracked.owner
    whom = Beneficiary(owner.resource.kind, owner.namespace, owner.name, owner.uid)
    since = min(pod.since for pod in pods if pod.since is not None)
    return GpuDemand(whom, key, len(pods), each, since, "nodes"), pods[0].place or {}


def rooms_for(
    place: Object,
    key: str,
    nodes: Iterable[Object],
    pods: Iterable[GpuPodFacts],
    vendors: Sequence[GpuVendor],
) -> list[GpuRoom]:
    """Free GPUs of a key on the nodes that a pod may use.

    Args:
        place: node selector, node affinity and tolerations of the pod.
        key: the resource key.
        nodes: all nodes.
        pods: all pods with GPUs.
        vendors: the loaded vendors, which read GPUs of nodes.
    """
    used: Counter[str] = Counter()
    for pod in pods:
        if pod.node and not pod.over:
            used[pod.node] += pod.gpus.get(key, 0)
    rooms = []
    for node in nodes:
        if not may_use(place, node):
            continue
        count = sum(
            found.count for vendor in vendors for found in vendor.recognise(node) if found.resource_key == key
        )
        if count > 0:
            name = str(node["metadata"]["name"])
            rooms.append(GpuRoom(name, count - used[name]))
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
    demand: GpuDemand, candidates: Sequence[Tracked], rooms: Sequence[GpuRoom]
) -> tuple[list[Tracked], str]:
    """Whose GPUs to take back for a workload that waits, or why nobody's; longest idle first.

    Args:
        demand: what it waits for.
        candidates: workloads whose GPUs may be taken back.
        rooms: free GPUs on the nodes that it may use.
    """
    by_uid = {one.owner.uid: one for one in candidates if one.owner.uid != demand.workload.uid}
    holders = [found for one in by_uid.values() if (found := holder_of(one, demand.resource_key)) is not None]
    choice = choose(demand, holders, rooms)
    if not isinstance(choice, Choice):
        return [], choice
    return [by_uid[victim.uid] for victim in choice.victims], ""
