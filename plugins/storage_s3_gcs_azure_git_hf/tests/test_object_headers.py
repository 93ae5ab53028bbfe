"""Headers of objects: kept connections, redirects, the egress proxy, and servers that do as they like."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaiwo_storage_s3_gcs_azure_git_hf.download import egress_proxy, http_client, object_headers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ANSWER = b"HTTP/1.1 200 OK\r\nX-Amz-Checksum-CRC32: abc=\r\nContent-Length: 5\r\n\r\n"


class Server:
    """Answers each request with the next of its answers; None, or no more, closes the connection instead.

    Attributes:
        answers: those to come.
        requests: the requests that it got.
        connections: how many there were.
    """

    def __init__(self, answers: list[bytes | None], context: ssl.SSLContext | None = None) -> None:
        self.requests: list[str] = []
        self.connections = 0
        self.answers = answers
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        """Take no more connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            try:
                with self._context.wrap_socket(client, server_side=True) if self._context else client as talk:
                    self._talk(talk)
            except OSError:
                client.close()

    def _talk(self, client: socket.socket) -> None:
        while self.answers and (data := client.recv(65536)):
            self.requests.append(data.decode())
            answer = self.answers.pop(0)
            if answer is None:
                return
            client.sendall(answer)


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """Starts servers."""
    started: list[Server] = []

    def start(*answers: bytes | None, context: ssl.SSLContext | None = None) -> Server:
        started.append(Server(list(answers), context))
        return started[-1]

    yield start
    for server in started:
        server.close()


@pytest.fixture
def ask() -> Iterator[Callable[..., Any]]:
    """Makes readers of the headers of objects below a URL, which connect through an egress proxy."""
    proxy = egress_proxy.EgressProxy(private=True)
    clients: list[http_client.HttpClient] = []

    def reader(url: str, **fields: str) -> object_headers.HeaderReader:
        assert proxy.register_endpoint(url) is None
        clients.append(http_client.HttpClient(proxy, 10))
        return object_headers.HeaderReader(clients[-1], lambda key: (f"{url}/{key}", fields))

    yield reader
    for client in clients:
        client.close()
    proxy.close()


@pytest.fixture
def secure(certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[ssl.SSLContext]:
    """A server's certificate that the client trusts, for localhost and 127.0.0.1."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    http_client.tls_context.cache_clear()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    yield context
    http_client.tls_context.cache_clear()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"], ids=["direct", "through the egress proxy"])
def test_one_connection_serves_many_requests(serve: Any, ask: Any, host: str) -> None:
    """Asking for a checksum costs one round trip, and the server sees host and headers as they are."""
    server = serve(ANSWER, b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ANSWER)
    reader = ask(f"http://{host}:{server.port}/bucket", Wanted="yes")
    for _ in range(2):
        assert reader.read("a%20b")["x-amz-checksum-crc32"] == "abc="
    assert server.connections == 1
    first, *lines = server.requests[0].split("\r\n")
    assert first == "HEAD /bucket/a%20b HTTP/1.1"
    assert {f"host: {host}:{server.port}", "wanted: yes"} <= set(lines)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"], ids=["direct", "through the egress proxy"])
def test_certificates_are_checked(
    serve: Any, ask: Any, secure: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    """A server that the system trusts is read, another is no server."""
    server = serve(ANSWER, ANSWER, context=secure)
    url = f"https://{host}:{server.port}"
    trusting = ask(url)
    assert trusting.read("a")["content-length"] == "5"
    trusting._client.close()
    monkeypatch.delenv("SSL_CERT_FILE")
    http_client.tls_context.cache_clear()
    with pytest.raises(ConnectionError, match="SSLCertVerificationError"):
        ask(url).read("a")


def test_a_connection_that_was_closed_meanwhile_is_opened_again(serve: Any, ask: Any) -> None:
    """Servers end connections that nobody used for a while."""
    server = serve(ANSWER, None, ANSWER)
    reader = ask(f"http://127.0.0.1:{server.port}")
    assert reader.read("a") == reader.read("a")
    assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        None,
        b"220 mail.example.com ESMTP\r\n\r\n",
        b"HTTP/1.1 xyz\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000,
        b"HTTP/1.1 503 Busy\r\nConnection: close\r\n\r\n",
    ],
)
def test_no_answer_is_reported_from_no_checksum(serve: Any, ask: Any, answer: bytes | None) -> None:
    """A caller can retry."""
    server = serve(answer)
    with pytest.raises(ConnectionError):
        ask(f"http://127.0.0.1:{server.port}").read("a")


@pytest.mark.parametrize("status", [400, 403, 404, 405, 501])
def test_a_store_that_does_not_tell_is_not_asked_again(serve: Any, ask: Any, status: int) -> None:
    """Its objects are read without."""
    server = serve(f"HTTP/1.1 {status} No\r\nX: y\r\n\r\n".encode())
    assert ask(f"http://127.0.0.1:{server.port}").read("a") == {}


def test_a_redirect_elsewhere_loses_the_headers(serve: Any, ask: Any) -> None:
    """What was meant for one host is not sent to another, and a blocked address is not reached."""
    there = serve(ANSWER)
    moved = f"HTTP/1.1 307 Moved\r\nLocation: http://localhost:{there.port}/x\r\n\r\n".encode()
    inside = b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/latest\r\n\r\n"
    strange = b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n"
    here = serve(moved, inside, strange)
    reader = ask(f"http://localhost:{here.port}", authorization="CANARY")
    assert reader.read("a")["content-length"] == "5"
    assert "CANARY" in here.requests[0]
    assert "CANARY" not in there.requests[0]
    assert reader.read("a") == {}
    assert reader.read("a") == {}


def test_a_line_break_is_not_sent(serve: Any, ask: Any) -> None:
    """A value cannot add a header of its own."""
    server = serve(ANSWER)
    with pytest.raises(ConnectionError):
        ask(f"http://127.0.0.1:{server.port}", x="a\r\nauthorization: b").read("a")
    assert server.requests == []


@pytest.mark.parametrize(
    ("first", "then", "crosses"),
    [
        ("https://store/a", "https://store/b", False),
        ("http://store:9000/a", "http://store:9000/b", False),
        ("https://store/a", "https://other/a", True),
        ("https://store/a", "https://store:8443/a", True),
        ("https://store/a", "http://store/a", True),
    ],
)
def test_headers_go_no_further_than_their_server_and_its_encryption(
    first: str, then: str, *, crosses: bool
) -> None:
    """What signs a request is for one server, and not for who listens on the proxy."""
    assert http_client.crosses_origin(urlsplit(first), urlsplit(then)) == crosses


@pytest.mark.parametrize("location", ["http://[::1", "http://a:99999/", "http://a:0/", "https://:1", "x:"])
def test_a_redirect_to_nowhere_is_not_followed(serve: Any, ask: Any, location: str) -> None:
    """An unusable header of a server counts as no checksum."""
    server = serve(f"HTTP/1.1 302 Found\r\nLocation: {location}\r\n\r\n".encode())
    assert ask(f"http://127.0.0.1:{server.port}").read("a") == {}


def test_no_answer_crashes(serve: Any, ask: Any) -> None:
    """Whatever a server sends is an answer, or none."""
    server = serve()
    reader = ask(f"http://127.0.0.1:{server.port}")

    @settings(max_examples=50)
    @given(st.binary(max_size=200), st.sampled_from([b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 302 Found\r\n"]))
    def sent(data: bytes, first: bytes) -> None:
        server.answers.append(first + data + b"\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            assert isinstance(reader.read("a"), dict)

    sent()
