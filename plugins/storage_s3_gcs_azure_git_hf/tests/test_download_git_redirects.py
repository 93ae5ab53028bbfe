"""Where credentials of a repository go when its server sends git elsewhere."""

from __future__ import annotations

import base64
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN = "CANARYTOKEN"


class _Handler(BaseHTTPRequestHandler):
    server: Moved

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""

    def do_GET(self) -> None:
        if self.path.startswith("/old.git"):
            self.send_response(302)
            self.send_header("Location", self.server.onward + self.path.replace("old", "new"))
        else:
            self.server.given.append(self.headers.get("Authorization", ""))
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
        self.send_header("Content-Length", "0")
        self.end_headers()


class Moved(ThreadingHTTPServer):
    """A server whose repository ``old.git`` is elsewhere, and that asks for credentials for all others."""

    daemon_threads = True
    onward = ""

    def __init__(self) -> None:
        self.given: list[str] = []
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
    """A redirect on the same server keeps them; another server asks in vain, whatever its URL names."""
    if elsewhere:
        first.onward = second.url if not user else second.url.replace("//", "//x-access-token@")
    item = {
        "repository": f"{first.url}/old.git",
        "targetPath": "code",
        "token": download.secret("token", TOKEN),
    }
    if user:
        item["username"] = download.secret("user", user)
    download.assert_failed(download({"git": [item]}), 3, "git[0]", "access was refused")
    whole = base64.b64encode(f"{user or 'x-access-token'}:{TOKEN}".encode()).decode()
    assert (f"Basic {whole}" in first.given) is not elsewhere
    assert not any(second.given)
