"""Start programs that outlive this process, and stop them by their pid files.

The kernel reuses pids. A pid file therefore also records the start time in clock ticks since boot (field 22
of ``/proc/PID/stat``, proc(5)), and a signal is sent only to a process that matches both.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kaiwo_sandbox.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Positions after the command's closing parenthesis.
_STAT_STATE, _STAT_THREADS, _STAT_START_TIME, _STAT_RSS = 0, 17, 19, 21
_STANDARD_ERROR = 2
_POLL_SECONDS = 0.05
_LOG_TAIL_BYTES = 4000


@dataclass(frozen=True, slots=True)
class Process:
    """A started program: its name in the sandbox, its pid, and its start time in clock ticks since boot."""

    name: str
    pid: int
    started: int

    def _stat(self) -> list[str] | None:
        try:
            text = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii", errors="replace")
        except OSError:
            return None
        fields = text.rpartition(")")[2].split()
        return fields if int(fields[_STAT_START_TIME]) == self.started else None

    def alive(self) -> bool:
        """Whether it still runs; a zombie does not.

        After SIGKILL the first thread may have ended while others still hold the program's ports and files.
        """
        stat = self._stat()
        if stat is None:
            return False
        return stat[_STAT_STATE] not in {"Z", "X"} or int(stat[_STAT_THREADS]) > 1

    def memory(self) -> int:
        """Resident memory in bytes; 0 after the process has ended."""
        stat = self._stat()
        return int(stat[_STAT_RSS]) * os.sysconf("SC_PAGE_SIZE") if stat else 0

    def signal(self, number: signal.Signals) -> None:
        """Send a signal if it is still the same process."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self, timeout: float = 20.0) -> None:
        """Send SIGKILL and wait until the process has ended.

        Raises:
            SandboxError: it still runs after `timeout` seconds.
        """
        self.signal(signal.SIGKILL)
        deadline = time.monotonic() + timeout
        while self.alive() and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)
        if self.alive():
            raise SandboxError(
                f"{self.name} (pid {self.pid}) still runs {timeout:.0f} s after SIGKILL",
                hint="run kaiwo sandbox down again; a blocked disk can delay the end of a process",
            )


def _start_time(pid: int) -> int:
    text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    return int(text.rpartition(")")[2].split()[_STAT_START_TIME])


def _inheritable() -> list[int]:
    """Inheritable descriptors beyond the standard ones, such as a pipe of make's.

    The reader of such a pipe would wait until the started program ends.
    """
    found = []
    for entry in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names are wanted, not paths
        with contextlib.suppress(OSError):  # the descriptor of the listing itself is closed by now
            if int(entry) > _STANDARD_ERROR and os.get_inheritable(int(entry)):
                found.append(int(entry))
    return found


def start(
    name: str,
    command: Sequence[str],
    *,
    directory: Path,
    environment: Mapping[str, str] | None = None,
    stdin: int | None = None,
) -> Process:
    """Start `command` in a new session, with a log and a pid file under `directory`.

    The new session keeps Ctrl-C in the terminal away from it. It inherits no descriptors but the standard
    ones, and of the environment only PATH, HOME, TMPDIR and LANG.

    Raises:
        SandboxError: the program cannot be executed.
    """
    logs, pids = directory / "logs", directory / "pids"
    logs.mkdir(parents=True, exist_ok=True, mode=0o700)
    pids.mkdir(parents=True, exist_ok=True, mode=0o700)
    log = str(logs / f"{name}.log")
    inherited = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR", "LANG") if key in os.environ}
    stdin_action = (
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
        if stdin is None
        else (os.POSIX_SPAWN_DUP2, stdin, 0)
    )
    try:
        pid = os.posix_spawn(
            command[0],
            list(command),
            {**inherited, **(environment or {})},
            file_actions=[
                stdin_action,
                (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
                *((os.POSIX_SPAWN_CLOSE, descriptor) for descriptor in _inheritable()),
            ],
            setsid=True,
        )
    except OSError as error:
        raise SandboxError(
            f"cannot start {name} from {command[0]}",
            detail=error.strerror or str(error),
            hint="build the programs for this machine with kaiwo sandbox build",
        ) from error
    return record(name, pid, directory=directory)


def record(name: str, pid: int, *, directory: Path) -> Process:
    """Write the pid file of a running process, in place of one of the same name."""
    process = Process(name, pid, _start_time(pid))
    file = directory / "pids" / f"{name}.json"
    file.with_suffix(".tmp").write_text(json.dumps({"pid": pid, "started": process.started}))
    file.with_suffix(".tmp").rename(file)
    return process


def recorded(directory: Path) -> dict[str, Process]:
    """Read the pid files under `directory`: processes by name, including ended ones."""
    found = {}
    for path in sorted((directory / "pids").glob("*.json")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            record = json.loads(path.read_text())
            found[path.stem] = Process(path.stem, int(record["pid"]), int(record["started"]))
    return found


def log_tail(directory: Path, name: str) -> str:
    """The last lines of the log of `name`."""
    try:
        with (directory / "logs" / f"{name}.log").open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _LOG_TAIL_BYTES))
            lines = log.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join(lines[-8:])
