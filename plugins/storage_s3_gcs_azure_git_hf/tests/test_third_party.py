from __future__ import annotations

import hashlib
import random
import sys
import types
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.testing.object_server import serve_objects

if TYPE_CHECKING:
    from kaiwo.api.download import Downloads


def fetch(items: list[dict[str, Any]], downloads: Downloads) -> None:
    """A downloader as another package writes it."""
    for index, item in enumerate(items):
        headers = {"X-Token": downloads.secret(f"http[{index}]", item["token"])}
        downloads.http(
            f"http[{index}]", item["url"], item["targetPath"], sha256=item["sha256"], headers=headers
        )


@pytest.fixture
def configured(download: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A program in whose image another package is installed."""
    module = types.ModuleType("kaiwo_elsewhere")
    module.fetch = fetch  # type: ignore[attr-defined] # a module made here
    monkeypatch.setitem(sys.modules, "kaiwo_elsewhere", module)
    from kaiwo_storage_s3_gcs_azure_git_hf.download import downloaders

    monkeypatch.setitem(downloaders.FIRST_PARTY, "http", "kaiwo_elsewhere:fetch")
    return download


def item(download: Any, url: str, body: bytes) -> dict[str, Any]:
    """One item of that source."""
    return {
        "url": url,
        "targetPath": "x/file",
        "sha256": hashlib.sha256(body).hexdigest(),
        "token": download.secret("token", "CANARY"),
    }


def test_a_source_of_another_package_uses_the_same_engine(configured: Any, objects: Any) -> None:
    """Ranges, checks and secrets come with it."""
    body = bytes(range(256)) * 2000
    objects.content["some/file name/ü"] = body
    outcome = configured({"http": [item(configured, f"{objects.url}/bucket/some/file%20name/ü", body)]})
    assert outcome.code == 0, outcome.err
    assert configured.files() == {"x/file": body}
    assert {
        value
        for _, _, headers in objects.requests
        for name, value in headers.items()
        if name.lower() == "x-token"
    } == {"CANARY"}
    assert "CANARY" not in outcome.err


def away(url: str) -> Any:
    """A fault that redirects to another server."""

    def redirect(handler: Any) -> bool:
        handler.send_response(302)
        handler.send_header("Location", url)
        handler.send_header("Content-Length", "0")
        handler.end_headers()
        return True

    return redirect


def test_a_header_with_a_secret_does_not_follow_a_redirect_to_another_server(
    configured: Any, objects: Any
) -> None:
    """The object store client drops Authorization there, and would send any other header along."""
    with serve_objects() as other:
        other.content["file"] = b"12345"
        objects.faults["file"] = away(f"{other.url}/bucket/file")
        outcome = configured({"http": [item(configured, f"{objects.url}/bucket/file", b"12345")]})
        configured.assert_failed(outcome, 2, "http[0]", "X-Token would go with it", "Authorization")
        assert other.requests == []


def test_authorization_is_left_out_where_a_redirect_leads_to_another_server(
    configured: Any, objects: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of servers that keep content elsewhere; the content comes from there."""

    def authorized(items: list[dict[str, Any]], downloads: Downloads) -> None:
        token = downloads.secret("http[0]", items[0]["token"])
        headers = {"Authorization": f"Bearer {token}"}
        downloads.http("http[0]", items[0]["url"], items[0]["targetPath"], headers=headers)

    monkeypatch.setattr(sys.modules["kaiwo_elsewhere"], "fetch", authorized)
    with serve_objects() as other:
        other.content["file"] = b"12345"
        objects.faults["file"] = away(f"{other.url}/bucket/file")
        outcome = configured({"http": [item(configured, f"{objects.url}/bucket/file", b"12345")]})
        assert outcome.code == 0, outcome.err
        assert configured.files() == {"x/file": b"12345"}
        assert {name.lower() for _, _, headers in other.requests for name in headers} >= {"host"}
        assert "CANARY" not in str([headers.items() for _, _, headers in other.requests])


def test_a_web_server_without_ranges_is_read_in_one_piece(configured: Any, objects: Any) -> None:
    """Many serve none; the file is larger than a part, and its content is checked all the same."""
    body = random.Random(1).randbytes(500_000)
    objects.content["file"] = body

    def plain(handler: Any) -> bool:
        handler.reply(200, body)
        return True

    objects.faults["file"] = plain
    outcome = configured({"http": [item(configured, f"{objects.url}/bucket/file", body)]})
    assert outcome.code == 0, outcome.err
    assert configured.files() == {"x/file": body}


def dated(handler: Any, body: bytes, changed: str) -> bool:
    """Answer with a file or a part of it, and the time of its last change in place of an ETag."""
    extra = {"Accept-Ranges": "bytes", "Last-Modified": changed}
    if wanted := handler.headers.get("Range", ""):
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start, end = int(first), min(int(last), len(body) - 1)
        part = f"bytes {start}-{end}/{len(body)}"
        handler.reply(206, body[start : end + 1], **{**extra, "Content-Range": part})
    else:
        handler.reply(200, body, **extra)
    return True


@pytest.mark.parametrize("changes", [True, False])
def test_a_file_without_etag_that_changes_is_no_mixture(configured: Any, objects: Any, changes: bool) -> None:
    """The time of its last change tells the versions apart; both have the same size."""
    old, new = b"a" * 200_000, b"b" * 200_000
    objects.content["file"] = old
    seen: list[str] = []

    def plain(handler: Any) -> bool:
        wanted = handler.headers.get("Range", "")
        seen.append(wanted)
        changed = changes and wanted and not wanted.startswith("bytes=0-")
        if changed:
            return dated(handler, new, "Mon, 23 Nov 2026 10:00:00 GMT")
        return dated(handler, old, "Sun, 22 Nov 2026 10:00:00 GMT")

    objects.faults["file"] = plain
    unchecked = {**item(configured, f"{objects.url}/bucket/file", old), "sha256": None}
    outcome = configured({"http": [unchecked]})
    assert any(wanted.startswith("bytes=65536-") for wanted in seen)
    if changes:
        configured.assert_failed(outcome, 4, "http[0]", "changed during the download", "set sha256")
    else:
        assert outcome.code == 0, outcome.err
        assert configured.files() == {"x/file": old}


@pytest.mark.parametrize(("size", "checked"), [(200_000, True), (1000, False)])
def test_servers_of_one_file_that_differ_in_the_time_of_its_last_change(
    configured: Any, objects: Any, size: int, checked: bool
) -> None:
    """Mirrors behind one name do; no mixture goes unseen with a sha256, and a file of one part is none."""
    body = random.Random(3).randbytes(size)
    objects.content["file"] = body
    minutes = iter(range(60))

    def mirrored(handler: Any) -> bool:
        return dated(handler, body, f"Sun, 22 Nov 2026 10:{next(minutes):02}:00 GMT")

    objects.faults["file"] = mirrored
    wanted = item(configured, f"{objects.url}/bucket/file", body)
    outcome = configured({"http": [wanted if checked else {**wanted, "sha256": None}]})
    assert outcome.code == 0, outcome.err
    assert configured.files() == {"x/file": body}


@pytest.mark.parametrize(
    ("url", "code"), [("ftp://a/b", 2), ("http://169.254.169.254/x", 2), ("{url}/bucket/none", 3)]
)
def test_what_it_cannot_fetch_has_the_same_exit_codes(
    configured: Any, objects: Any, url: str, code: int
) -> None:
    """And names its item."""
    outcome = configured({"http": [item(configured, url.format(url=objects.url), b"")]})
    assert outcome.code == code, outcome.err
    assert "http[0]" in outcome.line


def _raise(error: BaseException) -> Any:
    """A downloader with a defect."""

    def broken(items: list[dict[str, Any]], downloads: Downloads) -> None:  # noqa: ARG001 - the signature
        raise error

    return broken


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError("url"), ("KeyError", "url", "test_third_party.py:")),
        (RuntimeError("two\nlines"), ("RuntimeError", "two lines")),
        (SystemExit(7), ("SystemExit", "7")),
        (AssertionError(), ("AssertionError",)),
    ],
)
def test_a_downloader_that_raises_anything_fails_the_job_at_once(
    configured: Any, monkeypatch: pytest.MonkeyPatch, error: BaseException, words: tuple[str, ...]
) -> None:
    """Exit 2 with one line that names the downloader; the same again would help nobody."""
    monkeypatch.setattr(sys.modules["kaiwo_elsewhere"], "fetch", _raise(error))
    outcome = configured({"http": [{}]})
    configured.assert_failed(outcome, 2, "http: ", "kaiwo_elsewhere:fetch", *words)


def test_a_downloader_that_is_not_a_function_is_named(
    configured: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 2."""
    monkeypatch.setattr(sys.modules["kaiwo_elsewhere"], "fetch", None)
    configured.assert_failed(configured({"http": [{}]}), 2, "http: ", "kaiwo_elsewhere:fetch")


def test_a_downloader_whose_module_fails_to_import_is_named(
    configured: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 2 with the error of the import."""
    folder = configured.root / "modules"
    folder.mkdir()
    (folder / "kaiwo_broken.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(folder))
    from kaiwo_storage_s3_gcs_azure_git_hf.download import downloaders

    monkeypatch.setitem(downloaders.FIRST_PARTY, "http", "kaiwo_broken:fetch")
    outcome = configured({"http": [{}]})
    configured.assert_failed(outcome, 2, "http: ", "kaiwo_broken:fetch", "ZeroDivisionError")


def test_a_task_that_raises_anything_ends_in_one_line(
    configured: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transfer with a defect is exit 1, without a traceback."""

    class Task:
        where = "http[0]"
        summary = "a transfer"

        def run(self, progress: Any) -> None:  # noqa: ARG002 - the signature
            raise LookupError("defect")

    def adding(items: Any, downloads: Any) -> None:  # noqa: ARG001 - the signature
        downloads.volume("data")
        downloads.tasks.append(Task())

    monkeypatch.setattr(sys.modules["kaiwo_elsewhere"], "fetch", adding)
    configured.assert_failed(configured({"http": [{}]}), 1, "http[0]", "internal error: LookupError: defect")


def test_a_defect_of_the_program_ends_in_one_line(configured: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 1 with the line that raised, also in the termination message."""
    from kaiwo_storage_s3_gcs_azure_git_hf.download import session

    monkeypatch.setattr(session.DownloadSession, "plan", lambda _: {}["defect"])
    (configured.root / "termination-log").touch()
    configured.assert_failed(configured({}), 1, "internal error: KeyError: 'defect' at ")
    assert "internal error" in (configured.root / "termination-log").read_text()


def test_settings_of_a_source_are_the_third_argument(
    download: Any, objects: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source that names a settings model is called with the values of KaiwoConfig."""

    def from_mirror(items: list[dict[str, Any]], downloads: Downloads, settings: dict[str, Any]) -> None:
        for index, item in enumerate(items):
            downloads.http(f"x[{index}]", f"{settings['mirror']}/{item['path']}", item["path"])

    module = types.ModuleType("kaiwo_mirror")
    module.fetch = from_mirror  # type: ignore[attr-defined] # a module made here
    monkeypatch.setitem(sys.modules, "kaiwo_mirror", module)
    objects.content["file"] = b"data"
    settings = {"x": {"mirror": f"{objects.url}/bucket"}}
    download.more = {"downloaders": {"x": "kaiwo_mirror:fetch"}, "settings": settings}
    outcome = download({"x": [{"path": "file"}]})
    assert outcome.code == 0, outcome.err
    assert download.files() == {"file": b"data"}
