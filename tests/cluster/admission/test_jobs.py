"""Plain Jobs that are managed, from the webhooks to their KaiwoJob."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine.errors import ApiError
from kaiwo.engine.resource import JOB, Resource
from kaiwo.testing.operator import until
from kaiwo.workload.labels import MANAGED, REQUESTED_BY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

pytestmark = pytest.mark.cluster

CRON_JOB = Resource("batch", "v1", "CronJob", "cronjobs")
ADMIN = "kaiwo-sandbox-admin"
IDENTITY = {"KAIWO_IDENTITY": "set"}


@pytest.fixture
async def enforcing(hooks: Any, operator: Callable[..., Awaitable[OperatorProcess]]) -> OperatorProcess:
    """An operator that manages all GPU Jobs of the namespace."""
    hooks.register(only="", fail=True)
    return await hooks.operator(operator, {**IDENTITY, "ENFORCE_KAIWO_ON_GPU_WORKLOADS": "true"})


def spec(gpus: str) -> Object:
    """The spec of a Job that runs until it is deleted."""
    container: Object = {"name": "main", "image": "registry.example/train:1"}
    if gpus:
        container["resources"] = {"limits": {"amd.com/gpu": gpus}}
    template = {
        "metadata": {"annotations": {"kaiwo-sandbox/forever": "true"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {"template": template}


def job(hooks: Any, name: str, gpus: str = "1", **more: Any) -> Object:
    """A Job as any tool makes it."""
    metadata = {"name": name, "namespace": hooks.workloads, **more.pop("metadata", {})}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {**spec(gpus), **more}}


async def test_an_unlabelled_gpu_job_becomes_a_workload_of_its_user(
    hooks: Any, enforcing: OperatorProcess
) -> None:
    """Labelled, adopted, RUNNING; the user is the authenticated one, whatever the Job says."""
    del enforcing
    forged = {"annotations": {REQUESTED_BY: "boss"}}
    made = await hooks.client.create(JOB, job(hooks, "train", metadata=forged))
    assert made["metadata"]["labels"][MANAGED] == "true"
    assert made["metadata"]["annotations"][REQUESTED_BY] == ADMIN
    adopted = await until(
        hooks.client, KAIWO_JOB, hooks.workloads, "train",
        lambda obj: (obj or {}).get("status", {}).get("status") == "RUNNING",
    )  # fmt: skip
    assert adopted is not None
    assert adopted["spec"]["user"] == ADMIN
    assert adopted["status"]["allocation"]["gpus"] == 1
    changed = {"metadata": {"annotations": {REQUESTED_BY: "boss"}}}
    kept = await hooks.client.merge_patch(JOB, hooks.workloads, "train", changed)
    assert kept["metadata"]["annotations"][REQUESTED_BY] == ADMIN
    with pytest.raises(ApiError, match="cannot be removed from Job train"):
        await hooks.client.merge_patch(
            JOB, hooks.workloads, "train", {"metadata": {"labels": {MANAGED: None}}}
        )


async def test_jobs_of_a_cronjob_and_jobs_without_gpus_are_left_alone(
    hooks: Any, enforcing: OperatorProcess
) -> None:
    """The real CronJob controller makes its Job, and nobody labels or adopts it."""
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "often", "namespace": hooks.workloads},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": spec("1")}},
    }
    await hooks.client.create(CRON_JOB, cron)
    await hooks.client.create(JOB, job(hooks, "plain", gpus=""))
    made: list[Object] = []
    for _ in range(90):
        made = [
            obj
            async for obj in hooks.client.list(JOB, hooks.workloads)
            if obj["metadata"]["name"].startswith("often-")
        ]
        if made:
            break
        await asyncio.sleep(1)
    assert made
    assert all(MANAGED not in (obj["metadata"].get("labels") or {}) for obj in made)
    await asyncio.sleep(2)
    assert [obj async for obj in hooks.client.list(KAIWO_JOB, hooks.workloads)] == []
    assert "often-" not in enforcing.log


async def test_gpu_requests_of_a_suspended_managed_job_cannot_change(
    hooks: Any, enforcing: OperatorProcess
) -> None:
    """Whether the API server would allow that for a suspended Job or not."""
    del enforcing
    await hooks.client.create(JOB, job(hooks, "held", suspend=True))
    container = spec("2")["template"]["spec"]["containers"]
    patch = {"spec": {"template": {"spec": {"containers": container}}}}
    with pytest.raises(ApiError, match="GPU requests of Job held cannot change"):
        await hooks.client.merge_patch(JOB, hooks.workloads, "held", patch)


async def test_without_enforcing_mode_only_labelled_jobs_are_managed(
    hooks: Any, operator: Callable[..., Awaitable[OperatorProcess]]
) -> None:
    """Such a Job gets its user and keeps its GPU requests; others stay as they are."""
    hooks.register(only="", fail=True, enforce=False)
    await hooks.operator(operator, IDENTITY)
    plain = await hooks.client.create(JOB, job(hooks, "plain", suspend=True))
    assert MANAGED not in (plain["metadata"].get("labels") or {})
    labelled = {"labels": {MANAGED: "true"}}
    made = await hooks.client.create(JOB, job(hooks, "held", metadata=labelled, suspend=True))
    assert made["metadata"]["annotations"][REQUESTED_BY] == ADMIN
    container = spec("2")["template"]["spec"]["containers"]
    patch = {"spec": {"template": {"spec": {"containers": container}}}}
    await hooks.client.merge_patch(JOB, hooks.workloads, "plain", patch)
    with pytest.raises(ApiError, match="GPU requests of Job held cannot change"):
        await hooks.client.merge_patch(JOB, hooks.workloads, "held", patch)
