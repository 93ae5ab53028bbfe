"""Idle GPUs of any workload, from a fake exporter to the end of the workload."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine.errors import NotFound
from kaiwo.engine.resource import DEPLOYMENT, EVENT, JOB, NAMESPACE, NODE, POD
from kaiwo.testing.exporter import Exporter, lines
from kaiwo.testing.operator import until
from kaiwo_gpu_preemption.kinds import GPU_WORKLOAD

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster

PREFIX = "kaiwo.silogen.ai/gpu-preemption."
GPU = "amd.com/gpu"


class World:
    """One node of four GPUs that no other test uses, workloads on it, and an exporter that knows them."""

    def __init__(self, client: Client, namespace: str, exporter: Exporter) -> None:
        self.client, self.namespace, self.exporter = client, namespace, exporter
        self.use: dict[str, float] = {}
        self.node = f"gpus-of-{namespace}"[:63]

    @property
    def environment(self) -> dict[str, str]:
        """Process settings of the plugin."""
        return {
            "GPU_PREEMPTION_METRICS_ENDPOINT": self.exporter.url,
            "GPU_PREEMPTION_POLLING_INTERVAL": "1s",
        }

    def _template(self, gpus: int) -> Object:
        container = {"name": "c", "image": "x", "resources": {"limits": {GPU: str(gpus)}}}
        return {
            "metadata": {"annotations": {"kaiwo-sandbox/forever": "true"}, "labels": {"app": "w"}},
            "spec": {
                "containers": [container],
                "nodeSelector": {"kubernetes.io/hostname": self.node},
                "restartPolicy": "Never",
            },
        }

    async def job(self, name: str, gpus: int, **annotations: str) -> Object:
        """Create a plain Job whose pod never ends."""
        return await self.client.create(
            JOB,
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {
                    "name": name,
                    "namespace": self.namespace,
                    "annotations": {
                        PREFIX + key.replace("_", "-"): value for key, value in annotations.items()
                    },
                },
                "spec": {"template": self._template(gpus), "backoffLimit": 0},
            },
        )

    async def deployment(self, name: str, gpus: int) -> Object:
        """Create a plain Deployment."""
        template = self._template(gpus)
        template["spec"].pop("restartPolicy")
        spec = {"replicas": 1, "selector": {"matchLabels": {"app": "w"}}, "template": template}
        head = {"name": name, "namespace": self.namespace}
        return await self.client.create(
            DEPLOYMENT, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": head, "spec": spec}
        )

    async def export(self) -> None:
        """Let the exporter know the pods that there are."""
        found = {}
        async for pod in self.client.list(POD, self.namespace):
            name = pod["metadata"]["name"]
            limits = pod["spec"]["containers"][0]["resources"].get("limits", {})
            for prefix, percent in self.use.items():
                if name.startswith(f"{prefix}-"):
                    found[(self.namespace, name)] = [percent] * int(limits.get(GPU, "0"))
        self.exporter.body = lines(found)

    async def record(self, owner: Object, kind: str, *phases: str, timeout: float = 90.0) -> Object:
        """Wait until the GpuWorkload of a workload has one of the phases."""
        metadata = owner["metadata"]
        name = f"{kind.lower()}-{metadata['name']}-{metadata['uid'][:8]}"

        def there(obj: Object | None) -> bool:
            return (obj or {}).get("status", {}).get("phase") in phases

        found = await until(self.client, GPU_WORKLOAD, self.namespace, name, there, timeout=timeout)
        assert found is not None
        return found

    async def exists(self, kind: Resource, name: str) -> bool:
        """Whether a workload is there and not being deleted."""
        try:
            live = await self.client.get(kind, self.namespace, name)
        except NotFound:
            return False
        return "deletionTimestamp" not in live["metadata"]

    async def events(self, name: str) -> list[str]:
        """Reasons of the Events about a workload."""
        return [
            event["reason"]
            async for event in self.client.list(EVENT, self.namespace)
            if event["involvedObject"].get("name") == name
        ]


@pytest.fixture
async def world(client: Client, namespace: str) -> AsyncIterator[World]:
    """A world of the test's own; the node goes with the test."""
    async with Exporter() as exporter:
        made = World(client, namespace, exporter)
        capacity = {GPU: "4", "cpu": "64", "memory": "256Gi", "pods": "110"}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": made.node,
                "annotations": {"kwok.x-k8s.io/node": "fake"},
                "labels": {"kubernetes.io/hostname": made.node, "amd.com/gpu.product-name": "MI300X"},
            },
            "status": {"capacity": capacity, "allocatable": capacity},
        }
        await client.create(NODE, node)
        patch = {"metadata": {"annotations": {f"{PREFIX}enabled": "true", f"{PREFIX}grace-period": "4s"}}}
        await client.merge_patch(NAMESPACE, None, namespace, patch, field_manager="test")
        task = asyncio.create_task(_keep_exporting(made))
        yield made
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.delete(NODE, None, made.node)


async def _keep_exporting(world: World) -> None:
    while True:
        await world.export()
        await asyncio.sleep(0.5)


async def test_idle_gpus_are_taken_back_and_used_ones_are_left_alone(operator: Start, world: World) -> None:
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
    assert "GpuIdleNotice" in await world.events("idle")
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


async def test_the_longest_idle_workload_makes_room_and_the_others_stay(
    operator: Start, world: World
) -> None:
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
    operator: Start, world: World, lab: Any
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
