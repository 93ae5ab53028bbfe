"""Programs under measurement: their own process, so that CPU and memory are their own."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_STOP_SECONDS = 30.0
_USER_TICKS = 11  # utime of proc(5), counted from after the closing parenthesis; stime follows


class Program:
    """A child process with its output in a file; ended when the block ends."""

    def __init__(
        self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.log = log
        self.started = time.time()
        with log.open("wb") as output:
            self._popen = subprocess.Popen(
                list(command), stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment
            )

    def __enter__(self) -> Self:
        """It is running."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self.stop()

    def cpu_seconds(self) -> float:
        """User and system time used so far."""
        stat = Path(f"/proc/{self._popen.pid}/stat").read_text(encoding="ascii", errors="replace")
        user, system = stat.rpartition(")")[2].split()[_USER_TICKS : _USER_TICKS + 2]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def peak_mebibytes(self) -> float:
        """Largest resident memory so far (``VmHWM`` of proc(5))."""
        return self._status("VmHWM") / 1024

    def waited_seconds(self) -> float:
        """Time that it could have run and waited for a core, so far."""
        schedstat = Path(f"/proc/{self._popen.pid}/schedstat").read_text(encoding="ascii")
        return int(schedstat.split()[1]) / 1e9

    def context_switches(self) -> tuple[int, int]:
        """How often it waited for something, and how often another program took its core, so far."""
        return self._status("voluntary_ctxt_switches"), self._status("nonvoluntary_ctxt_switches")

    def _status(self, field: str) -> int:
        """A number of proc(5)'s ``status``."""
        status = Path(f"/proc/{self._popen.pid}/status").read_text(encoding="ascii")
        line = next(line for line in status.splitlines() if line.startswith(field))
        return int(line.split()[1])

    def running(self) -> bool:
        """Whether it still runs."""
        return self._popen.poll() is None

    def tail(self) -> str:
        """The end of its output, for an error message."""
        return self.log.read_bytes()[-2000:].decode(errors="replace")

    def wait(self, timeout: float) -> None:
        """Wait for its own end.

        Raises:
            RuntimeError: it failed.
            subprocess.TimeoutExpired: it still runs after `timeout` seconds.
        """
        if self._popen.wait(timeout):
            raise RuntimeError(f"{self._popen.args!r} failed:\n{self.tail()}")

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if that is not enough."""
        if not self.running():
            return
        self._popen.terminate()
        try:
            self._popen.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()


def until(
    true: Callable[[], bool], timeout: float, program: Program, what: str, interval: float = 0.25
) -> None:
    """Wait until `true`.

    Raises:
        RuntimeError: not within `timeout` seconds, or `program` ended before.
    """
    deadline = time.monotonic() + timeout
    while not true():
        if not program.running():
            raise RuntimeError(f"The program ended before {what}:\n{program.tail()}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"Not {what} within {timeout:.0f} s:\n{program.tail()}")
        time.sleep(interval)
