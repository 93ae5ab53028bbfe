"""CPU of one decision of preemption, and of keeping its index, on a cache filled as the operator fills it.

Of the workloads a tenth waits for GPUs, two hundred are past their duration, and the rest runs. The decision
ends five jobs for one that needs five nodes; the API server's answers are those of the cache.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec

from bench.report import Figure, Target
from bench.server import node
from kaiwo.api.crds import KAIWO_CONFIG, KAIWO_JOB, KAIWO_SERVICE
from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.engine.resource import JOB, NODE, POD, PRIORITY_CLASS, STORAGE_CLASS
from kaiwo.engine.store import Cache
from kaiwo.host.cluster_facts import NODE_PROJECTION, ClusterFacts
from kaiwo.host.ending.preemption import Preemption
from kaiwo.host.ending.quota_reliefs import QuotaReliefs
from kaiwo.host.workload.ownership import PodOwners
from kaiwo.host.workload.watches import POD_PROJECTION
from kaiwo.plugin.loader import load
from kaiwo.plugin.selection import PluginSelection
from kaiwo.workload.ending.decision import EndingAnswer
from kaiwo.workload.model import Registry
from kaiwo_kueue.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from kaiwo_kueue.projections import WORKLOAD_PROJECTION

if TYPE_CHECKING:
    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.engine.store import Store
    from kaiwo.workload.ending.decision import EndingDecision

_KEY = "amd.com/gpu"
_NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
_CANDIDATES = 200
_QUEUES = 20
_NEEDED = 5  # nodes of the workload that waits the longest
_NODE = 8  # GPUs


def run(workloads: int) -> list[Figure]:
    """The decision, and an event of a workload that changes nothing."""
    cluster = _Cluster(workloads)
    index = cluster.events()
    decide = cluster.decide()
    return [
        Figure(
            f"CPU of a decision of preemption, {workloads:,} workloads, {_CANDIDATES} past their duration",
            decide, "ms", target=Target(100),
        ),
        Figure("CPU of the index of preemption per event of a workload", index, "µs"),
    ]  # fmt: skip


class _Cluster:
    """What preemption needs of a manager."""

    def __init__(self, workloads: int) -> None:
        self.cache = Cache()
        self.leading = True
        self.unreadable: dict[str, dict[Resource, str]] = {}
        self.taken: list[EndingDecision] = []
        self.client = self.writer = self
        self.event_recorder = SimpleNamespace(event=lambda *_: None)
        self._versions = 0
        registry = Registry.of(load(PluginSelection(names=("batch_job", "gpu_amd", "kueue"))))
        if registry.queue is None:
            raise RuntimeError("the plugin kueue is not installed")
        projections = {POD: POD_PROJECTION, NODE: NODE_PROJECTION, WORKLOAD: WORKLOAD_PROJECTION}
        kinds = (KAIWO_JOB, KAIWO_SERVICE, KAIWO_CONFIG, JOB, POD, NODE, PRIORITY_CLASS, STORAGE_CLASS)
        for kind in (*kinds, RESOURCE_FLAVOR, *registry.queue.reads):
            self.cache.register(kind, *((projections[kind],) if kind in projections else ()))
            self._store(kind).replace([], "1")
        config = ResolvedConfig.defaults()
        self._preemption = Preemption(
            self,  # type: ignore[arg-type]  # what it needs of a manager
            QuotaReliefs(self, registry.queue, lambda _: True),  # type: ignore[arg-type]  # likewise
            SimpleNamespace(under_way={}, decide=self.take),  # type: ignore[arg-type]  # all that is called
            cluster=ClusterFacts(self.cache, registry.vendors, lambda: config),
            owners=PodOwners(self.cache, registry),
            config=lambda: config, now=lambda: _NOW,
        )  # fmt: skip
        self._fill(workloads)

    def decide(self) -> float:
        """Milliseconds of CPU of the fastest of five decisions."""
        spent = []
        for _ in range(5):
            self.taken.clear()
            began = time.process_time()
            asyncio.run(self._preemption.decide())
            spent.append((time.process_time() - began) * 1000)
            if [len(item.victims) for item in self.taken] != [_NEEDED]:
                raise RuntimeError(f"not the decision that was expected: {self.taken!r:.500}")
        return min(spent)

    def events(self, count: int = 2000) -> float:
        """Microseconds of CPU that the index takes of an event."""
        objects = [_job(number, "LATE" if number < _CANDIDATES else "RUNNING") for number in range(count)]
        listening = _put_all(self, objects)
        store = self._store(KAIWO_JOB)
        handlers, store.handlers[:] = list(store.handlers), []
        silent = _put_all(self, objects)
        store.handlers[:] = handlers
        return max(0.0, listening - silent) / count * 1e6

    def put(self, kind: Resource, obj: Object) -> None:
        """Let the cache see an object."""
        self._versions += 1
        metadata = {"uid": f"{kind.kind}-{obj['metadata']['name']}", **obj["metadata"]}
        obj = {**obj, "metadata": {**metadata, "resourceVersion": str(self._versions)}}
        store = self._store(kind)
        store.observe("MODIFIED", store.decode(msgspec.json.encode(obj)))

    async def get(self, kind: Resource, namespace: str, name: str) -> Object:
        """An object as it is cached."""
        return self._known(kind, namespace, name).full()

    async def list(self, kind: Resource, _: None, *, field_selector: str) -> Any:
        """The pod of a node."""
        at = int(field_selector.removeprefix("spec.nodeName=gpu-"))
        yield self._known(kind, "team", f"job-{at}-0").full()

    async def patch_status(self, *_: Any, **__: Any) -> None:
        """Take a condition."""

    def _store(self, kind: Resource) -> Store:
        found = self.cache.store(kind)
        if found is None:
            raise KeyError(kind)
        return found

    def _known(self, kind: Resource, namespace: str, name: str) -> CachedObject:
        found = self.cache.get(kind, namespace, name)
        if found is None:
            raise KeyError(name)
        return found

    async def take(self, decision: EndingDecision) -> EndingAnswer:
        """Take a decision."""
        self.taken.append(decision)
        return EndingAnswer(decision.victims)

    def _fill(self, workloads: int) -> None:
        waiting = workloads // 10
        running = workloads - waiting
        for number in range(running):
            self.put(NODE, node(f"gpu-{number}"))
        for number in range(workloads):
            word = "PENDING" if number >= running else "LATE" if number < _CANDIDATES else "RUNNING"
            self.put(KAIWO_JOB, _job(number, word, pods=_NEEDED if number == running else 2000))
            self.put(JOB, _child(number))
            self.put(WORKLOAD, _queued(number, word, pods=_NEEDED if number == running else 2000))
            if word != "PENDING":
                self.put(POD, _pod(number))
        for number in range(_QUEUES):
            name = f"queue-{number}"
            amounts = [{"name": _KEY, "nominalQuota": running * _NODE // _QUEUES}]
            group = {"coveredResources": [_KEY], "flavors": [{"name": "f", "resources": amounts}]}
            used = [{"name": "f", "resources": [{"name": _KEY, "total": running * _NODE // _QUEUES}]}]
            self.put(
                CLUSTER_QUEUE,
                {
                    "metadata": {"name": name},
                    "spec": {"resourceGroups": [group], "cohortName": "research"},
                    "status": {"flavorsReservation": used},
                },
            )
            entrance = {"metadata": {"name": name, "namespace": "team"}, "spec": {"clusterQueue": name}}
            self.put(LOCAL_QUEUE, entrance)
        self.put(RESOURCE_FLAVOR, {"metadata": {"name": "f"}, "spec": {}})


def _put_all(cluster: _Cluster, objects: list[Object]) -> float:
    began = time.process_time()
    for obj in objects:
        cluster.put(KAIWO_JOB, obj)
    return time.process_time() - began


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _job(number: int, word: str, pods: int = 1) -> Object:
    pods = pods if word == "PENDING" else 1
    name = f"job-{number}"
    split = {"gpus": _NODE * pods, "gpusPerReplica": _NODE, "replicas": pods, "resourceKey": _KEY}
    conditions = [_condition("Schedulable", "True"), _condition("SpecApplied", "True")]
    conditions.append(_condition("Admitted", "False" if word == "PENDING" else "True"))
    spec: Object = {"gpus": _NODE, "entrypoint": "python train.py", "image": "registry.example/train:1"}
    if word == "LATE":
        conditions.append(_condition("Preemptable", "True"))
        spec["duration"] = "1h"
    status: Object = {
        "status": "PENDING" if word == "PENDING" else "RUNNING",
        "childUID": f"Job-{name}",
        "allocation": split,
        "conditions": conditions,
    }
    if word != "PENDING":
        status["startTime"] = _time(_NOW - timedelta(hours=2, seconds=number))
    metadata = {"name": name, "namespace": "team", "uid": f"run-{number}"}
    return {
        "apiVersion": KAIWO_JOB.api_version, "kind": "KaiwoJob", "metadata": metadata, "spec": spec,
        "status": status,
    }  # fmt: skip


def _condition(kind: str, status: str) -> Object:
    at = _time(_NOW - timedelta(hours=1))
    text = "a sentence that says why it is so, as most conditions have one"
    return {"type": kind, "status": status, "reason": kind, "message": text, "lastTransitionTime": at}


def _owned(name: str, owner: str, uid: str) -> Object:
    kind, api = ("Job", "batch/v1") if uid.startswith("Job") else ("KaiwoJob", KAIWO_JOB.api_version)
    reference = {"apiVersion": api, "kind": kind, "name": owner, "uid": uid, "controller": True}
    return {"metadata": {"name": name, "namespace": "team", "ownerReferences": [reference]}}


def _child(number: int) -> Object:
    return _owned(f"job-{number}", f"job-{number}", f"run-{number}")


def _pod(number: int) -> Object:
    pod = _owned(f"job-{number}-0", f"job-{number}", f"Job-job-{number}")
    pod["metadata"]["labels"] = {"kaiwo.silogen.ai/run-id": f"run-{number}"}
    requests = {"requests": {_KEY: str(_NODE), "cpu": "32", "memory": "256Gi"}}
    pod["spec"] = {"nodeName": f"gpu-{number}", "containers": [{"name": "workload", "resources": requests}]}
    pod["status"] = {"phase": "Running"}
    return pod


def _queued(number: int, word: str, pods: int) -> Object:
    queue = f"queue-{number % _QUEUES}"
    template = {"spec": {"containers": [{"resources": {"requests": {_KEY: str(_NODE)}}}]}}
    obj = _owned(f"job-job-{number}", f"job-{number}", f"Job-job-{number}")
    pods = pods if word == "PENDING" else 1
    pod_set = {"name": "main", "count": pods, "template": template}
    obj["spec"] = {"queueName": queue, "priority": 0, "podSets": [pod_set]}
    obj["status"] = {}
    if word != "PENDING":
        held = {"name": "main", "count": 1, "flavors": {_KEY: "f"}, "resourceUsage": {_KEY: str(_NODE)}}
        obj["status"] = {"admission": {"clusterQueue": queue, "podSetAssignments": [held]}}
    return obj
