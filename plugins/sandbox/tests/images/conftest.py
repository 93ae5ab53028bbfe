"""A container registry, its token service and storage, and a Go module proxy on loopback, over TLS."""

from __future__ import annotations

import contextlib
import datetime as dt
import gzip
import hashlib
import io
import ipaddress
import json
import re
import socket
import socketserver
import ssl
import tarfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Fault = Callable[["Handler", bytes], bool]

_LARGE = 2000
"""Bytes; configurations are smaller."""

NAMES = ("localhost", "registry.k8s.io", "quay.io", "modules.test")


def layer(files: dict[str, bytes | str], *, compressed: bool = True) -> bytes:
    """A layer; a `str` is the target of a symbolic link."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            if isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
                archive.addfile(member)
            else:
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), 1) if compressed else buffer.getvalue()


def digest_of(content: bytes) -> str:
    """The digest as registries write it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Any

    def setup(self) -> None:
        """Shake hands in the thread of the connection."""
        self.request.settimeout(20)
        self.request.do_handshake()
        super().setup()

    def do_GET(self) -> None:
        """Answer from the registry's content, or as a fault of the test says."""
        self.server.registry.answer(self)

    def send(self, code: int, body: bytes = b"", **headers: str) -> None:
        """Send an answer; underscores in names of headers are dashes."""
        self.send_response(code)
        for key, value in {"Content_Length": str(len(body)), **headers}.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the test's output clean."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients of these tests leave early."""


class Registry:
    """Content by digest and tag, anonymous tokens, blobs on another host, and Go modules by path.

    `faults` has a function by kind of request (manifest, blob, storage, layer, token, module). It gets
    the handler and the right body, and returns whether it answered.
    """

    def __init__(self, certificates: Path) -> None:
        self.authority = certificates / "ca.crt"
        self.content: dict[str, bytes] = {}
        self.tags: dict[str, str] = {}
        self.modules: dict[str, bytes] = {}
        self.seen: list[tuple[str, str | None]] = []
        self.ranges: list[str] = []
        self.faults: dict[str, Fault] = {}
        self._servers = [self._serve(certificates) for _ in range(2)]
        self.port, storage = (server.server_port for server in self._servers)
        self.host, self._storage = f"localhost:{self.port}", f"127.0.0.1:{storage}"

    def _serve(self, certificates: Path) -> Any:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates / "server.crt", certificates / "server.key")
        server = _Server(("127.0.0.1", 0), Handler)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        server.registry = self  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return server

    def close(self) -> None:
        """Stop the servers."""
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def answer(self, handler: Handler) -> None:
        """Answer a request."""
        path, token = handler.path, handler.headers.get("Authorization")
        self.seen.append((path, token))
        kind, body = self._find(path)
        if body is None:
            handler.send(404)
        elif kind in self.faults and self.faults[kind](handler, body):
            pass
        elif kind in {"manifest", "blob"} and token != "Bearer letmein":
            realm = f"https://{self.host}/token"
            challenge = f'Bearer realm="{realm}",service="r",scope="repository:x:pull"'
            handler.send(401, WWW_Authenticate=challenge)
        elif kind == "blob":
            handler.send(307, Location=f"https://{self._storage}/storage/{path.rpartition('/')[2]}")
        else:
            self._send_part(handler, body)

    def _find(self, path: str) -> tuple[str, bytes | None]:
        if path.startswith("/token?"):
            return "token", b'{"token": "letmein"}'
        last = path.rpartition("/")[2]
        if path.startswith("/storage/"):
            found = self.content.get(last, b"")
            return "layer" if len(found) > _LARGE else "storage", found or None
        if "/blobs/" in path:
            return "blob", self.content.get(last)
        if "/manifests/" in path:
            name = path.removeprefix("/v2/").replace("/manifests/", ":")
            return "manifest", self.content.get(self.tags.get(name, last))
        return "module", self.modules.get(path)

    def _send_part(self, handler: Handler, body: bytes) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range", ""))
        if asked is None:
            handler.send(200, body)
            return
        self.ranges.append(asked[0])
        start = int(asked[1])
        handler.send(206, body[start:], Content_Range=f"bytes {start}-{len(body) - 1}/{len(body)}")

    def add(self, content: bytes) -> str:
        """Keep a blob or manifest and return its digest."""
        digest = digest_of(content)
        self.content[digest] = content
        return digest

    def add_json(self, document: object) -> str:
        """Keep a document and return its digest."""
        return self.add(json.dumps(document).encode())

    def descriptor(self, content: bytes) -> dict[str, Any]:
        """Keep a blob and return its descriptor."""
        return {"digest": self.add(content), "size": len(content)}

    def add_image(
        self, *layers: bytes, architecture: str = "amd64", index: bool = True, tag: str = "team/tools:v1"
    ) -> str:
        """Keep an image, by default behind an index of variants, and return the digest that the tag names."""
        config = json.dumps({"os": "linux", "architecture": architecture}).encode()
        manifest = {
            "schemaVersion": 2,
            "config": self.descriptor(config),
            "layers": [self.descriptor(each) for each in layers],
        }
        digest = self.add_json(manifest)
        if index:
            entries = [
                {"digest": "sha256:" + "0" * 64, "platform": {"os": "windows", "architecture": "amd64"}},
                {"digest": digest, "platform": {"os": "linux", "architecture": architecture}},
            ]
            digest = self.add_json({"schemaVersion": 2, "manifests": entries})
        self.tags[tag] = digest
        return digest

    # Faults.

    @staticmethod
    def status(code: int, *, times: int = 1_000_000, **headers: str) -> Fault:
        """Answer with a status, a number of times."""
        left = [times]

        def fault(handler: Handler, _body: bytes) -> bool:
            left[0] -= 1
            if left[0] < 0:
                return False
            handler.send(code, **headers)
            return True

        return fault

    @staticmethod
    def cut(*, times: int = 1_000_000, after: int | None = None) -> Fault:
        """Close the connection after half of the body or `after` bytes, a number of times."""
        left = [times]

        def fault(handler: Handler, body: bytes) -> bool:
            left[0] -= 1
            if left[0] < 0 or "Range" in handler.headers:
                return False
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body[: len(body) // 2 if after is None else after])
            return True

        return fault

    @staticmethod
    def trickle(handler: Handler, _body: bytes) -> bool:
        """Send a byte now and then, without an end."""
        handler.send_response(200)
        handler.end_headers()
        with contextlib.suppress(OSError):
            while True:
                handler.wfile.write(b"x")
                time.sleep(0.05)
        return True

    @staticmethod
    def endless(handler: Handler, _body: bytes) -> bool:
        """Send bytes as fast as possible, without an end."""
        handler.send_response(200)
        handler.end_headers()
        with contextlib.suppress(OSError):
            while True:
                handler.wfile.write(bytes(1 << 16))
        return True

    @staticmethod
    def silent(_handler: Handler, _body: bytes) -> bool:
        """Do not answer for longer than a test waits."""
        time.sleep(5)
        return True


class ConnectProxy:
    """An HTTP proxy that sends every connection to one port of this machine, whatever its host is."""

    def __init__(self, port: int) -> None:
        hosts: list[str] = []

        class Tunnel(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                hosts.append(self.rfile.readline().split()[1].decode())
                while self.rfile.readline().strip():
                    pass
                with socket.create_connection(("127.0.0.1", port)) as target:
                    self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
                    back = threading.Thread(target=_copy, args=(target, self.connection), daemon=True)
                    back.start()
                    _copy(self.connection, target)
                    back.join()

        self.hosts = hosts
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Tunnel)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        """Stop the proxy."""
        self._server.shutdown()
        self._server.server_close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while chunk := source.recv(1 << 16):
            target.sendall(chunk)
    for each in (source, target):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an authority, and the certificate and key of a server."""
    directory = tmp_path_factory.mktemp("certificates")
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
    now = dt.datetime.now(dt.UTC)

    def builder(name: x509.Name, public: Any) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .issuer_name(ca_name)
            .subject_name(name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
        )

    authority = (
        builder(ca_name, ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    addresses = [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    server = (
        builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")]), key.public_key())
        .add_extension(
            x509.SubjectAlternativeName([*(x509.DNSName(name) for name in NAMES), *addresses]), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    (directory / "ca.crt").write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    (directory / "server.crt").write_bytes(server.public_bytes(serialization.Encoding.PEM))
    (directory / "server.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return directory


@pytest.fixture
def fake(home: Path, certificates: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """A running registry whose authority this process trusts; this machine counts as amd64."""
    del home
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates / "ca.crt"))
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    for variable in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(variable, raising=False)
    running = Registry(certificates)
    yield running
    running.close()


@pytest.fixture
def make_layer() -> Callable[..., bytes]:
    """The function that makes a layer."""
    return layer


@pytest.fixture
def connect_proxy(fake: Registry) -> Iterator[ConnectProxy]:
    """An HTTP proxy before the registry; with it, every host is the registry."""
    running = ConnectProxy(fake.port)
    yield running
    running.close()
