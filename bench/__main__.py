"""``python -m bench [NAME…] [--quick]``: run the benchmarks and print the table."""

from __future__ import annotations

import argparse
import sys
import time

from bench import facts, report
from bench.scenarios import FULL, OFFLINE, ON_SERVER, QUICK, evenness
from bench.server import Server


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _measure(names: list[str], *, quick: bool) -> list[report.Figure]:
    size = QUICK if quick else FULL
    figures: list[report.Figure] = []
    for name in names:
        if name in OFFLINE:
            _say(f"{name} …")
            figures += OFFLINE[name]()
    on_server = [name for name in names if name in ON_SERVER]
    if on_server:
        _say("starting etcd and kube-apiserver …")
        with Server() as server:
            for name in on_server:
                began = time.monotonic()
                _say(f"{name} …")
                figures += ON_SERVER[name](server, size)
                _say(f"{name} took {time.monotonic() - began:.0f} s")
    return figures + evenness(figures, size)


def main() -> int:
    """Run what was asked for; 1 when a target was missed, 130 when interrupted."""
    every = [*OFFLINE, *ON_SERVER]
    parser = argparse.ArgumentParser(prog="python -m bench", description="Benchmarks of the operator.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(every)}; default all")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, under three minutes")
    given = parser.parse_args()
    unknown = sorted(set(given.names) - set(every))
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(every)}")
    machine = facts.machine()
    try:
        figures = _measure(given.names or every, quick=given.quick)
    except KeyboardInterrupt:
        return 130
    print(report.markdown(machine, figures))
    _say(f"written to {report.save(machine, figures)}")
    return 0 if all(f.target is None or f.target.met(f.value, f.floor) is not False for f in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
