"""Reads what preemption decides from: the cache, and before anything is ended the API server itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kaiwo.api.crds import WORKLOADS, workload_kind
from kaiwo.engine.resource import NODE, POD
from kaiwo.engine.timestamps import parse_time
from kaiwo.host.ending.pod_gpus import gpus_by_node
from kaiwo.plugin.queue_relief import ReliefRequest
from kaiwo.workload.ending.duration import deadline_of
from kaiwo.workload.ending.preemption import GpuDemand, GpuHolder, GpuRoom
from kaiwo.workload.ending.record import Beneficiary, WorkloadIdentity
from kaiwo.workload.gpus.resource_keys import matches
from kaiwo.workload.json_access import lenient_map, lenient_maps, lenient_text
from kaiwo.workload.labels import ADOPTED, GPU_MODEL, RUN_ID
from kaiwo.workload.metadata import label_value

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.store import Cache
    from kaiwo.host.ending.gpu_index import WaitingWorkload
    from kaiwo.host.ending.pod_gpus import HeldGpus
    from kaiwo.host.ending.quota_reliefs import QuotaReliefs
    from kaiwo.host.workload.ownership import PodOwners
    from kaiwo.plugin.facts import NodeFact
    from kaiwo.plugin.queue_relief import QueueRelief


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
        held: HeldGpus,
    ) -> None:
        """Set up.

        Args:
            cache: all watched kinds.
            nodes: the cluster's nodes; those that an autoscaler could add do not count.
            quota: what the queue system says.
            owners: the controllers between pods and children.
            held: the GPUs of all pods.
        """
        self._cache = cache
        self._held = held
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
        on_nodes = gpus_by_node(self._pods(entry), key)
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

    def used(self, key: str, node: str) -> int:
        """GPUs of a key that pods of the cache have on a node."""
        self._known_rooms(key)
        return self._used[key][node]

    def rooms(self, key: str, corrected: Mapping[str, int]) -> list[GpuRoom]:
        """The usable nodes with GPUs of a key.

        Args:
            key: the resource key.
            corrected: what is really used on nodes that were read from the API server.
        """
        found = dict(self._known_rooms(key))
        for name in corrected.keys() & found.keys():
            room = found[name]
            found[name] = replace(room, free=room.free + self.used(key, name) - corrected[name])
        return list(found.values())

    def _known_rooms(self, key: str) -> dict[str, GpuRoom]:
        if key not in self._rooms:
            self._rooms[key] = self._read_rooms(key)
        return self._rooms[key]

    def _read_rooms(self, key: str) -> dict[str, GpuRoom]:
        used = self._held.by_node(key)
        self._used[key] = used
        found = {}
        models: dict[str, str] = {}
        nodes = {node.name: node for node in self._cache.list(NODE)}
        for fact in self._nodes:
            node = nodes.get(fact.name) if fact.usable else None
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
