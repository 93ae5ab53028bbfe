"""What only looks like a workload's own object or pod changes nothing: two tenants, a forger and a victim."""

from __future__ import annotations

import asyncio
import copy
import secrets
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine.errors import NotFound
from kaiwo.engine.resource import CONFIG_MAP, JOB, POD
from kaiwo.testing.operator import OperatorProcess, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from kaiwo.engine.resource import Object

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster

RUN_ID = "kaiwo.silogen.ai/run-id"
FOREVER = {"kaiwo-sandbox/forever": "true"}
TOO_MANY = 999
"""GPUs that no node has: the job waits."""


@pytest.fixture
def forgers_namespace(control_plane: Any) -> Iterator[str]:
    """The namespace of another tenant."""
    name = f"forger-{secrets.token_hex(3)}"
    control_plane.create_namespace(name)
    yield name
    control_plane.delete_namespace(name)


@pytest.fixture
async def operator_of_all(control_plane: Any, crds: None) -> AsyncIterator[OperatorProcess]:
    """An operator that reads all namespaces."""
    del crds
    process = OperatorProcess(
        kubeconfig=control_plane.kubeconfig, plugins="batch_job,gpu_amd,gpu_nvidia", leader_election=False
    ).start()
    await asyncio.to_thread(process.wait_ready)
    yield process
    await asyncio.to_thread(process.close)


def pod(name: str, namespace: str, labels: Object, **metadata: Any) -> Object:
    """A pod whose image cannot be pulled, as the worst news of a workload's pods."""
    failing = {"kaiwo-sandbox/image-pull-error": "it was forged"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name, "namespace": namespace, "labels": labels, "annotations": failing, **metadata,
        },
        "spec": {"containers": [{"name": "workload", "image": "forged:1"}]},
    }  # fmt: skip


def controller(kind: str, api_version: str, obj: Object) -> list[Object]:
    """An owner reference to an object as its controller, which anybody may write."""
    of = {"name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"]}
    return [{"apiVersion": api_version, "kind": kind, **of, "controller": True}]


def is_failing(obj: Object | None) -> bool:
    """Whether the image of a pod cannot be pulled."""
    states = (obj or {}).get("status", {}).get("containerStatuses", [])
    return any(state.get("state", {}).get("waiting") for state in states)


async def forge_pod(lab: Any, obj: Object) -> None:
    """Create a pod and wait until it fails."""
    await lab.client.create(POD, obj)
    namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
    assert await until(lab.client, POD, namespace, name, is_failing)


async def stays_running(lab: Any, name: str) -> None:
    """Let the operator reconcile a job once more: it is RUNNING as before."""
    job = await lab.client.merge_patch(KAIWO_JOB, lab.namespace, name, {"spec": {"duration": "90m"}})
    generation = job["metadata"]["generation"]

    def reported(obj: Object | None) -> bool:
        return (obj or {}).get("status", {}).get("observedGeneration") == generation

    found = await until(lab.client, KAIWO_JOB, lab.namespace, name, reported)
    assert found is not None
    status = found["status"]
    assert (status["status"], status["reason"]) == ("RUNNING", "Running")
    assert "forged" not in status["message"]


async def test_pods_of_another_namespace_change_no_status(
    operator_of_all: OperatorProcess, lab: Any, forgers_namespace: str
) -> None:
    """With the copied label, whatever their state."""
    del operator_of_all
    created = await lab.submit("train", pods=FOREVER)
    await lab.reaches("train", "RUNNING")
    labels = {RUN_ID: created["metadata"]["uid"]}
    await forge_pod(lab, pod("forged", forgers_namespace, labels))
    await stays_running(lab, "train")


@pytest.mark.parametrize("claims", ["nothing", "the workload"])
async def test_a_pod_that_the_child_does_not_control_changes_no_status(
    operator: Start, lab: Any, claims: str
) -> None:
    """In the same namespace, with the copied label: without a controller, or with another than the child."""
    await operator(plugins="batch_job,gpu_amd,gpu_nvidia")
    created = await lab.submit("train", pods=FOREVER)
    await lab.reaches("train", "RUNNING")
    owners = controller("KaiwoJob", KAIWO_JOB.api_version, created) if claims == "the workload" else []
    labels = {RUN_ID: created["metadata"]["uid"]}
    await forge_pod(lab, pod("forged", lab.namespace, labels, ownerReferences=owners))
    await stays_running(lab, "train")


async def forged_job(lab: Any, owner: Object, name: str, **metadata: Any) -> Object:
    """A Job that completes at once and claims that a KaiwoJob made it."""
    template = {
        "metadata": {"annotations": {"kaiwo-sandbox/run-time": "1s"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "forged:1"}]},
    }
    labels = {RUN_ID: owner["metadata"]["uid"], "kaiwo.silogen.ai/name": "train"}
    forged = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name, "namespace": lab.namespace, "labels": labels,
            "ownerReferences": controller("KaiwoJob", KAIWO_JOB.api_version, owner), **metadata,
        },
        "spec": {"template": template},
    }  # fmt: skip
    made = await lab.client.create(JOB, forged, field_manager="kubectl-create")

    def complete(obj: Object | None) -> bool:
        return bool((obj or {}).get("status", {}).get("succeeded"))

    await until(lab.client, JOB, lab.namespace, name, complete)
    return made


async def test_a_job_with_a_forged_owner_reference_is_no_child(operator: Start, lab: Any) -> None:
    """It is somebody else's object of that name. When it is gone, the KaiwoJob runs a Job of its own."""
    await operator(plugins="batch_job,gpu_amd,gpu_nvidia")
    waiting = await lab.submit("train", gpus=TOO_MANY)
    await lab.reaches("train", "ERROR", reason="GPUsExceedNode")
    forged = await forged_job(lab, waiting, "train")
    status = await lab.reaches("train", "ERROR", reason="NameConflict")
    assert "names the KaiwoJob as its controller, but Kaiwo did not create it" in status["message"]
    assert "childUID" not in status

    await lab.client.delete(JOB, lab.namespace, "train")
    await lab.reaches("train", "ERROR", reason="GPUsExceedNode")  # its end was not the workload's
    await lab.client.merge_patch(KAIWO_JOB, lab.namespace, "train", {"spec": {"gpus": 1}})
    status = await lab.reaches("train", "COMPLETE")
    assert status["childUID"] != forged["metadata"]["uid"]


async def test_a_forged_download_is_no_download(operator: Start, lab: Any) -> None:
    """Neither a Job that claims to have downloaded everything, nor a ConfigMap that says what to download."""
    await operator()
    waiting = await lab.submit("train", gpus=TOO_MANY, storage=lab.cloning())
    await lab.reaches("train", "ERROR", reason="GPUsExceedNode")
    await lab.submit("real", storage=lab.cloning(), pods={"kaiwo-sandbox/hold": "true"})
    await lab.reaches("real", "PENDING", reason="Downloading")
    resolved = (await lab.client.get(JOB, lab.namespace, "real-download"))["metadata"]["annotations"]
    await forged_job(lab, waiting, "train-download", annotations=copy.deepcopy(resolved))
    await lab.client.merge_patch(KAIWO_JOB, lab.namespace, "train", {"spec": {"gpus": 1}})
    status = await lab.reaches("train", "ERROR", reason="NameConflict")
    assert "Job train-download exists" in status["message"]
    with pytest.raises(NotFound):
        await lab.client.get(JOB, lab.namespace, "train")

    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "train-download", "namespace": lab.namespace,
            "labels": {RUN_ID: waiting["metadata"]["uid"]},
            "ownerReferences": controller("KaiwoJob", KAIWO_JOB.api_version, waiting),
        },
        "data": {"config.yaml": "{}"},
    }  # fmt: skip
    await lab.client.create(CONFIG_MAP, config, field_manager="kubectl-create")
    await lab.client.delete(JOB, lab.namespace, "train-download")
    await lab.says("train", "ConfigMap train-download exists")
    assert (await lab.client.get(CONFIG_MAP, lab.namespace, "train-download"))["data"] == config["data"]
