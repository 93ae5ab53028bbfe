"""``python -m campaign [SET…]``: run sets of faults and print what failed."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from campaign import report
from campaign.arena import ADDONS, Cluster
from campaign.case import Case, StandaloneCase
from campaign.machine import Machine
from campaign.processes import Processes
from campaign.runner import ALONE, REST, Shared, learn, run, run_standalone, scenarios_of
from campaign.sets import ON_CLUSTER, SETS, cluster_cases, standalone_cases
from campaign.sets.soak import SoakSize
from campaign.violation import ViolationError
from kaiwo_sandbox.sandbox import Sandbox

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from campaign.case import Result

AnyCase = TypeVar("AnyCase", Case, StandaloneCase)

_THREADS: Final = 256
"""Enough for every operator at once. Python has four more than cores, which would be waited for."""

_REPORTED: Final = 60.0
"""Seconds between two lines about the progress."""


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class _Results:
    """What became of the cases so far; each is printed when it has ended."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Keep the options, which a failed case is run with again."""
        self.all: list[Result] = []
        self._options = options

    def __call__(self, result: Result) -> None:
        """Print a result, and keep it."""
        self.all.append(result)
        if result.oracle:
            _say(f"FAILED {result.case} {result.oracle}: {result.message}")
            _say(f"hint: run it again with {report.command(str(result.case), self._options)}")
        elif not result.run:
            _say(f"not run {result.case}: {result.message}")
        else:
            _say(f"ok {result.case} {result.seconds:.1f} s")


def _chosen(cases: Sequence[AnyCase], options: argparse.Namespace) -> list[AnyCase]:
    """The cases to run: those named, or as many of each set as are wanted, chosen by the seed."""
    if options.only:
        return [
            case
            for case in cases
            if any(str(case) == name or fnmatchcase(str(case), name) for name in options.only)
        ]
    found: list[AnyCase] = []
    for letter in options.sets:
        of_set = [case for case in cases if case.set == letter]
        if options.size and len(of_set) > options.size:
            of_set = random.Random(f"{options.seed}-{letter}").sample(of_set, options.size)  # noqa: S311  no secret
        found += of_set
    return found


async def _on_cluster(
    sandbox: Sandbox, options: argparse.Namespace, results: _Results, machine: Machine
) -> None:
    scenarios = scenarios_of(options.scenario)
    async with Cluster(sandbox) as cluster:
        async with Shared(cluster) as shared:
            await learn(cluster, shared, scenarios)
            cases = _chosen(list(cluster_cases(cluster, scenarios, options.seed)), options)
            together = [case for case in cases if not case.own]
            alone = [case for case in cases if case.own]
            _say(f"{len(together)} cases with one operator, {len(alone)} with their own, seed {options.seed}")
            await run(cluster, shared, together, results, rest=options.rest, machine=machine)
        await run(cluster, None, alone, results, rest=options.rest, machine=machine)


async def _with_sandbox(options: argparse.Namespace, results: _Results, machine: Machine) -> None:
    """The cases in namespaces of one control plane."""
    named = Sandbox.find(options.sandbox) if options.sandbox else None
    up = partial(Sandbox.up, f"campaign-{os.getpid()}", addons=ADDONS, owned=True, progress=_say)
    starting = asyncio.ensure_future(asyncio.to_thread(up)) if named is None else None
    try:
        started = named if starting is None else await asyncio.shield(starting)
        assert started is not None  # noqa: S101  it was found when the options were read
        await _on_cluster(started, options, results, machine)
    finally:
        if starting is not None:
            await asyncio.to_thread((await starting).down)


async def _campaign(options: argparse.Namespace, results: _Results, machine: Machine) -> None:
    """Run all cases: those that need nothing of the campaign's control plane beside the others."""
    # Each waits for a line of a log, or for the end of a process, in a thread.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS))
    soaking = SoakSize(options.minutes, options.objects)
    source = partial(standalone_cases, options.seed, soaking, options.earlier)
    standalone = _chosen(list(source()), options)
    run_beside = partial(
        run_standalone,
        report=results,
        at_once=options.at_once,
        machine=machine,
        carry_out=Processes(source, options.evidence),
    )
    task = asyncio.current_task()
    assert task is not None  # noqa: S101  this is one
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with machine, _progress(results, machine):
        async with asyncio.TaskGroup() as tasks:
            if ON_CLUSTER.intersection(options.sets):
                tasks.create_task(_with_sandbox(options, results, machine))
            tasks.create_task(run_beside([case for case in standalone if not case.exclusive]))
        for case in standalone:
            if case.exclusive:
                await run_beside([case])


@contextlib.asynccontextmanager
async def _progress(results: _Results, machine: Machine) -> AsyncIterator[None]:
    """Say every minute how far the campaign is, and how much of the machine was idle meanwhile."""

    async def tell() -> None:
        while True:
            await asyncio.sleep(_REPORTED)
            _say(f"{len(results.all)} cases have ended, {machine.running} run; {machine}")

    task = asyncio.create_task(tell())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def main() -> int:
    """Run the campaign; 1 when a case failed, 2 when it could not begin."""
    parser = argparse.ArgumentParser(prog="python -m campaign", description="Faults on a real control plane.")
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"any of {', '.join(SETS)}; default all")
    parser.add_argument("--seed", type=int, default=1, help="chooses cases and random steps (default: 1)")
    parser.add_argument("--size", type=int, default=0, help="at most so many cases of each set")
    parser.add_argument("--scenario", action="append", default=[], help="only this scenario; repeatable")
    parser.add_argument(
        "--only", action="append", default=[], metavar="CASE", help="this case, or those of a pattern with *"
    )
    parser.add_argument(
        "--rest", type=float, default=REST, help="seconds without a write after sets C to F (default: 60)"
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="length of set O (default: 10)")
    parser.add_argument("--objects", type=int, default=300, help="workloads of set O (default: 300)")
    parser.add_argument(
        "--earlier",
        default="",
        metavar="COMMIT",
        help="the earlier version of set U (default: the last release)",
    )
    parser.add_argument(
        "--at-once",
        type=int,
        default=ALONE,
        metavar="N",
        help=f"cases at the same time of sets that need no namespace of the campaign's (default: {ALONE})",
    )
    parser.add_argument(
        "--evidence",
        type=Path,
        metavar="DIRECTORY",
        help="keeps the logs and requests of failed cases that have a control plane of their own",
    )
    parser.add_argument("--sandbox", help="name of a running sandbox with all addons, which is kept")
    options = parser.parse_args()
    options.sets = options.sets or list(SETS)
    if unknown := sorted(set(options.sets) - set(SETS)):
        parser.error(f"no set {', '.join(unknown)}; there are {', '.join(SETS)}")
    if options.at_once < 1:
        parser.error("--at-once has to be at least 1")
    if options.sandbox and Sandbox.find(options.sandbox) is None:
        parser.error(f'sandbox "{options.sandbox}" is not running')
    if options.only:
        options.sets = sorted({name.partition("/")[0] for name in options.only})
    results, machine = _Results(options), Machine()
    code = 0
    try:
        asyncio.run(_campaign(options, results, machine))
    except (KeyboardInterrupt, asyncio.CancelledError):
        _say("interrupted")
        code = 130
    except ExceptionGroup as failed:
        violations, others = failed.split(ViolationError)
        if others is not None or violations is None:
            raise
        _say(f"error: a scenario does not run without a fault: {violations.exceptions[0]}")
        code = 2
    _say(report.table(results.all, options.seed, machine.began, machine.seconds))
    _say(str(machine))
    return code or int(any(result.oracle for result in results.all))


if __name__ == "__main__":
    sys.exit(main())
