"""``testing.download`` runs the real download program for items of a source."""

from __future__ import annotations

import hashlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel, Field

from kaiwo import testing
from kaiwo.plugin.sources import DownloadSource
from kaiwo.testing.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BODY = bytes(range(256)) * 100
DOWNLOADER = """
def fetch(items, downloads):
    for index, item in enumerate(items):
        where = f"acme[{index}]"
        headers = {"X-Token": downloads.secret(where, item["token"])} if "token" in item else {}
        downloads.http(where, item["url"], item["targetPath"], sha256=item.get("sha256"), headers=headers)
"""


class Item(BaseModel):
    """One file."""

    url: str = Field(description="Its URL.")


class Handler(BaseHTTPRequestHandler):
    """Serves one file, to those who have the token where one is needed."""

    def do_HEAD(self) -> None:
        """The same without the content."""
        self.do_GET()

    def do_GET(self) -> None:
        """The file, in one piece."""
        denied = "closed" in self.path and self.headers.get("X-Token") != "CANARY"
        self.send_response(401 if denied else 503 if "busy" in self.path else 200)
        content = b"" if denied or "busy" in self.path else BODY
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    """URL of a web server."""
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield f"http://127.0.0.1:{server.server_address[1]}"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DownloadSource:
    """A source whose downloader is in a module beside the test."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "downloads_of_acme.py").write_text(DOWNLOADER)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return DownloadSource("acme", ("data", "download", "acme"), Item, "Acme.", "downloads_of_acme:fetch")


def item(url: str, **more: Any) -> dict[str, Any]:
    """An item as users write it."""
    return {"url": url, "targetPath": "models/a.bin", **more}


def test_files_are_fetched_with_secrets(source: DownloadSource, web: str, tmp_path: Path) -> None:
    """What a pod would have on its volume is in the folder; the value of a Secret is in no output."""
    folder = tmp_path / "volume"
    folder.mkdir()
    token = {"secretName": "acme", "secretKey": "token"}
    wanted = [item(f"{web}/closed/a", token=token, sha256=hashlib.sha256(BODY).hexdigest())]
    run = testing.download(source, wanted, {"acme": {"token": "CANARY"}}, folder=folder)
    assert (run.code, run.files) == (0, {"models/a.bin": BODY}), run.log
    assert "CANARY" not in run.log
    assert wanted[0]["token"] == token


@pytest.mark.parametrize(
    ("path", "more", "code"),
    [
        ("/closed/a", {}, 3),
        ("/a", {"sha256": "0" * 64}, 4),
        ("/busy/a", {}, 6),
        ("/a", {"targetPath": "../a"}, 2),
    ],
)
def test_failures_have_the_exit_codes_of_the_program(
    source: DownloadSource, web: str, tmp_path: Path, path: str, more: dict[str, Any], code: int
) -> None:
    """Denied, wrong sum, busy server, path out of the volume: nothing is there afterwards."""
    folder = tmp_path / "volume"
    folder.mkdir()
    run = testing.download(source, [item(f"{web}{path}") | more], folder=folder)
    assert (run.code, run.files) == (code, {}), run.log
    assert "acme[0]" in run.log


def test_a_secret_that_is_not_given_is_named(source: DownloadSource, tmp_path: Path) -> None:
    """A test with a typing error does not reach the network."""
    wanted = [item("http://127.0.0.1/a", token={"secretName": "acme", "secretKey": "tokn"})]
    with pytest.raises(AssertionError, match="key tokn of Secret acme is not given"):
        testing.download(source, wanted, {"acme": {"token": "x"}}, folder=tmp_path)
