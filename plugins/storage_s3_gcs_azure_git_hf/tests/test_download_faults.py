from __future__ import annotations

import contextlib
import email.utils
import errno
import hashlib
import os
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo_storage_s3_gcs_azure_git_hf.download import main as program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BODY = bytes(range(256)) * 1024


@dataclass
class Outcome:
    """What a run in a process of its own left behind."""

    code: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """The last line for people."""
        return self.err.strip().splitlines()[-1] if self.err.strip() else ""


def s3(url: str, *, files: list[Any] | None = None, folders: list[Any] | None = None) -> dict[str, Any]:
    """One S3 item of one bucket."""
    bucket = {"name": "bucket", "files": files, "folders": folders}
    return {"s3": [{"endpointUrl": url, "buckets": [{k: v for k, v in bucket.items() if v is not None}]}]}


def one(url: str, **more: str) -> dict[str, Any]:
    """The object ``a``."""
    return s3(url, files=[{"path": "a", "targetPath": "a.bin", **more}])


def assert_failed(download: Any, outcome: Any, code: int, *words: str) -> None:
    """One line that names the item and the reason; nothing under a final name."""
    assert outcome.code == code, outcome.err
    for word in words:
        assert word in outcome.line
    assert "; " in outcome.line, "a next step is missing"
    assert "Debug source" not in outcome.err
    assert "Traceback" not in outcome.err
    assert download.files() == {}


def test_a_missing_bucket_is_not_found(download: Any, objects: Any) -> None:
    """Exit 3, with the bucket."""
    objects.bucket = "other"
    outcome = download(s3(objects.url, folders=[{"path": "", "targetPath": ""}]))
    assert_failed(download, outcome, 3, "s3[0].buckets[0].folders[0]", "/bucket", "NoSuchBucket")


def test_a_missing_object_is_not_found(download: Any, objects: Any) -> None:
    """Exit 3, with the object."""
    assert_failed(download, download(one(objects.url)), 3, "s3[0].buckets[0].files[0]", "/bucket/a", "404")


def test_wrong_credentials_are_refused_at_once(download: Any, objects: Any) -> None:
    """Exit 3 after a single request, and the credentials are in no output."""
    objects.allowed = lambda headers: "GOODKEY" in headers.get("authorization", "")
    objects.content["a"] = BODY
    download.limits["retrySeconds"] = 60
    items = one(objects.url)
    items["s3"][0]["accessKeyId"] = download.secret("id", "CANARYKEY")
    items["s3"][0]["secretKey"] = download.secret("key", "CANARYSECRET")
    outcome = download(items)
    assert_failed(download, outcome, 3, "s3[0]", "refused", "credentials")
    assert len(objects.requests) == 1
    assert "CANARY" not in outcome.err + outcome.out


def test_a_prefix_without_match_is_an_error(download: Any, objects: Any) -> None:
    """``data`` does not match ``database/x``."""
    objects.content["database/x"] = BODY
    outcome = download(s3(objects.url, folders=[{"path": "data", "targetPath": "d"}]))
    assert_failed(download, outcome, 3, "s3[0].buckets[0].folders[0]", "/bucket/data", "matches")


@pytest.mark.parametrize("key", ["data/../../x", "data//x", "data/./x"])
def test_keys_that_cannot_be_files_are_refused_by_name(download: Any, objects: Any, key: str) -> None:
    """A key with ``..`` must not become a path."""
    objects.content[key] = BODY
    outcome = download(s3(objects.url, folders=[{"path": "data", "targetPath": "d"}]))
    assert_failed(download, outcome, 2, "s3[0].buckets[0].folders[0]", key)


@pytest.mark.parametrize("target", ["/etc/x", "../x", "d/../../x", ".kaiwo-download/journal", "."])
def test_targets_outside_the_volume_are_refused(download: Any, objects: Any, target: str) -> None:
    """Absolute, with ``..``, or the program's own files: exit 2 before any request."""
    objects.content["a"] = BODY
    outcome = download(s3(objects.url, files=[{"path": "a", "targetPath": target}]))
    assert_failed(download, outcome, 2, "s3")
    assert not objects.requests


def test_two_items_on_one_target_are_refused_before_the_first_byte(download: Any, objects: Any) -> None:
    """Both are named."""
    objects.content |= {"a": BODY, "d/x": BODY}
    items = s3(
        objects.url,
        files=[{"path": "a", "targetPath": "out/x"}],
        folders=[{"path": "d", "targetPath": "./out"}],
    )
    outcome = download(items)
    assert_failed(download, outcome, 2, "files[0]", "folders[0]", "out/x")
    assert all(method == "HEAD" or not key for method, key, _ in objects.requests)


def test_a_link_out_of_the_volume_is_not_followed(download: Any, objects: Any) -> None:
    """A folder that is a link to elsewhere receives nothing."""
    objects.content["a"] = BODY
    outside = download.root / "outside"
    outside.mkdir()
    download.volume.mkdir()
    (download.volume / "link").symlink_to(outside)
    outcome = download(s3(objects.url, files=[{"path": "a", "targetPath": "link/x"}]))
    assert_failed(download, outcome, 2, "files[0]", "link")
    assert list(outside.iterdir()) == []


def test_an_object_that_changes_during_the_download_fails(download: Any, objects: Any) -> None:
    """No file is made of two versions."""
    objects.content["a"] = BODY

    def change(handler: Any) -> bool:
        if handler.command == "GET":
            objects.etags["a"] = '"0123"'
        return False

    objects.faults["a"] = change
    assert_failed(download, download(one(objects.url)), 4, "files[0]", "/bucket/a", "changed")


@pytest.mark.parametrize(
    ("etag", "more"), [(None, {"sha256": "0" * 64}), ('"' + "0" * 32 + '"', {})], ids=["sha256", "etag"]
)
def test_wrong_checksums_fail_and_leave_nothing(
    download: Any, objects: Any, etag: str | None, more: dict[str, str]
) -> None:
    """The item's sha256 and the store's MD5 are checked over the whole content."""
    objects.content["a"] = BODY
    if etag:
        objects.etags["a"] = etag
    outcome = download(one(objects.url, **more))
    assert_failed(download, outcome, 4, "files[0]", "/bucket/a", "sha256" if more else "md5")
    assert not list(download.volume.glob("*.part"))


def test_the_right_checksum_passes(download: Any, objects: Any) -> None:
    """In upper case too."""
    objects.content["a"] = BODY
    outcome = download(one(objects.url, sha256=hashlib.sha256(BODY).hexdigest().upper()))
    assert outcome.code == 0, outcome.err
    assert download.files() == {"a.bin": BODY}


def _times(count: int, fault: Callable[[Any], None]) -> Callable[[Any], bool]:
    left = [count]

    def once(handler: Any) -> bool:
        if handler.command != "GET" or left[0] == 0:
            return False
        left[0] -= 1
        fault(handler)
        return True

    return once


def _truncate(handler: Any) -> None:
    handler.send_response(206)
    handler.send_header("Content-Range", f"bytes 0-65535/{len(BODY)}")
    handler.send_header("Content-Length", "65536")
    handler.send_header("Last-Modified", "Sat, 21 Nov 2026 12:00:00 GMT")
    handler.send_header("ETag", '"x"')
    handler.end_headers()
    handler.wfile.write(BODY[:100])
    handler.close_connection = True


FAULTS: dict[str, Callable[[Any], None]] = {
    "truncated": _truncate,
    "429": lambda handler: handler.reply(429, **{"Retry-After": "1"}),
    "500": lambda handler: handler.reply(500),
    "503": lambda handler: handler.reply(503, b"<Error><Code>SlowDown</Code></Error>"),
    "stall": lambda handler: handler.server.objects.stalled.wait(3),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_does_not_pass_is_given_up_as_a_network_failure(download: Any, objects: Any, fault: str) -> None:
    """Exit 6, so that the Job tries again."""
    import threading  # noqa: PLC0415 - one case needs it

    objects.stalled = threading.Event()
    objects.content["a"] = BODY
    objects.faults["a"] = _times(99, FAULTS[fault])
    download.limits |= {"stallSeconds": 1, "workers": 2}
    outcome = download(one(objects.url))
    objects.stalled.set()
    assert_failed(download, outcome, 6, "files[0]", "/bucket/a")


@pytest.mark.parametrize("fault", ["truncated", "429", "500", "503"])
def test_what_passes_is_tried_again(download: Any, objects: Any, fault: str) -> None:
    """Two failures, then the file is whole."""
    objects.content["a"] = BODY
    objects.faults["a"] = _times(2, FAULTS[fault])
    download.limits["retrySeconds"] = 30
    outcome = download(one(objects.url))
    assert outcome.code == 0, outcome.err
    assert download.files() == {"a.bin": BODY}


def test_nobody_listening_is_a_network_failure(download: Any) -> None:
    """Exit 6."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert_failed(download, download(one(f"http://127.0.0.1:{port}")), 6, "files[0]", "no answer")


def test_a_redirect_to_the_metadata_server_is_refused(download: Any, objects: Any) -> None:
    """Whoever redirects a download must not read the node's identity."""
    objects.content["a"] = BODY

    def redirect(handler: Any) -> bool:
        handler.reply(302, Location="http://169.254.169.254/latest/meta-data/")
        return True

    objects.faults["a"] = redirect
    outcome = download(one(objects.url))
    assert_failed(download, outcome, 2, "files[0]", "169.254.169.254", "metadata")


def test_a_name_that_resolves_to_loopback_is_refused(
    download: Any, objects: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name is not its address: what it resolves to counts, at the moment of the connection."""
    objects.content["a"] = BODY
    real = socket.getaddrinfo

    def resolve(host: Any, *rest: Any, **more: Any) -> Any:
        return real("127.0.0.1" if host == "models.example.com" else host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    outcome = download(one(f"http://models.example.com:{objects.port}"))
    assert_failed(download, outcome, 2, "files[0]", "models.example.com", "loopback")
    assert not objects.requests


@pytest.mark.parametrize("host", ["169.254.169.254", "[::ffff:169.254.169.254]", "0.0.0.0"])  # noqa: S104
def test_metadata_addresses_are_refused_as_endpoints(download: Any, host: str) -> None:
    """However they are written."""
    assert_failed(download, download(one(f"http://{host}")), 2, "s3[0]")


def test_private_endpoints_can_be_forbidden(download: Any, objects: Any) -> None:
    """Then loopback, written as such, is refused too."""
    download.policy["allowPrivateEndpoints"] = False
    assert_failed(download, download(one(objects.url)), 2, "s3[0]", "loopback")
    assert_failed(download, download(one("http://10.1.2.3")), 2, "s3[0]", "private")


def test_a_plan_larger_than_the_volume_is_refused_before_the_first_byte(
    download: Any, objects: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 5, with both sizes."""
    objects.content["a"] = BODY
    monkeypatch.setattr(program, "free_bytes", lambda _: 1000)
    assert_failed(download, download(one(objects.url)), 5, "1000 B", "256.0 KiB")
    assert objects.sent == 0


def test_a_volume_that_fills_up_is_told_as_such(
    download: Any, objects: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 5 when others take the room meanwhile."""
    objects.content["a"] = BODY

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    assert_failed(download, download(one(objects.url)), 5, "files[0]", "room")


@pytest.fixture
def small(download: Any) -> Iterator[tuple[list[str], bool]]:
    """A volume with room for 1 MiB: what the program is run with, and whether it is a file system of its own.

    Who may not mount gets a limit on the size of files, which fails in the same place of the program.
    """
    download.volume.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(download.volume)]
    if shutil.which("mount") and subprocess.run(mount, capture_output=True, check=False).returncode == 0:
        yield [], True
        subprocess.run([shutil.which("umount") or "umount", "--lazy", str(download.volume)], check=True)
    else:
        yield ["sh", "-c", 'ulimit -f 1024; exec "$@"', "sh"], False


def test_a_volume_that_others_fill_meanwhile(
    download: Any, objects: Any, small: tuple[list[str], bool]
) -> None:
    """Exit 5 from a real file system without room; nothing has its final name."""
    before, mounted = small
    objects.content["a"] = BODY * (3 if mounted else 8)
    objects.etags["a"] = '"multipart-2"'

    def fill(handler: Any) -> bool:
        if handler.command == "GET" and mounted:
            with contextlib.suppress(OSError), (download.volume / "others").open("ab") as file:
                file.write(bytes(4096) * 256)
        return False

    objects.faults["a"] = fill
    done = subprocess.run(
        [*before, *download.command(one(objects.url))], capture_output=True, text=True, check=False
    )
    (download.volume / "others").unlink(missing_ok=True)
    assert_failed(
        download, Outcome(done.returncode, done.stdout, done.stderr), 5, "files[0]", "room", "larger"
    )


def test_a_small_volume_is_told_before_the_first_byte(
    download: Any, objects: Any, small: tuple[list[str], bool]
) -> None:
    """Exit 5; the free space of the real file system counts."""
    before, mounted = small
    objects.content["a"] = BODY * 8
    done = subprocess.run(
        [*before, *download.command(one(objects.url))], capture_output=True, text=True, check=False
    )
    assert_failed(download, Outcome(done.returncode, done.stdout, done.stderr), 5, "larger")
    assert not mounted or objects.sent == 0


@pytest.mark.parametrize("how", ["seconds", "date"])
def test_a_busy_server_is_left_alone_for_as_long_as_it_says(download: Any, objects: Any, how: str) -> None:
    """429 with Retry-After: no request before that time is over, then the file is whole."""
    objects.content["a"] = BODY
    began = time.monotonic()
    over = time.time() + 3
    times: list[float] = []

    def busy(handler: Any) -> bool:
        if time.monotonic() - began > 2 or (handler.command == "HEAD" and not times):
            return False
        times.append(time.monotonic() - began)
        value = "2" if how == "seconds" else email.utils.formatdate(over, usegmt=True)
        handler.reply(429, **{"Retry-After": value})
        return True

    objects.faults["a"] = busy
    download.limits |= {"retrySeconds": 30, "workers": 1}
    outcome = download(one(objects.url))
    assert outcome.code == 0, outcome.err
    assert download.files() == {"a.bin": BODY}
    assert len(times) == 2, "the read, and the question how long to wait"
    assert max(times) < 1


def test_a_wait_longer_than_the_time_for_tries_is_given_up_at_once(download: Any, objects: Any) -> None:
    """Exit 6 in seconds: the Job tries again later."""
    objects.content["a"] = BODY
    reads: list[str] = []

    def busy(handler: Any) -> bool:
        if handler.command == "HEAD" and not reads:
            return False
        reads.append(handler.command)
        handler.reply(429, **{"Retry-After": "3600"})
        return True

    objects.faults["a"] = busy
    download.limits |= {"retrySeconds": 60, "workers": 1}
    began = time.monotonic()
    assert_failed(download, download(one(objects.url)), 6, "files[0]", "429")
    assert time.monotonic() - began < 20


def test_a_name_without_an_address_is_named(download: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 6, with what could not be resolved."""

    def resolve(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    outcome = download(one("http://models.example.com"))
    assert_failed(download, outcome, 6, "files[0]", "models.example.com", "Name or service not known")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("a: [", "no YAML"),
        ("[]", "version"),
        ("version: 2\nitems: {}", "version"),
        ("version: 1\nitems: {oci: [{}]}", "oci"),
        ("version: 1\nitems: {s3: [{}]}", "endpointUrl"),
        ("version: 1\nitems: {x: [{}]}\ndownloaders: {x: 'no.such:thing'}", "no.such:thing"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_exit_2(
    tmp_path: Any, capsys: pytest.CaptureFixture[str], text: str, word: str
) -> None:
    """With the place of the first mistake."""
    path = tmp_path / "config.yaml"
    path.write_text(text)
    assert program.run([str(path)]) == 2
    assert word in capsys.readouterr().err


def test_a_missing_secret_is_named(download: Any, objects: Any) -> None:
    """Exit 2, with Secret and key."""
    items = one(objects.url)
    reference = {"secretName": "creds", "secretKey": "gone", "file": "/nonexistent/gone"}
    items["s3"][0] |= {"accessKeyId": reference, "secretKey": reference}
    assert_failed(download, download(items), 2, "s3[0]", "key gone of Secret creds")
