"""A git host: git http-backend behind http, with authentication and an LFS server."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN = "CANARYTOKEN"
LARGE = b"large file" * 1000
ODD = "odd [1]*"
AUTHOR = {
    f"GIT_{who}_{what}": "t@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
}


def git(folder: Path, *arguments: str) -> str:
    """Run git without the user's configuration."""
    environment = {**os.environ, **AUTHOR, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "-c", "init.defaultBranch=main", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Host

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def _reply(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        host = self.server
        host.paths.append(self.path)
        host.given.append((self.headers["Host"], self.headers.get("Authorization", "")))
        expected = "Basic " + base64.b64encode(f"{host.user}:{TOKEN}".encode()).decode()
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if host.silent:
            host.silent.wait(20)
        if host.busy:
            host.busy -= 1
            self._reply(503, b"")
        elif host.private and self.headers.get("Authorization") != expected:
            self._reply(401, b"", **{"WWW-Authenticate": 'Basic realm="git"'})
        elif self.path.endswith("/objects/batch"):
            objects = [
                {
                    **wanted,
                    "actions": {"download": {"href": f"{host.url}/lfs/{wanted['oid']}"}},
                }
                for wanted in json.loads(body)["objects"]
            ]
            self._reply(200, json.dumps({"objects": objects}).encode())
        elif self.path.startswith("/lfs/") and host.moved:
            self._reply(302, b"", Location=host.moved)
        elif self.path.startswith("/lfs/"):
            self._reply(200, host.large)
        else:
            self._backend(body)

    do_POST = do_GET

    def _backend(self, body: bytes) -> None:
        place = urllib.parse.urlsplit(self.path)
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.server.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": place.path,
            "QUERY_STRING": place.query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }
        if self.server.modern:
            environment["GIT_PROTOCOL"] = self.headers.get("Git-Protocol", "")
        command = ["git", "http-backend"]
        done = subprocess.run(command, input=body, env=environment, capture_output=True, check=False)
        head, _, answer = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        status = int(headers.pop("Status", "200").split()[0])
        self.server.sent += len(answer)
        self._reply(status, answer, **headers)


class Host(ThreadingHTTPServer):
    """git http-backend behind http, with authentication and large files."""

    daemon_threads = True
    private = False
    modern = True
    user = "x-access-token"
    large = LARGE
    moved = ""
    sent = 0
    busy = 0
    silent: threading.Event | None = None

    token = TOKEN
    folder_with_pattern_name = ODD

    def __init__(self, root: Path) -> None:
        self.root = root
        self.paths: list[str] = []
        self.given: list[tuple[str, str]] = []
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def item(self, **more: Any) -> dict[str, Any]:
        """The items of a configuration that names the repository."""
        return {"git": [{"repository": f"{self.url}/repo.git", "targetPath": "code", **more}]}

    def git(self, folder: str, *arguments: str) -> str:
        """Run git in a folder beside the repository."""
        return git(self.root / folder, *arguments)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are part of the tests."""


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a history, a tag, a folder, a large file, a submodule and a link that leaves."""
    root = tmp_path_factory.mktemp("git")
    work = root / "work"
    work.mkdir()
    git(work, "init", "-q")
    (work / "src").mkdir()
    (work / "src" / "a.py").write_text("one\n")
    (work / "big").write_bytes(os.urandom(500_000))
    git(work, "add", ".")
    git(work, "commit", "-qm", "one")
    git(work, "tag", "v1")
    (work / "src" / "a.py").write_text("two\n")
    (work / "src" / "here").symlink_to("a.py")
    for folder in (ODD, "odd 1x"):
        (work / folder).mkdir()
        (work / folder / "b").write_text(folder)
    oid = hashlib.sha256(LARGE).hexdigest()
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {len(LARGE)}\n"
    (work / "model.bin").write_text(pointer)
    (work / ".gitmodules").write_text('[submodule "sub"]\n\tpath = sub\n\turl = http://127.0.0.1:1/sub.git\n')
    git(work, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
    git(work, "add", "src", ODD, "odd 1x", "model.bin", ".gitmodules")
    git(work, "commit", "-qm", "two")
    git(work, "branch", "dev/evil")
    git(work, "checkout", "-q", "dev/evil")
    (work / "out").symlink_to("../../../etc/passwd")
    git(work, "add", "out")
    git(work, "commit", "-qm", "evil")
    git(work, "checkout", "-q", "main")
    git(root, "clone", "-q", "--bare", "work", "repo.git")
    git(root / "repo.git", "config", "uploadpack.allowFilter", "true")
    return root


@pytest.fixture
def host(repositories: Path) -> Iterator[Host]:
    """The server."""
    server = Host(repositories)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()
