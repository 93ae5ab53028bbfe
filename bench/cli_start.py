"""CPU of ``kaiwo --help``: what a person waits for at every command."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from statistics import median

from bench.report import Figure, Target

_RUNS = 11


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _cpu(command: list[str]) -> float:
    """Median CPU seconds of `command`; the first run, which fills the caches, is not counted."""
    seconds = []
    for _ in range(_RUNS + 1):
        before = _children_cpu()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds.append(_children_cpu() - before)
    return median(seconds[1:])


def run() -> list[Figure]:
    """Beside the floor: the interpreter and click doing nothing."""
    kaiwo = Path(sys.executable).with_name("kaiwo")
    floor = _cpu([sys.executable, "-c", "import click"])
    return [
        Figure("CPU of kaiwo --help", _cpu([str(kaiwo), "--help"]) * 1000, "ms", floor * 1000, Target(150))
    ]
