"""The observe kit: outcomes of children from their conditions and pods."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.workload import Workload
from kaiwo.engine.timestamps import format_time
from kaiwo.plugin.kit import observe
from kaiwo.plugin.observation import Finding, Observation
from kaiwo.testing.builders import NOW, job

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object

EARLIER = NOW - timedelta(minutes=5)
RUNNING = {"running": {"startedAt": format_time(EARLIER)}}


def pod(name: str, owner: str = "train-0", **container: Any) -> Object:
    """A pod of a Job that has one container with this status."""
    return {
        "metadata": {
            "name": name,
            "ownerReferences": [{"kind": "Job", "name": owner, "uid": owner, "controller": True}],
        },
        "status": {"phase": "Running", "containerStatuses": [{"name": "main", **container}]},
    }


def seen(*pods: Object, gone: tuple[Object, ...] = ()) -> Observation:
    """What is known of a child with these pods."""
    workload = Workload.from_object(job())
    return Observation(workload, {}, pods, admission=None, queued=False, now=NOW, gone=gone)


def test_pods_are_grouped_by_the_object_that_made_them() -> None:
    """A child that makes its pods through others can tell them apart."""
    first, second, other = pod("a"), pod("b"), pod("c", "train-1")
    groups = observe.by_owner([first, other, second, {"metadata": {"name": "alone"}}])
    assert groups == {("Job", "train-0"): [first, second], ("Job", "train-1"): [other]}


def test_the_cause_of_a_failure_is_found_in_a_pod_that_is_gone() -> None:
    """The controller of the child may have deleted it already."""
    failed = pod("a", state={"terminated": {"exitCode": 3}})
    found = observe.failure(seen(gone=(failed,)))
    assert found is not None
    assert "container main of pod a exited with code 3" in found.message
    assert observe.failure(seen()) is None


def test_a_pod_of_the_run_before_an_eviction_is_no_cause() -> None:
    """It was stopped for another workload; only what failed since the run began explains its failure."""
    stopped = pod("a", state={"terminated": {"exitCode": 143}})
    broken = pod("b", state={"terminated": {"exitCode": 3}})
    stopped["metadata"]["creationTimestamp"] = format_time(NOW - timedelta(hours=1))
    broken["metadata"]["creationTimestamp"] = format_time(EARLIER)
    found = observe.failure(seen(gone=(stopped, broken)), EARLIER)
    assert found is not None
    assert "pod b exited with code 3" in found.message
    assert observe.failure(seen(gone=(stopped,)), EARLIER) is None
    assert observe.failure(seen(gone=(stopped,))) is not None, "unknown when the run began"


def test_an_ended_child_has_its_times_and_what_it_passed_through() -> None:
    """The start of its container proves that it ran."""
    outcome = observe.ended(seen(pod("a", state=RUNNING)), "COMPLETE", Finding("Completed", "done"), EARLIER)
    assert (outcome.status, outcome.reason, outcome.message) == ("COMPLETE", "Completed", "done")
    assert (outcome.started, outcome.completed, outcome.passed) == (EARLIER, EARLIER, ("STARTING", "RUNNING"))
    assert observe.ended(seen(), "FAILED", Finding("Failed", "no")).completed == NOW


def test_an_active_child_runs_when_a_container_runs() -> None:
    """Otherwise it is starting, with what is wrong with its pods."""
    assert observe.active(seen(), "Run train", []).message == "no container of Run train runs yet"
    running = pod("a", state=RUNNING)
    outcome = observe.active(seen(), "Run train", [running])
    assert (outcome.status, outcome.message, outcome.passed) == ("RUNNING", "Run train runs", ("STARTING",))
    broken = pod("b", image="img:1", state={"waiting": {"reason": "ImagePullBackOff"}})
    mixed = observe.active(seen(), "Run train", [running, broken])
    assert mixed.reason == "ImagePullBackOff"
    assert mixed.message.startswith("1 of 2 pods run; container main of pod b")
    ended = pod("c", state={"terminated": {"exitCode": 0}})
    ended["status"]["phase"] = "Succeeded"
    later = observe.active(seen(), "Run train", [ended, running, broken])
    assert later.message == mixed.message, "a pod that is done is none that should run"


def test_missing_pods_are_a_problem_once_the_controller_began() -> None:
    """The events of the child are read, and then it is said that there is no pod."""
    outcome = observe.active(seen(), "Run train", [], begun=EARLIER)
    assert (outcome.status, outcome.reason) == ("STARTING", "NoPods")
    assert outcome.needs_events is not None


@pytest.mark.parametrize(
    ("value", "word"), [("ReachedMaxRestarts", "ReachedMaxRestarts"), ("not a word", "Failed"), (7, "Failed")]
)
def test_only_a_word_becomes_a_reason(value: object, word: str) -> None:
    """The reason of a status is one CamelCase word, whatever another controller wrote."""
    assert observe.reason_word(value) == word


def test_a_condition_without_a_time_has_none() -> None:
    """Conditions of others may be anything."""
    assert observe.changed_at({"lastTransitionTime": format_time(EARLIER)}) == EARLIER
    assert observe.changed_at({}) is None
    assert observe.changed_at("odd") is None
