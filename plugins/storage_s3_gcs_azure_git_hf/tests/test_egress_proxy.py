from __future__ import annotations

import contextlib
import http.client
import os
import resource
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from kaiwo_storage_s3_gcs_azure_git_hf.download.egress_proxy import EgressProxy

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.server.seen.append((self.client_address[1], self.command, self.path))
        body = self.server.name + self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET


class Server(ThreadingHTTPServer):
    """A server that says its name and what it was sent."""

    daemon_threads = True

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.seen: list[tuple[int, str, str]] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        """Its URL."""
        return f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def servers() -> Iterator[list[Server]]:
    """Two servers."""
    made = [Server(b"first"), Server(b"second")]
    threads = [
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        for server in made
    ]
    for thread in threads:
        thread.start()
    yield made
    for server, thread in zip(made, threads, strict=True):
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def proxy() -> Iterator[EgressProxy]:
    """An egress proxy of which the user wrote a loopback address."""
    made = EgressProxy(private=True)
    made.register_endpoint("http://127.0.0.1")
    yield made
    made.close()


def client(proxy: EgressProxy) -> http.client.HTTPConnection:
    """A connection to the egress proxy."""
    place = urlsplit(proxy.url)
    return http.client.HTTPConnection(place.hostname or "", place.port, timeout=20)


def connect(proxy: EgressProxy) -> socket.socket:
    """A bare connection to the egress proxy."""
    place = urlsplit(proxy.url)
    return socket.create_connection((place.hostname, place.port), timeout=20)


def ask(
    connection: http.client.HTTPConnection, method: str, url: str, body: bytes = b""
) -> tuple[int, bytes]:
    """One request in absolute form, as to a proxy."""
    connection.request(method, url, body)
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_one_connection_serves_many_requests(proxy: EgressProxy, servers: list[Server]) -> None:
    """With bodies, and to another host in between: each request reaches its own."""
    first, second = servers
    connection = client(proxy)
    for _ in range(3):
        assert ask(connection, "GET", f"{first.url}/a?b=1") == (200, b"first")
    assert ask(connection, "POST", f"{first.url}/post", b"x" * 100_000) == (200, b"first" + b"x" * 100_000)
    assert ask(connection, "GET", f"{second.url}/") == (200, b"second")
    assert ask(connection, "GET", f"{first.url}/") == (200, b"first")
    connection.close()
    assert [path for _, _, path in first.seen] == ["/a?b=1"] * 3 + ["/post", "/"]
    assert len({port for port, *_ in first.seen}) == 2, "the connection was not kept"


def test_each_request_of_a_kept_connection_is_checked(proxy: EgressProxy, servers: list[Server]) -> None:
    """A client that was let through once cannot reach the metadata server with its second request."""
    connection = client(proxy)
    assert ask(connection, "GET", f"{servers[0].url}/")[0] == 200
    status, text = ask(connection, "GET", "http://169.254.169.254/latest/meta-data/")
    connection.close()
    assert (status, b"metadata" in text) == (403, True)
    assert "169.254.169.254" in (proxy.last_blocked() or "")


@pytest.mark.parametrize(
    "head",
    [b"\r\n\r\n", b"GET\r\n\r\n", b"GET http://[ HTTP/1.1\r\n\r\n", b"GET http://a:b/ HTTP/1.1\r\n\r\n",
     b"GET ftp://127.0.0.1/ HTTP/1.1\r\n\r\n",
     b"POST http://127.0.0.1/ HTTP/1.1\r\nContent-Length: x\r\n\r\n"],
)  # fmt: skip
def test_what_is_no_request_is_answered_and_not_forwarded(
    proxy: EgressProxy, servers: list[Server], head: bytes
) -> None:
    """HTTP 400, and the egress proxy keeps running."""
    with connect(proxy) as raw:
        raw.sendall(head)
        raw.shutdown(socket.SHUT_WR)
        assert raw.recv(1000).startswith(b"HTTP/1.1 400 ")
    with contextlib.closing(client(proxy)) as connection:
        assert ask(connection, "GET", f"{servers[0].url}/") == (200, b"first")


def test_a_head_that_does_not_end_is_cut_off(proxy: EgressProxy, servers: list[Server]) -> None:
    """After 64 KiB, without an answer; the egress proxy keeps running."""
    with connect(proxy) as raw, contextlib.suppress(ConnectionResetError):
        raw.sendall(b"x" * 70_000)
        assert raw.recv(1000) == b""
    with contextlib.closing(client(proxy)) as connection:
        assert ask(connection, "GET", f"{servers[0].url}/") == (200, b"first")


@pytest.mark.parametrize("host", ["a" * 70 + ".example.com", "a..b", "."])
def test_names_that_cannot_be_names_are_answered(proxy: EgressProxy, host: str) -> None:
    """As any host that is unreachable."""
    connection = client(proxy)
    assert ask(connection, "GET", f"http://{host}/")[0] == 502
    connection.close()
    assert "is unreachable" in (proxy.last_unreachable() or "")


def test_many_open_files_do_not_matter(proxy: EgressProxy, servers: list[Server]) -> None:
    """Descriptors above 1023, as a program with many connections has them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 1200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1030)]
    try:
        connection = client(proxy)
        assert ask(connection, "GET", f"{servers[0].url}/") == (200, b"first")
        connection.close()
    finally:
        for number in held:
            os.close(number)


def test_a_closed_egress_proxy_leaves_neither_port_nor_thread(servers: list[Server]) -> None:
    """Whoever comes later finds nobody there."""
    before = threading.active_count()
    made = EgressProxy(private=True)
    made.register_endpoint("http://127.0.0.1")
    connection = client(made)
    assert ask(connection, "GET", f"{servers[0].url}/")[0] == 200
    connection.close()
    made.close()
    place: Any = urlsplit(made.url)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((place.hostname, place.port), timeout=5)
    assert not [thread for thread in threading.enumerate() if thread is made._thread]
    assert threading.active_count() <= before + 2, (
        "connection threads of server and proxy may still be ending"
    )
