"""How workloads end, and what a child that is gone means."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.engine.resource import JOB, Resource
from kaiwo_ray_service.kinds import RAY_SERVICE

if TYPE_CHECKING:
    from kaiwo.testing.operator import OperatorProcess

pytestmark = pytest.mark.cluster

RAY_JOB = Resource("ray.io", "v1", "RayJob", "rayjobs")
RAY_CLUSTER = Resource("ray.io", "v1", "RayCluster", "rayclusters")


@pytest.mark.forms("job")
async def test_an_exit_code_is_the_reason_of_the_end(world: Any, form: Any) -> None:
    """FAILED/ExitCode, with start, end and seconds."""
    async with world.story(form) as story:
        await story.begin(world.spec(form), {"kaiwo-sandbox/exit-code": "3"})
        await story.sees("FAILED", "ExitCode", message="code 3", times="ended", via=(*form.passes, "RUNNING"))
        assert len(story.history) <= 3, story.lines()  # one write per transition
        await story.check_events()


@pytest.mark.forms("job")
async def test_a_deadline_is_the_reason_of_the_end(world: Any, form: Any) -> None:
    """FAILED/DeadlineExceeded, though its pod was killed with a code of its own."""
    async with world.story(form) as story:
        await story.begin(world.spec(form, job={"spec": {"activeDeadlineSeconds": 4}}), form.lasts)
        await story.sees(*form.well, times="started", via=form.passes)
        await story.sees("FAILED", "DeadlineExceeded", message="activeDeadlineSeconds", times="ended")
        await story.check_events()


@pytest.mark.forms("job")
async def test_a_deadline_before_the_start_leaves_no_start(world: Any, form: Any) -> None:
    """A job that never ran has an end and no start time."""
    async with world.story(form) as story:
        bad = {"kaiwo-sandbox/image-pull-error": "not found"}
        await story.begin(world.spec(form, job={"spec": {"activeDeadlineSeconds": 4}}), bad)
        await story.sees("STARTING", "ImagePullBackOff", times="none", via=("PENDING",))
        await story.sees("FAILED", "DeadlineExceeded", times="unstarted")
        story.check_absent("RUNNING")
        await story.check_events("ImagePullBackOff")


@pytest.mark.forms("job")
async def test_what_its_ttl_collects_stays_complete(world: Any, form: Any) -> None:
    """The Job goes a second after its end; its workload says COMPLETE for ever, and nothing runs again."""
    async with world.story(form) as story:
        await story.begin(world.spec(form, job={"spec": {"ttlSecondsAfterFinished": 1}}))
        await story.sees("COMPLETE", "Completed", times="ended", via=(*form.passes, "RUNNING"))
        written = len(story.history)
        await world.sees(JOB, "told", lambda job: job is None)
        await asyncio.sleep(2)
        assert len(story.history) == written
        await story.check_events()


@pytest.mark.forms("job")
async def test_an_end_that_nobody_saw_is_not_run_again(
    world: Any, form: Any, process: OperatorProcess
) -> None:
    """Ended and collected while the operator was down: FAILED/ChildLost, with the known start."""
    async with world.story(form) as story:
        lasts = {"kaiwo-sandbox/run-time": "4s"}
        await story.begin(world.spec(form, job={"spec": {"ttlSecondsAfterFinished": 0}}), lasts)
        await story.sees(*form.well, times="started", via=form.passes)
        await asyncio.to_thread(process.stop)
        try:
            await world.sees(JOB, "told", lambda job: job is None)
        finally:
            await asyncio.to_thread(process.start().wait_ready)
        await story.sees("FAILED", "ChildLost", message="not run a second time", times="ended")
        assert [job async for job in world.client.list(JOB, world.namespace)] == []


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_a_child_deleted_by_hand_is_made_again(world: Any, form: Any, propagation: str) -> None:
    """The run starts anew: another child, another start time; never an error."""
    async with world.story(form) as story:
        await story.begin(world.spec(form), form.lasts)
        await story.sees(*form.well, times="started", via=form.passes)
        await asyncio.sleep(4)  # times are whole seconds, and clocks may differ by two
        await world.client.delete(form.child, world.namespace, "told", propagation=propagation)
        await story.sees(*form.well, times="restarted", via=form.passes, new_child=True)
        story.check_absent("ERROR", "FAILED")
        await story.check_events()


@pytest.mark.forms("ray-job")
@pytest.mark.parametrize(
    ("says", "word", "reason"),
    [
        ("SUCCEEDED", "COMPLETE", "Completed"),
        ("FAILED", "FAILED", "AppFailed"),
        ("STOPPED", "FAILED", "Stopped"),
    ],
)
async def test_rays_own_end_is_the_workloads(
    world: Any, form: Any, says: str, word: str, reason: str
) -> None:
    """COMPLETE or FAILED as Ray says; it stays so when the cluster of its pods is gone."""
    async with world.story(form) as story:
        await story.begin(world.spec(form), form.lasts)
        await story.sees(*form.well, times="started", via=form.passes)
        await story.patch({"metadata": {"annotations": {"kaiwo-sandbox/ray-job-status": says}}})
        await story.sees(word, reason, times="ended")
        written = len(story.history)
        job = await world.client.get(RAY_JOB, world.namespace, "told")
        await world.sees(RAY_CLUSTER, job["status"]["rayClusterName"], lambda cluster: cluster is None)
        assert len(story.history) == written
        await story.check_events()


@pytest.mark.forms("ray-service")
async def test_a_sick_application_is_an_error_that_heals(world: Any, form: Any) -> None:
    """READY, ERROR/ApplicationUnhealthy in Ray's words, READY, with the same start."""
    async with world.story(form) as story:
        await story.begin(world.spec(form))
        await story.sees(*form.well, times="started", via=form.passes)
        for sick in ("UNHEALTHY", "DEPLOY_FAILED"):
            await world.annotate(RAY_SERVICE, "told", ray_app_status=sick, ray_message="no disk")
            await story.sees(
                "ERROR",
                "ApplicationUnhealthy",
                message=f"chat is {sick}.*no disk",
                times="kept",
                via=("RUNNING",),
            )
            await world.annotate(RAY_SERVICE, "told", ray_app_status=None)
            await story.sees(*form.well, times="kept", via=("RUNNING",))
        await story.check_events()


@pytest.mark.forms("ray-service")
async def test_what_the_wrapper_gives_up_is_the_end(world: Any, form: Any) -> None:
    """The RayService inside deleted by hand: AppWrapper fails, for good, in its words."""
    async with world.story(form) as story:
        await story.begin(world.spec(form))
        await story.sees(*form.well, times="started", via=form.passes)
        await world.client.delete(RAY_SERVICE, world.namespace, "told", propagation="Background")
        await story.sees(
            "FAILED", "WrapperFailed", message="MissingComponent", times="ended", via=form.passes
        )
        await story.check_events()
