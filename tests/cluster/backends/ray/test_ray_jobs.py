"""A KaiwoJob on Ray with the real KubeRay: nothing is computed, the job's own end is written by the test."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.engine.resource import Resource
from kaiwo.engine.timestamps import format_time

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = [pytest.mark.cluster, pytest.mark.matrix]

PLUGINS = "ray_job,gpu_amd,gpu_nvidia"
KIND = "KaiwoJob"
RAY_JOB = Resource("ray.io", "v1", "RayJob", "rayjobs")
RAY_CLUSTER = Resource("ray.io", "v1", "RayCluster", "rayclusters")
FOREVER = {"annotations": {"kaiwo-sandbox/forever": "true"}}


async def ray_says(user: Any, name: str, **status: Any) -> None:
    """Write what Ray itself would have reported."""
    await user.client.merge_patch(RAY_JOB, user.namespace, name, {"status": status}, subresource="status")


async def test_a_ray_job_starts_runs_and_completes(operator: Start, user: Any) -> None:
    """STARTING while its cluster comes up, RUNNING with Ray's word and a container, COMPLETE with times."""
    await operator(plugins=PLUGINS)
    created = await user.submit(
        KIND, "train", ray=True, gpus=12, user="jane", entrypoint="python main.py", metadata=FOREVER
    )
    await user.reaches(KIND, "train", "STARTING", "RUNNING")
    made = await user.sees(
        RAY_JOB, "train", lambda obj: obj.get("status", {}).get("jobDeploymentStatus") == "Running"
    )
    pods = await user.pods(4)  # a head, two workers, and the submitter
    by_user = [pod for pod in pods if pod["metadata"]["labels"].get("kaiwo.silogen.ai/user") == "jane"]
    assert len(by_user) == 4
    assert {pod["metadata"]["labels"]["kaiwo.silogen.ai/run-id"] for pod in pods} == {
        created["metadata"]["uid"]
    }

    await ray_says(user, "train", jobStatus="RUNNING")
    status = await user.reaches(KIND, "train", "RUNNING")
    assert status["allocation"]["replicas"] == 2
    assert status["childUID"] == made["metadata"]["uid"]
    end = format_time(datetime.now(UTC))
    await ray_says(user, "train", jobStatus="SUCCEEDED", jobDeploymentStatus="Complete", endTime=end)
    status = await user.reaches(KIND, "train", "COMPLETE")
    assert status["completionTime"] == end
    assert status["startTime"]
    cluster = made["status"]["rayClusterName"]
    await user.gone(RAY_CLUSTER, cluster)


async def test_groups_keep_their_own_pods(operator: Start, user: Any) -> None:
    """Several worker groups, one with several hosts per replica: each gets the computed count."""
    await operator(plugins=PLUGINS)
    worker = {"minReplicas": 0, "maxReplicas": 9, "template": {"spec": {"containers": [{"name": "w"}]}}}
    groups = [{"groupName": "a", **worker}, {"groupName": "b", "numOfHosts": 2, **worker}]
    head = {"template": {"spec": {"containers": [{"name": "h"}]}}}
    block = {"spec": {"rayClusterSpec": {"headGroupSpec": head, "workerGroupSpecs": groups}}}
    await user.submit(
        KIND, "train", rayJob=block, gpusPerReplica=2, replicas=2, entrypoint="python a.py", metadata=FOREVER
    )
    await user.sees(
        RAY_JOB, "train", lambda obj: obj.get("status", {}).get("jobDeploymentStatus") == "Running"
    )
    pods = [pod for pod in await user.pods(8) if "ray.io/group" in pod["metadata"]["labels"]]
    groups_of = sorted(pod["metadata"]["labels"]["ray.io/group"] for pod in pods)
    assert groups_of == ["a", "a", "b", "b", "b", "b", "headgroup"]


async def test_the_submitter_runs_under_the_service_account_of_the_head(operator: Start, user: Any) -> None:
    """KubeRay makes its pod with it, and the API server adds the pull secrets of the account."""
    await operator(plugins=PLUGINS)
    account = {"metadata": {"namespace": user.namespace, "name": "puller"}}
    await user.client.create(
        Resource("", "v1", "ServiceAccount", "serviceaccounts"),
        {"apiVersion": "v1", "kind": "ServiceAccount", **account, "imagePullSecrets": [{"name": "own"}]},
    )
    head = {"template": {"spec": {"serviceAccountName": "puller", "containers": [{"name": "h"}]}}}
    block = {"spec": {"rayClusterSpec": {"headGroupSpec": head}}}
    await user.submit(KIND, "train", rayJob=block, entrypoint="python main.py", metadata=FOREVER)
    pods = await user.pods(3)  # a head, a worker, and the submitter
    found = {pod["spec"]["containers"][0]["name"]: pod["spec"] for pod in pods}
    for name in ("h", "ray-job-submitter"):
        assert found[name]["serviceAccountName"] == "puller"
        assert found[name]["imagePullSecrets"] == [{"name": "own"}]


async def test_a_failed_ray_job_has_the_message_of_ray(operator: Start, user: Any) -> None:
    """The reason word and the message are Ray's; the job is not tried again."""
    await operator(plugins=PLUGINS)
    await user.submit(KIND, "train", ray=True, entrypoint="python main.py", metadata=FOREVER)
    await user.sees(RAY_JOB, "train", lambda obj: obj.get("status", {}).get("jobDeploymentStatus"))
    await ray_says(
        user, "train", jobStatus="FAILED", jobDeploymentStatus="Failed", reason="AppFailed",
        message="Job entrypoint command failed\nwith exit code 1",
    )  # fmt: skip
    status = await user.reaches(KIND, "train", "FAILED", reason="AppFailed")
    assert "failed with exit code 1" in status["message"]


async def test_a_rejection_by_kuberay_is_reported_with_its_message(
    operator: Start, user: Any, control_plane: Any
) -> None:
    """A spec that the CRD allows and KubeRay refuses; before 1.5 KubeRay only reports that in an event."""
    word, reason = "FAILED", "ValidationFailed"
    if control_plane.generation == "older":
        word, reason = "ERROR", "InvalidRayJobSpec"
    await operator(plugins=PLUGINS)
    block = {"spec": {"activeDeadlineSeconds": -5}}
    await user.submit(KIND, "train", ray=True, entrypoint="python main.py", rayJob=block)
    status = await user.reaches(KIND, "train", word, reason=reason)
    assert "activeDeadlineSeconds" in status["message"]


async def test_an_image_that_cannot_be_pulled_is_reported(operator: Start, user: Any) -> None:
    """The status shows the state of the head's pod while KubeRay only reports Initializing."""
    await operator(plugins=PLUGINS)
    bad = {"annotations": {"kaiwo-sandbox/image-pull-error": "denied"}}
    await user.submit(KIND, "train", ray=True, entrypoint="python main.py", metadata=bad)
    status = await user.reaches(KIND, "train", "STARTING", reason="ImagePullBackOff")
    assert "access was denied" in status["message"]


async def test_a_deadline_may_change_and_nothing_else(operator: Start, user: Any) -> None:
    """The deadline reaches the RayJob; another image is refused and named, and the run continues."""
    await operator(plugins=PLUGINS)
    await user.submit(KIND, "train", rayJob={"spec": {}}, entrypoint="python main.py", metadata=FOREVER)
    await user.reaches(KIND, "train", "STARTING", "RUNNING")
    await user.edit(KIND, "train", rayJob={"spec": {"activeDeadlineSeconds": 7200}})
    await user.sees(RAY_JOB, "train", lambda obj: obj["spec"].get("activeDeadlineSeconds") == 7200)
    await user.edit(KIND, "train", image="registry.example/other:2")
    status = await user.reaches(KIND, "train", "STARTING", "RUNNING", generation=3)
    applied = next(item for item in status["conditions"] if item["type"] == "SpecApplied")
    assert (applied["status"], applied["reason"]) == ("False", "Immutable")
    assert "spec.image" in applied["message"]
