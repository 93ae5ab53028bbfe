"""The operator's own download Job, with the real program: from a KaiwoJob to files on its volume."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import urllib.request
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_CONFIG, KAIWO_JOB, render_crds
from kaiwo.engine.client import Client
from kaiwo.engine.credentials import load
from kaiwo.engine.resource import CONFIG_MAP, EVENT, JOB, PERSISTENT_VOLUME_CLAIM, POD, SECRET
from kaiwo.plugin.loader import load as load_plugins
from kaiwo.testing.operator import OperatorProcess, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from kaiwo.engine.resource import Object

pytestmark = pytest.mark.cluster

CANARIES = {"id": "CANARYID", "key": "CANARYKEY", "token": "CANARYTOKEN"}
KINDS = (CONFIG_MAP, EVENT, JOB, KAIWO_JOB, PERSISTENT_VOLUME_CLAIM, POD)


@pytest.fixture(scope="module")
def served(control_plane: Any) -> Any:
    """The control plane, with Kaiwo's kinds."""
    plugins = load_plugins()
    base = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for crd in render_crds(plugins.fields(), plugins.settings_models(), kinds=plugins.kinds()):
        name = crd["metadata"]["name"]
        control_plane.api.apply(f"{base}/{name}", crd)
        place = f"{base}?fieldSelector=metadata.name%3D{name}"
        with closing(control_plane.api.watch(place, timeout=60)) as changes:
            for change in changes:
                conditions = (change["object"].get("status") or {}).get("conditions") or []
                if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
                    break
    return control_plane


@pytest.fixture
async def client(served: Any) -> AsyncIterator[Client]:
    """A client of the API server."""
    async with Client(load(served.kubeconfig)) as made:
        yield made


@pytest.fixture
async def operator(served: Any, namespace: str) -> AsyncIterator[OperatorProcess]:
    """The operator, for the test's namespace."""
    process = OperatorProcess(
        args=("--watch-namespace", namespace),
        kubeconfig=served.kubeconfig,
        leader_election=False,
        lease_name=f"kaiwo-{secrets.token_hex(4)}",
        env={"KAIWO_PLUGINS_DISABLED": "kueue,node_pools"},
    ).start()
    await asyncio.to_thread(process.wait_ready)
    yield process
    await asyncio.to_thread(process.close)


class Kubelet:
    """Runs the download pod of one workload here, and reports it as a kubelet does."""

    def __init__(
        self, client: Client, namespace: str, root: Path, run_pod: Callable[[Object, Path], Any]
    ) -> None:
        self.client = client
        self._run_pod = run_pod
        self.namespace = namespace
        self.root = root
        self.pod: Object = {}

    async def submits(self, workload: Object) -> None:
        """Create a workload, and wait for the pod that the Job controller makes of its download Job."""
        await self.client.create(KAIWO_JOB, workload)
        name = workload["metadata"]["name"]
        label = f"kaiwo.silogen.ai/name={name},kaiwo.silogen.ai/type=downloader"
        for _ in range(60):
            async for pod in self.client.list(POD, self.namespace, label_selector=label):
                self.pod = pod
                return
            await asyncio.sleep(0.5)
        raise AssertionError(f"no download pod of {name}")

    async def gone_to(self, workload: str, word: str) -> Object:
        """Wait for a status word; the status."""
        found = await until(
            self.client, KAIWO_JOB, self.namespace, workload,
            lambda obj: (obj or {}).get("status", {}).get("status") == word,
        )  # fmt: skip
        assert found is not None
        status: Object = found["status"]
        return status

    async def runs(self) -> Any:
        """Mount, run, report; None when a volume cannot be mounted."""
        return await asyncio.to_thread(self._run_pod, self.pod, self.root)


@pytest.fixture
def kubelet(
    client: Client, namespace: str, tmp_path: Path, run_download_pod: Callable[[Object, Path], Any]
) -> Kubelet:
    """A stand-in for the node that the pod is on."""
    root = tmp_path / "pod"
    root.mkdir()
    return Kubelet(client, namespace, root, run_download_pod)


@pytest.fixture
async def login(client: Client, namespace: str) -> None:
    """A Secret with values that must never be seen, and a key that nothing refers to."""
    data = {name: base64.b64encode(f"{value}\n".encode()).decode() for name, value in CANARIES.items()}
    data["other"] = base64.b64encode(b"CANARYOTHER").decode()
    metadata = {"name": "login", "namespace": namespace}
    await client.create(
        SECRET, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}
    )


@pytest.fixture
def bucket(moto: str) -> str:
    """A bucket with a file and a folder."""
    name = f"corpora-{secrets.token_hex(4)}"
    content = {"": b"", "vocab.json": b"{}" * 5000, "clean/a.txt": b"a" * 300_000, "clean/b/c.txt": b"c"}
    region = "us-east-1/s3/aws4_request"
    headers = {
        "Authorization": f"AWS4-HMAC-SHA256 Credential=a/20260101/{region}, SignedHeaders=host, Signature=x",
        "Content-Type": "application/octet-stream",
    }
    for key, body in content.items():
        url = f"{moto}/{name}/{key}".rstrip("/")
        request = urllib.request.Request(url, data=body, method="PUT", headers=headers)
        urllib.request.urlopen(request, timeout=30).close()
    return name


def job(namespace: str, **download: Any) -> Object:
    """A KaiwoJob whose pods the fake nodes hold."""
    return {
        "apiVersion": KAIWO_JOB.api_version,
        "kind": "KaiwoJob",
        "metadata": {
            "name": "tune",
            "namespace": namespace,
            "annotations": {"kaiwo-sandbox/hold": "true", "kaiwo-sandbox/forever": "true"},
        },
        "spec": {
            "image": "registry.example/train:1",
            "storage": {"storageEnabled": True, "data": {"storageSize": "1Gi", "download": download}},
        },
    }


def s3(moto: str, bucket: str, *, file: str = "vocab.json") -> Object:
    """An item with credentials: one value at the usual place, one at a place of its own."""
    return {
        "endpointUrl": moto,
        "region": "us-east-1",
        "accessKeyId": {"secretName": "login", "secretKey": "id"},
        "secretKey": {"secretName": "login", "secretKey": "key", "file": "/run/keys/s3"},
        "buckets": [
            {
                "name": bucket,
                "files": [{"path": file, "targetPath": "vocab.json"}],
                "folders": [{"path": "clean", "targetPath": "corpus"}],
            }
        ],
    }


def files(folder: Path) -> dict[str, int]:
    """Sizes of what was downloaded."""
    return {
        str(path.relative_to(folder)): path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and ".kaiwo-download" not in path.parts
    }


def texts_below(root: Path) -> dict[str, str]:
    """Every file below a directory but the two where values of Secrets belong."""
    mounted = {root / "app/secrets/login/id", root / "run/keys/s3"}
    return {
        str(path): path.read_bytes().decode(errors="replace")
        for path in root.rglob("*")
        if path.is_file() and path not in mounted
    }


async def nowhere(kubelet: Kubelet, process: OperatorProcess, ended: Any) -> None:
    """Check that no value of a Secret is in an object, an output, a log, or a file that nobody mounted."""
    texts = {"output": ended.out + ended.err + ended.message, "operator": process.log}
    for resource in KINDS:
        async for obj in kubelet.client.list(resource, kubelet.namespace):
            texts[f"{resource.kind} {obj['metadata']['name']}"] = json.dumps(obj)
    texts |= texts_below(kubelet.root)
    assert {"ConfigMap tune-download", "Job tune-download", "KaiwoJob tune"} <= texts.keys()
    for where, text in texts.items():
        assert not [value for value in (*CANARIES.values(), "CANARYOTHER") if value in text], where


@pytest.fixture
async def two_files(operator: OperatorProcess, client: Client) -> AsyncIterator[None]:
    """The administrator allows downloads of two files only; what an edit changes is in force at once."""
    del operator

    async def limit(limits: Object | None) -> None:
        body = {"spec": {"storage": {"downloadLimits": limits}}}
        changed = await client.merge_patch(KAIWO_CONFIG, None, "kaiwo", body)
        generation = changed["metadata"]["generation"]
        await until(
            client, KAIWO_CONFIG, None, "kaiwo",
            lambda obj: (obj or {}).get("status", {}).get("observedGeneration", 0) >= generation,
        )  # fmt: skip

    await limit({"maxFiles": 2})
    yield
    await limit(None)


@pytest.mark.usefixtures("login", "two_files")
async def test_a_job_beyond_a_limit_names_the_setting(kubelet: Kubelet, moto: str, bucket: str) -> None:
    """From KaiwoConfig to the Job's arguments, and from the program's own report to the status."""
    await kubelet.submits(job(kubelet.namespace, s3=[s3(moto, bucket)]))
    assert "--max-files=2" in kubelet.pod["spec"]["containers"][0]["args"]
    ended = await kubelet.runs()
    assert ended is not None
    assert (ended.code, files(kubelet.root / "workload")) == (2, {})
    status = await kubelet.gone_to("tune", "FAILED")
    assert status["reason"] == "DownloadLimitExceeded"
    assert "the download has more than 2 files" in status["message"]
    assert status["message"].endswith("raise KaiwoConfig storage.downloadLimits.maxFiles")


@pytest.mark.usefixtures("login")
async def test_a_job_gets_its_files_with_the_real_program(
    operator: OperatorProcess, kubelet: Kubelet, moto: str, bucket: str
) -> None:
    """What the API server holds as the Job fetches everything, and then the workload's own Job is made."""
    await kubelet.submits(job(kubelet.namespace, s3=[s3(moto, bucket)]))
    ended = await kubelet.runs()
    assert ended is not None
    assert ended.code == 0, ended.err
    assert files(kubelet.root / "workload") == {
        "vocab.json": 10_000, "corpus/a.txt": 300_000, "corpus/b/c.txt": 1,
    }  # fmt: skip
    assert (kubelet.root / "app/secrets/login/id").read_text() == "CANARYID\n"
    assert (kubelet.root / "run/keys/s3").read_text() == "CANARYKEY\n"
    assert not (kubelet.root / "app/secrets/login/other").exists()
    assert await until(kubelet.client, JOB, kubelet.namespace, "tune", lambda found: found is not None)
    await nowhere(kubelet, operator, ended)


@pytest.mark.usefixtures("login")
async def test_what_does_not_exist_ends_the_workload_with_the_programs_line(
    operator: OperatorProcess, kubelet: Kubelet, moto: str, bucket: str
) -> None:
    """The status names item, object and next step; no further try, no Secret anywhere."""
    await kubelet.submits(job(kubelet.namespace, s3=[s3(moto, bucket, file="none.json")]))
    ended = await kubelet.runs()
    assert ended is not None
    assert ended.code == 3, ended.err
    failed = await kubelet.gone_to("tune", "FAILED")
    assert failed["reason"] == "DownloadUnavailable"
    for words in ("s3[0].", f"{bucket}/none.json: not found", "check bucket and path"):
        assert words in failed["message"]
    assert files(kubelet.root / "workload") == {}
    await nowhere(kubelet, operator, ended)


async def test_a_missing_secret_keeps_the_pod_from_starting(
    operator: OperatorProcess, kubelet: Kubelet, moto: str, bucket: str
) -> None:
    """Nothing runs without the requested credentials."""
    assert operator.pid
    await kubelet.submits(job(kubelet.namespace, s3=[s3(moto, bucket)]))
    assert await kubelet.runs() is None
    assert not (kubelet.root / "workload/vocab.json").exists()
