"""When somebody is ended for a workload that waits for GPUs: not a moment too early, and never in vain."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine.errors import ChangedBack, Conflict, Forbidden
from kaiwo.engine.resource import NODE, POD
from kaiwo.host.ending.preemption import BACKSTOP_SECONDS, LONGEST_TIMER, MOST_DEMANDS, RETRY_SECONDS
from kaiwo.testing import node
from kaiwo.workload.ending.record import EndingRecord
from kaiwo.workload.labels import ADOPTED

if TYPE_CHECKING:
    from conftest import World

GPU = "amd.com/gpu"


@pytest.fixture
def full(world: World) -> World:
    """Two nodes, two jobs past their duration, one that waits for longer than five minutes."""
    world.runs("late", "n0", hours=2)
    world.runs("later", "n1", hours=5)
    world.waits("urgent")
    return world


def test_the_one_that_is_longest_past_its_duration_is_ended(full: World) -> None:
    """The record and the condition of both sides say who, for whom and from what."""
    assert full.decide() == RETRY_SECONDS
    assert (full.word("later"), full.word("late")) == ("TERMINATING", "RUNNING")
    record = EndingRecord.read(full.server.known("later").part("status", "termination"))
    assert record is not None
    assert record.beneficiary is not None
    assert (record.rule, record.beneficiary.uid) == ("Duration", "uid-of-urgent")
    assert record.figures["secondsWaited"] == 360
    assert record.figures["secondsPastDeadline"] == 4 * 3600
    for words in ("in queue q", "since 2026-01-02T02:58:06Z", "room on n1 (1)"):
        assert words in record.evidence
    assert full.condition("urgent") == ("True", "VictimsChosen")
    assert full.server.events == [("later", "WorkloadTerminating"), ("urgent", "PreemptionDecided")]


def test_a_job_is_requeued_where_the_configuration_says_so(full: World) -> None:
    """The decision says so, so that a change of the setting meanwhile does not matter."""
    full.spec = {"preemptionAction": "Requeue"}
    full.decide()
    record = EndingRecord.read(full.server.known("later").part("status", "termination"))
    assert record is not None
    assert record.action == "Requeue"
    [reported] = [item for item in full.server.known("urgent").part("status", "conditions")
              if item["type"] == "PreemptionDecided"]  # fmt: skip
    assert "KaiwoJob team/later (requeued) ended by Kaiwo for it" in reported["message"]


def test_an_adopted_job_is_not_requeued(full: World) -> None:
    """Its owner made what runs it."""
    full.spec = {"preemptionAction": "Requeue"}
    full.server.put_object(KAIWO_JOB, adopted(full.server.known("later").full()))
    full.decide()
    assert full.word("later") == "TERMINATING"
    record = EndingRecord.read(full.server.known("later").part("status", "termination"))
    assert record is not None
    assert record.action == "Terminate"


def adopted(obj: Any) -> Any:
    """A job with the label of an adopted one."""
    return {**obj, "metadata": {**obj["metadata"], "labels": {ADOPTED: "uid-of-the-job"}}}


def test_one_decision_at_a_time(full: World) -> None:
    """The next one waits until this one is carried out."""
    full.waits("another", minutes=8)
    full.decide()
    assert full.decide() == RETRY_SECONDS
    assert [full.word(name) for name in ("late", "later")].count("TERMINATING") == 1


def test_a_timer_is_set_for_the_moment_when_somebody_has_waited_long_enough(full: World) -> None:
    """Nobody is ended before; nothing is looked for in between."""
    full.waits("urgent", minutes=3)
    assert full.decide() == 120.0
    full.server.seconds = 119
    assert full.decide() == 1.0
    assert full.server.writes == []
    full.server.seconds = 120
    full.decide()
    assert full.word("later") == "TERMINATING"


def test_at_rest_no_timer_is_set(world: World) -> None:
    """Nobody waits, or nobody is past the duration: no timer at all."""
    assert world.decide() is None
    world.waits("urgent")
    assert world.decide() is None
    world.runs("late", "n0", conditions=[])
    assert world.decide() is None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param(lambda world: world.quota(16, 8), "NotNeeded", id="quota and a node are free"),
        pytest.param(lambda world: world.quota(16, 32), "over", id="the queue is far over its quota"),
        pytest.param(lambda world: world.waits("urgent", pods=3), "nodes", id="three pods, two nodes"),
        pytest.param(
            lambda world: [
                world.put(NODE, {**node(f"n{at}", gpus={GPU: 8}), "spec": {"unschedulable": True}})
                for at in range(3)
            ],
            "nodes", id="all nodes are cordoned",
        ),
    ],
)  # fmt: skip
def test_nobody_is_ended_where_it_would_not_help(full: World, change: Any, why: str) -> None:
    """Whatever is short besides, or where nothing is."""
    if why == "NotNeeded":
        full.put(NODE, node("n2", gpus={GPU: 8}))
    change(full)
    assert [full.decide() for _ in range(6)] == [5.0, 10.0, 20.0, 40.0, BACKSTOP_SECONDS, BACKSTOP_SECONDS]
    assert full.server.writes == []


def test_a_change_of_a_workload_shortens_the_wait_again(full: World) -> None:
    """The wait that grew is that of facts which nobody reports."""
    full.quota(16, 32)
    assert [full.decide() for _ in range(3)] == [5.0, 10.0, 20.0]
    full.waits("another", minutes=1)
    assert full.decide() == RETRY_SECONDS


def test_a_node_whose_gpu_has_failed_gives_less_than_its_job_holds(full: World) -> None:
    """Seven of eight GPUs are left: a pod of eight would not start there."""
    full.put(NODE, node("n1", gpus={GPU: 7}))
    full.decide()
    assert (full.word("later"), full.word("late")) == ("RUNNING", "TERMINATING")


def test_gpus_of_pods_that_are_not_kaiwos_are_read_before_anybody_is_ended(full: World) -> None:
    """A pod of somebody else holds one of the GPUs: ending the Kaiwo job there would not help."""
    other = {"spec": {"nodeName": "n1", "containers": [{"resources": {"requests": {GPU: "1"}}}]}}
    full.server.others = {"n1": [other]}
    full.decide()
    assert (full.word("later"), full.word("late")) == ("RUNNING", "TERMINATING")


def test_report_says_what_would_be_done_and_does_nothing(full: World) -> None:
    """One condition and one event, however often it is looked for."""
    full.spec = {"preemption": "Report"}
    for _ in range(3):
        assert full.decide() == BACKSTOP_SECONDS
    assert full.condition("urgent") == ("False", "ReportOnly")
    assert full.server.events == [("urgent", "PreemptionDecided")]
    assert full.server.writes == ["urgent"]
    assert full.word("later") == "RUNNING"


def test_disabled_does_nothing(full: World) -> None:
    """Not even a report."""
    full.spec = {"preemption": "Disabled"}
    assert full.decide() is None
    assert full.server.writes == []


def test_each_run_has_its_gpus_for_a_while(world: World) -> None:
    """A duration shorter than the protection does not count before; then a timer fires."""
    world.runs("late", "n0", duration="1m", hours=5 / 60)
    world.waits("urgent")
    assert world.decide() == 300.0
    assert world.server.writes == []
    world.server.seconds = 300
    world.decide()
    assert world.word("late") == "TERMINATING"


def test_a_longer_duration_counts_before_its_condition_goes(full: World) -> None:
    """The user edited it a moment ago and the operator has not reconciled it yet."""
    full.runs("later", "n1", duration="100h", hours=5)
    full.decide()
    assert (full.word("later"), full.word("late")) == ("RUNNING", "TERMINATING")


def test_an_admission_that_came_meanwhile_ends_nobody(full: World) -> None:
    """The API server has a newer state of the one that waits, or of its place in the queue."""
    full.server.newer = {"urgent"}
    assert full.decide() == RETRY_SECONDS
    full.server.newer = {"job-urgent"}
    assert full.decide() == RETRY_SECONDS
    assert full.server.writes == []


def test_a_victim_that_changed_meanwhile_ends_nobody(full: World) -> None:
    """It completed, was scaled down, or its duration was edited: decided again a moment later."""
    full.server.newer = {"later"}
    assert full.decide() == RETRY_SECONDS
    full.server.newer = set()
    full.server.fail = [Conflict(409, "Conflict", "the object has been modified")]
    assert full.decide() == RETRY_SECONDS
    assert full.server.writes == []
    full.decide()
    assert full.word("later") == "TERMINATING"


@pytest.mark.parametrize(
    "error",
    [
        ChangedBack("somebody replaces the status of KaiwoJob team/later", 600.0),
        Forbidden(403, "Forbidden", 'admission webhook "w" denied the request'),
    ],
)
def test_a_victim_that_is_refused_each_time_gives_way_to_the_next_one(full: World, error: Exception) -> None:
    """Another installation or a policy keeps one from being ended: the other one of the queue is, soon."""
    full.server.refuses = {"later": error}
    for _ in range(60):
        assert full.decide() == RETRY_SECONDS
        if full.word("late") == "TERMINATING":
            break
        full.server.seconds += RETRY_SECONDS
    assert (full.word("later"), full.word("late")) == ("RUNNING", "TERMINATING")
    assert full.server.seconds <= 120


def test_one_that_waits_and_changes_all_the_time_hides_the_others_for_a_while_only(full: World) -> None:
    """Nobody is ended for a workload whose state is not known; whoever patches its own one hides nobody."""
    full.waits("first", minutes=50, priority=100)
    full.server.newer = {"first"}
    for _ in range(60):
        assert full.decide() == RETRY_SECONDS
        if full.server.writes:
            break
        full.server.seconds += RETRY_SECONDS
    assert full.condition("urgent") == ("True", "VictimsChosen")
    assert full.server.seconds <= 120


def test_a_clock_that_is_wrong_is_held_against_no_victim(full: World) -> None:
    """As soon as it is right again the first choice is the one that is longest past its duration."""
    full.server.server_now = timedelta(hours=1)
    for _ in range(30):
        assert full.decide() == RETRY_SECONDS
        full.server.seconds += RETRY_SECONDS
    full.server.server_now = timedelta()
    full.decide()
    assert (full.word("later"), full.word("late")) == ("TERMINATING", "RUNNING")


def test_a_decision_stands_where_it_cannot_be_reported_on_the_waiting_workload(full: World) -> None:
    """Another installation replaces its status: the next look comes as soon as after any decision."""
    full.server.fail = [None, ChangedBack("somebody replaces the status of KaiwoJob team/urgent", 600.0)]
    assert full.decide() == RETRY_SECONDS
    assert full.word("later") == "TERMINATING"


@pytest.mark.parametrize("hours", [1, -1])
def test_a_clock_that_steps_by_an_hour_ends_nobody(full: World, hours: int) -> None:
    """Forward it would make a wait of minutes an hour; back, the timer is not put off by an hour."""
    full.waits("urgent", minutes=1)
    full.server.seconds += hours * 3600
    full.server.server_now = timedelta(hours=-hours)
    wait = full.decide()
    assert full.server.writes == []
    assert wait is not None
    assert wait <= LONGEST_TIMER


def test_a_standby_process_ends_nobody(full: World) -> None:
    """Nor one whose cache is not complete, or that may not read what it needs."""
    full.server.leading = False
    assert full.decide() == RETRY_SECONDS
    full.server.leading = True
    full.server.unreadable = {"": {POD: "forbidden"}}
    assert full.decide() == RETRY_SECONDS
    assert full.server.writes == []


def test_what_becomes_free_is_not_freed_for_somebody_behind_in_the_queue(full: World) -> None:
    """The first in the queue has not waited long enough: it would get the GPUs, so nobody is ended yet."""
    full.waits("first", minutes=1, priority=100)
    assert (full.decide(), full.decide()) == (RETRY_SECONDS, 2 * RETRY_SECONDS)
    assert full.server.writes == []
    full.waits("first", minutes=6, priority=100)
    full.decide()
    record = EndingRecord.read(full.server.known("later").part("status", "termination"))
    assert record is not None
    assert record.beneficiary is not None
    assert record.beneficiary.name == "first"


def test_one_that_cannot_be_helped_does_not_stand_in_the_way(full: World) -> None:
    """The first in the queue needs more than there is; the next one is served."""
    full.waits("huge", minutes=50, priority=100, pods=5)
    full.decide()
    assert full.condition("urgent") == ("True", "VictimsChosen")


def test_many_that_cannot_be_helped_hide_nobody(full: World) -> None:
    """Whoever lets a crowd wait for more than there is keeps others from no decision."""
    for number in range(MOST_DEMANDS + 10):
        full.waits(f"huge-{number}", minutes=50, pods=5)
    assert full.decide() == RETRY_SECONDS
    assert full.server.writes == []
    full.decide()
    assert full.condition("urgent") == ("True", "VictimsChosen")


def test_a_workload_that_ends_or_goes_leaves_the_index(full: World) -> None:
    """Nothing is kept of what is not running or waiting any more."""
    full.runs("late", "n0", status="COMPLETE")
    full.runs("later", "n1", status="TERMINATED")
    assert full.decide() is None
    full.runs("late", "n0")
    full.waits("urgent", minutes=1)
    full.server.put("urgent", full.server.version(), status="RUNNING", childUID="x", allocation={"gpus": 8})
    assert full.decide() is None


def test_pods_that_lack_something_else_have_a_later_decision(full: World) -> None:
    """That they lack GPUs later shows in their conditions alone: no workload begins to wait then."""
    full.server.put("urgent", full.server.version(), status="COMPLETE", childUID="x", allocation={"gpus": 8})
    full.runs("other", "", conditions=[], reason="Unschedulable", status="STARTING")
    pod = full.server.cache.get(POD, "team", "other-0").full()
    found = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    message = "0/2 nodes are available: 2 Insufficient memory."
    pod["status"] = {"phase": "Pending", "conditions": [{**found, "message": message}]}
    full.put(POD, pod)
    assert [full.decide() for _ in range(5)] == [5.0, 10.0, 20.0, 40.0, BACKSTOP_SECONDS]
    assert full.server.writes == []


def test_pods_that_find_no_node_count_from_the_moment_they_found_none(full: World) -> None:
    """An admitted job whose pod is unschedulable for lack of these GPUs; for lack of memory it is not."""
    since = "2026-01-02T02:58:06Z"
    full.runs("urgent", "", conditions=[], reason="Unschedulable", status="STARTING")
    for message, seconds in (("Insufficient memory", None), (f"Insufficient {GPU}", 360)):
        pod = full.server.cache.get(POD, "team", "urgent-0").full()
        found = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        pod["status"] = {
            "phase": "Pending",
            "conditions": [{**found, "message": f"0/2 nodes: 2 {message}.", "lastTransitionTime": since}],
        }
        full.put(POD, pod)
        full.decide()
        assert bool(full.server.writes) is (seconds is not None)
    record = EndingRecord.read(full.server.known("later").part("status", "termination"))
    assert record is not None
    assert record.figures["secondsWaited"] == 360
    assert "for lack of a node" in record.evidence
