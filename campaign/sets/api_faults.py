"""Set F: the API server answers a request of the operator badly, or not at all."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from campaign import oracles
from campaign.case import Case
from campaign.violation import ViolationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from campaign.arena import Arena, Cluster
    from campaign.scenarios import Scenario
    from kaiwo.testing.faults import Fault

FAULTS: Final[dict[str, Callable[[Arena, str, str], Fault]]] = {
    "409": lambda arena, method, path: arena.proxy.answer(409, method=method, path=path),
    "422": lambda arena, method, path: arena.proxy.answer(422, method=method, path=path),
    "429": lambda arena, method, path: arena.proxy.answer(429, method=method, path=path, retry_after=1),
    "500": lambda arena, method, path: arena.proxy.answer(500, method=method, path=path),
    "503": lambda arena, method, path: arena.proxy.answer(503, method=method, path=path, times=3),
    "slow": lambda arena, method, path: arena.proxy.delay(5.0, method=method, path=path),
    "reset": lambda arena, method, path: arena.proxy.reset(method=method, path=path),
    "lost-answer": lambda arena, method, path: arena.proxy.lose_answer(method=method, path=path),
}
"""By name: what befalls one request."""


def cases(cluster: Cluster, scenarios: Sequence[Scenario]) -> Iterator[Case]:
    """A case for each writing request of each scenario, and each fault."""
    for scenario in scenarios:
        for method, path in sorted(set(cluster.references[scenario.name].writes)):
            for fault in FAULTS:
                target = path.rpartition("{namespace}/")[2].replace("/", ".")
                name = f"{scenario.name}-{method.lower()}-{target}-{fault}"
                yield Case("F", name, partial(_run, scenario, method, path, fault))


async def _run(scenario: Scenario, method: str, path: str, name: str, arena: Arena) -> None:
    exact = re.escape(path.replace("{namespace}", arena.namespace)) + "$"
    fault = FAULTS[name](arena, method, exact)
    await arena.submit(scenario)
    try:
        await fault.wait(60)
    except AssertionError as error:
        raise ViolationError("fault", str(error)) from None
    await arena.reaches(scenario)
    await oracles.all_of(arena, scenario, rest=2.0)
