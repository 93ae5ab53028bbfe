"""Set E: the operator's view of the cluster is wrong for a while."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from campaign import oracles
from campaign.case import Case
from campaign.violation import ViolationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from campaign.arena import Arena
    from campaign.scenarios import Scenario
    from kaiwo.testing.faults import Fault

FAULTS: Final[dict[str, Callable[..., Fault]]] = {
    "dropped": lambda arena, event, path: arena.proxy.drop_event(event, path=path),
    "twice": lambda arena, event, path: arena.proxy.duplicate_event(event, path=path),
    "cut": lambda arena, event, path: arena.proxy.truncate_stream(event, path=path),
    "frozen": lambda arena, event, path: arena.proxy.stall_stream(event, path=path),
    "expired": lambda arena, event, path: arena.proxy.expire_stream(event, path=path),
}
"""By name: what becomes of an event, or of its stream."""

_CHILDREN: Final = {
    "job": "/jobs",
    "serve": "/deployments",
    "rayjob": "/rayjobs",
    "rayserve": "/(rayservices|appwrappers)",
}
_FROZEN: Final = 5.0


def cases(scenarios: Sequence[Scenario]) -> Iterator[Case]:
    """A case for each fault, at events about the workload, its child and its pods."""
    for scenario in scenarios:
        workload = "/kaiwojobs" if scenario.kind == "KaiwoJob" else "/kaiwoservices"
        child = _CHILDREN[scenario.name.partition("-")[0]]
        for path, event in (
            (workload, "ADDED"),
            (workload, "MODIFIED"),
            (child, "ADDED"),
            (child, "MODIFIED"),
        ):
            for fault in FAULTS:
                name = f"{scenario.name}-{path.strip('/(').split('|')[0]}-{event.lower()}-{fault}"
                yield Case("E", name, partial(_run, scenario, path, event, fault), own=True)


async def _run(scenario: Scenario, path: str, event: str, name: str, arena: Arena) -> None:
    await arena.start_operator()
    fault = FAULTS[name](arena, event, path + "$")
    await arena.submit(scenario)
    try:
        await fault.wait(60)
    except AssertionError as error:
        raise ViolationError("fault", str(error)) from None
    if name in {"frozen", "dropped"}:
        # Nothing but the next list shows what was swallowed. The API server ends a watch after minutes.
        await asyncio.sleep(_FROZEN)
        arena.proxy.clear()
        await arena.proxy.cut_watches()
    await arena.reaches(scenario)
    await oracles.all_of(arena, scenario, rest=2.0)
