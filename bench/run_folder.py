"""CPU of ``kaiwo run`` with a folder of 500 files: from the start of the process to the created workload."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.access import LOAD
from bench.report import Figure, Target

if TYPE_CHECKING:
    from bench.server import Server

_FILES = 500
_RUNS = 7


def lay_out(folder: Path) -> None:
    """Write the files, and put them under git."""
    for number in range(_FILES):
        path = folder / f"package{number % 20}" / f"module{number}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"value = {number}\n" * 40, encoding="utf-8")
    for args in (("init", "--quiet"), ("add", ".")):
        subprocess.run(["git", "-C", str(folder), *args], check=True)  # noqa: S607


def _cpu(command: list[str], folder: Path, environment: dict[str, str]) -> float:
    """Seconds, those of the processes of git included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(server: Server) -> list[Figure]:
    """Beside the floor: what the same command takes to print its help."""
    kaiwo = str(Path(sys.executable).with_name("kaiwo"))
    environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig(LOAD))}
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        lay_out(folder)
        command = [kaiwo, "run", "--detach", "--image", "x", "--", "python", "train.py"]
        # The first one, which fills the caches, is not counted.
        floor = [_cpu([kaiwo, "run", "--help"], folder, environment) for _ in range(_RUNS + 1)]
        spent = [_cpu(command, folder, environment) for _ in range(_RUNS + 1)]
    server.clear()
    what = f"CPU of kaiwo run with {_FILES} files"
    return [Figure(what, median(spent[1:]) * 1000, "ms", median(floor[1:]) * 1000, Target(1000))]
