"""An API server in a dictionary, with the real cache, Kueue's real rules and real nodes in front of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import kaiwo_batch_job.plugin
import kaiwo_gpu_amd.plugin
import kaiwo_kueue.plugin
from kaiwo.api.crds import KAIWO_CONFIG, KAIWO_JOB, KAIWO_SERVICE
from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.engine.conditions import merge
from kaiwo.engine.errors import NotFound
from kaiwo.engine.resource import JOB, NODE, POD, PRIORITY_CLASS, STORAGE_CLASS
from kaiwo.engine.store import Cache
from kaiwo.engine.writer import StatusWritten
from kaiwo.host.cluster_facts import NODE_PROJECTION, ClusterFacts
from kaiwo.host.ending.endings import Endings
from kaiwo.host.ending.preemption import Preemption
from kaiwo.host.ending.quota_reliefs import QuotaReliefs
from kaiwo.host.workload.ownership import PodOwners
from kaiwo.host.workload.watches import POD_PROJECTION
from kaiwo.testing import node, plugins
from kaiwo.testing.builders import NOW
from kaiwo.workload.model import Registry
from kaiwo_kueue.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from kaiwo_kueue.projections import WORKLOAD_PROJECTION

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object, Resource

GPU = "amd.com/gpu"
REGISTRY = Registry.of(plugins(kaiwo_batch_job.plugin, kaiwo_gpu_amd.plugin, kaiwo_kueue.plugin))


class Server:
    """A cache, and an API server that takes every status."""

    def __init__(self) -> None:
        self.cache = Cache()
        for resource in (KAIWO_JOB, KAIWO_SERVICE):
            self.cache.register(resource)
        self.leading = True
        self.drops = False
        self.fail: list[Exception | None] = []
        self.refuses: dict[str, Exception] = {}
        self.writes: list[str] = []
        self.events: list[tuple[str, str]] = []
        self.seconds = 0.0
        self.transitions: list[Any] = []
        self.server_now = timedelta()
        self.newer: set[str] = set()
        self.versions = 1000
        self.unreadable: dict[str, dict[Resource, str]] = {}
        self.others: dict[str, list[Object]] = {}
        self.event_recorder = SimpleNamespace(
            event=lambda about, _, reason, __: self.events.append((about.name, reason))
        )
        self.endings = Endings(
            self,  # type: ignore[arg-type]  # what it needs of a manager
            self.transitions.append,
            clock=lambda: self.seconds,
            now=lambda: NOW + timedelta(seconds=self.seconds),
        )

    @property
    def writer(self) -> Server:
        """The writer."""
        return self

    @property
    def client(self) -> Server:
        """The client."""
        return self

    async def get(self, kind: Resource, namespace: str, name: str) -> Object:
        """An object as the API server has it."""
        entry = self.cache.get(kind, namespace, name)
        if entry is None:
            raise NotFound(404, "NotFound", name)
        found: Object = entry.full()
        if name in self.newer:
            found["metadata"] |= {"resourceVersion": "99"}
        return found

    async def list(self, kind: Resource, _: None, *, field_selector: str) -> Any:
        """The pods on a node: those of the cache, and those of others."""
        node_name = field_selector.removeprefix("spec.nodeName=")
        for entry in self.cache.list(kind):
            if entry.part("spec", "nodeName") == node_name:
                yield entry.full()
        for pod in self.others.get(node_name, []):
            yield pod

    def server_time(self) -> Any:
        """The API server's clock."""
        return NOW + timedelta(seconds=self.seconds) + self.server_now

    def version(self) -> int:
        """A new resourceVersion."""
        self.versions += 1
        return self.versions

    def put_object(self, kind: Resource, obj: Object, version: int = 0) -> None:
        """Let the cache, and so the API server, see an object."""
        metadata = {"uid": f"uid-{kind.kind}-{obj['metadata']['name']}", **obj["metadata"]}
        obj = {**obj, "metadata": {**metadata, "resourceVersion": str(version or self.version())}}
        store = self.cache.store(kind)
        assert store is not None
        store.observe("MODIFIED", store.decode(msgspec.json.encode(obj)))

    def put(self, name: str, version: int = 1, spec: Object | None = None, **status: Any) -> None:
        """Let the cache see a KaiwoJob."""
        obj = {
            "apiVersion": "kaiwo.silogen.ai/v1alpha1",
            "kind": "KaiwoJob",
            "metadata": {
                "name": name, "namespace": "team", "uid": f"uid-of-{name}", "resourceVersion": str(version)
            },
            "spec": spec or {},
            "status": status,
        }  # fmt: skip
        self.put_object(KAIWO_JOB, obj, version)

    def known(self, name: str) -> Any:
        """A KaiwoJob of the cache."""
        return self.cache.get(KAIWO_JOB, "team", name)

    async def patch_status(self, entry: Any, status: Object, own_conditions: Any = ()) -> StatusWritten:
        """Take a status, unless the test wants an error."""
        if "conditions" in status:
            live = entry.part("status", "conditions") or []
            status = {**status, "conditions": merge(live, status["conditions"], own_conditions)}
        error = self.fail.pop(0) if self.fail else self.refuses.get(entry.name)
        if error is not None:
            raise error
        self.writes.append(entry.name)
        kept = {name: value for name, value in status.items() if name != "termination" or not self.drops}
        spec = entry.part("spec")
        version = int(entry.resource_version) + 1
        self.put(entry.name, version, spec=spec, **{**(entry.part("status") or {}), **kept})
        return StatusWritten(self.known(entry.name))


@pytest.fixture
def server() -> Server:
    """Two running jobs."""
    made = Server()
    made.put("one", status="RUNNING", childUID="child-one")
    made.put("two", status="RUNNING", childUID="child-two")
    return made


@dataclass
class World:
    """Nodes of eight GPUs, one queue, and jobs of one pod with eight GPUs each."""

    server: Server
    nodes: int = 2
    spec: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Fill the cache and assemble what the operator assembles."""
        cache = self.server.cache
        projections = {POD: POD_PROJECTION, NODE: NODE_PROJECTION, WORKLOAD: WORKLOAD_PROJECTION}
        kinds = {POD, NODE, JOB, KAIWO_CONFIG, PRIORITY_CLASS, STORAGE_CLASS, RESOURCE_FLAVOR}
        assert REGISTRY.queue is not None
        for kind in (*kinds, *REGISTRY.queue.reads):
            given = (projections[kind],) if kind in projections else ()
            cache.register(kind, *given)
        self.cluster = ClusterFacts(cache, REGISTRY.vendors, lambda: self.config)
        self.quota_reliefs = QuotaReliefs(
            self.server,  # type: ignore[arg-type]  # what it needs of a manager
            REGISTRY.queue, lambda _: True,
        )  # fmt: skip
        self.preemption = Preemption(
            self.server,  # type: ignore[arg-type]  # what it needs of a manager
            self.quota_reliefs,
            self.server.endings,
            cluster=self.cluster, owners=PodOwners(cache, REGISTRY), config=lambda: self.config,
            clock=lambda: self.server.seconds,
            now=lambda: NOW + timedelta(seconds=self.server.seconds),
        )  # fmt: skip
        for store in cache.stores():
            store.replace([], "1")
        for number in range(self.nodes):
            self.put(NODE, node(f"n{number}", gpus={GPU: 8}))
        self.put(LOCAL_QUEUE, {"metadata": {"name": "q", "namespace": "team"}, "spec": {"clusterQueue": "q"}})
        self.put(RESOURCE_FLAVOR, {"metadata": {"name": "f"}, "spec": {"nodeLabels": {}}})
        self.quota(8 * self.nodes, 8 * self.nodes)

    @property
    def config(self) -> ResolvedConfig:
        """KaiwoConfig in force."""
        return ResolvedConfig.from_object({"spec": {"scheduling": self.spec}})

    def put(self, kind: Resource, obj: Object) -> None:
        """Let the cache see an object."""
        self.server.put_object(kind, obj)

    def quota(self, nominal: int, used: int) -> None:
        """Let the queue have so many GPUs."""
        amounts = [{"name": GPU, "nominalQuota": nominal}]
        group = {"coveredResources": [GPU], "flavors": [{"name": "f", "resources": amounts}]}
        reserved = [{"name": "f", "resources": [{"name": GPU, "total": used}]}]
        spec, status = {"resourceGroups": [group]}, {"flavorsReservation": reserved}
        self.put(CLUSTER_QUEUE, {"metadata": {"name": "q"}, "spec": spec, "status": status})

    def runs(self, name: str, on: str, *, duration: str = "1h", hours: float = 2, **status: Any) -> None:
        """Let a job of eight GPUs run on a node for some hours."""
        start = NOW - timedelta(hours=hours)
        late = {"type": "Preemptable", "status": "True", "reason": "DurationExceeded", "message": ""}
        self._job(
            name, duration,
            {
                "status": "RUNNING", "startTime": start.isoformat().replace("+00:00", "Z"),
                "conditions": [late], **status,
            },
        )  # fmt: skip
        requests = {"requests": {GPU: "8"}}
        pod = self._owned(f"{name}-0", "Job", f"child-of-{name}")
        pod["metadata"]["labels"] = {"kaiwo.silogen.ai/run-id": f"uid-of-{name}"}
        pod["spec"] = {"nodeName": on, "containers": [{"name": "c", "resources": requests}]}
        pod["status"] = {"phase": "Running"}
        self.put(POD, pod)
        held = {"name": "m", "count": 1, "flavors": {GPU: "f"}, "resourceUsage": {GPU: "8"}}
        self._kueue(name, {"admission": {"clusterQueue": "q", "podSetAssignments": [held]}})

    def waits(self, name: str, minutes: float = 6, priority: int = 0, pods: int = 1) -> None:
        """Let a job wait in the queue for some minutes."""
        since = (NOW - timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")
        admitted = {"type": "Admitted", "status": "False", "reason": "Pending", "lastTransitionTime": since}
        status = {"status": "PENDING", "conditions": [{**admitted, "message": ""}]}
        self._job(name, "", status, pods=pods)
        self._kueue(name, {}, priority=priority, pods=pods)

    def _job(self, name: str, duration: str, status: Object, pods: int = 1) -> None:
        split = {"gpus": 8 * pods, "gpusPerReplica": 8, "replicas": pods, "resourceKey": GPU, "queue": "q"}
        self.server.put(
            name, self.server.version(),
            spec={"duration": duration} if duration else {},
            **{"childUID": f"child-of-{name}", "allocation": split, **status},
        )  # fmt: skip
        child = self._owned(name, "KaiwoJob", f"uid-of-{name}")
        child["metadata"]["uid"] = f"child-of-{name}"
        self.put(JOB, child)

    def _kueue(self, name: str, status: Object, priority: int = 0, pods: int = 1) -> None:
        template = {"spec": {"containers": [{"resources": {"requests": {GPU: "8"}}}]}}
        obj = self._owned(f"job-{name}", "Job", f"child-of-{name}")
        pod_set = {"name": "m", "count": pods, "template": template}
        obj["spec"] = {"queueName": "q", "priority": priority, "podSets": [pod_set]}
        obj["status"] = status
        self.put(WORKLOAD, obj)

    def _owned(self, name: str, kind: str, uid: str) -> Object:
        api = "batch/v1" if kind == "Job" else "kaiwo.silogen.ai/v1alpha1"
        owner = {"apiVersion": api, "kind": kind, "name": name.removesuffix("-0"), "uid": uid}
        owner["name"] = uid.removeprefix("child-of-").removeprefix("uid-of-")
        metadata = {"name": name, "namespace": "team", "uid": f"uid-{kind}-{name}"}
        return {"metadata": {**metadata, "ownerReferences": [{**owner, "controller": True}]}}

    def word(self, name: str) -> str:
        """The status of a job."""
        found: str = self.server.known(name).part("status", "status")
        return found

    def decide(self) -> float | None:
        """Look for one decision."""
        return asyncio.run(self.preemption.decide())

    def condition(self, name: str) -> Any:
        """Status and reason of the condition about a decision for a job."""
        listed = self.server.known(name).part("status", "conditions")
        return next(
            ((item["status"], item["reason"]) for item in listed if item["type"] == "PreemptionDecided"), None
        )


@pytest.fixture
def world(server: Server) -> World:
    """Two nodes, held by two jobs: one within its duration is not in the index, one is past it."""
    return World(server)
