"""Ending is the same for every backend: its child is deleted, and nothing is created again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import kaiwo_batch_job.plugin
import kaiwo_deployment.plugin
import kaiwo_gpu_amd.plugin
import kaiwo_ray_job.plugin
import kaiwo_ray_service.plugin
from kaiwo.testing import job, plugins, service
from kaiwo.testing.builders import NOW
from kaiwo.workload.ending.record import Beneficiary, EndingRecord
from kaiwo.workload.model import Delete, DeletedChild, Registry

if TYPE_CHECKING:
    from conftest import World

REGISTRY = Registry.of(
    plugins(
        kaiwo_batch_job.plugin,
        kaiwo_deployment.plugin,
        kaiwo_gpu_amd.plugin,
        kaiwo_ray_job.plugin,
        kaiwo_ray_service.plugin,
    )
)


@pytest.mark.parametrize(
    ("obj", "child"),
    [
        pytest.param(job(image="image:1", entrypoint="echo hello"), "Job", id="batch_job"),
        pytest.param(service(image="image:1", gpus=1), "Deployment", id="deployment"),
        pytest.param(job(image="image:1", ray=True, entrypoint="python t.py"), "RayJob", id="ray_job"),
        pytest.param(
            service(image="image:1", ray=True, serveConfigV2="applications: []"), "AppWrapper",
            id="ray_service",
        ),
    ],
)  # fmt: skip
def test_a_workload_of_each_backend_ends_in_the_same_way(world: World, obj: Any, child: str) -> None:
    """Foreground deletion with the uid, TERMINATING, and TERMINATED when the child is gone."""
    world.obj, world.registry = obj, REGISTRY
    for _ in range(3):
        for write in world.plan().writes:
            world.execute(write)
    assert world.facts.live is not None
    assert world.facts.live["kind"] == child
    uid = world.facts.live["metadata"]["uid"]
    record = EndingRecord("d", "Idle", obj["metadata"]["uid"], "idle for 10m", NOW, child_uid=uid)
    world.obj = {
        **obj,
        "status": {"status": "TERMINATING", "childUID": uid, "termination": record.document()},
    }
    world.writes.clear()

    world.settle()

    [write] = world.writes
    assert isinstance(write, Delete)
    assert (write.resource.kind, write.uid, write.propagation) == (child, uid, "Foreground")
    assert world.status["status"] == "TERMINATING"
    gone = world.facts.live
    world.set(live=None, missing_child=DeletedChild(gone, deletion_seen=True))
    world.writes.clear()
    world.settle()
    assert world.status["status"] == "TERMINATED"
    assert world.condition("WorkloadTerminatedEarly")["reason"] == "GpuIdle"
    world.edit(gpus=2)
    world.settle()
    assert world.writes == []


@pytest.mark.parametrize(
    ("obj", "child"),
    [
        pytest.param(job(image="image:1", entrypoint="echo hello"), "Job", id="batch_job"),
        pytest.param(job(image="image:1", ray=True, entrypoint="python t.py"), "RayJob", id="ray_job"),
    ],
)
def test_a_job_of_each_backend_is_requeued_in_the_same_way(world: World, obj: Any, child: str) -> None:
    """Its child goes, nothing is created while it is held, and then a child of the same kind."""
    world.obj, world.registry = obj, REGISTRY
    world.settle()
    uid, own = world.status["childUID"], obj["metadata"]["uid"]
    urgent = Beneficiary("KaiwoJob", "team", "urgent", "uid-of-urgent")
    record = EndingRecord(
        "d", "Duration", own, "", NOW, child_uid=uid, beneficiary=urgent, action="Requeue"
    )  # fmt: skip
    written = {"status": "TERMINATING", "termination": record.document()}
    world.obj = {**world.obj, "status": {**world.status, **written}}
    world.settle()
    assert world.facts.live is not None
    gone = DeletedChild(world.facts.live, deletion_seen=True)
    world.set(live=None, missing_child=gone, beneficiary="Waiting")
    world.settle()
    world.writes.clear()
    world.settle()
    assert (world.status["reason"], world.writes) == ("PreemptedAndRequeued", [])
    world.set(beneficiary="Served")
    world.settle()
    assert [write.obj["kind"] for write in world.writes] == [child]
    assert world.status["childUID"]
