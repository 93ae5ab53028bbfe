"""The HTTP client: which URLs it follows, and what it sends to whom."""

from __future__ import annotations

import contextlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from kaiwo.testing.serving import serving
from kaiwo_storage_s3_gcs_azure_git_hf.download import http_client
from kaiwo_storage_s3_gcs_azure_git_hf.download.egress_proxy import EgressProxy

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: RedirectServer

    def log_message(self, format: str, *args: object) -> None:
        """Write no log."""

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        for status in self.server.informational:
            self.send_response_only(status)
            self.end_headers()
        location = self.server.locations.get(self.path)
        body = b"redirected" if location else b"content"
        self.send_response(302 if location else 200)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class RedirectServer(ThreadingHTTPServer):
    """A server that redirects some of its paths."""

    daemon_threads = True

    def __init__(self) -> None:
        self.locations: dict[str, str] = {}
        self.paths: list[str] = []
        self.informational: list[int] = []
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def server() -> Iterator[RedirectServer]:
    """The server."""
    with serving(RedirectServer()) as made:
        yield made


@pytest.fixture
def client(server: RedirectServer) -> Iterator[http_client.HttpClient]:
    """A client that may reach the server."""
    with contextlib.closing(EgressProxy(private=True)) as proxy:
        proxy.register_endpoint(server.url)
        with contextlib.closing(http_client.HttpClient(proxy, 20)) as made:
            yield made


def get(client: http_client.HttpClient, url: str) -> bytes:
    """The content of a URL."""
    with client.send("GET", url) as response:
        http_client.check_status(response)
        return response.read()


def test_a_redirect_is_followed_and_the_connection_serves_more_requests(
    client: http_client.HttpClient, server: RedirectServer
) -> None:
    """Relative locations too."""
    server.locations["/a"] = "b"
    assert get(client, f"{server.url}/a") == b"content"
    assert get(client, f"{server.url}/c") == b"content"
    assert server.paths == ["/a", "/b", "/c"]


@pytest.mark.parametrize(
    "location",
    ["ftp://127.0.0.1/x", "file:///etc/passwd", "data:,x", "gopher://a/", "http://:80/x", "http://[::1"],
)
def test_only_http_and_https_redirects_are_followed(
    client: http_client.HttpClient, server: RedirectServer, location: str
) -> None:
    """No other protocol exists in the client, so nothing bypasses the egress proxy."""
    server.locations["/a"] = location
    with pytest.raises(http_client.RedirectError, match="not an http or https URL"):
        get(client, f"{server.url}/a")
    assert server.paths == ["/a"]


def test_an_ftp_server_is_not_contacted(
    client: http_client.HttpClient, server: RedirectServer, ftp: tuple[str, list[bytes]]
) -> None:
    """Not by a redirect, and not by the first URL."""
    server.locations["/a"], received = ftp
    for url in (f"{server.url}/a", ftp[0]):
        with pytest.raises(http_client.RedirectError):
            get(client, url)
    assert received == []


def test_informational_answers_before_a_response_are_passed_over(
    client: http_client.HttpClient, server: RedirectServer
) -> None:
    """Each request anew: the connection serves any number of them."""
    server.informational = [100, 102, 103] * 20
    for _ in range(3):
        assert get(client, f"{server.url}/a") == b"content"


@pytest.mark.parametrize("status", [100, 103])
def test_a_server_that_sends_informational_answers_without_end_is_given_up(
    client: http_client.HttpClient, server: RedirectServer, status: int
) -> None:
    """Each one is in time, so no time limit of a single answer ends it."""
    server.informational = [status] * 101
    with pytest.raises(ConnectionError, match="not an HTTP response"):
        get(client, f"{server.url}/a")


def test_a_redirect_loop_ends(client: http_client.HttpClient, server: RedirectServer) -> None:
    """After ten redirects."""
    server.locations["/a"] = "/a"
    with pytest.raises(http_client.RedirectError, match="10 redirects"):
        get(client, f"{server.url}/a")
    assert len(server.paths) == 11
