"""An S3 store and a git server on this machine, from which the demo's workloads download.

The store serves what a reader of S3 needs: listings, ranges, ETags. Git is served by ``git http-backend``.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, unquote, urlsplit

if TYPE_CHECKING:
    from pathlib import Path

SECRET: Final = "demo-store"  # noqa: S105  the name of a Secret
USER: Final = "demo-reader"
KEY: Final = "demo-key"
BUCKET: Final = "corpora"
PLUGIN: Final = "storage_s3_gcs_azure_git_hf"

_MIB: Final = 1024**2
_PARTS: Final = 4
_OK, _PARTIAL, _FORBIDDEN, _NOT_FOUND = 200, 206, 403, 404


def available() -> bool:
    """Whether a download can run here: the plugin, the libraries of its program, and git are installed."""
    plugin = entry_points(group="kaiwo.plugins", name=PLUGIN)
    program = entry_points(group="console_scripts", name="kaiwo-download")
    return bool(plugin and program and find_spec("obstore") and shutil.which("git"))


class DownloadServers:
    """Both servers, on one port.

    Attributes:
        url: base of both.
    """

    def __init__(self, directory: Path, *, host: str = "127.0.0.1") -> None:
        """Bind the port.

        Args:
            directory: where the git repository is created.
            host: the address to listen on.
        """
        self._directory = directory
        self._server = _Server((host, 0), _Handler)
        self._server.repositories = directory / "git"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)
        self.url = f"http://{host}:{self._server.server_address[1]}"

    @property
    def changes(self) -> tuple[str, ...]:
        """Values of ``kaiwo submit --set`` that set the addresses of both in a workload."""
        download = "storage.data.download"
        return (
            f"{download}.s3[0].endpointUrl={self.url}",
            f"{download}.git[0].repository={self.url}/git/project.git",
        )

    def start(self) -> None:
        """Create the objects and the repository, and serve them.

        Raises:
            OSError: git could not create the repository.
        """
        block = hashlib.sha256(b"demo").digest() * (_MIB // 32)
        self._server.objects = {f"clean/part-{number}.bin": block * 8 for number in range(_PARTS)}
        _create_repository(self._directory)
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


def _git() -> str:
    return shutil.which("git") or "git"


def _create_repository(directory: Path) -> None:
    """Create a bare repository with one file."""
    work, bare = directory / "project", directory / "git" / "project.git"
    work.mkdir(parents=True)
    bare.parent.mkdir()
    (work / "train.py").write_text("print('hello from git')\n", encoding="utf-8")
    author = ("-c", "user.name=demo", "-c", "user.email=demo@example.com")
    for arguments in (
        ("init", "-q", "-b", "main", str(work)),
        ("-C", str(work), "add", "."),
        ("-C", str(work), *author, "commit", "-q", "-m", "Train"),
        ("clone", "-q", "--bare", str(work), str(bare)),
    ):
        ended = subprocess.run((_git(), *arguments), capture_output=True, text=True, check=False)
        if ended.returncode:
            raise OSError(f"git {arguments[0]}: {ended.stderr.strip()}")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    objects: dict[str, bytes]
    repositories: Path


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing, because the demo's table is on the screen."""

    def do_GET(self) -> None:
        """Serve an object, a listing, or a request of git."""
        parts = urlsplit(self.path)
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        if bucket == "git":
            self._git()
        elif f"Credential={USER}/" not in self.headers.get("Authorization", ""):
            self._answer(_FORBIDDEN, b"<Error><Code>AccessDenied</Code></Error>")
        elif bucket != BUCKET:
            self._answer(_NOT_FOUND, b"<Error><Code>NoSuchBucket</Code></Error>")
        elif not key:
            self._list(parse_qs(parts.query).get("prefix", [""])[0])
        elif key not in self.server.objects:
            self._answer(_NOT_FOUND, b"<Error><Code>NoSuchKey</Code></Error>")
        else:
            self._object(self.server.objects[key])

    do_HEAD = do_GET

    def do_POST(self) -> None:
        """Serve a request of git with a body."""
        self._git()

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _object(self, body: bytes) -> None:
        etag = _etag(body)
        if requested := self.headers.get("Range"):
            first, _, last = requested.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last or len(body)), len(body) - 1)
            span = f"bytes {start}-{end}/{len(body)}"
            self._answer(_PARTIAL, body[start : end + 1], ETag=etag, Content_Range=span)
        else:
            self._answer(_OK, body, ETag=etag)

    def _list(self, prefix: str) -> None:
        entries = "".join(
            f"<Contents><Key>{key}</Key><Size>{len(body)}</Size><ETag>{_etag(body)}</ETag>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for key, body in sorted(self.server.objects.items())
            if key.startswith(prefix)
        )
        self._answer(_OK, f"<ListBucketResult>{entries}</ListBucketResult>".encode())

    def _git(self) -> None:
        """Pass the request to ``git http-backend``, a CGI program (RFC 3875)."""
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "GIT_PROJECT_ROOT": str(self.server.repositories),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "REQUEST_METHOD": self.command,
            "PATH_INFO": unquote(parts.path).removeprefix("/git"),
            "QUERY_STRING": parts.query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
        }
        done = subprocess.run(
            (_git(), "http-backend"), input=body, env=environment, capture_output=True, check=False
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode("latin-1").split("\r\n") if ": " in line)
        status = int(fields.pop("Status", "200").split()[0])
        self._answer(status, content, **{name.replace("-", "_"): value for name, value in fields.items()})


def _etag(body: bytes) -> str:
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
