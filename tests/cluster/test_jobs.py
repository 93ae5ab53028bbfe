"""A KaiwoJob from creation to its end, as its user sees it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine.resource import JOB, NODE
from kaiwo.testing.operator import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from kaiwo.engine.resource import Object
    from kaiwo.testing.fault_proxy import FaultProxy
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster


async def test_a_gpu_job_runs_to_complete(operator: Start, lab: Any) -> None:
    """One GPU, one pod, COMPLETE; with the times, the split and one event per transition."""
    await operator()
    created = await lab.submit("train", gpus=1, user="Jane.Doe+x@Amd.com", entrypoint="echo hello")

    status = await lab.reaches("train", "COMPLETE")

    [job] = await lab.jobs()
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert job["metadata"]["name"] == "train"
    assert job["metadata"]["labels"]["kaiwo.silogen.ai/user"] == "jane.doe-x-amd.com"
    assert job["metadata"]["labels"]["kaiwo.silogen.ai/run-id"] == created["metadata"]["uid"]
    assert container["resources"]["limits"]["amd.com/gpu"] == "1"
    assert container["command"] == ["/bin/sh", "-c", "echo hello"]
    assert job["spec"].get("suspend", False) is False
    assert status["childUID"] == job["metadata"]["uid"]
    assert status["allocation"]["gpus"] == 1
    assert status["observedGeneration"] == 1
    assert status["startTime"] <= status["completionTime"]
    assert isinstance(status["duration"], int)


async def test_from_creation_to_pending_and_its_job_are_two_writes(
    operator: Start, lab: Any, proxy: FaultProxy, tmp_path: Path
) -> None:
    """One POST of the Job, one patch of the status; nothing else but Events."""
    await operator(kubeconfig=proxy.write_kubeconfig(tmp_path / "kubeconfig"))
    await lab.submit("held", gpus=1, pods={"kaiwo-sandbox/start-delay": "600s"})
    await lab.reaches("held", "PENDING", "STARTING")

    await asyncio.sleep(1)  # the proxy may note an answer after it was given

    writes = [
        (w.method, w.path.rsplit("/", 3)[-2:]) for w in proxy.writes(beside="lease|events|kaiwoconfigs")
    ]

    assert writes[0] == ("POST", [lab.namespace, "jobs"])
    assert writes[1] == ("PATCH", ["held", "status"])
    assert len(writes) == 2


async def test_nothing_is_written_at_rest(
    operator: Start, lab: Any, proxy: FaultProxy, tmp_path: Path
) -> None:
    """Finished, running and refused workloads cost no write, at rest and when the operator restarts."""
    process = await operator(kubeconfig=proxy.write_kubeconfig(tmp_path / "kubeconfig"))
    await lab.submit("done")
    await lab.submit("runs", gpus=1, pods={"kaiwo-sandbox/forever": "true"})
    await lab.submit("refused", gpus=4096)
    await lab.reaches("done", "COMPLETE")
    await lab.reaches("runs", "RUNNING")
    await lab.reaches("refused", "ERROR")
    await asyncio.sleep(3)
    before = len(proxy.writes())

    await asyncio.sleep(6)
    assert proxy.writes()[before:] == []

    assert await asyncio.to_thread(process.stop) == 0
    await asyncio.to_thread(process.start().wait_ready)
    await asyncio.sleep(3)
    assert proxy.writes()[before:] == []


async def test_a_job_of_an_absent_vendor_says_so_and_runs_when_a_node_joins(
    operator: Start, lab: Any, condition: Any, control_plane: Any
) -> None:
    """The refusal names vendor and count; no polling is needed to heal."""
    await operator()
    await lab.submit("waits", gpus=3, gpuVendor="nvidia", gpuModels=["nvidiah999"])
    status = await lab.reaches("waits", "ERROR")
    schedulable = condition(status, "Schedulable")
    assert schedulable["status"] == "False"
    assert status["reason"] == schedulable["reason"] == "NoGPUs"
    assert "h999" in status["message"]
    assert await lab.jobs() == []

    joining = _node(f"h999-{lab.namespace}"[:60].rstrip("-"), "NVIDIA-H999")
    control_plane.add_node(joining)
    try:
        await lab.reaches("waits", "COMPLETE")
    finally:
        await lab.client.delete(NODE, None, joining["metadata"]["name"])


def _node(name: str, product: str) -> Object:
    from kaiwo_sandbox.nodes import nvidia_node

    found: Object = nvidia_node(name)
    found["metadata"]["labels"] |= {"nvidia.com/gpu.product": product, "kaiwo/gpu-model": "nvidiah999"}
    return found


async def test_an_unknown_vendor_is_answered_with_the_loaded_ones(operator: Start, lab: Any) -> None:
    """A typo in the vendor is named in the status."""
    await operator()
    await lab.submit("typo", gpus=1, gpuVendor="nvidai")
    status = await lab.reaches("typo", "ERROR", reason="VendorNotLoaded")
    assert "nvidia" in status["message"]
    assert "amd" in status["message"]


async def test_an_exit_code_ends_in_failed_with_the_code(operator: Start, lab: Any) -> None:
    """FAILED, once, with the exit code; never a second run."""
    await operator()
    await lab.submit("breaks", pods={"kaiwo-sandbox/exit-code": "3"})
    status = await lab.reaches("breaks", "FAILED")
    assert "3" in status["message"]
    assert len(await lab.jobs()) == 1
    kinds = {reason for _, reason, _ in await _events(lab, "breaks", "WorkloadFailed")}
    assert "WorkloadFailed" in kinds


async def _events(lab: Any, name: str, awaited: str) -> list[tuple[str, str, str]]:
    """Events are sent at low priority: read them several times."""
    for _ in range(10):
        found: list[tuple[str, str, str]] = await lab.events(name)
        if any(reason == awaited for _, reason, _ in found):
            return found
        await asyncio.sleep(1)
    return found


async def test_an_image_that_cannot_be_pulled_is_reported(operator: Start, lab: Any) -> None:
    """The message names the image, and what the kubelet said about it."""
    await operator()
    await lab.submit("pulls", pods={"kaiwo-sandbox/image-pull-error": "manifest unknown"})
    status = await lab.reaches("pulls", "PENDING", "STARTING", reason="ImagePullBackOff")
    assert "image 'registry.example/train:1' cannot be pulled; it does not exist there" in status["message"]


async def test_sixteen_gpus_in_one_pod_are_refused_with_the_nearest_count(operator: Start, lab: Any) -> None:
    """No child is made for what can never run, and the message says what could."""
    await operator()
    await lab.submit("wide", gpus=16)
    status = await lab.reaches("wide", "ERROR")
    assert "16" in status["message"]
    assert "8" in status["message"]
    assert await lab.jobs() == []


async def test_a_deleted_child_is_made_again_while_the_job_has_not_ended(operator: Start, lab: Any) -> None:
    """To delete the Job is no way to end a workload."""
    await operator()
    await lab.submit("again", pods={"kaiwo-sandbox/forever": "true"})
    await lab.reaches("again", "RUNNING")
    [first] = await lab.jobs()
    await lab.client.delete(JOB, lab.namespace, "again", propagation="Background")
    second = await until(
        lab.client, JOB, lab.namespace, "again",
        lambda job: job is not None and job["metadata"]["uid"] != first["metadata"]["uid"],
    )  # fmt: skip
    assert second is not None


async def test_an_immutable_change_is_refused_and_the_run_goes_on(
    operator: Start, lab: Any, condition: Any
) -> None:
    """SpecApplied says which field; the running Job is not touched."""
    await operator()
    await lab.submit("fixed", gpus=1, pods={"kaiwo-sandbox/forever": "true"})
    await lab.reaches("fixed", "RUNNING")
    [before] = await lab.jobs()
    await lab.client.merge_patch(
        KAIWO_JOB, lab.namespace, "fixed", {"spec": {"image": "registry.example/other:2"}}
    )
    found = await until(
        lab.client, KAIWO_JOB, lab.namespace, "fixed",
        lambda obj: condition((obj or {}).get("status", {}), "SpecApplied").get("status") == "False",
    )  # fmt: skip
    assert found is not None
    reported = condition(found["status"], "SpecApplied")
    assert reported["reason"] == "Immutable"
    assert "image" in reported["message"]
    assert found["status"]["status"] == "RUNNING"
    [after] = await lab.jobs()
    assert json.dumps(after["spec"], sort_keys=True) == json.dumps(before["spec"], sort_keys=True)
