"""Downloads before the start, on a real API server: order, waiting, failing, and what survives a restart."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from kaiwo.engine.resource import (
    CONFIG_MAP,
    DEPLOYMENT,
    EVENT,
    JOB,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    STORAGE_CLASS,
)
from kaiwo.host.kinds import KAIWO_JOB, KAIWO_SERVICE
from kaiwo.testing.fault_proxy import FaultProxy
from kaiwo.testing.operator import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from kaiwo.engine.credentials import Connection
    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster

GIT = {
    "repository": "https://git.example.com/r.git",
    "token": {"secretName": "git.login", "secretKey": "token"},
    "targetPath": "src",
}
HOLD = {"kaiwo-sandbox/hold": "true"}
FOREVER = {"kaiwo-sandbox/forever": "true"}


def storage(**more: Any) -> Object:
    """A data volume into which a repository is cloned."""
    return {
        "storageEnabled": True,
        "data": {"storageSize": "1Gi", "download": {"git": [GIT]}, **more.pop("data", {})},
        **more,
    }


async def gone(lab: Any, resource: Any, name: str) -> None:
    """Wait until an object is gone."""
    await until(lab.client, resource, lab.namespace, name, lambda obj: obj is None)


async def download_pod(lab: Any, name: str) -> Object:
    """The download pod of a workload, once there is one."""
    label = f"kaiwo.silogen.ai/name={name},kaiwo.silogen.ai/type=downloader"
    for _ in range(60):
        async for pod in lab.client.list(POD, lab.namespace, label_selector=label):
            found: Object = pod
            return found
        await asyncio.sleep(0.5)
    raise AssertionError(f"no download pod of {name}")


async def says(lab: Any, name: str, text: str, resource: Any = KAIWO_JOB) -> Object:
    """Wait until the workload's message has a text in it; its status."""
    found = await until(
        lab.client, resource, lab.namespace, name,
        lambda obj: text in ((obj or {}).get("status") or {}).get("message", ""),
    )  # fmt: skip
    assert found is not None
    status: Object = found["status"]
    return status


async def test_a_job_starts_when_its_download_has_succeeded(
    operator: Start, lab: Any, condition: Any
) -> None:
    """Volume, ConfigMap and download Job first; the Job with the GPU only afterwards."""
    await operator()
    await lab.submit("train", gpus=1, storage=storage(), pods=HOLD)
    waiting = await lab.reaches("train", "PENDING", reason="Downloading")
    assert condition(waiting, "DownloadJobSucceeded")["reason"] == "JobPending"
    [download] = await lab.jobs()
    assert download["metadata"]["name"] == "train-download"
    assert download["spec"]["backoffLimit"] == 3
    owner = download["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("KaiwoJob", "train", True)
    config = await lab.client.get(CONFIG_MAP, lab.namespace, "train-download")
    assert "git.login" in config["data"]["config.yaml"]
    claim = await lab.client.get(PERSISTENT_VOLUME_CLAIM, lab.namespace, "train-data")
    assert claim["status"]["phase"] == "Bound"

    pod = await download_pod(lab, "train")
    release = {"metadata": {"annotations": {"kaiwo-sandbox/hold": None}}}
    await lab.client.merge_patch(POD, lab.namespace, pod["metadata"]["name"], release)
    made = await until(lab.client, JOB, lab.namespace, "train", lambda job: job is not None)
    assert made is not None
    finished = await lab.client.get(JOB, lab.namespace, "train-download")
    since = condition(finished["status"], "SuccessCriteriaMet")["lastTransitionTime"]
    assert since <= made["metadata"]["creationTimestamp"]
    await until(
        lab.client, KAIWO_JOB, lab.namespace, "train",
        lambda obj: condition((obj or {})["status"], "DownloadJobSucceeded").get("status") == "True",
    )  # fmt: skip


async def test_the_whole_way_takes_one_write_for_each_state(
    operator: Start, lab: Any, proxy: FaultProxy, tmp_path: Path
) -> None:
    """COMPLETE without a hand; at rest nothing is written any more, nor after a restart."""
    process = await operator(kubeconfig=proxy.write_kubeconfig(tmp_path / "kubeconfig"))
    await lab.submit("whole", storage=storage(), pods={"kaiwo-sandbox/run-time": "2s"})
    status = await lab.reaches("whole", "COMPLETE", timeout=60.0)
    assert {item["type"]: item["status"] for item in status["conditions"]} == {
        "Schedulable": "True", "StorageReady": "True", "DownloadJobSucceeded": "True", "SpecApplied": "True",
    }  # fmt: skip
    await asyncio.sleep(2)
    writes = [(w.method, w.path) for w in proxy.writes(beside="lease|events|kaiwoconfigs")]
    made = [path.rsplit("/", 2)[-2:] for method, path in writes if not path.endswith("/status")]
    assert len(made) == 4, writes
    statuses = [path for _, path in writes if path.endswith("/status")]
    # Waiting for the pod, the volume bound, downloading, starting, running, complete.
    assert len(statuses) <= 6, writes
    before = len(proxy.writes())
    await asyncio.sleep(5)
    assert await asyncio.to_thread(process.stop) == 0
    await asyncio.to_thread(process.start().wait_ready)
    await asyncio.sleep(3)
    assert proxy.writes()[before:] == []


@pytest.mark.parametrize(("code", "reason"), [("3", "DownloadUnavailable"), ("2", "DownloadInvalid")])
async def test_a_fatal_exit_code_fails_the_workload_at_once(
    operator: Start, lab: Any, condition: Any, code: str, reason: str
) -> None:
    """No further try, no Job of the workload's own, and a reason for the code."""
    await operator()
    name = f"fails-{code}"
    await lab.submit(name, storage=storage(), pods={"kaiwo-sandbox/exit-code": code})
    status = await lab.reaches(name, "FAILED")
    assert status["reason"] == reason
    assert f"exit code {code}" in status["message"]
    assert status["completionTime"]
    told = condition(status, "DownloadJobSucceeded")
    assert (told["status"], told["reason"]) == ("False", "JobFailed")
    [download] = await lab.jobs()
    assert download["status"]["failed"] == 1


async def test_the_programs_last_words_are_the_message(operator: Start, lab: Any) -> None:
    """What it left as its termination message, as a kubelet reports it."""
    await operator()
    await lab.submit("words", storage=storage(), pods=FOREVER)
    await lab.reaches("words", "PENDING", reason="Downloading")
    pod = await download_pod(lab, "words")
    name = pod["metadata"]["name"]
    await until(
        lab.client, POD, lab.namespace, name, lambda obj: (obj or {})["status"].get("phase") == "Running"
    )
    line = "git[0]: access to r.git was refused (HTTP 403); check the credentials"
    ended = {
        "exitCode": 3,
        "reason": "Error",
        "message": json.dumps({"event": "failed", "exitCode": 3, "message": line}),
        "startedAt": "2026-01-01T00:00:00Z",
        "finishedAt": "2026-01-01T00:00:01Z",
    }
    container = {
        "name": "download", "image": "x", "imageID": "", "ready": False, "restartCount": 0,
        "state": {"terminated": ended},
    }  # fmt: skip
    body = {"status": {"phase": "Failed", "containerStatuses": [container]}}
    await lab.client.merge_patch(POD, lab.namespace, name, body, subresource="status")
    status = await lab.reaches("words", "FAILED")
    assert line in status["message"]


async def test_a_missing_secret_is_told_and_heals(operator: Start, lab: Any) -> None:
    """PENDING with what the kubelet says of the pod; nothing needs to be done but to make the Secret."""
    await operator()
    await lab.submit("secretive", storage=storage(), pods=HOLD)
    await lab.reaches("secretive", "PENDING", reason="Downloading")
    pod = await download_pod(lab, "secretive")
    text = 'MountVolume.SetUp failed for volume "secret-git" : secret "git.login" not found'
    await lab.client.create(EVENT, _kubelet_says(pod, "FailedMount", text))
    status = await lab.reaches("secretive", "PENDING", reason="FailedMount", timeout=60.0)
    assert 'secret "git.login" not found' in status["message"]
    release = {"metadata": {"annotations": {"kaiwo-sandbox/hold": None}}}
    await lab.client.merge_patch(POD, lab.namespace, pod["metadata"]["name"], release)
    await until(lab.client, JOB, lab.namespace, "secretive", lambda job: job is not None)


def _kubelet_says(obj: Object, reason: str, message: str) -> Object:
    """A Warning event about an object."""
    metadata = obj["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{metadata['name']}-", "namespace": metadata["namespace"]},
        "involvedObject": {
            "apiVersion": "v1", "kind": obj.get("kind", "Pod"), "name": metadata["name"],
            "namespace": metadata["namespace"], "uid": metadata["uid"],
        },
        "type": "Warning",
        "reason": reason,
        "message": message,
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
        "source": {"component": "kubelet"},
    }  # fmt: skip


async def test_a_volume_of_a_class_that_does_not_exist_says_so(
    operator: Start, lab: Any, condition: Any
) -> None:
    """The class, and which there are; the volume controller's own words as well."""
    await operator()
    await lab.submit("classless", storage=storage(storageClassName="nowhere"))
    status = await lab.reaches("classless", "PENDING", reason="VolumePending")
    assert "no StorageClass 'nowhere' exists; existing: " in status["message"]
    assert condition(status, "StorageReady")["status"] == "False"
    told = await says(lab, "classless", '"nowhere" not found')
    assert told["status"] == "PENDING"


async def test_a_class_that_waits_for_a_pod_is_no_error(
    operator: Start, lab: Any, condition: Any, waiting_class: str
) -> None:
    """Nothing is said to be wrong with the claim; what keeps its first pod from a node is."""
    await operator()
    await lab.submit("patient", storage=storage(storageClassName=waiting_class))
    status = await lab.reaches("patient", "PENDING", reason="VolumeNotBound")
    ready = condition(status, "StorageReady")
    assert (ready["status"], ready["reason"]) == ("Unknown", "WaitForFirstConsumer")


@pytest.fixture
async def waiting_class(lab: Any) -> AsyncIterator[str]:
    """A StorageClass whose claims wait for their first pod, and that has no volumes."""
    name = f"waits-{lab.namespace}"
    await lab.client.create(
        STORAGE_CLASS,
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    )
    yield name
    await lab.client.delete(STORAGE_CLASS, None, name)


async def test_a_finished_download_is_not_repeated(operator: Start, lab: Any) -> None:
    """Its Job deleted, the operator restarted, the Deployment deleted: a new one, and no new download."""
    process = await operator()
    service = {
        "apiVersion": KAIWO_SERVICE.api_version,
        "kind": "KaiwoService",
        "metadata": {"name": "serve", "namespace": lab.namespace},
        "spec": {"image": "registry.example/serve:1", "storage": storage()},
    }
    await lab.client.create(KAIWO_SERVICE, service)
    first = await until(lab.client, DEPLOYMENT, lab.namespace, "serve", lambda obj: obj is not None)
    assert first is not None
    await until(
        lab.client, KAIWO_SERVICE, lab.namespace, "serve",
        lambda obj: (obj or {}).get("status", {}).get("status") == "READY",
    )  # fmt: skip
    await lab.client.delete(JOB, lab.namespace, "serve-download", propagation="Background")
    await gone(lab, JOB, "serve-download")
    assert await asyncio.to_thread(process.stop) == 0
    await lab.client.delete(DEPLOYMENT, lab.namespace, "serve", propagation="Background")
    await gone(lab, DEPLOYMENT, "serve")
    await asyncio.to_thread(process.start().wait_ready)
    second = await until(lab.client, DEPLOYMENT, lab.namespace, "serve", lambda obj: obj is not None)
    assert second is not None
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert await lab.jobs() == []


@pytest.mark.parametrize("writes", [1, 2, 3])
async def test_a_crash_between_the_writes_leaves_one_download(
    operator: Start, lab: Any, proxy: FaultProxy, tmp_path: Path, writes: int
) -> None:
    """The operator dies after claim, ConfigMap or Job, unsure of the last; the next one goes on."""
    kubeconfig = proxy.write_kubeconfig(tmp_path / "kubeconfig")
    process = await operator(kubeconfig=kubeconfig)
    crashed = proxy.crash_after(writes, lose_answer=True, path=f"/namespaces/{lab.namespace}/")
    await lab.submit("crash", storage=storage(), pods={"kaiwo-sandbox/run-time": "2s"})
    await asyncio.wait_for(crashed.wait(), 30)
    await asyncio.to_thread(process.kill)
    proxy.clear()
    await asyncio.to_thread(process.start().wait_ready)
    await lab.reaches("crash", "COMPLETE", timeout=60.0)
    assert {job["metadata"]["name"] for job in await lab.jobs()} == {"crash", "crash-download"}


class LogProxy(FaultProxy):
    """A proxy that answers for the kubelet when somebody follows a log: fake pods write none."""

    def __init__(self, upstream: Connection) -> None:
        super().__init__(upstream)
        self.lines: list[bytes] = []
        self.opened = 0
        self.news = asyncio.Event()

    def write(self, done: int, total: int) -> None:
        """A further line of the download program."""
        self.lines.append(json.dumps({"event": "progress", "bytesDone": done, "bytesTotal": total}).encode())
        self.news.set()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if not request.path.endswith("/log"):
            return await super()._handle(request)
        assert request.query["tailLines"] == "1"
        self.opened += 1
        response = web.StreamResponse()
        response.content_type = "text/plain"
        await response.prepare(request)
        sent = max(0, len(self.lines) - 1)
        while True:
            self.news.clear()
            for line in self.lines[sent:]:
                await response.write(line + b"\n")
            sent = len(self.lines)
            await self.news.wait()


@pytest.fixture
async def logs(connection: Connection) -> AsyncIterator[LogProxy]:
    """A proxy whose pods have logs."""
    async with LogProxy(connection) as made:
        yield made


async def test_progress_is_told_and_seldom_written(
    operator: Start, lab: Any, logs: LogProxy, tmp_path: Path
) -> None:
    """The first number at once, no other within the minute; one stream; a restart changes nothing."""
    process = await operator(kubeconfig=logs.write_kubeconfig(tmp_path / "kubeconfig"))
    gib = 1024**3
    logs.write(26 * gib, 64 * gib)
    await lab.submit("slow", storage=storage(), pods=FOREVER)
    status = await says(lab, "slow", "Downloading 40 % of 64 GiB")
    assert (status["status"], status["reason"]) == ("PENDING", "Downloading")
    await asyncio.sleep(1)  # a change is seen a moment before the proxy notes the request that made it
    before = len(logs.writes())
    for share in range(41, 60):
        logs.write(share * gib * 64 // 100 + gib, 64 * gib)
        await asyncio.sleep(0.2)
    assert logs.writes()[before:] == []
    assert logs.opened == 1

    assert await asyncio.to_thread(process.stop) == 0
    await asyncio.to_thread(process.start().wait_ready)
    for _ in range(40):
        if logs.opened == 2:
            break
        await asyncio.sleep(0.5)
    await asyncio.sleep(2)
    assert logs.opened == 2
    assert logs.writes()[before:] == []


async def test_a_log_that_cannot_be_read_harms_nothing(
    operator: Start, lab: Any, proxy: FaultProxy, tmp_path: Path
) -> None:
    """The workload downloads without a number, and starts."""
    proxy.answer(403, path="/log$", times=1000)
    await operator(kubeconfig=proxy.write_kubeconfig(tmp_path / "kubeconfig"))
    await lab.submit("mute", storage=storage(), pods={"kaiwo-sandbox/run-time": "4s"})
    await says(lab, "mute", "Downloading")
    await lab.reaches("mute", "COMPLETE", timeout=60.0)


async def test_a_deleted_workload_takes_its_download_with_it(operator: Start, lab: Any) -> None:
    """ConfigMap, Job and pod are owned."""
    await operator()
    await lab.submit("ends", storage=storage(), pods=FOREVER)
    await lab.reaches("ends", "PENDING", reason="Downloading")
    await until(lab.client, JOB, lab.namespace, "ends-download", lambda job: job is not None)
    await lab.client.delete(KAIWO_JOB, lab.namespace, "ends", propagation="Background")
    await gone(lab, JOB, "ends-download")
    await gone(lab, CONFIG_MAP, "ends-download")


async def test_a_changed_download_is_begun_anew(operator: Start, lab: Any) -> None:
    """While nothing runs, the download may change: the old Job goes with its pods, another one comes."""
    await operator()
    await lab.submit("changes", storage=storage(), pods=FOREVER)
    first = await until(lab.client, JOB, lab.namespace, "changes-download", lambda job: job is not None)
    assert first is not None
    await download_pod(lab, "changes")
    other = {"spec": {"storage": {"data": {"download": {"git": [{**GIT, "targetPath": "other"}]}}}}}
    await lab.client.merge_patch(KAIWO_JOB, lab.namespace, "changes", other)
    await until(
        lab.client, JOB, lab.namespace, "changes-download",
        lambda job: job is not None and job["metadata"]["uid"] != first["metadata"]["uid"],
    )  # fmt: skip
    config = await lab.client.get(CONFIG_MAP, lab.namespace, "changes-download")
    assert "targetPath: other" in config["data"]["config.yaml"]


async def test_a_volume_grows_where_its_class_allows_it(
    operator: Start, lab: Any, condition: Any, growing_class: Callable[[bool], Awaitable[str]]
) -> None:
    """Otherwise the workload runs on and a condition says why it does not grow."""
    await operator()
    for name, expands in (("grows", True), ("stays", False)):
        plain = {
            "storageEnabled": True,
            "storageClassName": await growing_class(expands),
            "data": {"storageSize": "1Gi"},
        }
        await lab.submit(name, storage=plain, pods=FOREVER)
        await lab.reaches(name, "RUNNING")
        more = {"spec": {"storage": {"data": {"storageSize": "2Gi"}}}}
        await lab.client.merge_patch(KAIWO_JOB, lab.namespace, name, more)
    grown = await until(
        lab.client, PERSISTENT_VOLUME_CLAIM, lab.namespace, "grows-data",
        lambda obj: (obj or {})["spec"]["resources"]["requests"]["storage"] == "2Gi",
    )  # fmt: skip
    assert grown is not None
    refused = await until(
        lab.client, KAIWO_JOB, lab.namespace, "stays",
        lambda obj: condition((obj or {}).get("status", {}), "StorageReady").get("status") == "False",
    )  # fmt: skip
    assert refused is not None
    ready = condition(refused["status"], "StorageReady")
    assert ready["reason"] == "VolumeNotExpandable"
    assert "allowVolumeExpansion" in ready["message"]
    assert refused["status"]["status"] == "RUNNING"


@pytest.fixture
async def growing_class(lab: Any) -> AsyncIterator[Callable[[bool], Awaitable[str]]]:
    """A function that makes a StorageClass with the sandbox's provisioner, which lets volumes grow or not."""
    made: list[str] = []

    async def make(expands: bool) -> str:
        name = f"{'grows' if expands else 'stays'}-{lab.namespace}"
        await lab.client.create(
            STORAGE_CLASS,
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": name},
                "provisioner": "kubernetes.io/host-path",
                "allowVolumeExpansion": expands,
            },
        )
        made.append(name)
        return name

    yield make
    for name in made:
        await lab.client.delete(STORAGE_CLASS, None, name)
