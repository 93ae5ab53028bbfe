"""``python -m bench [NAME…] [--quick]``: run the benchmarks and print the table."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from bench import facts, report
from bench.platform import Platform
from bench.scenarios import FULL, OFFLINE, ON_PLATFORM, ON_SERVER, QUICK, evenness
from bench.server import Server, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.scenarios import Size


def _measure(names: list[str], size: Size) -> tuple[list[report.Figure], list[str]]:
    """The figures, and the names of the benchmarks that failed; one that fails does not cost the others."""
    figures: list[report.Figure] = []
    failed: list[str] = []

    def measured(name: str, run: Callable[[], list[report.Figure]]) -> None:
        say(f"{name} …")
        began = time.monotonic()
        try:
            figures.extend(run())
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            failed.append(name)
            say(f"{name} failed: {error}")
        say(f"{name} took {time.monotonic() - began:.0f} s")

    for name in (name for name in names if name in OFFLINE):
        measured(name, partial(OFFLINE[name], size))
    on_server = [name for name in names if name in ON_SERVER]
    if on_server:
        say("starting etcd and kube-apiserver …")
        with Server() as server:
            for name in on_server:
                measured(name, partial(ON_SERVER[name], server, size))
    on_platform = [name for name in names if name in ON_PLATFORM]
    if on_platform:
        say("starting the platform with Kueue …")
        with Platform() as platform:
            for name in on_platform:
                measured(name, partial(ON_PLATFORM[name], platform, size))
    return figures + evenness(figures, size), failed


def main() -> int:
    """Run the requested benchmarks; 1 on a missed target or a failed benchmark, 130 when interrupted."""
    every = [*OFFLINE, *ON_SERVER, *ON_PLATFORM]
    parser = argparse.ArgumentParser(prog="python -m bench", description="Benchmarks of the operator.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(every)}; default all")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, about ten minutes")
    parser.add_argument("--live", type=int, metavar="N", help="KaiwoJobs of the benchmark live (10,000)")
    parser.add_argument("--large", type=int, metavar="N", help="KaiwoJobs of the benchmark large (5,000)")
    given = parser.parse_args()
    unknown = sorted(set(given.names) - set(every))
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(every)}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends etcd and API server too
    size = QUICK if given.quick else FULL
    size = replace(size, live=given.live or size.live, large=given.large or size.large)
    machine = facts.machine()
    try:
        figures, failed = _measure(given.names or every, size)
    except KeyboardInterrupt:
        return 130
    machine["Load average after"] = facts.load()
    print(report.markdown(machine, figures))
    say(f"written to {report.save(machine, figures)}")
    met = all(f.target is None or f.target.met(f.value, f.floor) is not False for f in figures)
    return 0 if met and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
