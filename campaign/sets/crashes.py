"""Sets C and D: the operator is killed between any two writes, and once more while it recovers."""

from __future__ import annotations

import asyncio
import random
import re
from functools import partial
from typing import TYPE_CHECKING, Final

from campaign import oracles
from campaign.case import Case
from campaign.violation import ViolationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from campaign.arena import Arena, Cluster
    from campaign.scenarios import Scenario

DOUBLE: Final = 100
"""Cases of set D."""


ANY: Final = ""
"""In place of a path: any write."""


def crashes(cluster: Cluster, scenarios: Sequence[Scenario]) -> Iterator[Case]:
    """Set C: before the first write to each path, and after it was carried out without an answer.

    How many writes there are depends on how fast the nodes are: statuses that follow each other quickly are
    written as one. The first to each path comes in every run.
    """
    for scenario in scenarios:
        for path in _paths(cluster, scenario):
            for carried_out in (False, True):
                target = path.rpartition("{namespace}/")[2].replace("/", ".")
                name = f"{scenario.name}-{target}-{'unanswered' if carried_out else 'before'}"
                yield Case("C", name, partial(_run, scenario, [(path, carried_out)]), own=True, rests=True)


def double_crashes(cluster: Cluster, scenarios: Sequence[Scenario], seed: int) -> Iterator[Case]:
    """Set D: a crash at a random path, and a second one at the first write of the recovery."""
    chosen = random.Random(f"{seed}-D")  # noqa: S311  no secret
    for index in range(DOUBLE):
        scenario = chosen.choice(scenarios)
        path = chosen.choice(_paths(cluster, scenario))
        both = [(where, chosen.choice((False, True))) for where in (path, ANY)]
        yield Case("D", f"{scenario.name}-{index:03d}", partial(_run, scenario, both), own=True, rests=True)


def _paths(cluster: Cluster, scenario: Scenario) -> list[str]:
    return sorted({path for _, path in cluster.references[scenario.name].writes})


async def _run(scenario: Scenario, crashes: Sequence[tuple[str, bool]], arena: Arena) -> None:
    """Crash at writes, start again, and compare the end with a run without crash.

    Args:
        scenario: whose workload runs.
        crashes: of each crash the path of the write, and whether it is carried out.
        arena: of the case.
    """
    inside = f"/namespaces/{arena.namespace}/"
    submitted = False
    for path, carried_out in crashes:
        exact = re.escape(path.replace("/namespaces/{namespace}/", inside)) + "$"
        where = f"{inside}(?!events)" if path == ANY else exact
        happened = arena.proxy.crash_after(int(carried_out), lose_answer=carried_out, path=where)
        operator = await arena.start_operator()
        if not submitted:
            await arena.submit(scenario)
            submitted = True
        try:
            await asyncio.wait_for(happened.wait(), 60)
        except TimeoutError:
            raise ViolationError("fault", f"no write to {where}: {arena.writes()}") from None
        await asyncio.to_thread(operator.kill)
        oracles.no_traceback(operator)
        arena.proxy.clear()
    await arena.start_operator()
    await arena.reaches(scenario)
    await oracles.all_of(arena, scenario, rest=2.0)
