"""What ``kaiwo demo --keep`` leaves running, so that ``kaiwo demo --stop`` finds and ends exactly that.

A pid alone is no identity, because the kernel reuses numbers; the process's start time (field 22 of
``/proc/PID/stat``, proc(5)) is kept beside it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time
from pathlib import Path

_STOP_SECONDS = 30.0
_POLL_SECONDS = 0.1
_START_TIME = 19  # field 22, counted from after the command's closing parenthesis
_STATE = 0


def directory() -> Path:
    """``$XDG_STATE_HOME/kaiwo/demo``, by default below ``~/.local/state``."""
    given = os.environ.get("XDG_STATE_HOME", "")
    base = Path(given) if Path(given).is_absolute() else Path.home() / ".local" / "state"
    return base / "kaiwo" / "demo"


def _file() -> Path:
    return directory() / "operator.json"


def _started(pid: int) -> int | None:
    """When the process began, in clock ticks since boot; None when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[_STATE] == "Z" else int(fields[_START_TIME])


def record(pid: int) -> None:
    """Remember the operator that stays."""
    _file().write_text(json.dumps({"pid": pid, "started": _started(pid)}))


def kept() -> int | None:
    """The pid of the operator that an earlier demo left running, None when there is none."""
    try:
        noted = json.loads(_file().read_text())
        pid, started = int(noted["pid"]), int(noted["started"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return pid if _started(pid) == started else None


def stop() -> bool:
    """End the operator of an earlier demo and remove the demo's files; False if there was none."""
    pid = kept()
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + _STOP_SECONDS
        while kept() is not None and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        if kept() is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    shutil.rmtree(directory(), ignore_errors=True)
    return pid is not None
