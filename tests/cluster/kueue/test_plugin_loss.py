"""The operator restarts without the kueue plugin, and with it again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_CONFIG, KAIWO_JOB
from kaiwo.engine.resource import JOB
from kaiwo.testing.operator import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("pristine")]

FOREVER = {"kaiwo-sandbox/forever": "true"}
WITHOUT = "batch_job,gpu_amd,gpu_nvidia,node_pools"


def cpu(amount: str) -> Object:
    """Resources of a job that requests CPU only."""
    wanted = {"cpu": amount, "memory": "1Gi"}
    return {"requests": wanted, "limits": wanted}


async def test_queued_jobs_stay_in_their_queue_while_the_plugin_is_not_loaded(
    operator: Start, admin: Any, lab: Any, quota: Callable[..., Object], condition: Callable[..., Object]
) -> None:
    """A waiting job keeps its status and its place, Kueue still admits it, and a new one waits."""
    await admin.configure(clusterQueues=[{"name": "kaiwo", "spec": quota()}], resourceFlavors=[{"name": "f"}])
    process = await operator()
    await admin.status("READY")
    await lab.submit("first", resources=cpu("3"), pods=FOREVER)
    await lab.reaches("first", "RUNNING")
    await lab.submit("second", resources=cpu("2"), pods=FOREVER)
    before = await lab.reaches("second", "PENDING", reason="Pending")
    job = await lab.client.get(JOB, lab.namespace, "second")
    await asyncio.to_thread(process.close)

    def admitted(reason: str) -> Callable[[Object | None], bool]:
        return lambda obj: condition((obj or {}).get("status", {}), "Admitted").get("reason") == reason

    process = await operator(plugins=WITHOUT)
    for name in ("first", "second"):
        await until(lab.client, KAIWO_JOB, lab.namespace, name, admitted("QueueSystemNotLoaded"))
    after = (await lab.client.get(KAIWO_JOB, lab.namespace, "second"))["status"]
    same = ("status", "reason", "message", "childUID", "allocation")
    assert {key: after[key] for key in same} == {key: before[key] for key in same}
    held = await lab.client.get(JOB, lab.namespace, "second")
    assert (held["metadata"]["uid"], held["spec"]["suspend"]) == (job["metadata"]["uid"], True)
    assert held["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "kaiwo"

    await lab.submit("named", clusterQueue="kaiwo", resources=cpu("1"))
    named = await lab.reaches("named", "ERROR", reason="QueueSystemNotLoaded")
    assert "queue plugin kueue is not loaded" in named["message"]
    assert {item["metadata"]["name"] for item in await lab.jobs()} == {"first", "second"}
    assert (await lab.client.get(KAIWO_CONFIG, None, "kaiwo"))["status"]["queuePlugin"] == "kueue"

    # Kueue itself is still there, and follows its own rules.
    await lab.client.delete(KAIWO_JOB, lab.namespace, "first")
    await lab.reaches("second", "RUNNING")
    await asyncio.to_thread(process.close)

    await operator()
    await until(lab.client, KAIWO_JOB, lab.namespace, "second", admitted("Admitted"))
    assert (await lab.client.get(JOB, lab.namespace, "second"))["metadata"]["uid"] == job["metadata"]["uid"]
    await lab.reaches("named", "COMPLETE")
