"""Sets C and D: the operator is killed between any two writes, and once more while it recovers."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import TYPE_CHECKING

from campaign import oracles
from campaign.case import Case, ViolationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from campaign.arena import Arena, Cluster
    from campaign.scenarios import Scenario

DOUBLE = 100
"""Cases of set D."""


def crashes(cluster: Cluster, scenarios: Sequence[Scenario]) -> Iterator[Case]:
    """Set C: before each write of each scenario, and after it was carried out without an answer."""
    for scenario in scenarios:
        for number in range(1, len(cluster.references[scenario.name].writes) + 1):
            for lost in (False, True):
                name = f"{scenario.name}-{number}-{'unanswered' if lost else 'before'}"
                yield Case("C", name, partial(_run, scenario, [(number, lost)]), own=True)


def double_crashes(cluster: Cluster, scenarios: Sequence[Scenario], seed: int) -> Iterator[Case]:
    """Set D: a crash, and a second one at a random write of the recovery."""
    chosen = random.Random(f"{seed}-D")  # noqa: S311  no secret
    for index in range(DOUBLE):
        scenario = chosen.choice(scenarios)
        most = len(cluster.references[scenario.name].writes)
        first, lost = chosen.randint(1, most), chosen.choice((False, True))
        # The recovery has at least the write that was stopped.
        second = (chosen.randint(1, max(1, most - first)), chosen.choice((False, True)))
        name = f"{scenario.name}-{index:03d}"
        yield Case("D", name, partial(_run, scenario, [(first, lost), second]), own=True)


async def _run(scenario: Scenario, crashes: Sequence[tuple[int, bool]], arena: Arena) -> None:
    """Crash at writes, start again, and compare the end with a run without crash.

    Args:
        scenario: whose workload runs.
        crashes: of each crash the number of the write, and whether it is carried out.
        arena: of the case.
    """
    within = f"/namespaces/{arena.namespace}/(?!events)"
    submitted = False
    for number, lost in crashes:
        happened = arena.proxy.crash_after(number if lost else number - 1, lose_answer=lost, path=within)
        operator = await arena.start_operator()
        if not submitted:
            await arena.submit(scenario)
            submitted = True
        try:
            await asyncio.wait_for(happened.wait(), 60)
        except TimeoutError:
            raise ViolationError("fault", f"write {number} never came: {arena.writes()}") from None
        await asyncio.to_thread(operator.kill)
        oracles.no_traceback(operator)
        arena.proxy.clear()
    await arena.start_operator()
    await arena.reaches(scenario)
    await oracles.all_of(arena, scenario, rest=2.0)
