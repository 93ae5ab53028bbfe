"""A workload that is being ended: its child goes gracefully, then the status says who ended it and why."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.testing.builders import NOW
from kaiwo.workload.ending.record import Beneficiary, EndingRecord
from kaiwo.workload.model import Delete, DeletedChild

if TYPE_CHECKING:
    from conftest import World

URGENT = Beneficiary("KaiwoJob", "team", "urgent", "uid-of-urgent")
RUNNING = {"name": "workload", "state": {"running": {"startedAt": "2026-01-02T03:04:15Z"}}}
COMPLETE = [{"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-02T03:05:15Z"}]
FAILED = [{"type": "Failed", "status": "True", "lastTransitionTime": "2026-01-02T03:05:15Z"}]


def record(world: World, **fields: Any) -> EndingRecord:
    """A decision to end the workload of a world."""
    given: dict[str, Any] = {
        "decision": "d1",
        "rule": "Duration",
        "workload_uid": world.obj["metadata"]["uid"],
        "evidence": "spec.duration of 1h passed 5m ago",
        "decided_at": NOW,
        "beneficiary": URGENT,
    }
    return EndingRecord(**given | fields)


def decide(world: World, **fields: Any) -> None:
    """Write the decision into the status, as the operator does."""
    written = {"status": "TERMINATING", "termination": record(world, **fields).document()}
    world.obj = {**world.obj, "status": {**world.status, **written}}


@pytest.fixture
def running(world: World) -> World:
    """A job whose pod runs."""
    world.settle()
    world.live(status={"startTime": "2026-01-02T03:04:10Z", "active": 1})
    world.set(pods=(world.pod(phase="Running", containerStatuses=[RUNNING]),))
    world.settle()
    assert world.status["status"] == "RUNNING"
    world.writes.clear()
    return world


def test_the_child_is_deleted_in_the_foreground_and_nothing_else_is_written(running: World) -> None:
    """Its pods get SIGTERM and their grace; the request names the child's uid."""
    decide(running)
    running.settle()
    assert running.facts.live is not None
    [write] = running.writes
    assert isinstance(write, Delete)
    assert (write.uid, write.propagation) == (running.facts.live["metadata"]["uid"], "Foreground")
    assert running.status["status"] == "TERMINATING"
    assert running.status["reason"] == "DurationExceeded"
    assert "for KaiwoJob team/urgent" in running.status["message"]


def test_terminated_comes_when_the_child_and_its_pods_are_gone(running: World) -> None:
    """Not while the child is gone and a pod of it still runs; then with condition, times and record."""
    decide(running)
    running.settle()
    assert running.facts.live is not None
    gone = DeletedChild(running.facts.live, deletion_seen=True)
    running.set(live=None, missing_child=gone)
    assert running.plan().outcome is not None
    assert running.settle().outcome.status == "TERMINATING"
    running.set(pods=())
    running.at(NOW + timedelta(minutes=2))
    running.settle()
    assert running.status["status"] == "TERMINATED"
    early = running.condition("WorkloadTerminatedEarly")
    assert (early["status"], early["reason"]) == ("True", "DurationExceeded")
    assert running.status["completionTime"]
    assert running.status["startTime"]
    assert EndingRecord.read(running.status["termination"]) == record(running)
    assert [event.reason for event in running.events][-1] == "WorkloadTerminated"


def test_no_child_is_created_again(running: World) -> None:
    """Neither while it ends, nor afterwards, nor by an operator that starts in between."""
    decide(running)
    running.settle()
    running.set(live=None, pods=(), missing_child=None)  # a new process has not seen the deletion
    running.writes.clear()
    running.settle()
    running.edit(duration="100h")
    running.settle()
    assert running.writes == []
    assert running.status["status"] == "TERMINATED"


@pytest.mark.parametrize(
    ("deleted", "conditions", "word"),
    [
        pytest.param(False, COMPLETE, "COMPLETE", id="complete before"),
        pytest.param(False, FAILED, "FAILED", id="failed before"),
        pytest.param(True, COMPLETE, "COMPLETE", id="complete within the grace period"),
    ],
)
def test_a_job_that_ended_by_itself_is_not_terminated(
    running: World, deleted: bool, conditions: Any, word: str
) -> None:
    """The decision raced with the end: the status has the job's own end."""
    decide(running)
    if deleted:
        running.settle()
    running.writes.clear()
    running.live(status={"startTime": "2026-01-02T03:04:10Z", "conditions": conditions})
    running.settle()
    assert running.status["status"] == word
    assert running.writes == []
    early = running.condition("WorkloadTerminatedEarly")
    assert (early["status"], early["reason"]) == ("False", "EndedByItself")


def test_a_job_that_fails_because_it_is_stopped_is_terminated(running: World) -> None:
    """What SIGTERM makes of it is no end of its own."""
    decide(running)
    running.settle()
    running.live(status={"startTime": "2026-01-02T03:04:10Z", "conditions": FAILED})
    assert running.settle().outcome.status == "TERMINATING"


def test_a_pod_that_outlives_its_grace_period_is_named_with_its_node(running: World) -> None:
    """The workload waits for it; nothing is forced."""
    decide(running)
    running.settle()
    [pod] = running.facts.pods
    until = "2026-01-02T03:04:37Z"
    pod = {
        **pod,
        "metadata": {**pod["metadata"], "deletionTimestamp": until},
        "spec": {**pod["spec"], "nodeName": "amd-1"},
    }
    running.set(pods=(pod,))
    plan = running.plan()
    assert plan.requeue_after == pytest.approx(30 + (NOW.replace(minute=4, second=37) - NOW).total_seconds())
    running.at(NOW + timedelta(minutes=5))
    running.writes.clear()
    running.settle()
    assert "pod train-abc on node amd-1 is still there" in running.status["message"]
    assert running.status["status"] == "TERMINATING"
    assert running.writes == []


@pytest.mark.parametrize(
    "termination",
    [
        pytest.param(None, id="dropped by an older CRD"),
        pytest.param({"rule": "Whim", "workloadUID": "x", "decidedAt": "2026-01-02T03:04:05Z"}, id="no rule"),
        pytest.param({"rule": "Duration", "workloadUID": "x", "decidedAt": "soon"}, id="no time"),
        pytest.param(
            {"rule": "Duration", "workloadUID": "another", "decidedAt": "2026-01-02T03:04:05Z"},
            id="restored from a backup",
        ),
        pytest.param("text", id="no object"),
    ],
)
def test_the_word_terminating_alone_ends_nothing(running: World, termination: Any) -> None:
    """Without a record for exactly this workload it goes on as it is."""
    running.obj = {
        **running.obj,
        "status": {**running.status, "status": "TERMINATING", "termination": termination},
    }
    running.settle()
    assert running.status["status"] == "RUNNING"
    assert running.writes == []


@pytest.mark.parametrize(
    "evidence", ["its duration passed", "its duration passed; KaiwoJob team/urgent has waited for 1 GPU"]
)
def test_for_whom_a_workload_is_ended_is_said_once(evidence: str) -> None:
    """Also where the evidence names the waiting workload already."""
    given = EndingRecord("d", "Duration", "u", evidence, NOW, beneficiary=URGENT)
    assert given.summary.count("KaiwoJob team/urgent") == 1


def test_a_record_is_read_as_it_was_written() -> None:
    """Figures that are no numbers are left out, long text is cut."""
    given = EndingRecord(
        "d", "Idle", "u", "x" * 5000, NOW, child_uid="c", beneficiary=URGENT,
        figures={"a": 1.5, "nan": float("nan"), "inf": float("inf"), **{f"k{i:03}": i for i in range(100)}},
    )  # fmt: skip
    read = EndingRecord.read(given.document())
    assert read is not None
    assert len(read.evidence) == 1500
    assert len(read.figures) <= 24
    assert read.figures["a"] == 1.5
    assert dataclasses.replace(read, evidence="", figures={}) == dataclasses.replace(
        given, evidence="", figures={}
    )
    assert read.document() == EndingRecord.read(read.document()).document()
