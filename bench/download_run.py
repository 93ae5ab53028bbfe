"""Running the download program, and others, for the benchmarks of downloads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PROGRAM = [sys.executable, "-m", "kaiwo_storage_s3_gcs_azure_git_hf.download.main"]
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Run:
    """What one process took: seconds, seconds of CPU, peak memory in MiB, and its exit code."""

    seconds: float
    cpu: float
    memory: float
    code: int


def peak(pid: int) -> float:
    """Peak memory of a process so far, in MiB; 0 when it is gone.

    The kernel's own figure, read while the process runs: the figure of ``wait4`` includes the memory of the
    parent that it was forked from.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0.0
    return next(
        (int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM:")), 0.0
    )


def run_to_end(command: Sequence[str], environment: Mapping[str, str] = os.environ) -> Run:
    """Run a program without its output; Python programs with cached bytecode, as in an image."""
    environment = {name: value for name, value in environment.items() if name != "PYTHONDONTWRITEBYTECODE"}
    found, over = [0.0], threading.Event()
    began = time.monotonic()
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:

        def watch() -> None:
            while not over.wait(_POLL_SECONDS):
                found[0] = max(found[0], peak(process.pid))

        watching = threading.Thread(target=watch)
        watching.start()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        over.set()
        watching.join()
    return Run(seconds, usage.ru_utime + usage.ru_stime, found[0], process.returncode)


@contextmanager
def served(folder: Path, many: int = 0, *, plain: bool = False) -> Iterator[str]:
    """The loopback server over a folder; its URL."""
    command = [sys.executable, "-m", "bench.download_server", str(folder), str(many)]
    command += ["--plain"] if plain else []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            yield f"http://127.0.0.1:{line.strip()}"
        finally:
            process.terminate()


def config(path: Path, url: str, target: Path, prefix: str) -> Path:
    """Write what the program is to fetch: a folder of the server's bucket."""
    bucket = {"name": "bucket", "folders": [{"path": prefix, "targetPath": "out"}]}
    items = {"s3": [{"endpointUrl": url, "buckets": [bucket]}]}
    return document(path, target, items)


def document(path: Path, target: Path, items: Mapping[str, object]) -> Path:
    """Write a configuration."""
    text = json.dumps({"version": 1, "dataMountPath": str(target), "items": items})
    path.write_text(text, encoding="utf-8")
    return path
