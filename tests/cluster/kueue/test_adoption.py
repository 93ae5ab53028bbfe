"""Adopted Jobs in real queues."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine.resource import JOB, NAMESPACE
from kaiwo.testing.operator import until
from kaiwo.workload.labels import MANAGED
from kaiwo_kueue.kinds import LOCAL_QUEUE, QUEUE_LABEL, WORKLOAD

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = [pytest.mark.cluster, pytest.mark.matrix, pytest.mark.usefixtures("pristine")]

FLAVORS = [{"name": "f"}]


def job(lab: Any, name: str, amount: str, *, queue: str = "kaiwo") -> Object:
    """A Job with the label of Kaiwo and that of a queue, which runs until it is deleted."""
    resources = {"cpu": amount, "memory": "1Gi"}
    container = {"name": "a", "image": "a", "resources": {"requests": resources, "limits": resources}}
    template = {
        "metadata": {"annotations": {"kaiwo-sandbox/forever": "true"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    labels = {MANAGED: "true", **({QUEUE_LABEL: queue} if queue else {})}
    metadata = {"name": name, "namespace": lab.namespace, "labels": labels}
    spec = {"suspend": bool(queue), "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


async def test_adopted_jobs_wait_for_quota_as_others_do(
    operator: Start, admin: Any, lab: Any, quota: Callable[..., Object], condition: Callable[..., Object]
) -> None:
    """In a namespace that never had a queue: LocalQueue on demand, admission, Kueue's words, the next one."""
    await admin.configure(clusterQueues=[{"name": "kaiwo", "spec": quota()}], resourceFlavors=FLAVORS)
    await operator()
    await admin.status("READY")
    await lab.client.create(JOB, job(lab, "first", "3"))
    first = await lab.reaches("first", "RUNNING")
    assert condition(first, "Admitted")["message"] == "The workload is admitted"
    assert first["allocation"]["queue"] == "kaiwo"
    assert await lab.client.get(LOCAL_QUEUE, lab.namespace, "kaiwo")
    await lab.client.create(JOB, job(lab, "second", "2"))
    second = await lab.reaches("second", "PENDING", reason="Pending")
    assert "insufficient unused quota for cpu in flavor f" in second["message"]
    await lab.client.delete(KAIWO_JOB, lab.namespace, "first")
    await lab.reaches("second", "RUNNING")
    found = [obj async for obj in lab.client.list(WORKLOAD, lab.namespace)]
    owners = {owner["name"] for obj in found for owner in obj["metadata"]["ownerReferences"]}
    assert owners <= {"first", "second"}


async def test_a_job_without_a_queue_leaves_its_namespace_alone(
    operator: Start, admin: Any, lab: Any, quota: Callable[..., Object]
) -> None:
    """It starts at once; no LocalQueue is made, and Kueue is not switched on for the namespace."""
    await admin.configure(clusterQueues=[{"name": "kaiwo", "spec": quota()}], resourceFlavors=FLAVORS)
    await operator()
    await admin.status("READY")
    await lab.client.create(JOB, job(lab, "plain", "1", queue=""))
    await lab.reaches("plain", "RUNNING")
    await asyncio.sleep(2)
    assert [obj async for obj in lab.client.list(LOCAL_QUEUE, lab.namespace)] == []
    labels = (await lab.client.get(NAMESPACE, None, lab.namespace))["metadata"]["labels"]
    assert "kueue-managed" not in labels


async def test_an_unknown_queue_is_said_in_kueues_words(
    operator: Start, admin: Any, lab: Any, quota: Callable[..., Object]
) -> None:
    """PENDING, with the name of the queue; deleting the KaiwoJob deletes what waits."""
    await admin.configure(clusterQueues=[{"name": "kaiwo", "spec": quota()}], resourceFlavors=FLAVORS)
    await operator()
    await admin.status("READY")
    await admin.label_namespace(lab.namespace, **{"kueue-managed": "true"})
    await lab.client.create(JOB, job(lab, "lost", "1", queue="absent"))
    status = await lab.reaches("lost", "PENDING", reason="Inadmissible")
    assert "absent" in status["message"]
    await lab.client.delete(KAIWO_JOB, lab.namespace, "lost")
    await until(lab.client, JOB, lab.namespace, "lost", lambda obj: obj is None)
