"""Reads what preemption decides from: the cache, and before anything is ended the API server itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from kaiwo.api.crds import WORKLOADS, workload_kind
from kaiwo.engine.quantity import quantity
from kaiwo.engine.resource import NODE, POD
from kaiwo.engine.timestamps import parse_time
from kaiwo.plugin.queue_relief import ReliefRequest
from kaiwo.workload.ending.duration import deadline_of
from kaiwo.workload.ending.preemption import GpuDemand, GpuHolder, GpuRoom
from kaiwo.workload.ending.record import Beneficiary, WorkloadIdentity
from kaiwo.workload.gpus.resource_keys import matches
from kaiwo.workload.json_access import lenient_map, lenient_maps, lenient_text
from kaiwo.workload.labels import ADOPTED, GPU_MODEL, RUN_ID
from kaiwo.workload.metadata import label_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object
    from kaiwo.engine.store import Cache
    from kaiwo.host.ending.gpu_index import WaitingWorkload
    from kaiwo.host.ending.quota_reliefs import QuotaReliefs
    from kaiwo.host.workload.ownership import PodOwners
    from kaiwo.plugin.facts import NodeFact
    from kaiwo.plugin.queue_relief import QueueRelief

_OVER = frozenset({"Succeeded", "Failed"})


def cached_workload(cache: Cache, whom: WorkloadIdentity) -> CachedObject | None:
    """The object of that kind and name; None where there is none, or where the kind is not Kaiwo's."""
    kind = workload_kind(whom.kind)
    return cache.get(WORKLOADS[kind], whom.namespace, whom.name) if kind is not None else None


class GpuFacts:
    """Reads one moment of the cache; make a new one for each decision."""

    def __init__(
        self,
        cache: Cache,
        nodes: tuple[NodeFact, ...],
        quota: QuotaReliefs,
        owners: PodOwners,
    ) -> None:
        """Set up.

        Args:
            cache: all watched kinds.
            nodes: the cluster's nodes; those that an autoscaler could add do not count.
            quota: what the queue system says.
            owners: the controllers between pods and children.
        """
        self._cache = cache
        self._nodes = nodes
        self._quota = quota
        self._owners = owners
        self._used: dict[str, Counter[str]] = {}
        self._rooms: dict[str, dict[str, GpuRoom]] = {}

    def demand(self, waiting: WaitingWorkload) -> GpuDemand | None:
        """What a waiting workload needs; None where it does not wait for GPUs any more."""
        entry = self._cache.get(waiting.resource, waiting.namespace, waiting.name)
        if entry is None or entry.uid != waiting.uid:
            return None
        split = lenient_map(entry.readable_part("status", "allocation"))
        key, each = lenient_text(split.get("resourceKey")), split.get("gpusPerReplica")
        pods = split.get("pods", split.get("replicas"))
        if not key or not isinstance(each, int) or each <= 0 or not isinstance(pods, int) or pods <= 0:
            return None
        since = waiting.queued_since
        if since is None:
            times = [at for pod in self._pods(entry) if (at := _without_node(pod, key)) is not None]
            if not times:
                return None
            since, pods = min(times), len(times)
        return GpuDemand(
            Beneficiary(entry.resource.kind, entry.namespace, entry.name, entry.uid),
            key, pods, each, since, "nodes" if waiting.queued_since is None else "quota",
            frozenset(label_value(str(model)) for model in split.get("models") or ()),
        )  # fmt: skip

    def holder(self, entry: CachedObject) -> tuple[GpuHolder, datetime] | None:
        """A workload past its duration, and when its run started; None where it holds no GPUs."""
        status = lenient_map(entry.readable_part("status"))
        split = lenient_map(status.get("allocation"))
        start = parse_time(status.get("startTime"))
        deadline = deadline_of(entry.readable_part("spec", "duration"), start)
        key, gpus = lenient_text(split.get("resourceKey")), split.get("gpus")
        kind = workload_kind(entry.resource.kind)
        if start is None or deadline is None or kind is None or not key or not isinstance(gpus, int):
            return None
        on_nodes: Counter[str] = Counter()
        for pod in self._pods(entry):
            place, count = _held(pod, key)
            if place and count:
                on_nodes[place] += count
        found = GpuHolder(
            kind,
            entry.namespace,
            entry.name,
            entry.uid,
            entry.resource_version,
            key,
            gpus,
            deadline,
            on_nodes,
            ADOPTED in entry.labels,
        )
        return found, start

    def rooms(self, key: str, corrected: Mapping[str, int]) -> list[GpuRoom]:
        """The usable nodes with GPUs of a key.

        Args:
            key: the resource key.
            corrected: what is really used on nodes that were read from the API server.
        """
        if key not in self._rooms:
            self._rooms[key] = self._read_rooms(key)
        found = self._rooms[key]
        if not corrected:
            return list(found.values())
        return [
            replace(room, free=room.free + self._used[key][name] - corrected[name])
            if name in corrected
            else room
            for name, room in found.items()
        ]

    def _read_rooms(self, key: str) -> dict[str, GpuRoom]:
        used: Counter[str] = Counter()
        for pod in self._cache.list(POD):
            place, held = _held(pod, key)
            if place:
                used[place] += held
        self._used[key] = used
        found = {}
        models: dict[str, str] = {}
        for fact in self._nodes:
            node = self._cache.get(NODE, None, fact.name) if fact.usable else None
            if node is None:
                continue
            count, model = 0, ""
            for item in fact.gpus:
                if item.gpus.resource_key == key or matches(key, item.gpus.resource_key):
                    count, model = count + item.gpus.count, item.gpus.model
            if count <= 0:
                continue
            if model not in models:
                models[model] = label_value(model)
            model = node.labels.get(GPU_MODEL) or models[model]
            found[fact.name] = GpuRoom(fact.name, count - used[fact.name], model, node.labels)
        return found

    def reliefs(
        self, demands: Iterable[GpuDemand], holders: Iterable[GpuHolder]
    ) -> Mapping[str, QueueRelief]:
        """What the queue system says of demands, by uid; nothing without one that can tell."""
        waiting = {}
        for demand in demands:
            objects = tuple(entry.full() for entry in self.queue_objects(demand.workload))
            labels = {GPU_MODEL: demand.models} if demand.models else {}
            waiting[demand.workload.uid] = ReliefRequest(objects, demand.resource_key, labels)
        held = {holder.uid: self.queue_objects(holder) for holder in holders}
        return self._quota.reliefs(waiting, held)

    def queue_objects(self, whom: WorkloadIdentity) -> list[CachedObject]:
        """The queue system's objects of a workload: of its child, or of its pods."""
        entry = cached_workload(self._cache, whom)
        if entry is None:
            return []
        owners = [entry.readable_part("status", "childUID") or "", *(pod.uid for pod in self._pods(entry))]
        return self._quota.objects(whom.namespace, owners)

    def _pods(self, workload: CachedObject) -> list[CachedObject]:
        child = {workload.readable_part("status", "childUID") or ""}
        return [
            pod
            for pod in self._cache.labelled(POD, RUN_ID, workload.uid)
            if pod.namespace == workload.namespace and self._owners.belongs(pod, child)
        ]


async def used_on(client: Client, node: str, key: str) -> int:
    """The GPUs of a key that all pods on a node have, whoever made them, as the API server says now."""
    used = 0
    async for pod in client.list(POD, None, field_selector=f"spec.nodeName={node}"):
        if lenient_map(pod.get("status")).get("phase") not in _OVER:
            used += _requested(lenient_map(pod.get("spec")), key)
    return used


def _held(pod: CachedObject, key: str) -> tuple[str, int]:
    """The node of a pod and its GPUs there; nothing for one that has ended."""
    spec = pod.readable_part("spec") or {}
    node = spec.get("nodeName")
    if not node or not (count := _requested(spec, key)) or pod.readable_part("status", "phase") in _OVER:
        return "", 0
    return node, count


def _requested(spec: Object, key: str) -> int:
    """GPUs that the containers of a pod request. The API server has validated it, and there are thousands."""
    total = 0
    for container in spec.get("containers") or ():
        asked = ((container.get("resources") or {}).get("requests") or {}).get(key)
        if asked is None:
            continue
        if asked.isdecimal():
            total += int(asked)
        elif (amount := quantity(asked)) is not None:
            total += amount.units
    return total


def _without_node(pod: CachedObject, key: str) -> datetime | None:
    """Since when a pod finds no node with free GPUs of a key; None where it waits for nothing or else."""
    for condition in lenient_maps(pod.readable_part("status", "conditions")):
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return (
                parse_time(condition.get("lastTransitionTime"))
                if f"Insufficient {key}" in lenient_text(condition.get("message"))
                else None
            )
    return None
