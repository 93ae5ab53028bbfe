"""A Ray cluster whose head is taken and whose workers are not, as where a quota has no GPUs."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.workload import Workload
from kaiwo.plugin.observation import Finding, Observation
from kaiwo.testing import service
from kaiwo.testing.builders import NOW
from kaiwo.workload.observe.ray_workers import check_workers

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object
    from kaiwo.workload.observe.waiting import PodCheck

GROUP = {"groupName": "w", "replicas": 2}
EVENT = Finding(
    "FailedToCreateWorkerPod",
    'Failed to create worker Pod for the cluster team/chat-x, pods "chat-x-w-worker-8fk2l" is forbidden: '
    "exceeded quota: gpus, requested: requests.amd.com/gpu=8",
)


def pod(kind: str, seconds: float = 5, **metadata: Any) -> Object:
    """A pod of the cluster, made so many seconds ago."""
    born = (NOW - timedelta(seconds=seconds)).isoformat()
    return {"metadata": {"labels": {"ray.io/node-type": kind}, "creationTimestamp": born, **metadata}}


def checked(
    *pods: Object, group: Any = GROUP, event: Finding | None = None, status: str = "STARTING"
) -> PodCheck:
    """What is found about the workers of a service."""
    workload = Workload.from_object({**service(), "status": {"status": status, "startTime": NOW.isoformat()}})
    seen = Observation(workload, {}, pods, None, queued=False, now=NOW, warning_event=event)
    return check_workers(seen, {"workerGroupSpecs": [group]}, "RayService chat")


def test_workers_that_the_api_server_rejects_are_reported() -> None:
    """With KubeRay's event about the RayCluster, without the name that each try has anew."""
    assert checked(pod("head", 1)).requeue_after == 2.0
    assert checked(pod("head")).needs_events
    finding = checked(pod("head"), event=EVENT).finding
    assert finding is not None
    assert finding.reason == "FailedCreate"
    assert finding.message == (
        "every worker group of RayService chat has no pod: Failed to create worker Pod for the cluster "
        "team/chat-x, each pod is forbidden: exceeded quota: gpus, requested: requests.amd.com/gpu=8"
    )


def test_workers_that_are_missing_without_a_cause_are_reported() -> None:
    """Half a minute after the head, whatever earlier events say of something else."""
    other = Finding("FailedToCreateHeadPod", "the webhook was down")
    assert checked(pod("head"), event=other).finding is None
    found = checked(pod("head", 31), event=other)
    assert (found.finding and found.finding.reason, found.needs_events) == ("NoPods", True)


@pytest.mark.parametrize(
    "found",
    [
        checked(event=EVENT),
        checked(pod("head", 31), pod("worker"), event=EVENT),
        checked(pod("head", 31), pod("worker", deletionTimestamp=NOW.isoformat()), event=EVENT),
        checked(pod("head", 31), event=EVENT, status="READY"),
        checked(pod("head", 31), event=EVENT, group={"groupName": "w", "replicas": 0}),
        checked(pod("head", 31), event=EVENT, group={**GROUP, "suspend": True}),
        checked(pod("head", 31), event=EVENT, group="none"),
    ],
    ids=["no head", "a worker", "one being replaced", "it ran", "no replicas", "suspended", "no group"],
)
def test_nothing_is_missing_otherwise(found: PodCheck) -> None:
    """An event stays for an hour, and is no news once there are workers."""
    assert found == (None, None, False)
