"""A source of another package that lists a server: the same policy, retries and exit codes as all others."""

from __future__ import annotations

import sys
import types
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.plugin.kit.fields import Model, TargetPath, Url, ValueReference
from kaiwo.plugin.kit.listings import index_entries, walk, webdav_entries
from kaiwo.testing.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo.plugin.kit.downloads import Downloads
    from kaiwo.plugin.kit.listings import ListedEntry


class Item(Model):
    """A folder of a server."""

    url: Url
    target_path: TargetPath
    token: ValueReference | None = None
    webdav: bool = False


def fetch(items: list[dict[str, Any]], downloads: Downloads) -> None:
    """A downloader as another package writes it."""
    from kaiwo.plugin.kit.downloads import parse_items

    for where, item in parse_items("tree", Item, items):
        headers = {}
        if item.token:
            headers["Authorization"] = f"Bearer {downloads.secret(where, item.token.dump())}"

        def entries(
            url: str, where: str = where, item: Item = item, headers: dict[str, str] = headers
        ) -> list[ListedEntry]:
            if not item.webdav:
                return index_entries(url, downloads.listing(where, url, headers=headers))
            asked = {**headers, "Depth": "1"}
            return webdav_entries(url, downloads.listing(where, url, method="PROPFIND", headers=asked))

        for file in walk(item.url, entries):
            downloads.http(where, file.url, f"{item.target_path}/{file.path}", headers=headers)


FILES = {"/data/a.bin": b"a" * 1000, "/data/sub/b.bin": b"b" * 10}


class Tree(BaseHTTPRequestHandler):
    """A server of `FILES` with index pages and WebDAV."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""

    def _reply(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        server: Any = self.server
        if self.command != "HEAD" and server.cut and not status // 300:
            self.wfile.write(body[: server.cut])
            server.cut, self.close_connection = 0, True
        elif self.command != "HEAD":
            self.wfile.write(body)

    def _fault(self) -> bool:
        server: Any = self.server
        server.requests.append((self.command, self.path, self.headers.get("authorization", "")))
        for _ in range(int(self.headers.get("content-length") or 0)):
            self.rfile.read(1)
        if server.faults:
            status, headers = server.faults.pop(0)
            self._reply(status, **headers)
            return True
        return False

    def _members(self) -> dict[str, bool]:
        names = (path.removeprefix(self.path) for path in FILES if path.startswith(self.path))
        return {name.partition("/")[0] + "/" * ("/" in name): "/" in name for name in names}

    def do_GET(self) -> None:
        """A file, or an index page."""
        if self._fault():
            return
        if self.path in FILES:
            self._reply(200, FILES[self.path], last_modified="Sun, 22 Nov 2026 10:00:00 GMT")
        elif members := self._members():
            self._reply(200, "".join(f'<a href="{name}">x</a>' for name in ("../", *members)).encode())
        else:
            self._reply(404)

    do_HEAD = do_GET

    def do_PROPFIND(self) -> None:
        """The members of a collection."""
        if self._fault():
            return
        assert self.headers["depth"] == "1"
        items = "".join(
            f"<response><href>{self.path}{name}</href><propstat><prop><resourcetype>"
            f"{'<collection/>' * folder}</resourcetype></prop></propstat></response>"
            for name, folder in self._members().items()
        )
        self._reply(207, f'<multistatus xmlns="DAV:">{items}</multistatus>'.encode())


@contextmanager
def running_server() -> Iterator[Any]:
    """A running server."""
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Tree)
    server.faults, server.requests, server.cut = [], [], 0
    server.url = f"http://127.0.0.1:{server.server_port}"
    with serving(server):
        yield server


@pytest.fixture
def tree() -> Iterator[Any]:
    """A server with files in folders."""
    with running_server() as server:
        yield server


@pytest.fixture
def configured(download: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A program in whose image another package is installed."""
    module = types.ModuleType("kaiwo_elsewhere")
    module.fetch = fetch  # type: ignore[attr-defined] # a module made here
    monkeypatch.setitem(sys.modules, "kaiwo_elsewhere", module)
    from kaiwo_storage_s3_gcs_azure_git_hf.download import downloaders

    monkeypatch.setitem(downloaders.FIRST_PARTY, "tree", "kaiwo_elsewhere:fetch")
    return download


@pytest.mark.parametrize("webdav", [False, True], ids=["index", "webdav"])
def test_a_folder_is_downloaded_with_all_below_it(configured: Any, tree: Any, webdav: bool) -> None:
    """The listing and the files get the credentials, which the output does not show."""
    token = configured.secret("token", "CANARY")
    item = {"url": f"{tree.url}/data/", "targetPath": "in", "token": token, "webdav": webdav}
    outcome = configured({"tree": [item]})
    assert outcome.code == 0, outcome.err
    assert configured.files() == {"in/a.bin": FILES["/data/a.bin"], "in/sub/b.bin": FILES["/data/sub/b.bin"]}
    assert {seen for _, _, seen in tree.requests} == {"Bearer CANARY"}
    assert "CANARY" not in outcome.err


def test_a_listing_that_ends_early_is_read_again(configured: Any, tree: Any) -> None:
    """Half an index page is one, too: files would be missing, and nothing would say so."""
    tree.cut = len('<a href="../">x</a>')
    configured.limits["retrySeconds"] = 60
    outcome = configured({"tree": [{"url": f"{tree.url}/data/", "targetPath": "in"}]})
    assert outcome.code == 0, outcome.err
    assert configured.files() == {"in/a.bin": FILES["/data/a.bin"], "in/sub/b.bin": FILES["/data/sub/b.bin"]}


def test_a_busy_server_is_asked_again(configured: Any, tree: Any) -> None:
    """One 503 costs a pause, as for a file."""
    configured.limits["retrySeconds"] = 60
    tree.faults.append((503, {}))
    outcome = configured({"tree": [{"url": f"{tree.url}/data/", "targetPath": "in"}]})
    assert outcome.code == 0, outcome.err
    assert [path for _, path, _ in tree.requests][:2] == ["/data/", "/data/"]


@pytest.mark.parametrize(
    ("status", "headers", "code", "words"),
    [
        (401, {}, 3, "access denied (HTTP 401)"),
        (404, {}, 3, "not found (HTTP 404)"),
        (302, {"location": "http://169.254.169.254/latest/"}, 2, "connection blocked: 169.254.169.254"),
        (302, {"location": "ftp://files.example/"}, 2, "redirect blocked"),
    ],
)
def test_a_listing_fails_as_a_file_does(
    configured: Any, tree: Any, status: int, headers: dict[str, str], code: int, words: str
) -> None:
    """The exit code decides whether the Job tries again; the line names the item."""
    tree.faults.append((status, headers))
    outcome = configured({"tree": [{"url": f"{tree.url}/data/", "targetPath": "in"}]})
    configured.assert_failed(outcome, code, "tree[0]: ", words)


def test_addresses_are_under_the_same_policy(configured: Any) -> None:
    """The metadata service of a cloud cannot be listed."""
    outcome = configured({"tree": [{"url": "http://169.254.169.254/latest/", "targetPath": "in"}]})
    configured.assert_failed(outcome, 2, "tree[0]: 169.254.169.254")


def test_credentials_do_not_follow_a_redirect_to_another_server(configured: Any, tree: Any) -> None:
    """The other server lists, and gets no token for it."""
    with running_server() as other:
        tree.faults.append((302, {"location": f"{other.url}/data/"}))
        item = {"url": f"{tree.url}/data/", "targetPath": "in", "token": configured.secret("token", "CANARY")}
        configured({"tree": [item]})
        assert [seen for _, _, seen in other.requests[:1]] == [""]
    assert tree.requests[0][2] == "Bearer CANARY"


def test_a_listing_has_a_limit(configured: Any, tree: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server cannot fill the memory of the program."""
    from kaiwo_storage_s3_gcs_azure_git_hf.download import server_listing

    monkeypatch.setattr(server_listing, "MAX_BYTES", 8)
    outcome = configured({"tree": [{"url": f"{tree.url}/data/", "targetPath": "in"}]})
    configured.assert_failed(outcome, 2, "tree[0]: ", "the listing is larger")
