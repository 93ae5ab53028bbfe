"""The sandbox signals only processes that it started, and they have ended afterwards."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING

import pytest

from kaiwo_sandbox import process
from kaiwo_sandbox.errors import SandboxError
from kaiwo_sandbox.process import Process

if TYPE_CHECKING:
    from pathlib import Path

SLEEPER = [sys.executable, "-c", "import time; print('hello', flush=True); time.sleep(60)"]


def _wait_for_log(directory: Path, name: str, text: str) -> None:
    deadline = time.monotonic() + 10
    while text not in process.log_tail(directory, name):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_started_program_is_found_again_by_its_pid_file(tmp_path: Path) -> None:
    """Another command, in another process, must be able to stop it."""
    started = process.start("sleeper", SLEEPER, directory=tmp_path)
    _wait_for_log(tmp_path, "sleeper", "hello")
    found = process.recorded(tmp_path)["sleeper"]
    assert found == started
    assert found.alive()
    assert found.memory() > 1 << 20
    found.kill()
    assert not found.alive()


def test_kill_ends_a_program_that_ignores_the_polite_signal(tmp_path: Path) -> None:
    """`down` leaves nothing behind, whatever the program thinks of it."""
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print('set', flush=True); time.sleep(60)"
    )
    started = process.start("stubborn", [sys.executable, "-c", code], directory=tmp_path)
    _wait_for_log(tmp_path, "stubborn", "set")
    started.signal(signal.SIGTERM)
    assert started.alive()
    started.kill()
    assert not started.alive()


def test_a_reused_pid_is_not_signalled() -> None:
    """After a reboot a pid file may name another process: here, the process of this test."""
    other = Process("etcd", os.getpid(), started=1)
    assert not other.alive()
    other.signal(signal.SIGKILL)
    other.kill()


def test_a_program_does_not_inherit_descriptors_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Secrets in the caller's environment do not end up in a long-lived process or its log."""
    monkeypatch.setenv("MY_SECRET", "hunter2")
    code = (
        "import os; print(sorted(os.listdir('/proc/self/fd'))); "
        "print('MY_SECRET' in os.environ); print('end')"
    )
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)  # noqa: FBT003 - it takes no keyword
        process.start("nosy", [sys.executable, "-c", code], directory=tmp_path)
    _wait_for_log(tmp_path, "nosy", "end")
    descriptors, secret, _ = process.log_tail(tmp_path, "nosy").splitlines()[-3:]
    assert descriptors == "['0', '1', '2', '3']"  # 3 is the directory that is being listed
    assert secret == "False"


def test_a_missing_binary_says_what_to_do(tmp_path: Path) -> None:
    """The message names the path and the command that makes the binaries."""
    with pytest.raises(SandboxError, match="kaiwo sandbox build"):
        process.start("etcd", [str(tmp_path / "nothing")], directory=tmp_path)


def test_damaged_pid_files_are_passed_over(tmp_path: Path) -> None:
    """A half-written file from a crash must not keep `down` from cleaning up."""
    (tmp_path / "pids").mkdir()
    (tmp_path / "pids" / "etcd.json").write_text('{"pid": ')
    (tmp_path / "pids" / "kwok.json").write_text("[]")
    assert process.recorded(tmp_path) == {}
