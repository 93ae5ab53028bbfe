"""A workload that Kaiwo ends: carried out by whichever operator process runs, from its status alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine.resource import JOB, PERSISTENT_VOLUME_CLAIM, POD
from kaiwo.testing.builders import NOW
from kaiwo.workload.ending.record import EndingRecord

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster


async def test_a_decision_survives_the_operator_that_took_it(
    operator: Start, lab: Any, condition: Any
) -> None:
    """It wrote the decision and stopped; the next one deletes the Job, and TERMINATED comes after its pods.

    The volume claim stays, and no Job is created again.
    """
    process = await operator()
    storage = {"data": {"storageSize": "1Gi"}, "storageEnabled": True, "accessMode": "ReadWriteOnce"}
    created = await lab.submit("long", gpus=1, pods={"kaiwo-sandbox/forever": "true"}, storage=storage)
    status = await lab.reaches("long", "RUNNING")
    process.kill()
    record = await decide(lab, created, status)

    await operator()
    status = await lab.reaches("long", "TERMINATED")

    assert status["reason"] == "GpuUtilizationLow"
    early = condition(status, "WorkloadTerminatedEarly")
    assert (early["status"], early["reason"]) == ("True", "GpuUtilizationLow")
    assert EndingRecord.read(status["termination"]) == record
    for resource, left in ((JOB, 0), (POD, 0), (PERSISTENT_VOLUME_CLAIM, 1)):
        assert len([item async for item in lab.client.list(resource, lab.namespace)]) == left, resource


async def test_a_pod_that_outlives_its_grace_period_is_named_and_not_forced(
    operator: Start, lab: Any
) -> None:
    """Its node does not answer, here a finalizer: the message names both, and the workload waits for it."""
    await operator()
    created = await lab.submit("stuck", gpus=1, pods={"kaiwo-sandbox/forever": "true"})
    status = await lab.reaches("stuck", "RUNNING")
    [pod] = [item async for item in lab.client.list(POD, lab.namespace)]
    name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
    held = {"metadata": {"finalizers": ["example.com/node-is-gone"]}}
    await lab.client.merge_patch(POD, lab.namespace, name, held, field_manager="test")
    await lab.client.delete(POD, lab.namespace, name, grace_period=0)
    await decide(lab, created, status)

    status = await lab.says("stuck", f"pod {name} on node {node} is still there after its grace period")

    assert status["status"] == "TERMINATING"
    assert [item["metadata"]["name"] async for item in lab.client.list(POD, lab.namespace)] == [name]
    free = {"metadata": {"finalizers": None}}
    await lab.client.merge_patch(POD, lab.namespace, name, free, field_manager="test")
    assert (await lab.reaches("stuck", "TERMINATED"))["reason"] == "GpuUtilizationLow"


async def decide(lab: Any, created: Object, status: Object) -> EndingRecord:
    """Write a decision to end a workload into its status, as the operator does."""
    record = EndingRecord(
        "d1", "Underutilized", created["metadata"]["uid"], "below 1 % for 24h", NOW,
        child_uid=status["childUID"],
    )  # fmt: skip
    await lab.client.merge_patch(
        KAIWO_JOB, lab.namespace, created["metadata"]["name"],
        {"status": {"status": "TERMINATING", "termination": record.document()}},
        subresource="status", field_manager="kaiwo",
    )  # fmt: skip
    return record
