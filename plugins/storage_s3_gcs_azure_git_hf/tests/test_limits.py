"""Limits and policy on the command line: what the configuration cannot loosen."""

from __future__ import annotations

import json
import subprocess
import time
from typing import Any

import pytest

from kaiwo_storage_s3_gcs_azure_git_hf.download.arguments import parse_arguments

BODY = bytes(range(256)) * 1024


@pytest.fixture
def folder(download: Any, objects: Any) -> dict[str, Any]:
    """Items for four objects of 256 KiB each: one file, and three in a folder."""
    objects.content = {"a": BODY, "d/1": BODY, "d/2": BODY, "d/3": BODY}
    items: dict[str, Any] = download.s3(
        objects.url,
        files=[{"path": "a", "targetPath": "a"}],
        folders=[{"path": "d", "targetPath": "d"}],
    )
    return items


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--max-files=3", ("more than 3 files", "--max-files")),
        ("--max-files=2", ("path has more than 2 objects", "--max-files")),
        (f"--max-bytes={len(BODY) * 4 - 1}", ("larger than 1024.0 KiB", "--max-bytes")),
    ],
)
def test_a_plan_beyond_a_limit_is_refused_before_the_first_byte(
    download: Any, objects: Any, folder: dict[str, Any], flag: str, words: tuple[str, ...]
) -> None:
    """Exit 2 with the limit; all items count together."""
    download.assert_failed(download(folder, flag), 2, "s3[0].buckets[0]", *words)
    assert not [key for method, key, _ in objects.requests if method == "GET" and key]


@pytest.mark.parametrize("flag", ["--max-files=3", "--max-bytes=9"])
def test_the_termination_message_names_the_limit(download: Any, folder: dict[str, Any], flag: str) -> None:
    """The operator names the setting that an administrator has to change."""
    log = download.root / "termination-log"
    log.touch()
    assert download(folder, flag).code == 2
    assert json.loads(log.read_text())["limit"] == flag.strip("-").partition("=")[0]


def test_a_plan_within_its_limits_is_downloaded(download: Any, folder: dict[str, Any]) -> None:
    """The limits are inclusive."""
    outcome = download(folder, "--max-files=4", f"--max-bytes={len(BODY) * 4}", "--timeout=600")
    assert outcome.code == 0, outcome.err
    assert len(download.files()) == 4


def test_the_defaults_are_finite() -> None:
    """4 TiB, a million files, a day; the policy is that of the configuration."""
    arguments = parse_arguments(["config.yaml"], "")
    assert (arguments.max_bytes, arguments.max_files, arguments.timeout) == (4 * 1024**4, 1_000_000, 86400)
    assert arguments.allow_private_endpoints is None
    assert arguments.ambient_credentials is None


@pytest.mark.parametrize(
    "flag",
    ["--max-files=0", "--max-bytes=-1", "--max-bytes=1Gi", "--timeout=", "--allow-private-endpoints=yes"],
)
def test_a_malformed_limit_is_a_usage_error(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2, with what was expected."""
    with pytest.raises(SystemExit) as ended:
        parse_arguments(["config.yaml", flag], "")
    assert ended.value.code == 2
    assert "expected" in capsys.readouterr().err


def test_a_run_ends_at_its_time_limit(download: Any, objects: Any) -> None:
    """Exit 2 within seconds although the server keeps sending; the termination message names the limit."""

    def slow(handler: Any) -> bool:
        if handler.command == "GET":
            time.sleep(20)
        return False

    objects.content["a"] = BODY
    objects.faults["a"] = slow
    (download.root / "termination-log").touch()
    command = download.command(download.one(objects.url), "--timeout=3")
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert time.monotonic() - began < 18
    assert done.returncode == 2, done.stderr
    assert "did not finish within 3 s" in done.stderr
    assert "did not finish within 3 s" in (download.root / "termination-log").read_text()
    assert download.files() == {}


@pytest.mark.parametrize(
    ("document", "flag", "code"), [(True, "false", 2), (False, "true", 0), (False, None, 2), (True, None, 0)]
)
def test_the_command_line_decides_on_private_endpoints(
    download: Any, objects: Any, document: bool, flag: str | None, code: int
) -> None:
    """Whoever may edit the ConfigMap cannot allow what the operator forbids."""
    objects.content["a"] = BODY
    download.policy["allowPrivateEndpoints"] = document
    flags = [f"--allow-private-endpoints={flag}"] if flag else []
    outcome = download(download.one(objects.url), *flags)
    assert outcome.code == code, outcome.err
    assert code == 0 or "loopback" in outcome.line


@pytest.mark.parametrize(
    ("document", "flag", "signed"), [(True, "false", False), (False, "true", True), (True, None, True)]
)
def test_the_command_line_decides_on_ambient_credentials(
    download: Any,
    objects: Any,
    monkeypatch: pytest.MonkeyPatch,
    *,
    document: bool,
    flag: str | None,
    signed: bool,
) -> None:
    """The identity of the pod signs requests only if the operator allows it."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AMBIENTID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "AMBIENTKEY")
    objects.content["a"] = BODY
    download.policy["ambientCredentials"] = document
    flags = [f"--ambient-credentials={flag}"] if flag else []
    outcome = download(download.one(objects.url), *flags)
    assert outcome.code == 0, outcome.err
    sent = [headers.get("authorization", "") for method, _, headers in objects.requests if method == "GET"]
    assert any("AMBIENTID" in value for value in sent) is signed
