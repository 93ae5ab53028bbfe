"""A fake git host: git http-backend behind http, with authentication and an LFS server."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

from kaiwo.testing.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN: Final = "CANARYTOKEN"  # noqa: S105  of a test
LARGE: Final = b"large file" * 1000
ODD: Final = "odd [1]*"
AUTHOR: Final = {
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
    server: GitHost

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def _reply(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        if self.close_connection:
            self.send_header("Connection", "close")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        host = self.server
        host.paths.append(self.path)
        host.given.append((self.headers["Host"], self.headers.get("Authorization", "")))
        expected = "Basic " + base64.b64encode(f"{host.user}:{TOKEN}".encode()).decode()
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if host.closing:
            self.close_connection = True
        if host.onward:
            self._reply(302, b"", Location=host.onward + self.path)
            return
        if host.silent:
            host.silent.wait(20)
        if host.busy or host.gone:
            host.busy -= not host.gone
            self._reply(host.gone or 503, b"")
        elif host.private and self.headers.get("Authorization") != expected:
            self._reply(401, b"", **{"WWW-Authenticate": 'Basic realm="git"'})
        elif self.path.endswith("/objects/batch"):
            self._batch(json.loads(body)["objects"])
        elif self.path.startswith("/lfs/") and host.moved:
            self._reply(302, b"", Location=host.moved)
        elif self.path.startswith("/lfs/") and host.expired:
            host.expired -= 1
            self._reply(403, b"")
        elif self.path.startswith("/lfs/"):
            self._large()
        else:
            self._backend(body)

    do_POST = do_GET

    def _batch(self, objects: list[dict[str, Any]]) -> None:
        """Say where large files are, or why they are nowhere."""
        host = self.server
        if host.batch_error:
            status, message = host.batch_error
            if host.retry_after:
                host.batch_error = ()
            headers = {"Retry-After": host.retry_after} if host.retry_after else {}
            self._reply(status, json.dumps({"message": message}).encode(), **headers)
            return
        entries = [
            {**wanted, "actions": {"download": {"href": f"{host.url}/lfs/{wanted['oid']}"}}, **host.entry}
            for wanted in objects
        ]
        host.entry = host.later_entry
        self._reply(200, json.dumps({"objects": entries}).encode())

    def _large(self) -> None:
        """Answer with the large file, or with what is missing of it; once with a part of that."""
        host, begin = self.server, self.headers.get("Range", "")
        start = int(begin.removeprefix("bytes=").rstrip("-") or 0)
        whole = host.others.get(self.path.removeprefix("/lfs/"), host.large)
        body, status = whole[start:], 206 if begin else 200
        host.ranges.append(begin)
        if host.together:
            with contextlib.suppress(threading.BrokenBarrierError):
                host.together.wait(5)
        if host.torn:
            self.close_connection = True
            self._reply(status, body[: host.torn], **{"Content-Length": str(len(body))})
            host.torn = 0
        else:
            self._reply(status, body)

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
        time.sleep(self.server.pause)
        if self.server.cut and len(answer) > self.server.cut:
            self.close_connection = True
            headers["Content-Length"] = str(len(answer))
            answer = answer[: self.server.cut]
        self._reply(status, answer, **headers)


class GitHost(ThreadingHTTPServer):
    """git http-backend behind http, with authentication and large files.

    Attributes:
        private: whether requests need `user` and `token`.
        modern: whether it speaks version 2 of git's protocol.
        large: content of the large file.
        others: content of other large files, by their SHA-256.
        together: answers with large files wait until so many are requested at once.
        entry: what the batch API says of each large file, beside where it is.
        later_entry: what it says from the second request on.
        batch_error: status and message of the batch API; empty for none.
        retry_after: seconds that the batch API names with its error, which then passes.
        moved: where large files are instead.
        torn: bytes after which the next answer with a large file ends; 0 for none.
        expired: requests for large files that are still refused.
        ranges: header Range of the requests for large files.
        onward: where everything is instead.
        closing: whether each connection serves one request.
        cut: bytes after which a longer answer ends; 0 for none.
        pause: seconds before an answer of git.
        sent: bytes of git's answers.
        gone: status that every request is answered with; 0 for none.
        busy: requests that are still answered with 503.
        silent: event that answers wait for.
        paths: of all requests.
        given: host and authorization of all requests.
    """

    daemon_threads = True
    onward = ""
    closing = False
    cut = 0
    pause = 0.0
    private = False
    modern = True
    user = "x-access-token"
    large = LARGE
    together: threading.Barrier | None = None
    batch_error: tuple[int, str] | tuple[()] = ()
    retry_after = ""
    moved = ""
    torn = 0
    expired = 0
    sent = 0
    gone = 0
    busy = 0
    silent: threading.Event | None = None

    token = TOKEN
    folder_with_pattern_name = ODD

    def __init__(self, root: Path) -> None:
        self.root = root
        self.paths: list[str] = []
        self.ranges: list[str] = []
        self.given: list[tuple[str, str]] = []
        self.others: dict[str, bytes] = {}
        self.entry: dict[str, Any] = {}
        self.later_entry: dict[str, Any] = {}
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


@contextlib.contextmanager
def serve_git(root: Path) -> Iterator[GitHost]:
    """A host of the repositories in a folder, for as long as the block lasts."""
    with serving(GitHost(root)) as server:
        yield server
