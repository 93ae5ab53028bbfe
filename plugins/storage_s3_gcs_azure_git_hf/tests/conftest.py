"""Peers of the download program: moto's S3 server, azurite, an FTP server, and a way to run it."""

from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
import json
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kaiwo.testing.object_server import serve_objects
from kaiwo_storage_s3_gcs_azure_git_hf.download import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kaiwo.testing.object_server import Objects

AZURITE_VERSION = "3.35.0"
MOTO_VERSION = "5.2.5"
PEERS = Path.home() / ".cache" / "kaiwo" / "storage-peers"


@pytest.fixture
def objects() -> Iterator[Objects]:
    """A bucket that can go wrong; a fault that no request met fails the test."""
    with serve_objects() as served:
        yield served
    assert [key for key, fault in served.faults.items() if fault not in served.reached] == []


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """Files of a server's certificate, its own issuer, for localhost and 127.0.0.1, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    now = dt.datetime.now(dt.UTC)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    (tmp_path / "cert.pem").write_bytes(signed.public_bytes(pem))
    (tmp_path / "key.pem").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    return tmp_path / "cert.pem", tmp_path / "key.pem"


@pytest.fixture
def ftp() -> Iterator[tuple[str, list[bytes]]]:
    """URL of an FTP server on loopback, and what it was sent; ``b""`` stands for a connection."""
    received: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):  # the listener was shut down
            while True:
                client, _ = listener.accept()
                received.append(b"")
                with client:
                    client.sendall(b"220 ready\r\n")
                    received.append(client.recv(100))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"ftp://127.0.0.1:{listener.getsockname()[1]}/secret", received
    listener.shutdown(socket.SHUT_RDWR)
    thread.join()
    listener.close()


@dataclass
class Outcome:
    """What a run left behind."""

    code: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """The last line for people."""
        return self.err.strip().splitlines()[-1] if self.err.strip() else ""


@dataclass
class Runner:
    """Runs the program over a volume in a temporary folder."""

    root: Path
    capsys: pytest.CaptureFixture[str]
    # A machine may be so busy that a server beside it says nothing for a while.
    limits: dict[str, int] = field(
        default_factory=lambda: {"retrySeconds": 0, "partSize": 65536, "stallSeconds": 120}
    )
    policy: dict[str, bool] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def volume(self) -> Path:
        """The data volume."""
        return self.root / "workload"

    def secret(self, name: str, value: str) -> dict[str, str]:
        """A reference to a mounted value."""
        file = self.root / "secrets" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(value + "\n", encoding="utf-8")
        return {"secretName": "creds", "secretKey": name, "file": str(file)}

    def config(self, items: dict[str, Any]) -> Path:
        """Write the document."""
        self.volume.mkdir(exist_ok=True)
        hf = self.root / "hf"
        hf.mkdir(exist_ok=True)
        document = {
            "version": 1,
            "dataMountPath": str(self.volume),
            "hfMountPath": str(hf),
            "items": items,
            "limits": self.limits,
            "policy": self.policy,
            **self.more,
        }
        path = self.root / "config.yaml"
        path.write_text(json.dumps(document), encoding="utf-8")
        return path

    def command(self, items: dict[str, Any], *flags: str) -> list[str]:
        """The program as a process of its own."""
        module = "kaiwo_storage_s3_gcs_azure_git_hf.download.main"
        return [sys.executable, "-m", module, str(self.config(items)), *self._flags(flags)]

    @staticmethod
    def s3(url: str, *, files: list[Any] | None = None, folders: list[Any] | None = None) -> dict[str, Any]:
        """One S3 item of one bucket."""
        bucket = {"name": "bucket", "files": files, "folders": folders}
        return {"s3": [{"endpointUrl": url, "buckets": [{k: v for k, v in bucket.items() if v is not None}]}]}

    def one(self, url: str, **more: str) -> dict[str, Any]:
        """The object ``a``."""
        return self.s3(url, files=[{"path": "a", "targetPath": "a.bin", **more}])

    def assert_failed(self, outcome: Outcome, code: int, *words: str) -> None:
        """One line that names the item and the reason; nothing under a final name."""
        assert outcome.code == code, outcome.err
        for word in words:
            assert word in outcome.line
        assert "; " in outcome.line, "a next step is missing"
        assert "Debug source" not in outcome.err
        assert "Traceback" not in outcome.err
        assert "CANARY" not in outcome.err + outcome.out
        assert self.files() == {}

    def process(self, items: dict[str, Any], before: Sequence[str] = ()) -> Outcome:
        """Run it in a process of its own, which other words may start."""
        done = subprocess.run([*before, *self.command(items)], capture_output=True, text=True, check=False)
        return Outcome(done.returncode, done.stdout, done.stderr)

    def __call__(self, items: dict[str, Any], *flags: str) -> Outcome:
        """Run it in this process."""
        self.capsys.readouterr()
        code = main.run([str(self.config(items)), *self._flags(flags)])
        captured = self.capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    def files(self) -> dict[str, bytes]:
        """Everything under a final name in the volume."""
        return {
            str(path.relative_to(self.volume)): path.read_bytes()
            for path in self.volume.rglob("*")
            if path.is_file() and ".kaiwo-download" not in path.parts and path.suffix != ".part"
        }

    def _flags(self, flags: tuple[str, ...]) -> list[str]:
        return [*flags, "--termination-log", str(self.root / "termination-log")]


@pytest.fixture
def download(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Runner:
    """The program."""
    return Runner(tmp_path, capsys)


@pytest.fixture(scope="session")
def peers() -> Path:
    """Where servers for tests are installed."""
    return PEERS


@pytest.fixture(scope="session")
def moto() -> Iterator[str]:
    """URL of moto's S3 server, in an environment of its own: its dependencies do not fit the project's."""
    program = PEERS / "moto" / "bin" / "moto_server"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", PEERS / "moto"], check=True)
        pip = [str(PEERS / "moto" / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, f"moto[server,s3]=={MOTO_VERSION}"], check=True)
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as probe:
        port = probe.server_address[1]
    with subprocess.Popen(
        [program, "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        url = f"http://127.0.0.1:{port}"
        try:
            _wait(f"{url}/moto-api/data.json")
            yield url
        finally:
            process.terminate()


def _wait(url: str) -> None:
    for _ in range(480):
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except OSError:
            time.sleep(0.25)
        else:
            return
    raise TimeoutError(url)


@contextlib.contextmanager
def listening(command: Callable[[int], Sequence[str | Path]]) -> Iterator[str]:
    """Run a server, from its port to its command, until it is left; its URL once it listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with subprocess.Popen(command(port), stdout=subprocess.DEVNULL) as process:
        try:
            for _ in range(480):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                time.sleep(0.25)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


@pytest.fixture(name="listening", scope="session")
def listening_fixture() -> Callable[[Callable[[int], Sequence[str | Path]]], Any]:
    """Run a server for a while: ``with listening(command) as url``."""
    return listening


@pytest.fixture(scope="session")
def azurite() -> Iterator[str]:
    """URL of the account of azurite, Microsoft's local server of the Blob interface."""
    folder = PEERS / f"azurite-{AZURITE_VERSION}"
    program = folder / "node_modules" / ".bin" / "azurite-blob"
    if not program.exists():
        npm = shutil.which("npm") or "npm"
        flags = ["--silent", "--no-audit", "--no-fund", "--prefix", str(folder)]
        subprocess.run([npm, "install", *flags, f"azurite@{AZURITE_VERSION}"], check=True)
    flags = ["--silent", "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]

    def command(port: int) -> list[str | Path]:
        return [program, "--blobHost", "127.0.0.1", "--blobPort", str(port), *flags]

    with listening(command) as url:
        yield f"{url}/devstoreaccount1"
