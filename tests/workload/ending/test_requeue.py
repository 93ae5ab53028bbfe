"""A job that is preempted and requeued: held for the one that got its GPUs, then run from its beginning."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.engine.timestamps import parse_time
from kaiwo.testing.builders import NOW
from kaiwo.workload.ending.record import MOST_EARLIER, Beneficiary, EndingRecord
from kaiwo.workload.ending.requeue import HOLD_SECONDS, progress_of
from kaiwo.workload.labels import ADOPTED
from kaiwo.workload.model import Create, Delete, DeletedChild

if TYPE_CHECKING:
    from conftest import World

URGENT = Beneficiary("KaiwoJob", "team", "urgent", "uid-of-urgent")
FAILED = [{"type": "Failed", "status": "True", "lastTransitionTime": "2026-01-02T03:05:15Z"}]
COMPLETE = [{"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-02T03:05:15Z"}]


def run(world: World, at: str = "2026-01-02T03:04:10Z") -> None:
    """Let the pod of the live child run."""
    started = {"name": "workload", "state": {"running": {"startedAt": at}}}
    world.live(status={"startTime": at, "active": 1})
    world.set(pods=(world.pod(phase="Running", containerStatuses=[started]),))
    world.settle()
    assert world.status["status"] == "RUNNING"


def decide(world: World, **fields: Any) -> None:
    """Write a decision to requeue the job into its status, as the operator does."""
    given: dict[str, Any] = {
        "decision": "d1", "rule": "Duration", "workload_uid": world.obj["metadata"]["uid"],
        "child_uid": world.status["childUID"], "evidence": "its duration passed 5m ago",
        "decided_at": world.facts.now, "beneficiary": URGENT, "action": "Requeue",
    }  # fmt: skip
    record = EndingRecord(**given | fields).after(EndingRecord.read(world.status.get("termination")))
    written = {"status": "TERMINATING", "termination": record.document()}
    world.obj = {**world.obj, "status": {**world.status, **written}}


def stop(world: World, **status: Any) -> None:
    """Let the operator delete the child, and the child and its pods go."""
    world.settle()
    assert world.facts.live is not None
    gone = {**world.facts.live, "status": status} if status else world.facts.live
    world.set(live=None, pods=(), missing_child=DeletedChild(gone, deletion_seen=True))


def restart(world: World) -> None:
    """Let another process take over, which has seen no child go."""
    world.set(missing_child=None)


@pytest.fixture
def running(world: World) -> World:
    """A job of one hour whose pod has run for longer."""
    world.edit(duration="1m")
    world.settle()
    world.at(NOW + timedelta(minutes=5))
    run(world)
    assert world.condition("Preemptable")["status"] == "True"
    world.writes.clear()
    return world


@pytest.fixture
def held(running: World) -> World:
    """The same, preempted and requeued."""
    decide(running)
    stop(running)
    running.set(beneficiary="Waiting")
    running.settle()
    running.writes.clear()
    return running


def test_a_requeued_job_is_pending_once_its_pods_are_gone(running: World) -> None:
    """Not TERMINATED; it says for whom, and nothing of the run that is over is left."""
    decide(running)
    stop(running)
    [write] = running.writes
    assert isinstance(write, Delete)
    assert write.propagation == "Foreground"
    assert running.status["status"] == "TERMINATING"
    assert "preempted and requeued by Kaiwo" in running.status["message"]
    running.settle()
    status = running.status
    assert (status["status"], status["reason"]) == ("PENDING", "PreemptedAndRequeued")
    assert "preempted for KaiwoJob team/urgent" in status["message"]
    assert status.keys() & {"childUID", "startTime", "duration", "completionTime"} == set()
    assert running.condition("Preemptable") == running.condition("WorkloadTerminatedEarly") == {}
    assert running.condition("Requeued")["status"] == "False"
    record = EndingRecord.read(status["termination"])
    assert record is not None
    assert (record.requeues, record.requeued_at) == (1, running.facts.now)
    assert running.writes == [write]


def test_it_stays_terminating_while_a_pod_is_left(running: World) -> None:
    """Its GPUs are not free before."""
    decide(running)
    running.settle()
    assert running.facts.live is not None
    running.set(live=None, missing_child=DeletedChild(running.facts.live, deletion_seen=True))
    assert running.settle().outcome.status == "TERMINATING"


@pytest.mark.parametrize("known", ["Waiting", None])
def test_it_is_held_while_the_other_one_waits(held: World, known: Any) -> None:
    """Also while nobody knows; the bound of the time is a timer."""
    held.set(beneficiary=known)
    held.at(held.facts.now + timedelta(seconds=HOLD_SECONDS - 60))
    assert held.settle().requeue_after == pytest.approx(60)
    assert held.writes == []


@pytest.mark.parametrize(
    ("progress", "seconds"),
    [
        pytest.param("Served", 1, id="the other one has its GPUs"),
        pytest.param("Waiting", HOLD_SECONDS, id="the time is over"),
        pytest.param(None, HOLD_SECONDS + 5, id="nobody knows"),
    ],
)
def test_it_is_created_again(held: World, progress: Any, seconds: float) -> None:
    """The run is a new one: another start, another duration."""
    held.set(beneficiary=progress)
    held.at(held.facts.now + timedelta(seconds=seconds))
    held.settle()
    assert [type(write) for write in held.writes] == [Create]
    assert held.condition("Requeued")["status"] == "True"
    at = held.facts.now + timedelta(seconds=10)
    held.at(at)
    run(held, at.isoformat().replace("+00:00", "Z"))
    assert parse_time(held.status["startTime"]) == at
    assert held.condition("Preemptable") == {}
    assert "preempted for KaiwoJob team/urgent" in held.condition("Requeued")["message"]
    held.at(at + timedelta(minutes=2))
    held.settle()
    assert held.condition("Preemptable")["status"] == "True"


def test_a_clock_that_is_set_back_does_not_hold_it_for_longer(held: World) -> None:
    """A record that is made in the future is as good as none."""
    held.at(held.facts.now - timedelta(hours=1))
    held.settle()
    assert [type(write) for write in held.writes] == [Create]


@pytest.mark.parametrize("crash", range(5))
def test_the_record_is_all_that_is_remembered(running: World, crash: int) -> None:
    """Another process that takes over after any step comes to the same: one child is deleted, one created."""

    def step(number: int) -> None:
        if crash == number:
            restart(running)

    decide(running)
    step(0)
    stop(running)
    step(1)
    running.set(beneficiary="Waiting")
    running.settle()
    step(2)
    running.settle()
    running.set(beneficiary="Served")
    step(3)
    [creation] = running.plan().writes
    running.execute(creation)
    step(4)  # the child was created, and no status says so
    running.set(beneficiary="Waiting")
    running.settle()
    assert [type(write) for write in running.writes] == [Delete, Create]
    assert running.status["childUID"]
    assert running.condition("Requeued")["status"] == "True"
    assert running.status["termination"]["requeues"] == 1


def test_a_child_that_is_newer_than_the_decision_is_not_deleted(running: World) -> None:
    """Another process requeued the job already, and this one has not read so yet."""
    decide(running, child_uid="the-one-before")
    plan = running.plan()
    assert plan.writes == ()
    assert plan.statuses[-1]["status"] == "PENDING"


def test_what_stopping_makes_of_the_child_is_no_end_of_the_job(running: World) -> None:
    """A Job whose pods exit on SIGTERM may have failed when it vanishes."""
    decide(running)
    stop(running, startTime="2026-01-02T03:04:10Z", conditions=FAILED)
    running.settle()
    assert running.status["status"] == "PENDING"
    running.set(beneficiary="Served")
    running.settle()
    assert [type(write) for write in running.writes] == [Delete, Create]


def test_a_job_that_completes_within_its_grace_is_not_run_again(running: World) -> None:
    """The decision raced with its end."""
    decide(running)
    stop(running, startTime="2026-01-02T03:04:10Z", conditions=COMPLETE)
    running.settle()
    assert running.status["status"] == "COMPLETE"
    assert running.condition("WorkloadTerminatedEarly")["reason"] == "EndedByItself"


def test_an_adopted_job_is_terminated(running: World) -> None:
    """Kaiwo did not make what runs it, and cannot make it again."""
    decide(running)
    stop(running)
    metadata = {**running.obj["metadata"], "labels": {ADOPTED: running.status["childUID"]}}
    running.obj = {**running.obj, "metadata": metadata}
    running.settle()
    assert running.status["status"] == "TERMINATED"


def test_requeues_are_counted_and_the_last_ones_are_kept(running: World) -> None:
    """With the decision, the time and for whom, newest first; the list does not grow for ever."""
    for number in range(MOST_EARLIER + 3):
        decide(running, decision=f"d{number}")
        stop(running)
        running.set(beneficiary="Served")
        running.plan()
        plan = running.plan()
        running.obj = {**running.obj, "status": plan.statuses[-1]}
        running.settle()
        run(running)
    record = EndingRecord.read(running.status["termination"])
    assert record is not None
    assert record.requeues == MOST_EARLIER + 3
    newest = MOST_EARLIER + 1
    assert [one.decision for one in record.earlier] == [f"d{newest - n}" for n in range(MOST_EARLIER)]
    assert {one.beneficiary for one in record.earlier} == {URGENT}
    assert "8 times" in running.condition("Requeued")["message"]


def test_a_requeued_job_can_be_ended_for_good_later(held: World) -> None:
    """By another rule, and its record still says how often it was requeued."""
    held.set(beneficiary="Served")
    held.settle()
    run(held)
    decide(held, action="Terminate", rule="Underutilized", beneficiary=None)
    stop(held)
    held.settle()
    assert (held.status["status"], held.status["reason"]) == ("TERMINATED", "GpuUtilizationLow")
    assert held.status["termination"]["requeues"] == 1


@pytest.mark.parametrize(
    ("status", "progress"),
    [
        ({"status": "PENDING"}, "Waiting"),
        ({}, "Waiting"),
        ({"status": "ERROR"}, "Waiting"),
        ({"status": "STARTING", "childUID": "c"}, "Waiting"),
        ({"status": "RUNNING", "childUID": "c", "reason": "Unschedulable"}, "Waiting"),
        ({"status": "RUNNING", "childUID": "c"}, "Served"),
        ({"status": "READY", "childUID": "c"}, "Served"),
        ({"status": "COMPLETE"}, "Served"),
        ({"status": "FAILED"}, "Served"),
        ({"status": "TERMINATING"}, "Served"),
    ],
)
@pytest.mark.parametrize("admitted", ["", "False"])
def test_a_beneficiary_waits_until_it_runs_or_has_ended(status: Any, progress: str, admitted: str) -> None:
    """One that runs or has ended does not; one whose pods find no node does."""
    conditions = [{"type": "Admitted", "status": admitted}] if admitted else []
    assert progress_of({**status, "conditions": conditions}) == progress


def test_one_that_is_admitted_does_not_wait() -> None:
    """The queue gave it the GPUs; only its pods may still find no node."""
    admitted = {"childUID": "c", "conditions": [{"type": "Admitted", "status": "True"}]}
    assert progress_of({"status": "STARTING", **admitted}) == "Served"
    assert progress_of({"status": "STARTING", "reason": "Unschedulable", **admitted}) == "Waiting"
