"""The API client reports connection and server failures as the errors that it documents."""

from __future__ import annotations

import http.client
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo_sandbox import certs
from kaiwo_sandbox.api import ApiClient, SandboxApiError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Server:
    """Answers every request with the next of the prepared bodies; `cut` ends the connection early."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, bytes]] = []
        self.cut = False
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                code, body = owner.answers.pop(0)
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body) + (10 if owner.cut else 0)))
                self.end_headers()
                self.wfile.write(body)
                self.close_connection = True

            def log_message(self, format: str, *args: Any) -> None:
                """Keep the test's output clean."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()


@pytest.fixture
def server() -> Iterator[Server]:
    """A server without TLS."""
    running = Server()
    yield running
    running.http.shutdown()
    running.http.server_close()


@pytest.fixture
def api(home: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiClient]:
    """A client that talks to it."""
    del home
    port = server.http.server_port
    monkeypatch.setattr(
        ApiClient,
        "_connect",
        lambda _self, timeout: http.client.HTTPConnection("127.0.0.1", port, timeout=timeout),
    )
    with closing(ApiClient(f"https://127.0.0.1:{port}", certs.ensure())) as client:
        yield client


def test_a_closed_kept_connection_is_opened_again(api: ApiClient, server: Server) -> None:
    """A server that restarted between two requests is not an error."""
    server.answers = [(200, b'{"n": 1}'), (200, b'{"n": 2}')]
    assert api.get("/a") == {"n": 1}
    assert api.get("/a") == {"n": 2}


def test_an_error_carries_the_servers_message(api: ApiClient, server: Server) -> None:
    """With the request; a body that is no JSON is shown as it is."""
    server.answers = [(409, b'{"message": "exists already"}'), (502, b"bad gateway")]
    with pytest.raises(SandboxApiError, match="GET /a: 409 exists already"):
        api.get("/a")
    with pytest.raises(SandboxApiError, match="502 bad gateway"):
        api.get("/a")


def test_a_watch_ends_with_the_stream(api: ApiClient, server: Server) -> None:
    """Each line is an event."""
    server.answers = [(200, b'{"type": "ADDED", "object": {}}\n{"type": "DELETED", "object": {}}\n')]
    assert [event["type"] for event in api.watch("/a", timeout=1)] == ["ADDED", "DELETED"]


def test_an_error_event_ends_a_watch_as_an_error(api: ApiClient, server: Server) -> None:
    """It carries a Status where others carry an object, and must not be taken for one."""
    server.answers = [(200, b'{"type": "ERROR", "object": {"code": 410, "message": "too old"}}\n')]
    with pytest.raises(SandboxApiError, match="410 too old"):
        list(api.watch("/a", timeout=1))


def test_a_watch_that_breaks_off_in_an_event_is_a_broken_connection(api: ApiClient, server: Server) -> None:
    """Half an event must not end in a JSON error."""
    server.cut = True
    server.answers = [(200, b'{"type": "ADDED", "obj')]
    with pytest.raises(OSError, match="watch interrupted"):
        list(api.watch("/a", timeout=1))
