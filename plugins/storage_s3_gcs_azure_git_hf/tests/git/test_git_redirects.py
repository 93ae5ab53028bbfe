"""Servers of repositories that send elsewhere, and where credentials go then."""

from __future__ import annotations

import base64
import contextlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo_storage_s3_gcs_azure_git_hf.download import http_client
from kaiwo_storage_s3_gcs_azure_git_hf.download.egress_proxy import EgressProxy

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN = "CANARYTOKEN"


class _Handler(BaseHTTPRequestHandler):
    server: Moved

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.startswith("/old.git"):
            self.send_response(self.server.status)
            self.send_header("Location", self.server.onward + self.path.replace("old", "new"))
        else:
            self.server.given.append(self.headers.get("Authorization", ""))
            self.server.bodies.append(body)
            self.send_response(401 if self.command == "GET" else 200)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_GET


class Moved(ThreadingHTTPServer):
    """A server whose repository ``old.git`` is elsewhere, and that asks for credentials for all others."""

    daemon_threads = True
    onward = ""
    status = 302

    def __init__(self) -> None:
        self.given: list[str] = []
        self.bodies: list[bytes] = []
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = self.onward = f"http://127.0.0.1:{self.server_address[1]}"


def _served() -> Iterator[Moved]:
    server = Moved()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


first = pytest.fixture(_served, name="first")
second = pytest.fixture(_served, name="second")


@pytest.mark.parametrize("user", ["", "al@ice"])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_credentials_stay_at_the_server_that_the_user_wrote(
    download: Any, first: Moved, second: Moved, user: str, elsewhere: bool
) -> None:
    """A redirect on the same server keeps them; another server gets none, whatever its URL names."""
    if elsewhere:
        first.onward = second.url if not user else second.url.replace("//", "//x-access-token@")
    item = {
        "repository": f"{first.url}/old.git",
        "targetPath": "code",
        "token": download.secret("token", TOKEN),
    }
    if user:
        item["username"] = download.secret("user", user)
    download.assert_failed(download({"git": [item]}), 3, "git[0]", "access denied")
    whole = base64.b64encode(f"{user or 'x-access-token'}:{TOKEN}".encode()).decode()
    assert (f"Basic {whole}" in first.given) is not elsewhere
    assert not any(second.given)


def _send(proxy: EgressProxy, url: str) -> None:
    """Send a request as for LFS files: a body, and credentials that are for its server alone."""
    with (
        contextlib.closing(http_client.HttpClient(proxy, 60)) as client,
        client.send("POST", f"{url}/old.git", credentials={"Authorization": TOKEN}, body=b"body") as response,
    ):
        http_client.check_status(response)


@pytest.mark.parametrize(
    ("status", "body"), [(301, b"body"), (302, b"body"), (307, b"body"), (308, b"body"), (303, b"")]
)
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_request_with_a_body_is_sent_again_where_it_is_sent_on(
    first: Moved, second: Moved, status: int, body: bytes, elsewhere: bool
) -> None:
    """A repository that was renamed keeps its large files; only See Other asks for GET instead."""
    first.status = status
    first.onward = second.url if elsewhere else first.url
    with (
        contextlib.closing(EgressProxy(private=True)) as proxy,
        contextlib.suppress(http_client.HttpStatusError),
    ):
        proxy.register_endpoint(first.url)
        _send(proxy, first.url)
    reached = second if elsewhere else first
    assert reached.bodies == [body]
    assert reached.given == ["" if elsewhere else TOKEN]


def test_nothing_goes_around_the_egress_proxy_whatever_the_environment_says(
    first: Moved, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NO_PROXY is for the proxies of a cluster; it opens no way around the check of addresses."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "*")
    with contextlib.closing(EgressProxy(private=True)) as proxy:
        with pytest.raises(http_client.HttpStatusError, match="403"):
            _send(proxy, first.url)
        assert "loopback" in (proxy.last_blocked() or "")
    assert not first.bodies
