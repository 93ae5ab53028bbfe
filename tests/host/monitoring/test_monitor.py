"""Who reads, and what a new leader makes of what it finds."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.testing.exporter import Exporter, lines
from kaiwo.testing.monitored import MonitoredCluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class World(MonitoredCluster):
    """A KaiwoJob with one pod of two GPUs, whose status says that they are idle."""

    def __init__(self, exporter: Exporter) -> None:
        super().__init__(exporter.url)
        self.exporter = exporter
        self.workload("train", idle=timedelta(hours=1))
        self.pod("train-0", "train")
        exporter.body = lines({("team", "train-0"): [0, 0]})

    async def read(self, times: int = 1) -> Any:
        """Scrape, every 30 s; what is known of the workload then."""
        await self.scrape(times)
        return self.uses.facts("train").use


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
    await world.read(3)
    assert world.exporter.requests == []
    world.leading = True
    assert (await world.read(3)).state == "low"
    assert len(world.exporter.requests) == 3


@pytest.mark.parametrize(
    ("unled", "interrupted"), [(2.0, False), (3600.0, True), (-3600.0, True), (None, True)]
)
async def test_a_leader_after_a_gap_knows_that_nobody_read(
    world: World, unled: float | None, interrupted: bool
) -> None:
    """Or that a clock was set: what is recorded as idle is not believed then."""
    world.unled = unled
    use = await world.read()
    assert use.interrupted is interrupted
    assert bool(world.requeued) is interrupted


async def test_a_pod_that_only_carries_the_label_is_not_the_workloads(world: World) -> None:
    """Anybody may write a label: a busy pod of another owner does not keep the workload alive, or end it."""
    world.pod("forged", "train", owner="other-uid")
    world.exporter.body = lines({("team", "train-0"): [0, 0], ("team", "forged"): [100, 100]})
    assert (await world.read(3)).state == "low"


async def test_a_busy_reading_has_the_workload_planned_again(world: World) -> None:
    """At once, and only then."""
    await world.read(3)
    world.requeued.clear()
    revision = world.uses.revision("train")
    world.exporter.body = lines({("team", "train-0"): [90, 0]})
    await world.read()
    assert [key.name for key in world.requeued] == ["train"]
    assert world.uses.revision("train") > revision


async def test_the_condition_has_the_error_that_lasts(world: World) -> None:
    """Another error takes the place of the first when it has come three times in a row."""

    def said() -> str:
        condition = world.monitor.condition(1)
        assert condition is not None
        assert condition.reason == "EndpointFailed"
        return condition.message

    world.exporter.status = 500
    await world.read(3)
    assert "HTTP 500" in said()
    for status in (401, 500, 401, 500, 401, 401):
        world.exporter.status = status
        await world.read()
        assert "HTTP 500" in said()
    await world.read()
    assert "HTTP 401" in said()
