"""Download pods that really run: from real servers to a real volume, which the job then reads."""

from __future__ import annotations

import base64
import contextlib
import email.utils
import hashlib
import hmac
import http.client
import http.server
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from kaiwo.testing.serving import serving
from kaiwo_sandbox.demo.download_servers import DownloadServers
from kaiwo_sandbox.real_node.network import HOST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MOTO_VERSION = "5.2.5"
AZURITE_VERSION = "3.35.0"
PEERS = Path.home() / ".cache" / "kaiwo" / "storage-peers"
CONTENT = os.urandom(1 << 20) * 3
PARTS = [os.urandom(1 << 20) for _ in range(24)]
LARGE = b"".join(PARTS)
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
COMMIT = "c" * 40

pytestmark = pytest.mark.usefixtures("downloads")


def sha256(content: bytes) -> str:
    """The checksum as the jobs print it."""
    return hashlib.sha256(content).hexdigest()


@contextlib.contextmanager
def listening(command: Callable[[int], Sequence[str | Path]]) -> Iterator[str]:
    """Run a server on the address that pods reach; its URL once it listens."""
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    with subprocess.Popen(command(port), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            for _ in range(480):
                with contextlib.suppress(OSError), socket.create_connection((HOST, port)):
                    break
                time.sleep(0.25)
            yield f"http://{HOST}:{port}"
        finally:
            server.terminate()


@pytest.fixture(scope="module")
def s3(real_node: Any) -> Iterator[str]:
    """URL of moto's S3 server with a bucket."""
    del real_node
    program = PEERS / "moto" / "bin" / "moto_server"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", PEERS / "moto"], check=True)
        pip = [str(PEERS / "moto" / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, f"moto[server,s3]=={MOTO_VERSION}"], check=True)
    with listening(lambda port: [program, "-H", HOST, "-p", str(port)]) as url:
        put(f"{url}/corpora", b"")
        put(f"{url}/corpora/clean/a.bin", CONTENT)
        put(f"{url}/corpora/clean/deep/b.txt", b"b")
        for number, part in enumerate(PARTS):
            put(f"{url}/corpora/large/{number:02}", part)
        yield url


def put(url: str, body: bytes, **headers: str) -> None:
    """PUT to a server."""
    # Without a type urllib sends that of a form, which moto parses.
    headers = {"Content-Type": "application/octet-stream", **headers}
    request = urllib.request.Request(url, data=body, method="PUT", headers=headers)
    urllib.request.urlopen(request, timeout=60).close()


@pytest.fixture(scope="module")
def azure(real_node: Any) -> Iterator[str]:
    """URL of azurite's account with the container `models` and a blob in it."""
    del real_node
    folder = PEERS / f"azurite-{AZURITE_VERSION}"
    program = folder / "node_modules" / ".bin" / "azurite-blob"
    if not program.exists():
        npm = shutil.which("npm") or "npm"
        flags = ["--silent", "--no-audit", "--no-fund", "--prefix", str(folder)]
        subprocess.run([npm, "install", *flags, f"azurite@{AZURITE_VERSION}"], check=True)
    flags = ["--silent", "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]
    with listening(lambda port: [program, "--blobHost", HOST, "--blobPort", str(port), *flags]) as url:
        account = f"{url}/{ACCOUNT}"
        azure_put(account, "models", b"", query="restype:container")
        azure_put(account, "models/m/weights", CONTENT, blob=True)
        yield account


def azure_put(account: str, path: str, body: bytes, *, query: str = "", blob: bool = False) -> None:
    """A PUT signed with the key of azurite's account (SharedKey)."""
    kind = {"x-ms-blob-type": "BlockBlob"} if blob else {}
    headers = {**kind, "x-ms-date": email.utils.formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    length = str(len(body)) if body else ""
    content_type = "application/octet-stream"
    canonical = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
    canonical += f"/{ACCOUNT}/{ACCOUNT}/{path}" + (f"\n{query}" if query else "")
    text = f"PUT\n\n\n{length}\n\n{content_type}\n\n\n\n\n\n\n{canonical}"
    signature = base64.b64encode(hmac.digest(base64.b64decode(ACCOUNT_KEY), text.encode(), "sha256")).decode()
    authorization = {"Authorization": f"SharedKey {ACCOUNT}:{signature}", "Content-Type": content_type}
    suffix = f"?{query.replace(':', '=')}" if query else ""
    put(f"{account}/{path}{suffix}", body, **headers, **authorization)


@pytest.fixture(scope="module")
def git(real_node: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a repository that git serves over http."""
    del real_node
    servers = DownloadServers(tmp_path_factory.mktemp("servers"), host=HOST)
    servers.start()
    yield f"{servers.url}/git/project.git"
    servers.close()


class _Hub(http.server.BaseHTTPRequestHandler):
    """The part of the Hub's interface that a download of one repository uses."""

    protocol_version = "HTTP/1.1"
    files: ClassVar = {"config.json": b'{"layers": 2}', "model.safetensors": CONTENT}

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer with the list of files, or with a file."""
        path = self.path.partition("?")[0]
        name = path.rpartition("/")[2]
        if "/tree/" in path:
            entries = [
                {"type": "file", "path": name, "size": len(body), "oid": "1" * 40}
                for name, body in self.files.items()
            ]
            self._reply(json.dumps(entries).encode())
        elif path.startswith("/api/models/"):
            siblings = [{"rfilename": name} for name in self.files]
            self._reply(json.dumps({"id": "a/b", "sha": COMMIT, "siblings": siblings}).encode())
        elif name in self.files:
            body = self.files[name]
            etag = hashlib.sha1(body, usedforsecurity=False).hexdigest()
            self._reply(body, ETag=f'"{etag}"', **{"X-Repo-Commit": COMMIT})
        else:
            self._reply(b"{}", 404)

    do_HEAD = do_GET

    def _reply(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@pytest.fixture(scope="module")
def hub(real_node: Any) -> Iterator[str]:
    """URL of a stand-in for the Hub."""
    del real_node
    with serving(http.server.ThreadingHTTPServer((HOST, 0), _Hub)) as server:
        yield f"http://{HOST}:{server.server_address[1]}"


class Throttle(http.server.ThreadingHTTPServer):
    """A proxy in front of an S3 server that sends content slowly and counts it.

    Attributes:
        sent: bytes of content so far.
        seconds: pause after each 128 KiB.
    """

    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream.removeprefix("http://")
        self.sent = 0
        self.seconds = 0.1
        super().__init__((HOST, 0), _Throttled)
        self.url = f"http://{HOST}:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is killed is part of the test."""


class _Throttled(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Throttle

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Pass the request on, and its answer back in pieces."""
        with contextlib.closing(http.client.HTTPConnection(self.server.upstream)) as upstream:
            upstream.request(self.command, self.path, headers=dict(self.headers.items()))
            answer = upstream.getresponse()
            body = answer.read()
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                if name.lower() not in {"transfer-encoding", "content-length", "connection"}:
                    self.send_header(name, value)
            length = answer.headers["Content-Length"] if self.command == "HEAD" else str(len(body))
            self.send_header("Content-Length", length)
            self.end_headers()
        for start in range(0, len(body), 128 << 10):
            piece = body[start : start + (128 << 10)]
            self.wfile.write(piece)
            self.server.sent += len(piece)
            time.sleep(self.server.seconds)

    do_HEAD = do_GET


@pytest.fixture
def throttle(s3: str) -> Iterator[Throttle]:
    """A slow way to the S3 server."""
    with serving(Throttle(s3)) as server:
        yield server


def s3_item(lab: Any, url: str, **bucket: Any) -> dict[str, Any]:
    """An item of ``download.s3``, with its Secret."""
    lab.secret("s3", id="reader", key="secret")
    return {
        "endpointUrl": url,
        "region": "us-east-1",
        "accessKeyId": {"secretName": "s3", "secretKey": "id"},
        "secretKey": {"secretName": "s3", "secretKey": "key"},
        "buckets": [{"name": "corpora", **bucket}],
    }


def data(size: str = "1Gi", **download: Any) -> dict[str, Any]:
    """``spec.storage`` with a data volume into which this is downloaded."""
    return {
        "storageEnabled": True,
        "accessMode": "ReadWriteMany",
        "data": {"mountPath": "/data", "storageSize": size, "download": download},
    }


def download_pods(lab: Any, name: str) -> list[Any]:
    """The download pods of a workload."""
    label = f"kaiwo.silogen.ai%2Fname%3D{name},kaiwo.silogen.ai%2Ftype%3Ddownloader"
    found: list[Any] = lab.api.get(f"{lab.core}/pods?labelSelector={label}")["items"]
    return found


def main_log(lab: Any, name: str) -> str:
    """What the job's own pod has written."""
    label = f"labelSelector=batch.kubernetes.io%2Fjob-name%3D{name}"
    (pod,) = lab.api.get(f"{lab.core}/pods?{label}")["items"]
    text: str = lab.api.get(f"{lab.core}/pods/{pod['metadata']['name']}/log")
    return text


def completes(lab: Any, name: str) -> None:
    """Wait for the end, and say what the download wrote if it is not COMPLETE."""
    status = lab.reaches(name, "COMPLETE", "FAILED", seconds=150)
    logs = [lab.api.get(f"{lab.core}/pods/{pod['metadata']['name']}/log") for pod in download_pods(lab, name)]
    assert status["status"] == "COMPLETE", f"{status['message']}\n{logs}"


def test_a_job_reads_what_was_downloaded_from_s3(lab: Any, s3: str) -> None:
    """A folder with subfolders, with keys from a Secret."""
    item = s3_item(lab, s3, folders=[{"path": "clean", "targetPath": "corpus"}])
    lab.submit(
        "s3", entrypoint="cd /data/corpus && sha256sum a.bin && cat deep/b.txt", storage=data(s3=[item])
    )
    completes(lab, "s3")
    assert main_log(lab, "s3") == f"{sha256(CONTENT)}  a.bin\nb"


def test_a_job_reads_what_was_downloaded_from_azure(lab: Any, azure: str) -> None:
    """A blob, with the account's key from a Secret."""
    text = (
        f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={ACCOUNT_KEY};BlobEndpoint={azure};"
    )
    lab.secret("azure", connection=text)
    container = {"name": "models", "files": [{"path": "m/weights", "targetPath": "weights"}]}
    item = {
        "connectionString": {"secretName": "azure", "secretKey": "connection"},
        "containers": [container],
    }
    lab.submit("azure", entrypoint="sha256sum /data/weights", storage=data(azureBlob=[item]))
    completes(lab, "azure")
    assert main_log(lab, "azure").split()[0] == sha256(CONTENT)


def test_a_job_runs_code_that_was_cloned_from_git(lab: Any, git: str) -> None:
    """With the git of the image, over http."""
    item = {"repository": git, "targetPath": "code"}
    lab.submit("git", entrypoint="python3 /data/code/train.py", storage=data(git=[item]))
    completes(lab, "git")
    assert main_log(lab, "git") == "hello from git\n"


def test_a_job_reads_a_model_from_the_cache_of_the_hub(lab: Any, hub: str) -> None:
    """In the layout that the Hub's own libraries read offline."""
    storage = {
        "storageEnabled": True,
        "accessMode": "ReadWriteMany",
        "huggingFace": {"mountPath": "/hf", "storageSize": "1Gi", "preCacheRepos": [{"repoId": "a/b"}]},
    }
    script = f"cd /hf/hub/models--a--b/snapshots/{COMMIT} && sha256sum model.safetensors && cat config.json"
    lab.submit("hub", entrypoint=script, env=[{"name": "HF_ENDPOINT", "value": hub}], storage=storage)
    completes(lab, "hub")
    assert main_log(lab, "hub") == f'{sha256(CONTENT)}  model.safetensors\n{{"layers": 2}}'


def test_a_download_that_is_killed_at_60_percent_goes_on_where_it_was(
    lab: Any, throttle: Throttle, wait_for: Callable[..., Any]
) -> None:
    """Kubernetes starts a second pod; it fetches the rest, and the content is right."""
    item = s3_item(lab, throttle.url, folders=[{"path": "large", "targetPath": "large"}])
    lab.submit("resumes", entrypoint="cat /data/large/* | sha256sum", storage=data(s3=[item]))
    wait_for("60 % of the content", lambda: throttle.sent > 0.6 * len(LARGE), seconds=90)
    (first,) = download_pods(lab, "resumes")
    lab.kill(first)
    throttle.seconds = 0.0
    completes(lab, "resumes")
    assert main_log(lab, "resumes").split()[0] == sha256(LARGE)
    ends = {
        pod["metadata"]["name"]: pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"]
        for pod in download_pods(lab, "resumes")
    }
    assert ends.pop(first["metadata"]["name"]) == 137
    assert list(ends.values()) == [0]
    assert throttle.sent < 1.45 * len(LARGE), "the second pod fetched everything again"


def test_a_volume_that_is_too_small_is_named_and_no_job_runs(lab: Any, s3: str) -> None:
    """On a volume of a real size, which is smaller than the content."""
    item = s3_item(lab, s3, folders=[{"path": "large", "targetPath": "large"}])
    storage = {**data("8Mi", s3=[item]), "storageClassName": "sandbox-sized", "accessMode": "ReadWriteOnce"}
    lab.submit("full", entrypoint="true", storage=storage)
    status = lab.reaches("full", "FAILED", "COMPLETE", seconds=150)
    assert status["status"] == "FAILED"
    assert "24.0 MiB required" in status["message"]
    assert "increase storageSize" in status["message"]


def test_a_download_pod_runs_without_any_right_that_it_does_not_need(
    lab: Any, s3: str, wait_for: Callable[..., Any], throttle: Throttle
) -> None:
    """No root, no capability, no token, no writable root file system; in a restricted namespace."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    lab.api.request(
        "PATCH",
        f"/api/v1/namespaces/{lab.namespace}",
        {"metadata": {"labels": labels}},
        content_type="application/merge-patch+json",
    )
    del s3
    throttle.seconds = 1.0
    item = s3_item(lab, throttle.url, folders=[{"path": "large", "targetPath": "large"}])
    lab.submit("safe", entrypoint="true", storage=data(s3=[item]))
    wait_for("the first bytes", lambda: throttle.sent > 0, seconds=90)
    (pod,) = download_pods(lab, "safe")
    script = (
        "id -u; grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/1/status; touch /x; "
        "ls /var/run/secrets/kubernetes.io; echo end"
    )
    seen = lab.execute(pod, "sh", "-c", script)
    assert seen.split("\n")[:4] == ["1000", "CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"]
    assert "Read-only file system" in seen
    assert "kubernetes.io: No such file or directory" in seen
    throttle.seconds = 0.0
    completes(lab, "safe")
