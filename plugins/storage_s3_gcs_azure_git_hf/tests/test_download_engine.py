from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kaiwo.plugin.kit import addresses
from kaiwo_storage_s3_gcs_azure_git_hf import globs
from kaiwo_storage_s3_gcs_azure_git_hf.download import journal

MIB = 1024**2


@pytest.fixture
def bucket(moto: str) -> str:
    """A bucket of moto with objects whose names are not easy."""
    region = "us-east-1/s3/aws4_request"
    headers = {
        "Authorization": f"AWS4-HMAC-SHA256 Credential=a/20260101/{region}, SignedHeaders=host, Signature=x",
        "Content-Type": "application/octet-stream",
    }

    def put(path: str, body: bytes = b"") -> None:
        url = f"{moto}/{urllib.parse.quote(path)}"
        request = urllib.request.Request(url, data=body, method="PUT", headers=headers)
        urllib.request.urlopen(request).close()

    put("bucket")
    for key, body in NAMES.items():
        put(f"bucket/{key}", body)
    put("bucket/x/dir/")
    put("bucket/x/lonely/")
    put("bucket/x.txt", b"not below x")
    return moto


NAMES = {
    "x/a b [1] ü#?.txt": b"hard",
    "x/日本/名前.bin": bytes(200_000),
    "x/100%25.txt": b"percent",
    "x/zero": b"",
    "x/dir/y": b"y",
}


@pytest.mark.slow
def test_a_real_s3_server_gives_every_object_once(download: Any, bucket: str) -> None:
    """Unicode, spaces, brackets, empty objects; folder markers are no files."""
    items = download.s3(
        bucket,
        files=[{"path": "x/dir/y", "targetPath": "single"}],
        folders=[{"path": "x", "targetPath": "out"}],
    )
    items["s3"][0]["accessKeyId"] = download.secret("id", "CANARYKEY")
    items["s3"][0]["secretKey"] = download.secret("key", "CANARYSECRET")
    outcome = download(items)
    assert outcome.code == 0, outcome.err
    expected = {f"out/{key.removeprefix('x/')}": body for key, body in NAMES.items()}
    assert download.files() == {**expected, "single": b"y"}


@pytest.mark.slow
def test_nothing_but_the_mounted_files_holds_a_secret(download: Any, bucket: str) -> None:
    """Not the output, the termination message, the journal, the plan or the arguments."""
    items = download.s3(bucket, folders=[{"path": "x", "targetPath": "out"}])
    items["s3"][0]["accessKeyId"] = download.secret("id", "CANARYKEY")
    items["s3"][0]["secretKey"] = download.secret("key", "CANARYSECRET")
    (download.root / "termination-log").touch()
    for flags in ([], ["--dry-run"], ["--progress=json"]):
        command = download.command(items, *flags)
        assert "CANARY" not in " ".join(command)
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "CANARY" not in done.stdout + done.stderr
    written = [path for path in download.root.rglob("*") if path.is_file() and path.parent.name != "secrets"]
    assert all(b"CANARY" not in path.read_bytes() for path in written)
    assert json.loads((download.root / "termination-log").read_text())["exitCode"] == 0


def test_a_dry_run_prints_the_plan_and_fetches_nothing(download: Any, objects: Any) -> None:
    """Size, source, target and item of each file."""
    objects.content["a"] = b"12345"
    outcome = download(download.s3(objects.url, files=[{"path": "a", "targetPath": "t/a"}]), "--dry-run")
    assert outcome.code == 0
    assert "5 B" in outcome.out
    assert "t/a" in outcome.out
    assert objects.sent == 0
    assert download.files() == {}


def test_a_rerun_transfers_nothing_and_a_changed_object_is_fetched_anew(download: Any, objects: Any) -> None:
    """Finished files are known by store, ETag and size, and by not having been touched."""
    objects.content = {f"d/{number}": bytes([number]) * 1000 for number in range(50)}
    items = download.s3(objects.url, folders=[{"path": "d", "targetPath": "d"}])
    assert download(items).code == 0
    listed = objects.sent
    assert download(items).code == 0
    again = objects.sent - listed
    assert not [key for _, key, _ in objects.requests[51 + 1 :] if key], "something was fetched again"
    objects.content["d/7"] = b"new"
    (download.volume / "d/8").write_bytes(b"touched")
    assert download(items).code == 0
    assert download.files()["d/7"] == b"new"
    assert download.files()["d/8"] == bytes([8]) * 1000
    assert again < 50_000


def test_a_killed_run_goes_on_where_it_was(download: Any, objects: Any) -> None:
    """At most the parts in flight are transferred twice, and the content is right."""
    body = random.Random(1).randbytes(12 * MIB)
    objects.content["a"] = body
    objects.etags["a"] = '"multipart-2"'
    objects.delay = 0.05
    download.limits |= {"partSize": MIB // 4, "workers": 4}
    items = download.s3(objects.url, files=[{"path": "a", "targetPath": "a"}])
    command = download.command(items)
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        while objects.sent < 0.6 * len(body) and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    assert download.files() == {}
    time.sleep(0.2)  # the server ends what was in flight
    before = objects.sent
    assert 0 < before < len(body)
    outcome = download(items)
    assert outcome.code == 0, outcome.err
    assert download.files() == {"a": body}
    twice = objects.sent - len(body)
    assert twice <= 5 * MIB // 4, f"{twice} bytes were transferred twice"


TELLS_ITS_PEAK = """
import pathlib, sys
from kaiwo_storage_s3_gcs_azure_git_hf.download import main
code = main.run(sys.argv[1:])
print(pathlib.Path("/proc/self/status").read_text())
sys.exit(code)
"""
"""The program, printing its own peak: the figure of wait4 includes the memory of the parent process."""


def test_a_large_object_needs_little_memory(download: Any, objects: Any) -> None:
    """Memory depends on workers and part size alone."""
    objects.content["a"] = bytes(256 * MIB)
    objects.etags["a"] = '"multipart-32"'
    download.limits |= {"partSize": 8 * MIB, "workers": 8}
    arguments = download.command(download.s3(objects.url, files=[{"path": "a", "targetPath": "a"}]))[3:]
    done = subprocess.run(
        [sys.executable, "-c", TELLS_ITS_PEAK, *arguments], capture_output=True, text=True, check=True
    )
    peak = next(line for line in done.stdout.splitlines() if line.startswith("VmHWM:"))
    assert int(peak.split()[1]) * 1024 < 150 * MIB, peak
    assert (download.volume / "a").stat().st_size == 256 * MIB


def test_two_runs_do_not_write_to_one_volume(download: Any, objects: Any) -> None:
    """The second one says so instead of spoiling the first."""
    objects.content["a"] = b"a"
    download.config({})
    own = download.volume / ".kaiwo-download"
    own.mkdir()
    held = journal.Journal(own)
    outcome = download(download.s3(objects.url, files=[{"path": "a", "targetPath": "a"}]))
    held.close()
    assert outcome.code == 2
    assert "another download" in outcome.line


@pytest.mark.parametrize(
    ("glob", "yes", "no"),
    [
        ("**/*", ["a", "a/b", "a/b/c.d"], []),
        ("*.json", ["a.json"], ["d/a.json", "a.jsonl"]),
        ("**/*.json", ["a.json", "d/e/a.json"], ["a.txt"]),
        ("d/**", ["d/a", "d/a/b"], ["e/a"]),
        ("a[0-9].t", ["a1.t"], ["ax.t", "a/.t"]),
        ("a[!0-9].t", ["ax.t"], ["a1.t"]),
        ("a?c", ["abc"], ["a/c"]),
        ("[[]x[]]", ["[x]"], ["x"]),
    ],
)
def test_globs_match_as_shells_do(glob: str, yes: list[str], no: list[str]) -> None:
    """A star stays inside a folder, two stars cross folders."""
    matches = globs.compile_glob(glob).fullmatch
    assert [name for name in yes if not matches(name)] == []
    assert [name for name in no if matches(name)] == []


@pytest.mark.parametrize(
    ("glob", "advice"),
    [
        ("*.{bin,txt}", "name the folder once for each alternative"),
        ("/sub/*.bin", "write 'sub/*.bin'"),
        ("./.hidden", "write '.hidden'"),
        ("sub/", "write 'sub/**'"),
        ("!*.txt", "cannot exclude"),
        ("*.bin", ""),
        (None, ""),
    ],
)
def test_a_glob_of_another_program_is_explained(glob: str | None, advice: str) -> None:
    """Where nothing matches, the next step says how it is written here."""
    found = globs.advice(glob)
    assert advice in found
    assert bool(found) is bool(advice)


@example("[a--]", "a")
@example("[a-b--c]", "-")
@example("[a~~b||c]", "~")
@given(st.text(alphabet="a*?[]!-/^\\&~|.", max_size=12), st.text(alphabet="a/b.", max_size=8))
def test_no_glob_crashes(glob: str, name: str) -> None:
    """A pattern works or is refused with a reason."""
    try:
        globs.compile_glob(glob).fullmatch(name)
    except ValueError as error:
        assert "glob" in str(error)  # noqa: PT017 - either outcome is right


@given(st.binary(max_size=200))
def test_a_torn_journal_costs_a_transfer_and_nothing_else(tail: bytes) -> None:
    """A crash in the middle of a line leaves the rest readable."""
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        file = Path(name, "x")
        file.touch()
        first = journal.Journal(Path(name))
        first.finish(str(file), "key")
        first.part(str(Path(name, "y")), "part", 3)
        first.close()
        with Path(name, "journal").open("ab") as out:
            out.write(b"\n" + tail)
        second = journal.Journal(Path(name))
        assert second.finished(str(file), "key")
        assert second.parts(str(Path(name, "y")), "part") == {3}
        second.close()


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "fe80::1",
        "::ffff:169.254.1.1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::a9fe:a9fe",
        "64:ff9b:1:a9fe:a9:fe00::",
        "64:ff9b:1:ffff::1",
        "::169.254.169.254",
        "::ffff:0:169.254.169.254",
        "2002:a9fe:a9fe::1",
        "2001:0:4136:e378:8000:63bf:5601:5601",
        "fd00:ec2::254",
        "0.0.0.0",
        "::",
    ],
)
def test_some_addresses_are_never_reached(address: str) -> None:
    """Whatever is allowed otherwise."""
    found = addresses.parse_address(address)
    assert found is not None
    assert addresses.blocked_reason(found, private=True, loopback=True, setting="allowPrivate")
