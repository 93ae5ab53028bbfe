from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from kaiwo.testing.builders import NOW
from kaiwo.workload.model import Create, DeletedChild

if TYPE_CHECKING:
    from conftest import World
    from kaiwo.engine.resource import Object

STARTED = "2026-01-02T03:04:10Z"
COMPLETE = {
    "startTime": STARTED,
    "completionTime": "2026-01-02T03:05:10Z",
    "conditions": [{"type": "Complete", "status": "True"}],
}


def gone(world: World, status: Object, *, seen: bool) -> None:
    """Let the child vanish in that state."""
    assert world.facts.live is not None
    world.set(missing_child=DeletedChild({**world.facts.live, "status": status}, seen), live=None, pods=())
    world.writes.clear()


def test_a_job_deleted_before_its_end_is_created_again(world: World) -> None:
    """Somebody deletes a running Job: its end was not reached, so it runs again."""
    world.settle()
    gone(world, {"startTime": STARTED, "active": 1}, seen=True)
    assert [type(write) for write in world.plan().writes] == [Create]


def test_a_job_that_never_started_is_created_again(world: World) -> None:
    """A suspended Job that vanished did nothing yet."""
    world.settle()
    gone(world, {}, seen=False)
    assert world.plan().writes


def test_the_last_observed_state_decides_the_result(world: World) -> None:
    """A finished Job that was collected before its end was reported is COMPLETE, not run again."""
    world.settle()
    gone(world, COMPLETE, seen=True)
    world.settle()
    assert world.writes == []
    assert world.status["status"] == "COMPLETE"
    assert world.status["duration"] == 60


def test_a_started_job_whose_end_nobody_saw_never_runs_twice(world: World) -> None:
    """A list that does not contain it any more is no proof of its end: FAILED, and the reason says why."""
    world.settle()
    gone(world, {"startTime": STARTED, "active": 1}, seen=False)
    world.settle()
    assert world.writes == []
    assert (world.status["status"], world.status["reason"]) == ("FAILED", "ChildLost")


@pytest.mark.parametrize(
    ("status", "start", "hours", "again"),
    [
        ("PENDING", None, 0, True),
        ("PENDING", None, 2, False),
        ("STARTING", None, 0, False),
        ("RUNNING", STARTED, 0, False),
        ("ERROR", None, 0, True),
    ],
)
def test_after_a_restart_only_the_status_remembers(
    world: World, status: str, start: str | None, hours: int, again: bool
) -> None:
    """Without a memory of the child: what may have run, or been collected since, is not run again."""
    world.settle()
    world.obj["status"] |= {"status": status} | ({"startTime": start} if start else {})
    world.set(live=None)
    world.writes.clear()
    world.at(NOW + timedelta(hours=hours))
    assert bool(world.plan().writes) is again
    if not again:
        world.settle()
        assert world.status["reason"] == "ChildLost"


def test_a_time_to_live_of_the_user_decides_how_long_absence_proves_nothing(world: World) -> None:
    """A Job that is kept for a day and vanished after two hours was not collected, so it had not run."""
    world.obj["spec"]["job"] = {"spec": {"ttlSecondsAfterFinished": 86400}}
    world.settle()
    world.obj["status"] |= {"status": "PENDING"}
    world.set(live=None)
    world.at(NOW + timedelta(hours=2))
    assert world.plan().writes


def test_a_child_being_deleted_is_waited_for(world: World) -> None:
    """While the old Job goes nothing is patched or created; then it is created again."""
    world.settle()
    assert world.facts.live is not None
    world.live(metadata={**world.facts.live["metadata"], "deletionTimestamp": STARTED})
    world.writes.clear()
    world.settle()
    assert world.writes == []
    assert (world.status["status"], world.status["reason"]) == ("PENDING", "ChildDeleting")
    gone(world, {"startTime": STARTED}, seen=True)
    world.set(nodes=())
    assert world.plan().writes


def test_a_child_that_cannot_be_created_again_leaves_no_trace_of_the_old(world: World) -> None:
    """The GPUs are gone as well: ERROR, and a later restart does not take the old child for a lost run."""
    world.obj["spec"]["gpus"] = 8
    world.settle()
    gone(world, {"startTime": STARTED}, seen=True)
    nodes = world.facts.nodes
    world.set(nodes=())
    world.settle()
    assert world.status["reason"] == "NoGPUs"
    assert "childUID" not in world.status
    world.set(nodes=nodes, missing_child=None)
    assert world.plan().writes
