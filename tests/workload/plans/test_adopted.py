"""Plans of workloads that were made for objects of users: observed, never rendered, never written."""

from __future__ import annotations

import copy
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.testing.builders import NOW
from kaiwo.workload.labels import ADOPTED, RESOLVED

if TYPE_CHECKING:
    from conftest import World

BEGUN = "2026-01-02T03:04:10Z"


def live(**status: Any) -> Any:
    """A Job of a user's that the KaiwoJob controls."""
    template = {"spec": {"containers": [{"name": "m", "resources": {"limits": {"amd.com/gpu": "4"}}}]}}
    metadata = {"name": "train", "namespace": "default", "uid": "job-uid"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {"template": template},
        "status": status,
    }


@pytest.fixture(name="adopted")
def adopted_world(world: World) -> World:
    """A KaiwoJob that was made for a Job, as its owner."""
    world.obj["metadata"]["labels"] = {ADOPTED: "job-uid"}
    world.obj["spec"] = {"job": {"spec": live()["spec"]}}
    show(world, startTime=BEGUN, active=1)
    return world


def show(world: World, **status: Any) -> None:
    """Let the Job have a status."""
    job = live(**status)
    job["metadata"]["ownerReferences"] = [
        {"kind": "KaiwoJob", "uid": world.obj["metadata"]["uid"], "controller": True}
    ]
    world.set(live=job, made=frozenset({"job-uid"}))


def test_the_status_is_that_of_the_job(adopted: World) -> None:
    """Its ready pods count, since its pods have no label of Kaiwo's."""
    adopted.settle()
    assert (adopted.status["status"], adopted.status["childUID"]) == ("STARTING", "job-uid")
    assert adopted.status["allocation"]["gpus"] == 4
    show(adopted, startTime=BEGUN, active=2, ready=1)
    adopted.settle()
    assert (adopted.status["status"], adopted.status["message"]) == ("RUNNING", "1 of 2 pods are ready")
    assert adopted.status["startTime"] == BEGUN
    show(adopted, startTime=BEGUN)
    adopted.settle()
    assert adopted.status["status"] == "RUNNING"  # its last pod has ended a moment ago
    done = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-02T03:05:10Z"}
    show(adopted, startTime=BEGUN, completionTime="2026-01-02T03:05:10Z", conditions=[done])
    adopted.settle()
    assert (adopted.status["status"], adopted.status["duration"]) == ("COMPLETE", 60)
    assert [event.reason for event in adopted.events] == [
        "WorkloadStarting",
        "WorkloadRunning",
        "WorkloadComplete",
    ]
    assert adopted.writes == []


def test_pods_that_are_not_ready_any_more_have_run(adopted: World) -> None:
    """As on a node that Kubernetes does not reach: it is not said that no container runs yet."""
    adopted.settle()
    assert "no container of Job train runs yet" in adopted.status["message"]
    show(adopted, startTime=BEGUN, active=1, ready=1)
    adopted.settle()
    show(adopted, startTime=BEGUN, active=1, ready=0)
    adopted.settle()
    assert (adopted.status["status"], adopted.status["startTime"]) == ("STARTING", BEGUN)
    assert adopted.status["message"].startswith("no pod of Job train is ready any more")
    again = "2026-01-02T03:06:10Z"
    show(adopted, startTime=again, active=1)
    adopted.settle()
    assert "no container of Job train runs yet" in adopted.status["message"]


def test_a_forged_record_on_the_job_is_not_read(adopted: World) -> None:
    """What looks like Kaiwo's own record makes the Job no object of Kaiwo's to correct."""
    assert adopted.facts.live is not None
    job = copy.deepcopy(adopted.facts.live)
    job["metadata"]["annotations"] = {
        RESOLVED: '{"resolved":{"allocation":{}},"fields":{"image":"00000000"}}'
    }
    adopted.set(live=job)
    adopted.settle()
    assert adopted.writes == []
    assert adopted.condition("SpecApplied")["status"] == "True"


def test_a_changed_spec_is_not_applied(adopted: World) -> None:
    """Whatever is changed: the condition names the Job as the place to edit."""
    adopted.settle()
    adopted.edit(gpus=8, image="other:2")
    adopted.settle()
    assert adopted.writes == []
    assert adopted.condition("SpecApplied")["reason"] == "NotApplied"
    assert "Edit the Job itself" in adopted.condition("SpecApplied")["message"]


def test_without_its_job_nothing_is_created(adopted: World) -> None:
    """Neither before nor after the label was taken away: the copy in the spec is never rendered."""
    adopted.settle()
    adopted.set(live=None, made=frozenset())
    for labels in ({ADOPTED: "job-uid"}, {}):
        adopted.obj["metadata"]["labels"] = labels
        plan = adopted.plan()
        assert (plan.writes, plan.statuses) == ((), ())


def test_a_job_without_a_copy_says_so(adopted: World) -> None:
    """The condition Adopted explains the empty field."""
    adopted.obj["spec"] = {"job": {}}
    adopted.settle()
    assert "has no copy of it" in adopted.condition("Adopted")["message"]


def test_before_the_job_has_its_owner_there_is_no_status(adopted: World) -> None:
    """Two seconds for the second write; a KaiwoJob that stays without a Job is told so."""
    job = live()
    created = NOW - timedelta(seconds=1)
    adopted.obj["metadata"]["creationTimestamp"] = created.isoformat().replace("+00:00", "Z")
    adopted.set(live=job, made=frozenset())
    plan = adopted.plan()
    assert (plan.writes, plan.statuses) == ((), ())
    assert plan.requeue_after == pytest.approx(1)
    adopted.at(NOW + timedelta(seconds=5))
    assert adopted.plan().statuses[-1]["reason"] == "Adopting"
    adopted.set(live=None)
    assert adopted.plan().statuses[-1]["reason"] == "NotAdopted"


def test_a_forged_label_makes_no_job_ones_own(world: World) -> None:
    """A Job with another owner is neither observed nor changed."""
    job = live(startTime=BEGUN, ready=1)
    job["metadata"]["ownerReferences"] = [{"kind": "CronJob", "uid": "cron", "controller": True}]
    world.obj["metadata"]["labels"] = {ADOPTED: "job-uid"}
    world.set(live=job, now=NOW + timedelta(minutes=1))
    plan = world.plan()
    assert plan.writes == ()
    assert (plan.statuses[-1]["status"], plan.statuses[-1]["reason"]) == ("ERROR", "NotAdopted")


def test_a_job_that_is_being_deleted_is_not_said_to_come_back(adopted: World) -> None:
    """The KaiwoJob goes with it."""
    adopted.settle()
    assert adopted.facts.live is not None
    job = copy.deepcopy(adopted.facts.live)
    job["metadata"]["deletionTimestamp"] = BEGUN
    adopted.facts = replace(adopted.facts, live=job)
    adopted.settle()
    assert adopted.status["reason"] == "ChildDeleting"
    assert adopted.status["message"] == "Job train is being deleted, and its KaiwoJob with it"
