"""Idle GPUs of any workload, from a fake exporter to the end of the workload."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine.resource import DEPLOYMENT, JOB, POD
from kaiwo.testing.operator import event_reasons
from kaiwo_gpu_preemption.kinds import GPU_WORKLOAD, STATEFUL_SET

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from kaiwo.testing.fault_proxy import FaultProxy
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster

PREFIX = "kaiwo.silogen.ai/gpu-preemption."
GPU = "amd.com/gpu"


async def test_idle_gpus_are_taken_back_and_used_ones_are_left_alone(operator: Start, world: Any) -> None:
    """A Job with policy Always is deleted after notice; a Deployment at work costs no write."""
    world.use = {"idle": 0.0, "busy": 90.0}
    idle, busy = await world.job("idle", 2, policy="Always"), await world.deployment("busy", 2)
    await operator(env=world.environment, leader_election=True)
    first = await world.record(busy, "Deployment", "Active")

    ended = await world.record(idle, "Job", "Preempted")

    status = ended["status"]
    assert status["preemptionReason"].startswith(
        "GpuIdle: its GPUs (2 amd.com/gpu) have been used less than 5 %"
    )
    assert status["preemptedAt"]
    assert status["finishedAt"]
    assert status["decision"]["rule"] == "Idle"
    assert status["ownerChain"].endswith(" -> Job/idle")
    assert ended["spec"]["gpuResources"] == {GPU: 2}
    assert not await world.exists(JOB, "idle")
    assert "GpuIdleNotice" in await event_reasons(world.client, world.namespace, "idle")
    now = await world.record(busy, "Deployment", "Active")
    assert now["status"]["ownerChain"].count("->") == 2
    assert now["status"]["aggregatedUtilization"] == 90
    settled = now["metadata"]["resourceVersion"]
    scrapes = len(world.exporter.requests)
    while len(world.exporter.requests) < scrapes + 4:
        await asyncio.sleep(0.2)
    last = await world.record(busy, "Deployment", "Active")
    assert last["metadata"]["resourceVersion"] == settled
    assert first["metadata"]["uid"] == last["metadata"]["uid"]
    assert await world.exists(DEPLOYMENT, "busy")


async def test_the_longest_idle_workload_makes_room_and_the_others_stay(operator: Start, world: Any) -> None:
    """OnPressure ends nothing while nobody waits, then as few as it takes; the record names for whom."""
    world.use = {"first": 0.0, "second": 50.0, "urgent": 50.0}
    first, second = await world.job("first", 2), await world.job("second", 2)
    await operator(env=world.environment, leader_election=True)
    await world.record(first, "Job", "Idle")
    await world.record(second, "Job", "Active")
    world.use["second"] = 0.0
    await world.record(second, "Job", "Idle")
    urgent = await world.job("urgent", 2)

    ended = await world.record(first, "Job", "Preempted")

    assert ended["status"]["preemptedFor"] == f"Job {world.namespace}/urgent"
    await world.record(urgent, "Job", "Active")
    assert (await world.record(second, "Job", "Idle"))["status"].get("preemptedAt") is None
    assert await world.exists(JOB, "second")


async def test_a_kaiwojob_becomes_terminated_and_a_decision_survives_the_operator(
    operator: Start, world: Any, lab: Any
) -> None:
    """Its owner can read why. What was decided about a Job before a crash is carried out after it."""
    world.use = {"mine": 0.0, "other": 0.0}
    process = await operator(env=world.environment, leader_election=True)
    other = await world.job("other", 2, policy="Report")
    found = await world.record(other, "Job", "Idle")
    await asyncio.to_thread(process.close)
    record = {
        "decision": "d1", "rule": "Idle", "workloadUID": other["metadata"]["uid"],
        "evidence": "its GPUs were idle", "decidedAt": found["status"]["idleSince"],
    }  # fmt: skip
    await world.client.merge_patch(
        GPU_WORKLOAD, world.namespace, found["metadata"]["name"],
        {"status": {"phase": "Preempting", "decision": record}},
        subresource="status", field_manager="kaiwo",
    )  # fmt: skip
    annotations = {"metadata": {"annotations": {f"{PREFIX}policy": "Always"}}}
    await world.client.merge_patch(JOB, world.namespace, "other", annotations, field_manager="test")
    created = await lab.submit(
        "mine", gpus=1, pods={"kaiwo-sandbox/forever": "true"},
        metadata={"annotations": {f"{PREFIX}policy": "Always"}},
    )  # fmt: skip

    await operator(env=world.environment, leader_election=True)

    await world.record(other, "Job", "Preempted")
    assert not await world.exists(JOB, "other")
    status = await lab.reaches("mine", "TERMINATED")
    assert status["reason"] == "GpuIdle"
    assert status["termination"]["rule"] == "Idle"
    ended = await world.record(created, "KaiwoJob", "Preempted")
    assert ended["status"]["ownerChain"].endswith(" -> Job/mine -> KaiwoJob/mine")
    assert await world.exists(KAIWO_JOB, "mine")


async def test_any_root_owner_is_tracked_and_only_what_may_be_ended_ends(operator: Start, world: Any) -> None:
    """A StatefulSet is only reported on, an annotation that cannot be read protects, a bare Pod ends.

    The record of the Pod goes after its ttl, those of the others stay.
    """
    world.use = {"pod": 0.0, "store": 0.0, "typo": 0.0}
    store = await world.stateful_set("store", 1, policy="Report")
    typo = await world.job("typo", 1, policy="always")
    pod = await world.pod("pod-alone", 1, policy="Always", ttl="3s")
    await operator(env=world.environment, leader_election=True)

    ended = await world.record(pod, "Pod", "Preempted")
    reported = await world.no_fit(store, "StatefulSet", "ReportOnly")
    await world.goes(ended)

    assert ended["status"]["ownerChain"] == "Pod/pod-alone"
    assert not await world.exists(POD, "pod-alone")
    assert reported["status"]["ownerChain"] == "Pod/store-0 -> StatefulSet/store"
    assert reported["status"]["phase"] == "Idle"
    assert await world.exists(STATEFUL_SET, "store")
    wrong = await world.record(typo, "Job", "Idle")
    [invalid] = [one for one in wrong["status"]["conditions"] if one["type"] == "PolicyValid"]
    assert "gpu-preemption.policy is 'always', expected OnPressure, Always or Report" in invalid["message"]
    assert wrong["spec"]["preemptionPolicy"] == "OnPressure"
    assert await world.exists(JOB, "typo")


async def test_an_owner_that_cannot_be_read_harms_no_other_workload(
    operator: Start, world: Any, proxy: FaultProxy, tmp_path: Path
) -> None:
    """Idle GPUs of others are taken back; its own pods are left alone until it can be read again."""
    world.use = {"broken": 0.0, "idle": 0.0}
    broken, idle = await world.job("broken", 2, policy="Always"), await world.job("idle", 2, policy="Always")
    proxy.answer(500, times=None, method="GET", path="/jobs/broken$")
    kubeconfig = proxy.write_kubeconfig(tmp_path / "kubeconfig")
    process = await operator(kubeconfig=kubeconfig, env=world.environment, leader_election=True)

    await world.record(idle, "Job", "Preempted")

    assert await world.exists(JOB, "broken")
    assert process.log.count(f"Job/broken in namespace {world.namespace} cannot be read") == 1
    proxy.clear()
    await world.record(broken, "Job", "Preempted")
    assert not await world.exists(JOB, "broken")
