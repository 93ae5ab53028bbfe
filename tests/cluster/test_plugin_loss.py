"""The operator restarts without a plugin, and with it again: what lives goes on, what is new waits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_JOB, KAIWO_SERVICE
from kaiwo.engine.resource import DEPLOYMENT, JOB, POD
from kaiwo.testing.operator import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster

BACKENDS = "batch_job,deployment,gpu_amd"
STORAGE = "storage_s3_gcs_azure_git_hf"
HOLD = {"kaiwo-sandbox/hold": "true"}
FOREVER = {"kaiwo-sandbox/forever": "true"}


async def uid_of(lab: Any, kind: Any, name: str) -> str:
    """The uid of an object."""
    uid: str = (await lab.client.get(kind, lab.namespace, name))["metadata"]["uid"]
    return uid


async def release(lab: Any, name: str) -> None:
    """Let the download pod of a workload run to its end."""
    label = f"kaiwo.silogen.ai/name={name},kaiwo.silogen.ai/type=downloader"
    (pod,) = [pod async for pod in lab.client.list(POD, lab.namespace, label_selector=label)]
    patch = {"metadata": {"annotations": {"kaiwo-sandbox/hold": None}}}
    await lab.client.merge_patch(POD, lab.namespace, pod["metadata"]["name"], patch)


async def downloads(lab: Any, name: str) -> None:
    """Wait until a workload's download pod exists."""

    async def found() -> list[Object]:
        label = f"kaiwo.silogen.ai/name={name},kaiwo.silogen.ai/type=downloader"
        return [pod async for pod in lab.client.list(POD, lab.namespace, label_selector=label)]

    for _ in range(120):
        if await found():
            return
        await asyncio.sleep(0.5)
    raise AssertionError(f"no download pod of {name}")


async def test_a_download_goes_on_while_its_source_is_not_loaded(operator: Start, lab: Any) -> None:
    """Its Job stays, the workload starts after it, and a new workload names the distribution."""
    process = await operator(plugins=f"{BACKENDS},{STORAGE}")
    await lab.submit("train", storage=lab.cloning(), pods=HOLD)
    await lab.reaches("train", "PENDING", reason="Downloading")
    await downloads(lab, "train")
    job = await uid_of(lab, JOB, "train-download")
    await asyncio.to_thread(process.close)

    process = await operator(plugins=BACKENDS)
    await lab.submit("late", storage=lab.cloning())
    late = await lab.reaches("late", "ERROR", reason="DownloadNotAvailable")
    assert "kaiwo-storage-s3-gcs-azure-git-hf" in late["message"]
    train = await lab.reaches("train", "PENDING", reason="Downloading")
    assert "childUID" not in train
    assert await uid_of(lab, JOB, "train-download") == job
    await release(lab, "train")
    await lab.reaches("train", "STARTING")
    assert sorted(item["metadata"]["name"] for item in await lab.jobs()) == ["train", "train-download"]
    await asyncio.to_thread(process.close)

    await operator(plugins=f"{BACKENDS},{STORAGE}")
    await lab.reaches("late", "COMPLETE")
    assert await uid_of(lab, JOB, "train-download") == job


async def test_a_service_whose_download_nobody_reads_keeps_its_status(
    operator: Start, lab: Any, condition: Any
) -> None:
    """Without any source the operator reads no download Jobs; it heals with the plugin."""
    process = await operator(plugins=f"deployment,{STORAGE}")
    web = {
        "apiVersion": KAIWO_SERVICE.api_version,
        "kind": "KaiwoService",
        "metadata": {"name": "web", "namespace": lab.namespace, "annotations": HOLD},
        "spec": {"image": "registry.example/serve:1", "storage": lab.cloning()},
    }
    await lab.client.create(KAIWO_SERVICE, web)

    async def reaches(word: str, kind: str, reason: str) -> Object:
        def there(obj: Object | None) -> bool:
            status = (obj or {}).get("status", {})
            return status.get("status") == word and condition(status, kind).get("reason") == reason

        found = await until(lab.client, KAIWO_SERVICE, lab.namespace, "web", there)
        assert found is not None
        status: Object = found["status"]
        return status

    await reaches("PENDING", "DownloadJobSucceeded", "JobPending")
    await downloads(lab, "web")
    job = await uid_of(lab, JOB, "web-download")
    await asyncio.to_thread(process.close)

    process = await operator(plugins="deployment")
    status = await reaches("PENDING", "StorageReady", "DownloadNotAvailable")
    assert status["reason"] == "Downloading"
    await release(lab, "web")
    await until(
        lab.client, JOB, lab.namespace, "web-download",
        lambda obj: condition((obj or {}).get("status", {}), "Complete").get("status") == "True",
    )  # fmt: skip
    assert [item async for item in lab.client.list(DEPLOYMENT, lab.namespace)] == []
    await asyncio.to_thread(process.close)

    await operator(plugins=f"deployment,{STORAGE}")
    await reaches("STARTING", "DownloadJobSucceeded", "JobCompleted")
    assert await uid_of(lab, JOB, "web-download") == job


async def test_gpus_are_kept_while_their_vendor_is_not_loaded(operator: Start, lab: Any) -> None:
    """The running Job stays as it is; a new one waits for the vendor's plugin."""
    process = await operator(plugins=BACKENDS)
    await lab.submit("keeps", gpus=1, pods=FOREVER)
    await lab.reaches("keeps", "RUNNING")
    before = await lab.client.get(JOB, lab.namespace, "keeps")
    status = (await lab.client.get(KAIWO_JOB, lab.namespace, "keeps"))["status"]
    await asyncio.to_thread(process.close)

    process = await operator(plugins="batch_job,deployment")
    await lab.submit("late", gpus=1)
    await lab.reaches("late", "ERROR", reason="VendorNotLoaded")
    assert (await lab.client.get(KAIWO_JOB, lab.namespace, "keeps"))["status"] == status
    after = await lab.client.get(JOB, lab.namespace, "keeps")
    for part in ("uid", "generation", "labels", "annotations"):
        assert after["metadata"][part] == before["metadata"][part]
    assert after["spec"] == before["spec"]
    await asyncio.to_thread(process.close)

    await operator(plugins=BACKENDS)
    await lab.reaches("late", "COMPLETE")
    assert (await lab.client.get(KAIWO_JOB, lab.namespace, "keeps"))["status"] == status
