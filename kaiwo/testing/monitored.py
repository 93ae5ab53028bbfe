"""Monitoring of GPUs in one process under a clock of the test: an exporter, and workloads that hold GPUs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry

from kaiwo.api.conditions import Condition, find_condition
from kaiwo.api.crds import WORKLOADS
from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.engine.resource import POD
from kaiwo.engine.store import Cache
from kaiwo.engine.timestamps import format_time
from kaiwo.engine.turns import Turns
from kaiwo.engine.wire import encode
from kaiwo.host.monitoring.endpoint import Endpoint
from kaiwo.host.monitoring.metrics import MonitoringMetrics
from kaiwo.host.monitoring.monitor import Monitor
from kaiwo.host.monitoring.service import POD_PROJECTION
from kaiwo.host.monitoring.uses import GpuUses
from kaiwo.host.workload.ownership import PodOwners
from kaiwo.plugin.vendors import Utilization
from kaiwo.workload.ending.decision import EndingAnswer
from kaiwo.workload.labels import RUN_ID
from kaiwo.workload.model import Registry
from kaiwo.workload.monitoring.underuse import UNDERUSE, judge

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object
    from kaiwo.workload.ending.decision import EndingDecision

AMD: Final = Utilization("gpu_gfx_activity", gpu_labels=("gpu_id", "gpu_uuid"))
"""What is read of the exporter."""

INTERVAL: Final = 30.0
"""Seconds between two scrapes."""

GPUS: Final = 2
"""GPUs of each pod."""

KIND: Final = WORKLOADS["KaiwoJob"]


class MonitoredCluster:
    """An operator that leads or stands by, and KaiwoJobs that run.

    Attributes:
        cache: the operator's.
        turns: of its event loop.
        leading: whether it leads.
        unled: seconds without a leader before.
        seconds: of the clock that is never set.
        step: seconds by which the other clock was set.
        config: the configuration in force.
        requeued: keys of workloads that are to be planned again.
        ended: name of each workload that was ended, and when by the clock that is never set.
        uses: what monitoring knows.
        endpoint: that is read.
        monitor: that reads it.
    """

    def __init__(self, url: str, config: ResolvedConfig | None = None) -> None:
        """No workload yet.

        Args:
            url: of the exporter, or of a Prometheus server.
            config: the configuration; the defaults without.
        """
        self.cache = Cache()
        self.turns = Turns()
        self.leading = True
        self.unled: float | None = 2.0
        self.seconds = 0.0
        self.step = 0.0
        self.config = config or ResolvedConfig.defaults()
        self.requeued: list[Any] = []
        self.ended: dict[str, float] = {}
        self._began = datetime.now(UTC)
        self._version = 1
        self._objects: dict[str, Object] = {}
        self.uses = GpuUses(INTERVAL, clock=lambda: self.seconds, now=self.now)
        self.endpoint = Endpoint(url, [AMD], INTERVAL, self.uses.now)
        for resource in WORKLOADS.values():
            self.cache.register(resource).replace([], "1")
        self.cache.register(POD, POD_PROJECTION).replace([], "1")
        self.monitor = Monitor(
            self, self.endpoint, self.uses,  # type: ignore[arg-type]  # as much of a manager as is needed
            config=lambda: self.config, pod_owners=PodOwners(self.cache, Registry()),
            gpu_keys=("amd.com/gpu",), endings=self,  # type: ignore[arg-type]  # decides, and no more
            requeue={"KaiwoJob": self.requeued.append, "KaiwoService": self.requeued.append},
            interval=INTERVAL, unled=lambda: self.unled, metrics=MonitoringMetrics(CollectorRegistry()),
            on_change=lambda: None,
        )  # fmt: skip

    def now(self) -> datetime:
        """The time by the clock that may be set."""
        return self._began + timedelta(seconds=self.seconds + self.step)

    async def decide(self, decision: EndingDecision) -> EndingAnswer:
        """Note who is to be ended."""
        for victim in decision.victims:
            self.ended.setdefault(victim.name, self.seconds)
        return EndingAnswer()

    def workload(self, name: str, *, namespace: str = "team", idle: timedelta | None = None) -> None:
        """Put a KaiwoJob that runs into the cache.

        Args:
            name: its name.
            namespace: of it.
            idle: how long its status has said that it leaves its GPUs idle; None for never.
        """
        since = format_time(self.now() - (idle or timedelta()))
        condition = {
            "type": UNDERUSE, "status": "True", "reason": "GpuUtilizationLow",
            "message": "its GPUs are used less than 1 %", "lastTransitionTime": since,
        }  # fmt: skip
        status = {
            "status": "RUNNING", "childUID": f"{name}-child", "conditions": [condition] if idle else [],
            "allocation": {"pods": 1, "gpusPerReplica": GPUS},
        }  # fmt: skip
        head = {"namespace": namespace, "name": name, "uid": name}
        self._objects[name] = {"metadata": head, "status": status}
        self._put(KIND, self._objects[name])

    def pod(
        self,
        name: str,
        workload: str,
        *,
        namespace: str = "team",
        uid: str = "",
        owner: str = "",
        age: timedelta = timedelta(hours=1),
    ) -> None:
        """Put a pod that runs into the cache, with the label of a workload.

        Args:
            name: its name.
            workload: that it is labelled with.
            namespace: of it.
            uid: of the pod; its name without.
            owner: uid of its controller; the workload's child without.
            age: how long ago its container started.
        """
        controller = {
            "apiVersion": "batch/v1", "kind": "Job", "name": workload, "uid": owner or f"{workload}-child",
            "controller": True,
        }  # fmt: skip
        running = {"name": "w", "state": {"running": {"startedAt": format_time(self.now() - age)}}}
        self._put(
            POD,
            {
                "metadata": {
                    "namespace": namespace, "name": name, "uid": uid or name,
                    "labels": {RUN_ID: workload}, "ownerReferences": [controller],
                },
                "spec": {"containers": [{"name": "w", "resources": {"limits": {"amd.com/gpu": str(GPUS)}}}]},
                "status": {"phase": "Running", "containerStatuses": [running]},
            },
        )  # fmt: skip

    async def scrape(self, times: int = 1) -> None:
        """Read so often, an interval apart, and write into each status what the plan would write."""
        for _ in range(times):
            await self.monitor.scrape()
            for name, obj in self._objects.items():
                self._write_status(name, obj)
            self.seconds += INTERVAL

    def condition(self, name: str) -> Object:
        """What the status of a workload says about its GPUs; empty for nothing."""
        return find_condition(self._objects[name]["status"]["conditions"], UNDERUSE) or {}

    def _write_status(self, name: str, obj: Object) -> None:
        status = obj["status"]
        conditions, recorded = status["conditions"], status.get("utilization") or {}
        judgement = judge(
            conditions, recorded, self.uses.facts(name).use, self.config,
            gpus=GPUS, now=self.now(), monotonic=self.uses.monotonic(),
        )  # fmt: skip
        if not judgement.differs(conditions, recorded):
            return
        if judgement.condition is not None:
            status["conditions"] = [self._transition(conditions, judgement.condition)]
        status["utilization"] = judgement.utilization or {}
        self._put(KIND, obj)

    def _transition(self, conditions: list[Object], new: Condition) -> Object:
        found = find_condition(conditions, UNDERUSE) or {}
        same = found.get("status") == new.status
        since = found["lastTransitionTime"] if same else format_time(self.now())
        return {
            "type": UNDERUSE, "status": new.status, "reason": new.reason, "message": new.message,
            "lastTransitionTime": since,
        }  # fmt: skip

    def _put(self, resource: Any, obj: Object) -> None:
        self._version += 1
        obj["metadata"]["resourceVersion"] = str(self._version)
        store = self.cache.store(resource)
        assert store is not None  # noqa: S101  registered above
        store.observe("ADDED", store.decode(encode(obj)))
