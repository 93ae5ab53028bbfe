"""Jobs through Kueue with one operator, and with two that share the namespaces; what each costs.

Kueue admits one job after the other, whoever made it, so the rate is Kueue's with one operator and with two.
What counts is CPU: an operator is one thread, so the jobs for which it has CPU in a second are what it can
serve at most.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from bench import shards
from bench.access import OPERATOR
from bench.fanout import load_command
from bench.platform import QUEUED
from bench.process import Program, until
from bench.queued import WAIT_FOR_MACHINE, completed
from bench.report import Figure

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.platform import Platform

_LIMIT_SECONDS = 900.0


def run(platform: Platform, count: int, rounds: int) -> list[Figure]:
    """Alternate between one operator, which is the floor here, and two."""
    found: dict[int, list[tuple[float, ...]]] = {1: [], 2: []}
    shards.share_namespaces(platform)
    for number in range(rounds):
        for operators in (1, 2) if number % 2 == 0 else (2, 1):
            found[operators].append(_measured(platform, count, operators))

    def figure(what: str, unit: str, read: Callable[[tuple[float, ...]], float]) -> Figure:
        two, one = (median(map(read, found[operators])) for operators in (2, 1))
        return Figure(
            f"{count:,} jobs of {WAIT_FOR_MACHINE} through Kueue, two shards: {what}", two, unit, one
        )

    return [
        figure("CPU of both per job", "ms", sum),
        figure("CPU of the busier one per job", "ms", max),
        figure("jobs for which the busier one has CPU", "/s", lambda each: 1000 / max(each)),
    ]


def _measured(platform: Platform, count: int, operators: int) -> tuple[float, ...]:
    """CPU of each operator per job of all, in milliseconds, from an empty server to an empty server."""
    platform.clear()
    done: set[tuple[str, str]] = set()

    def complete() -> bool:
        done.update(completed(platform.audit.read(), OPERATOR))
        return len(done) >= count

    with shards.operators(platform, operators, QUEUED) as programs:
        platform.audit.read()
        before = [program.cpu_seconds() for program in programs]
        command = load_command(platform, count, "shards", kind="kaiwojobs", run_time=WAIT_FOR_MACHINE)
        with Program(command, platform.directory / "load.log") as load:
            load.wait(_LIMIT_SECONDS)
        until(complete, _LIMIT_SECONDS, programs[0], f"all {count} complete")
        used = tuple(
            (program.cpu_seconds() - start) * 1000 / count
            for program, start in zip(programs, before, strict=True)
        )
    platform.clear()
    return used
