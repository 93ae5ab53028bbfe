"""A Job whose pods only run what the cluster added to them is not said to work."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.testing import observation, pod
from kaiwo.testing.builders import NOW
from kaiwo.testing.observed import CHILD_UID
from kaiwo_batch_job.observe import observe

if TYPE_CHECKING:
    from kaiwo.plugin.observation import Outcome

Object = dict[str, Any]
JOB = {
    "metadata": {"name": "train", "namespace": "default", "uid": CHILD_UID},
    "spec": {"template": {"spec": {"containers": [{"name": "main"}]}}},
    "status": {"active": 1, "startTime": (NOW - timedelta(hours=1)).isoformat()},
}


def container(name: str, seconds_ago: float | None = None, code: int = 0) -> Object:
    """The status of a container that runs, or that has ended that long ago."""
    state: Object = {"running": {"startedAt": (NOW - timedelta(hours=1)).isoformat()}}
    if seconds_ago is not None:
        at = (NOW - timedelta(seconds=seconds_ago)).isoformat()
        state = {"terminated": {"exitCode": code, "finishedAt": at, "startedAt": at}}
    return {"name": name, "state": state, "restartCount": 0}


def outcome(*containers: Object, policy: str = "Never") -> Outcome:
    """The outcome of the Job with one pod that has these containers."""
    one = pod(phase="Running", containerStatuses=list(containers))
    one["spec"]["restartPolicy"] = policy
    return observe(observation(child=JOB, pods=[one]))


def test_the_proxy_of_a_mesh_that_goes_on_is_named() -> None:
    """Without a native sidecar the Job never ends and keeps its GPUs, though its own program is done."""
    found = outcome(container("istio-proxy"), container("main", 300))
    assert found.status == "RUNNING"
    assert found.message == (
        "the containers of Job train have ended; but container istio-proxy of pod train-0 still runs, which "
        "the cluster added to the pod, and the Job ends only with it"
    )


def test_a_program_that_failed_beside_a_proxy_is_the_first_to_be_named() -> None:
    """The pod is Running and the Job is active, so nothing else says that it failed."""
    found = outcome(container("istio-proxy"), container("main", 300, code=3))
    assert found.message.startswith(
        "container main of pod train-0 exited with code 3; but container istio-proxy"
    )


def test_a_proxy_has_a_minute_to_end() -> None:
    """Most end by themselves, and one write more for each job is too many."""
    found = outcome(container("istio-proxy"), container("main", 20))
    assert (found.message, found.requeue_after) == ("Job train runs", 40.0)


@pytest.mark.parametrize(
    "containers",
    [
        (container("istio-proxy"), container("main")),
        (container("istio-proxy", 300), container("main")),
    ],
)
def test_a_job_whose_own_container_runs_runs(containers: tuple[Object, ...]) -> None:
    """Whatever the added one does."""
    assert outcome(*containers).message == "Job train runs"


def test_a_container_that_is_started_again_is_not_over() -> None:
    """With restartPolicy OnFailure a code other than 0 is no end."""
    assert (
        "the cluster added"
        not in outcome(container("istio-proxy"), container("main", 300, code=1), policy="OnFailure").message
    )
