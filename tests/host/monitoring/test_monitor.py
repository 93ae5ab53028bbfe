"""Who reads, and what a new leader makes of what it finds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry

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
from kaiwo.testing.exporter import Exporter, lines
from kaiwo.workload.labels import RUN_ID
from kaiwo.workload.model import Registry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

AMD = Utilization("gpu_gfx_activity", gpu_labels=("gpu_id", "gpu_uuid"))
OLD = datetime.now(UTC) - timedelta(hours=1)


class World:
    """One operator that leads or stands by, an exporter, and a KaiwoJob with one pod of two GPUs."""

    def __init__(self, exporter: Exporter) -> None:
        self.exporter = exporter
        self.cache = Cache()
        self.turns = Turns()
        self.leading = True
        self.unled: float | None = 2.0
        self.seconds = 0.0
        self.requeued: list[Any] = []
        self.uses = GpuUses(30.0, clock=lambda: self.seconds)
        self.endpoint = Endpoint(exporter.url, [AMD], 30.0, self.uses.now)
        for resource in WORKLOADS.values():
            self.cache.register(resource).replace([], "1")
        self.cache.register(POD, POD_PROJECTION).replace([], "1")
        self.monitor = Monitor(
            self, self.endpoint, self.uses,  # type: ignore[arg-type]  # as much of a manager as is needed
            config=ResolvedConfig.defaults, pod_owners=PodOwners(self.cache, Registry()),
            gpu_keys=("amd.com/gpu",), endings=None,  # type: ignore[arg-type]  # nothing is ended
            requeue={"KaiwoJob": self.requeued.append, "KaiwoService": self.requeued.append}, interval=30.0,
            unled=lambda: self.unled, metrics=MonitoringMetrics(CollectorRegistry()), on_change=lambda: None,
        )  # fmt: skip
        condition = {
            "type": "ResourceUnderutilization", "status": "True", "reason": "GpuUtilizationLow",
            "message": "its GPUs are used less than 1 %", "lastTransitionTime": format_time(OLD),
        }  # fmt: skip
        status = {
            "status": "RUNNING", "childUID": "job-uid", "conditions": [condition],
            "allocation": {"pods": 1, "gpusPerReplica": 2},
        }  # fmt: skip
        head = {"namespace": "team", "name": "train", "uid": "uid", "resourceVersion": "2"}
        self.put(WORKLOADS["KaiwoJob"], {"metadata": head, "status": status})
        self.pod("train-0", "job-uid", "3")
        self.exporter.body = lines({("team", "train-0"): [0, 0]})

    def put(self, resource: Any, obj: Any) -> None:
        """Put an object into the cache."""
        store = self.cache.store(resource)
        assert store is not None
        store.observe("ADDED", store.decode(encode(obj)))

    def pod(self, name: str, owner: str, version: str) -> None:
        """Put a running pod into the cache, with the label of the workload."""
        controller = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "train",
            "uid": owner,
            "controller": True,
        }
        running = {"name": "w", "state": {"running": {"startedAt": format_time(OLD)}}}
        self.put(
            POD,
            {
                "metadata": {
                    "namespace": "team", "name": name, "uid": name, "resourceVersion": version,
                    "labels": {RUN_ID: "uid"}, "ownerReferences": [controller],
                },
                "spec": {"containers": [{"name": "w", "resources": {"limits": {"amd.com/gpu": "2"}}}]},
                "status": {"phase": "Running", "containerStatuses": [running]},
            },
        )  # fmt: skip

    async def scrape(self, times: int = 1) -> Any:
        """Scrape, every 30 s; what is known of the workload then."""
        for _ in range(times):
            await self.monitor.scrape()
            self.seconds += 30.0
        return self.uses.facts("uid").use


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A leader that has just taken over."""
    async with Exporter() as exporter:
        made = World(exporter)
        yield made
        await made.endpoint.close()


async def test_only_the_leader_reads(world: World) -> None:
    """Of two operators one."""
    world.leading = False
    await world.scrape(3)
    assert world.exporter.requests == []
    world.leading = True
    assert (await world.scrape(3)).state == "low"
    assert len(world.exporter.requests) == 3


@pytest.mark.parametrize(
    ("unled", "interrupted"), [(2.0, False), (3600.0, True), (-3600.0, True), (None, True)]
)
async def test_a_leader_after_a_gap_knows_that_nobody_read(
    world: World, unled: float | None, interrupted: bool
) -> None:
    """Or that a clock was set: what is recorded as idle is not believed then."""
    world.unled = unled
    use = await world.scrape()
    assert use.interrupted is interrupted
    assert bool(world.requeued) is interrupted


async def test_a_pod_that_only_carries_the_label_is_not_the_workloads(world: World) -> None:
    """Anybody may write a label: a busy pod of another owner does not keep the workload alive, or end it."""
    world.pod("forged", "other-uid", "4")
    world.exporter.body = lines({("team", "train-0"): [0, 0], ("team", "forged"): [100, 100]})
    assert (await world.scrape(3)).state == "low"


async def test_a_busy_reading_has_the_workload_planned_again(world: World) -> None:
    """At once, and only then."""
    await world.scrape(3)
    world.requeued.clear()
    revision = world.uses.revision("uid")
    world.exporter.body = lines({("team", "train-0"): [90, 0]})
    await world.scrape()
    assert [key.name for key in world.requeued] == ["train"]
    assert world.uses.revision("uid") > revision
