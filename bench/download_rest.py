"""What downloads cost besides moving bytes: planning, reruns, resuming after a crash, memory at any size."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
import urllib.request
from typing import TYPE_CHECKING

from bench.download_run import PROGRAM, config, peak, run_to_end, served
from bench.report import Figure, Target

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1024**2
PART = 8 * MIB
"""The program's part size and number of workers, as configured by default."""
WORKERS = 8


def _plan_and_rerun(work: Path, listed: int, kept: int) -> list[Figure]:
    small = work / "objects" / "kept"
    small.mkdir(parents=True)
    for number in range(kept):
        (small / f"{number:05}").write_bytes(b"x" * 100)
    target = work / "target"
    target.mkdir()
    with served(work / "objects", listed) as url:
        plan = run_to_end([*PROGRAM, str(config(work / "plan.yaml", url, target, "many")), "--dry-run"])
        again = [*PROGRAM, str(config(work / "again.yaml", url, target, "kept"))]
        first = run_to_end(again)
        before = _sent(url)
        second = run_to_end(again)
        more = _sent(url) - before
    shutil.rmtree(target)
    shutil.rmtree(work / "objects")
    if plan.code or first.code or second.code:
        raise RuntimeError("the download program failed")
    label = f"rerun of {kept:,} finished files"
    return [
        Figure(
            f"plan of {listed:,} objects", listed / plan.seconds, "objects/s", target=Target(5000, "at least")
        ),
        Figure(f"plan of {listed:,} objects: peak memory", plan.memory, "MiB", target=Target(300)),
        Figure(label, second.seconds, "s", target=Target(2)),
        Figure(f"{label}: bytes of objects", more, "B", target=Target(0)),
    ]


def _sent(url: str) -> int:
    with urllib.request.urlopen(f"{url}/sent", timeout=30) as answer:  # noqa: S310 - the loopback server above
        return int(answer.read())


def _large(work: Path, size: int) -> list[Figure]:
    """A sparse object: killed at 60 % and started again."""
    folder = work / "objects" / "sparse"
    folder.mkdir(parents=True)
    with (folder / "one").open("wb") as file:
        file.truncate(size)
    target = work / "target"
    target.mkdir()
    with served(work / "objects") as url:
        command = [*PROGRAM, str(config(work / "sparse.yaml", url, target, "sparse"))]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            while _sent(url) < 0.6 * size and process.poll() is None:
                time.sleep(0.05)
            memory = peak(process.pid)
            process.send_signal(signal.SIGKILL)
        time.sleep(1)  # the server ends what was in flight
        run = run_to_end(command)
        twice = _sent(url) - size
    if run.code or os.stat(target / "out" / "one").st_size != size:  # noqa: PTH116 - one number
        raise RuntimeError("the download program failed")
    shutil.rmtree(target)
    shutil.rmtree(work / "objects")
    label = f"one sparse object of {size / MIB / 1024:.1f} GiB"
    parts = WORKERS * PART / MIB
    return [
        Figure(f"{label}: peak memory", max(memory, run.memory), "MiB", target=Target(150)),
        Figure(f"{label}, killed at 60 %: transferred twice", twice / MIB, "MiB", target=Target(parts)),
    ]


def figures(work: Path, *, quick: bool) -> list[Figure]:
    """Measure in a folder; the large object needs its size of disk."""
    found = _plan_and_rerun(work, 100_000, 10_000)
    return found + _large(work, (512 if quick else 5 * 1024) * MIB)
