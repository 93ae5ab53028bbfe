"""Downloads before the start, on a real API server: order, waiting, failing, and what survives a restart."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_JOB, KAIWO_SERVICE
from kaiwo.engine.resource import (
    CONFIG_MAP,
    DEPLOYMENT,
    EVENT,
    JOB,
    NAMESPACE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
)
from kaiwo.testing.operator import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from kaiwo.engine.resource import Object
    from kaiwo.testing.fault_proxy import FaultProxy
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


async def test_the_download_pod_is_taken_where_only_restricted_pods_are(operator: Start, lab: Any) -> None:
    """With everything that a user can add: Secrets at two places, variables, a Hugging Face cache."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    await lab.client.merge_patch(NAMESPACE, None, lab.namespace, {"metadata": {"labels": labels}})
    await operator()
    apart = {"secretName": "git.login", "secretKey": "user", "file": "/run/git/user"}
    section = storage(huggingFace={"storageSize": "1Gi", "preCacheRepos": [{"repoId": "org/model"}]})
    section["data"]["download"] = {"git": [{**GIT, "username": apart}]}
    await lab.submit("strict", storage=section, env=[{"name": "HF_HUB_OFFLINE", "value": "0"}], pods=HOLD)
    pod = await download_pod(lab, "strict")
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    mounts = {mount["mountPath"] for mount in pod["spec"]["containers"][0]["volumeMounts"]}
    assert mounts == {
        "/config", "/tmp", "/workload", "/hf_cache", "/app/secrets/git.login", "/run/git/user",
    }  # fmt: skip


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
    reported = condition(status, "DownloadJobSucceeded")
    assert (reported["status"], reported["reason"]) == ("False", "JobFailed")
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


async def test_a_missing_secret_is_reported_and_heals(operator: Start, lab: Any) -> None:
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
    """The operator dies after it created the claim, ConfigMap or Job; the next one continues."""
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
    assert '"targetPath": "other"' in config["data"]["config.yaml"]
