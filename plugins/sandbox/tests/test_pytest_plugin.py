"""The fixtures for other test suites."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from kaiwo_sandbox import process
from kaiwo_sandbox.paths import cache_dir
from kaiwo_sandbox.pytest_plugin import PLATFORM_ADDONS
from kaiwo_sandbox.sandbox import Sandbox

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory of the test's own, with the real cache: other sessions' sandboxes are not seen.

    The cache must be named before `pytester` gives the inner session another home without binaries.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_dir().parents[1]))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("KAIWO_SANDBOX_REUSE", raising=False)
    return tmp_path / "state"


USES_BOTH = """
def test_first(control_plane, namespace):
    assert control_plane.api.get(f"/api/v1/namespaces/{namespace}")["status"]["phase"] == "Active"

def test_second(control_plane, namespace):
    assert namespace.startswith("test-second-")
"""


@pytest.mark.slow
def test_a_reused_sandbox_that_is_not_up_is_explained(
    home: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the variable, because users forget it in a shell, and the next step."""
    del home
    monkeypatch.setenv("KAIWO_SANDBOX_REUSE", "ghost")
    pytester.makepyfile(USES_BOTH)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(['*KAIWO_SANDBOX_REUSE: sandbox "ghost" is not running*'])


@pytest.mark.slow
def test_collecting_tests_starts_nothing(home: Path, pytester: pytest.Pytester) -> None:
    """Neither a sandbox nor the import of its code."""
    pytester.makepyfile(USES_BOTH)
    result = pytester.runpytest_subprocess("--collect-only", "-q")
    result.stdout.fnmatch_lines(["*2 tests collected*"])
    assert not (home / "state").exists()


@pytest.mark.slow
def test_the_header_says_which_versions_run(
    home: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The header distinguishes the runs of the version matrix."""
    del home
    for generation, version in (("", "kueue 0.18.2 (newer)"), ("older", "kueue 0.12.3 (older)")):
        monkeypatch.setenv("KAIWO_SANDBOX_GENERATION", generation)
        result = pytester.runpytest_subprocess("--collect-only")
        result.stdout.fnmatch_lines([f"sandbox: kubernetes 1.36.3, *{version}*"])


@pytest.mark.slow
def test_a_generation_that_does_not_exist_ends_the_session(
    home: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistyped one must not test the newer one a second time."""
    del home
    monkeypatch.setenv("KAIWO_SANDBOX_GENERATION", "olden")
    pytester.makepyfile(USES_BOTH)
    result = pytester.runpytest_subprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(['*unknown generation "olden" (known: newer, older)*'])
    pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider").assert_outcomes(errors=2)


@pytest.mark.cluster
@pytest.mark.matrix
def test_of_the_sandboxes_to_reuse_the_platform_is_one_that_fits(
    own_state: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One with all addons of the generation that is tested; the first that is named serves the rest."""
    generation = os.environ.get("KAIWO_SANDBOX_GENERATION") or "newer"
    sandboxes = [
        Sandbox.up("bare", nodes="none", owned=True),
        Sandbox.up("full", nodes="none", addons=PLATFORM_ADDONS, generation=generation, owned=True),
    ]
    try:
        monkeypatch.setenv("KAIWO_SANDBOX_REUSE", "bare,full")
        pytester.makepyfile(
            """
            def test_platform(platform, platform_namespace):
                assert platform.name == "full"
                namespace = platform.api.get(f"/api/v1/namespaces/{platform_namespace}")
                assert namespace["status"]["phase"] == "Active"

            def test_control_plane(control_plane):
                assert control_plane.name == "bare"
            """
        )
        pytester.runpytest_subprocess("-W", "error", "-p", "no:asyncio").assert_outcomes(passed=2)
    finally:
        for sandbox in sandboxes:
            sandbox.down()
    assert not _remaining_files(own_state)


@pytest.mark.cluster
def test_one_control_plane_serves_a_session_and_is_gone_afterwards(
    own_state: Path, pytester: pytest.Pytester
) -> None:
    """With warnings as errors: no connection or process object is left unclosed."""
    pytester.makepyfile(USES_BOTH)
    result = pytester.runpytest_subprocess("-W", "error", "-p", "no:asyncio")
    result.assert_outcomes(passed=2)
    assert not _remaining_files(own_state)


@pytest.mark.cluster
def test_a_killed_session_leaves_nothing(own_state: Path, pytester: pytest.Pytester) -> None:
    """The watchdog deletes the sandbox even if SIGKILL prevents the session from doing so."""
    pytester.makepyfile(
        """
        import time
        def test_hangs(control_plane):
            print("up", flush=True)
            time.sleep(600)
        """
    )
    command = [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider", "-p", "no:asyncio"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=pytester.path) as session:
        assert session.stdout is not None
        for line in session.stdout:
            if "up" in line.split():
                break
        (directory,) = (path for path in _remaining_files(own_state) if path.is_dir())
        running = process.recorded(directory)
        session.send_signal(signal.SIGKILL)
    assert {"etcd", "kube-apiserver", "kwok"} <= set(running)
    deadline = time.monotonic() + 30
    while _remaining_files(own_state) or any(each.alive() for each in running.values()):
        assert time.monotonic() < deadline
        time.sleep(0.2)


def _remaining_files(state: Path) -> list[Path]:
    """The files of sandboxes in the state directory."""
    return list((state / "kaiwo" / "sandbox").glob("*"))
