"""``python -m campaign [SET…]``: run sets of faults and print what failed."""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import sys
import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from campaign import report
from campaign.arena import ADDONS, Cluster
from campaign.case import Case, StandaloneCase
from campaign.runner import ALONE, REST, Shared, learn, run, run_standalone, scenarios_of
from campaign.sets import ON_CLUSTER, SETS, cluster_cases, standalone_cases
from campaign.sets.soak import SoakSize
from campaign.violation import ViolationError
from kaiwo_sandbox.sandbox import Sandbox

if TYPE_CHECKING:
    from collections.abc import Sequence

    from campaign.case import Result

AnyCase = TypeVar("AnyCase", Case, StandaloneCase)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _told(result: Result) -> None:
    if result.oracle:
        _say(f"FAILED {result.case} {result.oracle}: {result.message}")
    elif not result.run:
        _say(f"not run {result.case}: {result.message}")
    else:
        _say(f"ok {result.case} {result.seconds:.1f} s")


def _chosen(cases: Sequence[AnyCase], options: argparse.Namespace) -> list[AnyCase]:
    """The cases to run: those named, or as many of each set as are wanted, chosen by the seed."""
    if options.only:
        return [case for case in cases if any(fnmatchcase(str(case), name) for name in options.only)]
    found: list[AnyCase] = []
    for letter in options.sets:
        of_set = [case for case in cases if case.set == letter]
        if options.size and len(of_set) > options.size:
            of_set = random.Random(f"{options.seed}-{letter}").sample(of_set, options.size)  # noqa: S311  no secret
        found += of_set
    return found


async def _on_cluster(sandbox: Sandbox, options: argparse.Namespace) -> list[Result]:
    scenarios = scenarios_of(options.scenario)
    results: list[Result] = []
    async with Cluster(sandbox) as cluster:
        async with Shared(cluster) as shared:
            await learn(cluster, shared, scenarios)
            cases = _chosen(list(cluster_cases(cluster, scenarios, options.seed)), options)
            _say(f"{len(cases)} cases, seed {options.seed}")
            together = [case for case in cases if not case.own]
            results += await run(cluster, shared, together, _told, options.rest)
        alone = [case for case in cases if case.own]
        results += await run(cluster, None, alone, _told, options.rest)
    return results


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
    if options.only:
        options.sets = sorted({name.partition("/")[0] for name in options.only})
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    soaking = SoakSize(options.minutes, options.objects)
    began = time.monotonic()
    results = asyncio.run(
        run_standalone(
            _chosen(list(standalone_cases(options.seed, soaking, options.earlier)), options),
            _told,
            at_once=options.at_once,
            evidence=options.evidence,
        )
    )
    if ON_CLUSTER.intersection(options.sets):
        named = Sandbox.find(options.sandbox) if options.sandbox else None
        if options.sandbox and named is None:
            parser.error(f'sandbox "{options.sandbox}" is not running')
        started = named or Sandbox.up("campaign", addons=ADDONS, owned=True, progress=_say)
        try:
            results += asyncio.run(_on_cluster(started, options))
        except ViolationError as failed:
            _say(f"error: a scenario does not run without a fault: {failed}")
            return 2
        finally:
            if named is None:
                started.down()
    _say(report.table(results, options.seed, time.monotonic() - began))
    return int(any(result.oracle for result in results))


if __name__ == "__main__":
    sys.exit(main())
