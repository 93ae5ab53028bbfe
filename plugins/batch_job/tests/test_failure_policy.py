"""The failure of a Job is explained by the pod that ended it, not by one that it ignored or that is older."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.testing import observation, pod
from kaiwo.testing.builders import NOW
from kaiwo.testing.observed import CHILD_UID
from kaiwo_batch_job.failure_policy import counted
from kaiwo_batch_job.observe import observe

if TYPE_CHECKING:
    from kaiwo.plugin.observation import Outcome

Object = dict[str, Any]
DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
ON_DISRUPTION = {
    "action": "Ignore",
    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
}


def codes(action: str, operator: str, *values: int, container: str | None = None) -> Object:
    """A rule about exit codes."""
    requirement: Object = {"operator": operator, "values": list(values)}
    return {
        "action": action,
        "onExitCodes": {**requirement, **({"containerName": container} if container else {})},
    }


def at(seconds: float) -> str:
    """A time so many seconds before now."""
    return (NOW - timedelta(seconds=seconds)).isoformat()


def ended(name: str, code: int, seconds_ago: float, **status: Any) -> Object:
    """A pod of which the container ended with that code."""
    made = pod(name, exit_code=code, **status)
    (container,) = made["status"]["containerStatuses"]
    container["state"]["terminated"]["finishedAt"] = at(seconds_ago)
    return made


def child(*rules: Object, kind: str = "Failed", begun: float = 600) -> Object:
    """A Job that fails, with these rules."""
    condition = {"type": kind, "status": "True", "reason": "BackoffLimitExceeded", "message": "limit"}
    return {
        "metadata": {"name": "train", "namespace": "default", "uid": CHILD_UID},
        "spec": {"podFailurePolicy": {"rules": list(rules)}},
        "status": {"startTime": at(begun), "conditions": [condition]},
    }


def outcome(job: Object, *pods: Object, gone: tuple[Object, ...] = ()) -> Outcome:
    """What is made of a Job with these pods."""
    return observe(observation(child=job, pods=pods, gone=gone))


def test_a_pod_that_the_job_ignored_is_not_why_it_failed() -> None:
    """Exit code 42 asks for another pod; the Job fails when that one exits with 1, minutes later."""
    pods = ended("train-a", 42, 300), ended("train-b", 1, 10)
    for places in ({"pods": pods, "gone": ()}, {"pods": pods[1:], "gone": pods[:1]}):
        found = outcome(child(codes("Ignore", "In", 42)), *places["pods"], gone=places["gone"])
        assert (found.status, found.reason) == ("FAILED", "ExitCode")
        assert "pod train-b exited with code 1" in found.message
    without = outcome(child(codes("FailJob", "In", 42)), *pods)
    assert "pod train-a exited with code 42" in without.message


def test_an_ignored_eviction_is_not_why_a_job_failed() -> None:
    """The usual policy: pods that a node drain takes away are replaced, and code errors count."""
    evicted = ended("train-a", 143, 300, conditions=[DISRUPTED])
    found = outcome(child(ON_DISRUPTION), ended("train-b", 1, 10), gone=(evicted,))
    assert (found.reason, "train-b" in found.message) == ("ExitCode", True)
    assert outcome(child(), ended("train-b", 1, 10), gone=(evicted,)).reason == "Evicted"


def test_an_ignored_pod_is_no_cause_while_the_last_pods_are_stopped() -> None:
    """Between the decision and its condition the cause is read from what is being deleted."""
    ignored, broken = ended("train-a", 42, 300), ended("train-b", 1, 10)
    for one in (ignored, broken):
        one["metadata"]["deletionTimestamp"] = at(1)
    found = outcome(child(codes("Ignore", "In", 42), kind="FailureTarget"), ignored, broken)
    assert (found.reason, "train-b" in found.message) == ("ExitCode", True)


@pytest.mark.parametrize(
    ("rules", "kept"),
    [
        ((), True),
        ((codes("Ignore", "In", 3),), False),
        ((codes("Ignore", "In", 4),), True),
        ((codes("Ignore", "NotIn", 4),), False),
        ((codes("Ignore", "NotIn", 3),), True),
        ((codes("Ignore", "In", 3, container="main"),), False),
        ((codes("Ignore", "In", 3, container="other"),), True),
        ((codes("Count", "In", 3), codes("Ignore", "In", 3)), True),
        ((codes("FailJob", "In", 9), codes("Ignore", "In", 3)), False),
        ((ON_DISRUPTION,), True),
        ((codes("Ignore", "Between", 3),), True),
        (({"action": "Ignore", "onExitCodes": {"operator": "In", "values": None}},), True),
        (({"action": "Ignore"},), True),
    ],
)
def test_the_first_rule_that_matches_decides(rules: tuple[Object, ...], kept: bool) -> None:
    """As the Job controller reads them; a pod that no rule matches counts."""
    assert bool(counted(child(*rules), [ended("train-a", 3, 10)])) is kept


def test_a_pod_of_the_run_before_an_eviction_is_not_why_a_job_failed() -> None:
    """Kueue stops a Job's pods with SIGTERM; when the Job runs again and fails, they explain nothing."""
    stopped, broken = ended("train-old", 143, 900), ended("train-new", 1, 10)
    stopped["metadata"]["creationTimestamp"] = at(1800)
    broken["metadata"]["creationTimestamp"] = at(590)
    found = outcome(child(begun=600), broken, gone=(stopped,))
    assert (found.reason, "pod train-new exited with code 1" in found.message) == ("ExitCode", True)
    alone = outcome(child(begun=600), gone=(stopped,))
    assert alone.reason == "BackoffLimitExceeded"
