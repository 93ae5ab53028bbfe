"""What goes wrong with pods is told within seconds, and told no longer once it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.engine.resource import POD, Resource
from kaiwo_ray_service.kinds import RAY_SERVICE

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object

pytestmark = pytest.mark.cluster

_LAMED = {"Deployment": "STARTING", "RayJob": "RUNNING", "AppWrapper": "READY"}
"""What a workload is whose one worker is lost: Ray says of its jobs and services what it wants to say."""
QUOTA = Resource("", "v1", "ResourceQuota", "resourcequotas")


async def test_an_image_that_cannot_be_pulled_is_named_until_it_can(world: Any, form: Any) -> None:
    """STARTING/ImagePullBackOff with the image and the registry's words, no start time; then all is well."""
    bad = {**form.lasts, "kaiwo-sandbox/image-pull-error": "manifest unknown"}
    async with world.story(form) as story:
        await story.begin(world.spec(form), bad)
        await story.sees(
            "STARTING", "ImagePullBackOff", times="none", via=("PENDING",),
            message="registry.example/it:1.*cannot be pulled; it does not exist there",
        )  # fmt: skip
        story.check_absent("RUNNING", "READY", "ERROR")
        async with world.healing(image_pull_error=None):
            await story.sees(*form.well, times="started", via=form.passes)
        story.check_absent("ERROR", "FAILED")
        await story.check_events("ImagePullBackOff")


async def test_missing_free_gpus_are_reported_with_the_message_of_the_scheduler(
    world: Any, form: Any
) -> None:
    """STARTING/Unschedulable while somebody else holds the GPU; then all is well."""
    node = await world.add_node()
    blocker = _blocker(world.namespace, node)
    await world.client.create(POD, blocker)
    await world.sees(POD, "blocker", lambda pod: pod and pod["status"].get("phase") == "Running")
    # A real application that needs its worker would not serve without; the simulated one is told so.
    idle = {"kaiwo-sandbox/ray-app-status": "DEPLOYING"} if form.child.kind == "AppWrapper" else {}
    async with world.story(form) as story:
        await story.begin(world.spec(form, **world.gpu_spec), {**form.lasts, **idle})
        await story.sees(
            "STARTING", "Unschedulable", message="Insufficient nvidia.com/gpu", via=("PENDING",),
            times="awaited" if "ray" in form.spec else "none",  # the head of a Ray cluster runs, soon or late
        )  # fmt: skip
        story.check_absent("RUNNING", "READY", "ERROR")
        await world.client.delete(POD, world.namespace, "blocker")
        if idle:
            await world.annotate(RAY_SERVICE, "told", ray_app_status="RUNNING")
        await story.sees(*form.well, times="started", via=form.passes)
        await story.check_events("Unschedulable")


@pytest.mark.forms("deployment")
async def test_a_crash_loop_is_reported_with_its_exit_code(world: Any, form: Any) -> None:
    """Neither running nor ready between crashes, and hardly written; then all is well."""
    bad = {"kaiwo-sandbox/exit-code": "3", "kaiwo-sandbox/run-time": "2s"}
    async with world.story(form) as story:
        await story.begin(world.spec(form), bad)
        await story.sees(
            "STARTING",
            "CrashLoopBackOff",
            message="exited with code 3",
            times="started",
            via=(*form.passes, "READY"),
        )
        for count in (2, 5):
            restarts = f"at least {count} restarts, last exited with code 3"
            await story.sees("STARTING", "CrashLoopBackOff", message=restarts, times="kept")
        assert len([status for status in story.history if status["reason"] == "CrashLoopBackOff"]) == 3
        async with world.healing(exit_code=None):
            await story.sees(*form.well, times="kept", via=form.passes)
        story.check_absent("ERROR", "FAILED")
        await story.check_events("CrashLoopBackOff")


@pytest.mark.forms("job")
async def test_a_job_that_crashes_and_is_retried_ends_with_its_exit_code(world: Any, form: Any) -> None:
    """STARTING once the kubelet backs off; then the Job's own verdict."""
    bad = {"kaiwo-sandbox/exit-code": "3", "kaiwo-sandbox/run-time": "1s"}
    block = {
        "spec": {
            "backoffLimit": 1,
            "template": {"spec": {"restartPolicy": "OnFailure", "containers": [{"name": "it"}]}},
        }
    }
    async with world.story(form) as story:
        await story.begin(world.spec(form, job=block), bad)
        await story.sees("RUNNING", "Running", times="started", via=("PENDING", "STARTING"))
        await story.sees("STARTING", "CrashLoopBackOff", message="exited with code 3", times="kept")
        await story.sees("FAILED", message="exited with code 3", times="ended", via=("RUNNING",))
        await story.check_events("CrashLoopBackOff")


async def test_pods_that_may_not_be_created_are_reported_with_what_forbids_them(
    world: Any, form: Any
) -> None:
    """A quota of the namespace: STARTING/FailedCreate in its words, within seconds; then all is well."""
    metadata = {"name": "none", "namespace": world.namespace}
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": metadata,
        "spec": {"hard": {"pods": "0"}},
    }
    await world.client.create(QUOTA, quota)
    await world.sees(QUOTA, "none", lambda found: found and found.get("status", {}).get("hard"))
    async with world.story(form) as story:
        await story.begin(world.spec(form), form.lasts)
        # Kueue's webhook may be the first to refuse.
        said = await story.sees(
            "STARTING",
            "FailedCreate",
            message="exceeded quota: none|denied the request",
            times="none",
            via=("PENDING",),
        )
        await world.client.delete(QUOTA, world.namespace, "none")
        await story.sees(*form.well, times="started", via=form.passes)
        story.check_absent("ERROR", "FAILED")
        await story.check_events(said["reason"])


@pytest.mark.forms("deployment")
async def test_a_rollout_past_its_deadline_is_an_error_that_heals(world: Any, form: Any) -> None:
    """STARTING, ERROR/ProgressDeadlineExceeded with what stops the pods, READY."""
    block = {"spec": {"progressDeadlineSeconds": 6}}
    async with world.story(form) as story:
        await story.begin(world.spec(form, deployment=block), {"kaiwo-sandbox/image-pull-error": "not found"})
        await story.sees(
            "STARTING", "ImagePullBackOff", message="does not exist there", times="none", via=("PENDING",)
        )
        await story.sees(
            "ERROR", "ProgressDeadlineExceeded", message="no progress for 6 s.*cannot be pulled", times="none"
        )
        async with world.healing(image_pull_error=None):
            await story.sees(*form.well, times="started", via=form.passes)
        await story.check_events("ImagePullBackOff")


async def test_a_failed_node_is_no_error_for_a_workload_that_can_run_elsewhere(world: Any, form: Any) -> None:
    """A job ends with the failure of its pod; every other workload waits for another node, and continues."""
    node = await world.add_node()
    async with world.story(form) as story:
        await story.begin(world.spec(form, **world.gpu_spec), form.lasts)
        await story.sees(*form.well, times="started", via=form.passes)
        await world.lose_node(node)
        if form.child.kind == "Job":
            await story.sees(
                "FAILED", "NodeLost", message="pod told-.* was deleted.*NoExecute taint", times="ended"
            )
            await story.check_events()
            return
        await story.sees(
            _LAMED[form.child.kind], "Unschedulable", times="kept",
            via=form.passes, message="default-worker|told-.* cannot be scheduled",
        )  # fmt: skip
        await world.add_node()
        await story.sees(*form.well, times="kept", via=form.passes)
        story.check_absent("ERROR", "FAILED")
        await story.check_events("Unschedulable")


def _blocker(namespace: str, node: str) -> Object:
    gpu = {"nvidia.com/gpu": "1"}
    container = {
        "name": "it",
        "image": "registry.example/it:1",
        "resources": {"requests": gpu, "limits": gpu},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "blocker", "namespace": namespace},
        "spec": {"nodeSelector": {"kubernetes.io/hostname": node}, "containers": [container]},
    }
