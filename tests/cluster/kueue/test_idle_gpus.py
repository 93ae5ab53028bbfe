"""Idle GPUs are taken back for workloads that the real Kueue holds for lack of quota."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.engine.resource import JOB

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("pristine")]

PLUGINS = "batch_job,gpu_amd,kueue,node_pools,gpu_preemption"
FOREVER = {"kaiwo-sandbox/forever": "true"}


def queue(name: str, gpus: int, namespace: str, **spec: Any) -> Object:
    """A ClusterQueue with so many GPUs, and a LocalQueue of its name in a namespace."""
    keys = {"cpu": "64", "memory": "1Ti", "amd.com/gpu": str(gpus)}
    resources = [{"name": key, "nominalQuota": amount} for key, amount in keys.items()]
    group = {"coveredResources": list(keys), "flavors": [{"name": "f", "resources": resources}]}
    return {"name": name, "namespaces": [namespace], "spec": {"resourceGroups": [group], **spec}}


async def prepare(start: Start, admin: Any, world: Any, *queues: Object) -> None:
    """Run an operator with these queues."""
    await admin.label_namespace(world.namespace, **{"kueue-managed": "true"})
    await admin.configure(clusterQueues=list(queues), resourceFlavors=[{"name": "f"}])
    await start(env=world.environment, plugins=PLUGINS)
    await admin.status("READY")


async def test_an_idle_job_ends_for_one_that_the_queue_holds_and_only_if_that_helps(
    operator: Start, admin: Any, world: Any
) -> None:
    """Plain Jobs in one full queue: three GPUs are more than the idle one can give, two are not."""
    world.use = {"idle": 0.0, "urgent": 50.0}
    await prepare(operator, admin, world, queue("full", 2, world.namespace))
    idle = await world.job("idle", 2, queue="full")
    await world.record(idle, "Job", "Idle")

    large = await world.job("large", 3, queue="full")
    refused = await world.no_fit(large, "Job", "WouldNotHelp")
    assert refused["status"]["phase"] == "PendingGpu"
    assert refused["spec"]["gpuResources"] == {"amd.com/gpu": 3}
    assert await world.exists(JOB, "idle")
    await world.client.delete(JOB, world.namespace, "large", propagation="Foreground")

    urgent = await world.job("urgent", 2, queue="full")
    ended = await world.record(idle, "Job", "Preempted")
    await world.record(urgent, "Job", "Active")

    assert ended["status"]["preemptedFor"] == f"Job {world.namespace}/urgent"
    assert "waits in queue full for 2 amd.com/gpu" in ended["status"]["preemptionReason"]
    assert not await world.exists(JOB, "idle")


async def test_quota_of_the_cohort_is_taken_back_and_idle_gpus_elsewhere_are_left(
    operator: Start, admin: Any, lab: Any, world: Any
) -> None:
    """A KaiwoJob borrows what an idle Job of its cohort held; the longest idle one has another queue."""
    world.use = {"far": 0.0, "idle": 0.0, "urgent": 50.0}
    await prepare(
        operator, admin, world,
        queue("far", 1, world.namespace),
        queue("lender", 2, world.namespace, cohort="research"),
        queue("borrower", 0, world.namespace, cohort="research"),
    )  # fmt: skip
    far = await world.job("far", 1, queue="far")
    await world.record(far, "Job", "Idle")
    idle = await world.job("idle", 2, queue="lender")
    await world.record(idle, "Job", "Idle")

    urgent = await lab.submit("urgent", gpus=2, clusterQueue="borrower", pods=FOREVER)
    ended = await world.record(idle, "Job", "Preempted")
    await lab.reaches("urgent", "RUNNING")

    assert ended["status"]["preemptedFor"] == f"KaiwoJob {world.namespace}/urgent"
    await world.record(urgent, "KaiwoJob", "Active")
    assert (await world.record(far, "Job", "Idle"))["status"].get("preemptedAt") is None
    assert await world.exists(JOB, "far")
