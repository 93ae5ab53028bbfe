"""A full queue, jobs past their duration, and an urgent one: with the real Kueue."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine.resource import JOB
from kaiwo.testing.operator import until
from kaiwo.workload.ending.record import EndingRecord

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from kaiwo.engine.resource import Object
    from kaiwo.testing.fault_proxy import FaultProxy
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("pristine")]

FOREVER = {"kaiwo-sandbox/forever": "true"}
QUICK = {"pendingThresholdForPreemption": "2s", "preemptionProtection": "1s"}


def condition(status: Object, kind: str) -> Object:
    """The condition of a type, empty when there is none."""
    return next((item for item in status.get("conditions", []) if item["type"] == kind), {})


async def test_an_urgent_job_gets_the_gpus_of_the_one_that_is_longest_past_its_duration(
    operator: Start, admin: Any, lab: Any
) -> None:
    """Report first ends nobody; then one job is ended, the smallest set, and the urgent one runs.

    The record names it, both sides have conditions and events, and the two jobs that were not needed run on:
    one within its duration, one past it.
    """
    await give(admin, gpus=6)
    await admin.set(scheduling={**QUICK, "preemption": "Report"})
    await operator()
    await admin.status("READY")
    await lab.submit("long", gpus=2, duration="1s", pods=FOREVER)
    await lab.reaches("long", "RUNNING")
    await lab.submit("late", gpus=2, duration="2s", pods=FOREVER)
    await lab.submit("steady", gpus=2, duration="24h", pods=FOREVER)
    for name in ("late", "steady"):
        await lab.reaches(name, "RUNNING")
    urgent = await lab.submit("urgent", gpus=2, pods=FOREVER)

    await has(lab, "urgent", "PreemptionDecided", "False")
    for name in ("long", "late", "steady"):
        assert (await status_of(lab, name))["status"] == "RUNNING"

    await admin.set(scheduling={**QUICK, "preemption": "Enforce"})
    ended = await lab.reaches("long", "TERMINATED")
    await lab.reaches("urgent", "RUNNING")

    record = EndingRecord.read(ended["termination"])
    assert record is not None
    assert record.beneficiary is not None
    assert (record.rule, record.beneficiary.uid) == ("Duration", urgent["metadata"]["uid"])
    assert record.figures["gpusFreed"] == record.figures["gpusRequested"] == 2
    assert condition(ended, "WorkloadTerminatedEarly")["reason"] == "DurationExceeded"
    decided = condition(await status_of(lab, "urgent"), "PreemptionDecided")
    assert decided["status"] == "True"
    assert f"KaiwoJob {lab.namespace}/long" in decided["message"]
    assert condition(await status_of(lab, "late"), "Preemptable")["status"] == "True"
    assert condition(await status_of(lab, "steady"), "Preemptable") == {}
    assert {job["metadata"]["name"] async for job in lab.client.list(JOB, lab.namespace)} == {
        "late", "steady", "urgent",
    }  # fmt: skip
    assert (await status_of(lab, "late"))["status"] == "RUNNING"
    reasons = {reason async for reason in warnings(lab, "long")}
    assert {"DurationExceeded", "WorkloadTerminating"} <= reasons


async def test_a_requeued_job_gives_its_gpus_away_and_runs_again_afterwards(
    operator: Start, admin: Any, lab: Any, proxy: FaultProxy, tmp_path: Path
) -> None:
    """Two operators with a Lease, and the one that decided is killed before it deletes the Job.

    The other one carries out the same decision: one victim, deleted once. It is created again when the
    urgent one runs, waits behind it, and runs from its beginning when that one is gone.
    """
    await give(admin, gpus=2)
    await admin.set(scheduling={**QUICK, "preemptionAction": "Requeue"})
    first = await operator(kubeconfig=proxy.write_kubeconfig(tmp_path / "first"), leader_election=True)
    second = await operator(leader_election=True, ready=False)
    await admin.status("READY")
    await lab.submit("long", gpus=2, duration="1s", pods=FOREVER)
    begun = await lab.reaches("long", "RUNNING")
    assert (await asyncio.to_thread(second.readyz_when_up))[0] == 200  # its cache is complete
    deletion = proxy.hang(method="DELETE", path="/jobs/long$", times=None)
    urgent = await lab.submit("urgent", gpus=2, pods=FOREVER)
    await asyncio.wait_for(deletion.happened.wait(), 60)
    decided = EndingRecord.read((await status_of(lab, "long"))["termination"])
    await asyncio.to_thread(first.kill)

    await lab.reaches("urgent", "RUNNING")
    await lab.reaches("long", "PENDING", reason="Pending")
    again = await status_of(lab, "long")
    await lab.client.delete(KAIWO_JOB, lab.namespace, "urgent", propagation="Foreground")
    ran = await lab.reaches("long", "RUNNING")

    record = EndingRecord.read(ran["termination"])
    assert decided is not None
    assert record is not None
    assert record.beneficiary is not None
    assert record.beneficiary.uid == urgent["metadata"]["uid"]
    assert (record.decision, record.child_uid) == (decided.decision, begun["childUID"])
    assert (record.action, record.requeues, record.earlier) == ("Requeue", 1, ())
    assert again["childUID"] == ran["childUID"] != begun["childUID"]
    assert ran["startTime"] > begun["startTime"]
    assert condition(ran, "Requeued")["status"] == "True"
    messages = [message for _, reason, message in await lab.events("long") if reason == "WorkloadPending"]
    assert any("preempted for KaiwoJob" in message and "requeued, once" in message for message in messages)


@pytest.mark.parametrize(
    ("kind", "change", "word"),
    [
        pytest.param(KAIWO_JOB, {"spec": {"duration": "24h"}}, "RUNNING", id="its duration is made longer"),
        pytest.param(JOB, {"spec": {"activeDeadlineSeconds": 1}}, "FAILED", id="it ends by itself"),
    ],
)
async def test_a_job_that_changes_before_its_ending_is_recorded_is_not_ended(
    operator: Start,
    admin: Any,
    lab: Any,
    proxy: FaultProxy,
    tmp_path: Path,
    kind: Any,
    change: Any,
    word: str,
) -> None:
    """The record is on its way when the job changes: it is refused, and nothing is done by that decision."""
    await give(admin, gpus=2)
    await admin.set(scheduling=QUICK)
    await operator(kubeconfig=proxy.write_kubeconfig(tmp_path / "slow"))
    await admin.status("READY")
    await lab.submit("long", gpus=2, duration="1s", pods=FOREVER)
    await lab.reaches("long", "RUNNING")
    await has(lab, "long", "Preemptable", "True")
    path = f"/{lab.namespace}/kaiwojobs/long/status$"
    record = proxy.delay(8, method="PATCH", path=path)
    await lab.submit("urgent", gpus=2, pods=FOREVER)
    await asyncio.wait_for(record.happened.wait(), 60)
    await lab.client.merge_patch(kind, lab.namespace, "long", change)

    async with asyncio.timeout(60):
        while not any(one.code == 409 and re.search(path, one.path) for one in proxy.records):
            await asyncio.sleep(0.2)
    status = await lab.reaches("long", word)
    assert status.get("termination") is None
    if word == "RUNNING":
        assert (await status_of(lab, "urgent"))["status"] == "PENDING"
    else:
        await lab.reaches("urgent", "RUNNING")


async def give(admin: Any, gpus: int) -> None:
    """Let the cluster have one queue with so many GPUs."""
    keys = {"cpu": "64", "memory": "1Ti", "amd.com/gpu": str(gpus)}
    resources = [{"name": key, "nominalQuota": amount} for key, amount in keys.items()]
    group = {"coveredResources": list(keys), "flavors": [{"name": "f", "resources": resources}]}
    await admin.configure(
        clusterQueues=[{"name": "kaiwo", "spec": {"resourceGroups": [group]}}],
        resourceFlavors=[{"name": "f", "nodeLabels": {"kaiwo/gpu-model": "mi300x"}}],
    )


async def status_of(lab: Any, name: str) -> Object:
    """The status of a KaiwoJob now."""
    found: Object = (await lab.client.get(KAIWO_JOB, lab.namespace, name))["status"]
    return found


async def has(lab: Any, name: str, kind: str, value: str) -> None:
    """Wait for a condition."""

    def holds(obj: Object | None) -> bool:
        return condition((obj or {}).get("status", {}), kind).get("status") == value

    await until(lab.client, KAIWO_JOB, lab.namespace, name, holds, timeout=60)


async def warnings(lab: Any, name: str) -> Any:
    """Reasons of the warnings about a workload."""
    from kaiwo.engine.resource import EVENT

    async for event in lab.client.list(EVENT, lab.namespace):
        if event["involvedObject"].get("name") == name and event["type"] == "Warning":
            yield event["reason"]
