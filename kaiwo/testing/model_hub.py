"""A fake Hugging Face Hub as its client reads it, with a CDN behind a redirect."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

from kaiwo.testing.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMIT: Final = "c" * 40
LARGE: Final = b"weights" * 100_000
OID: Final = hashlib.sha256(LARGE).hexdigest()
TOKEN: Final = "hf_CANARYTOKEN"  # noqa: S105  of a test
_PIECE: Final = 100_000


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ModelHub

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def _reply(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        if self.close_connection:
            self.send_header("Connection", "close")
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self) -> None:
        hub, path = self.server, self.path.partition("?")[0]
        self.close_connection = hub.closing or self.close_connection
        hub.requests.append((self.command, path, dict(self.headers.items())))
        if hub.error and hub.error[0] in path:
            if not hub.spared:
                _, status, message = hub.error
                return self._reply(status, b"{}", **({"X-Error-Message": message} if message else {}))
            hub.spared -= 1
        if path.startswith("/cdn/"):
            return self._cdn()
        return self._hub(path)

    def _hub(self, path: str) -> None:
        """Answer as the Hub."""
        hub = self.server
        if "old/name" in path:
            return self._reply(307, Location=self.path.replace("old/name", "a/gated"))
        if "gated" in path and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self._reply(403, b"{}", **{"X-Error-Code": "GatedRepo"})
        if "missing" in path:
            return self._reply(404, b"{}", **{"X-Error-Code": "RepoNotFound"})
        if "/revision/none" in path:
            return self._reply(404, b"{}", **{"X-Error-Code": "RevisionNotFound"})
        files = {"model.safetensors": hub.model, **hub.small}
        if "/tree/" in path:
            return self._reply(200, json.dumps([hub.entry(*file) for file in files.items()]).encode())
        if path.startswith("/api/models/"):
            siblings = [{"rfilename": name} for name in files]
            return self._reply(
                200, json.dumps({"id": "a/b", "sha": hub.commit, "siblings": siblings}).encode()
            )
        name = path.partition(f"/resolve/{hub.commit}/")[2]
        if name not in files:
            return self._reply(404, b"{}", **{"X-Error-Code": "EntryNotFound"})
        if name == "model.safetensors":
            return self._reply(
                302,
                b"",
                **{
                    "Location": hub.redirect,
                    "X-Repo-Commit": hub.commit,
                    "X-Linked-Etag": f'"{hub.oid}"',
                    "X-Linked-Size": str(hub.claimed or len(hub.model)),
                },
            )
        body = files[name]
        etag = hashlib.sha1(body, usedforsecurity=False).hexdigest()
        return self._reply(200, body, **{"ETag": f'"{etag}"', "X-Repo-Commit": hub.commit})

    do_HEAD = do_GET

    def _cdn(self) -> None:
        body, status, extra = self.server.large, 200, {}
        if asked := self.headers.get("Range"):
            start = int(asked.removeprefix("bytes=").partition("-")[0])
            extra = {"Content-Range": f"bytes {start}-{len(body) - 1}/{len(body)}"}
            body, status = body[start:], 206
        self.send_response(status)
        for name, value in {"ETag": f'"{OID}"', "Content-Length": str(len(body)), **extra}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.server.cut:
            self.close_connection = True
            body = body[: self.server.cut]
        for start in range(0, len(body), _PIECE):
            self.wfile.write(body[start : start + _PIECE])
            self.server.sent += _PIECE
            time.sleep(self.server.pause)


class ModelHub(ThreadingHTTPServer):
    """The Hub's interface as its client reads it, with a CDN behind a redirect.

    Attributes:
        small: files that come without a redirect.
        model: the large file, as the Hub describes it.
        large: what the CDN sends of it.
        redirect: where the large file is.
        pause: seconds between pieces of the CDN.
        sent: bytes that the CDN sent.
        closing: whether each connection serves one request.
        cut: bytes after which the CDN ends; 0 for all.
        claimed: size that the Hub says the large file has; 0 for its own.
        error: requests with this in their path are answered with this status and message; empty for none.
        spared: requests of these that are answered as others before that.
        commit: what its branches name.
        requests: method, path and headers of each request.
    """

    daemon_threads = True
    model = LARGE
    large = LARGE
    redirect = ""
    pause = 0.0
    sent = 0
    claimed = 0
    error: tuple[str, int, str] | tuple[()] = ()
    spared = 0
    commit = COMMIT
    closing = False
    cut = 0

    def __init__(self) -> None:
        self.small = {"config.json": b'{"a": 1}', "sub/other.txt": b"other"}
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def oid(self) -> str:
        """What the Hub says of the large file."""
        return hashlib.sha256(self.model).hexdigest()

    def entry(self, name: str, body: bytes) -> dict[str, Any]:
        """A file in the listing of a tree."""
        entry: dict[str, Any] = {"type": "file", "path": name, "size": len(body), "oid": "1" * 40}
        if body is self.model:
            entry["lfs"] = {"oid": self.oid, "size": len(body), "pointerSize": 130}
        return entry

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are part of the tests."""


@contextlib.contextmanager
def serve_hub() -> Iterator[ModelHub]:
    """A Hub on loopback, for as long as the block lasts."""
    with serving(ModelHub()) as server:
        yield server
