"""A workload in a queue: what Kueue says is what the workload says, from the first wait to the last start."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.engine.resource import JOB
from kaiwo.testing.operator import until
from kaiwo.testing.status_history import FINE
from kaiwo_kueue.kinds import LOCAL_QUEUE, QUEUE_CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object

pytestmark = [pytest.mark.cluster, pytest.mark.matrix]

WAITS = {"Schedulable": "True/Schedulable", "SpecApplied": "True/Applied", "Admitted": "False/Pending"}
RUNS = {**FINE, "Admitted": "True/Admitted"}


@pytest.fixture(scope="module")
def plugins() -> str:
    """With queues."""
    return "batch_job,deployment,ray_job,ray_service,gpu_amd,gpu_nvidia,kueue,node_pools"


@pytest.fixture(scope="module", autouse=True)
def nothing_left(control_plane: Any, crds: None) -> Iterator[None]:
    """The KaiwoQueueConfig, which is the whole cluster's, goes when the operator is down."""
    del crds
    yield
    control_plane.api.request("DELETE", f"/apis/{QUEUE_CONFIG.api_version}/{QUEUE_CONFIG.plural}/kaiwo")


@pytest.fixture
async def queue(client: Client, world: Any) -> str:
    """A queue for twenty CPUs in which the more important comes first."""
    name = f"told-{world.token}"
    resources = [{"name": "cpu", "nominalQuota": "20"}, {"name": "memory", "nominalQuota": "4Ti"}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": name, "resources": resources}]}
    spec = {
        "resourceGroups": [group],
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "namespaceSelector": {},
    }
    config = {
        "apiVersion": QUEUE_CONFIG.api_version,
        "kind": QUEUE_CONFIG.kind,
        "metadata": {"name": "kaiwo"},
        "spec": {
            "clusterQueues": [{"name": name, "spec": spec, "namespaces": [world.namespace]}],
            "resourceFlavors": [{"name": name}],
            "workloadPriorityClasses": [
                {"metadata": {"name": "told-low"}, "value": 1},
                {"metadata": {"name": "told-high"}, "value": 100},
            ],
        },
    }
    await client.apply(QUEUE_CONFIG, config, field_manager="test")
    await until(client, LOCAL_QUEUE, world.namespace, name, lambda found: found is not None)
    return name


async def occupy(world: Any, queue: str) -> None:
    """A Job of somebody else's that takes nearly all of the queue, and comes first."""
    wanted = {"cpu": "19", "memory": "1Gi"}
    container = {
        "name": "it",
        "image": "registry.example/it:1",
        "resources": {"requests": wanted, "limits": wanted},
    }
    labels = {"kueue.x-k8s.io/queue-name": queue, "kueue.x-k8s.io/priority-class": "told-high"}
    job: Object = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "urgent", "namespace": world.namespace, "labels": labels},
        "spec": {
            "suspend": True,
            "template": {
                "metadata": {"annotations": {"kaiwo-sandbox/forever": "true"}},
                "spec": {"restartPolicy": "Never", "containers": [container]},
            },
        },
    }
    await world.client.create(JOB, job)
    await world.sees(JOB, "urgent", lambda found: found and found.get("status", {}).get("ready"))


async def release(world: Any) -> None:
    """That Job goes."""
    await world.client.delete(JOB, world.namespace, "urgent", propagation="Background")


async def test_waiting_admission_eviction_and_admission_again(world: Any, form: Any, queue: str) -> None:
    """PENDING in Kueue's words, then well; evicted: PENDING without a start; admitted again: a new start."""
    await occupy(world, queue)
    async with world.story(form) as story:
        await story.begin(world.spec(form, clusterQueue=queue, priorityClass="told-low"), form.lasts)
        await story.sees(
            "PENDING", "Pending", message="insufficient unused quota for cpu", times="none", conditions=WAITS
        )
        story.check_absent("STARTING", "RUNNING", "READY")
        await release(world)
        await story.sees(*form.well, times="started", via=form.passes, conditions=RUNS)
        await asyncio.sleep(2)  # times are whole seconds: the next start is another one
        await occupy(world, queue)
        evicted = await story.sees(
            "PENDING", "Preempted", "Pending", times="none", via=form.passes,
            message="Preempted to accommodate|insufficient unused quota",
            conditions={**WAITS, "Admitted": "False/{reason}"},
        )  # fmt: skip
        assert "childUID" in evicted
        await release(world)
        await story.sees(*form.well, times="restarted", via=form.passes, conditions=RUNS)
        story.check_absent("ERROR", "FAILED")
        await story.check_events()


async def test_a_state_that_no_waiting_changes_is_reported(world: Any, form: Any, queue: str) -> None:
    """A resource that the queue does not cover: PENDING/NoQuota with the key and what is covered."""
    more = {"requests": {"ephemeral-storage": "1Gi"}, "limits": {"ephemeral-storage": "1Gi"}}
    async with world.story(form) as story:
        await story.begin(world.spec(form, clusterQueue=queue, resources=more), form.lasts)
        await story.sees(
            "PENDING", "NoQuota", times="none", conditions={**WAITS, "Admitted": "False/NoQuota"},
            message=f"queue {queue} does not cover ephemeral-storage; it covers cpu, memory",
        )  # fmt: skip
        story.check_absent("STARTING", "RUNNING", "READY", "ERROR")
