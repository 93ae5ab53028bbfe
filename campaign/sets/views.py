"""Set E: the operator's view of the cluster is wrong for a while."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from campaign import oracles
from campaign.case import Case
from campaign.own import came
from campaign.violation import ViolationError
from kaiwo.api.crds import WORKLOADS
from kaiwo.engine.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from campaign.arena import Arena
    from campaign.scenarios import Scenario
    from kaiwo.testing.faults import Fault


@dataclass(frozen=True, slots=True)
class ViewFault:
    """What becomes of an event, or of its stream.

    Attributes:
        strike: defines it, for an arena, the type of an event and the path of a watch.
        cases: so many of them are run, chosen by the seed; 0 for one at each event of each scenario.
        unseen: seconds, at least and at most, for which what was swallowed stays unseen.
        own_status: whether it is about the operator's own status writes only.
    """

    strike: Callable[..., Fault]
    cases: int = 0
    unseen: tuple[float, float] = (0.0, 0.0)
    own_status: bool = False


def _unanswered(arena: Arena, event: str, path: str) -> Fault:
    """The operator learns of its own status neither by the answer nor by the watch."""
    arena.proxy.lose_answer(method="PATCH", path="/status$")
    return arena.proxy.stall_stream(event, path=path)


FAULTS: Final[dict[str, ViewFault]] = {
    "dropped": ViewFault(lambda arena, event, path: arena.proxy.drop_event(event, path=path), unseen=(5, 5)),
    "frozen": ViewFault(
        lambda arena, event, path: arena.proxy.stall_stream(event, path=path), unseen=(5, 30)
    ),
    "expired": ViewFault(lambda arena, event, path: arena.proxy.expire_stream(event, path=path), 20),
    "cut": ViewFault(lambda arena, event, path: arena.proxy.truncate_stream(event, path=path), 20),
    "twice": ViewFault(lambda arena, event, path: arena.proxy.duplicate_event(event, path=path), 10),
    "reordered": ViewFault(
        lambda arena, event, path: arena.proxy.reorder_event(event, path=path), 10, (5, 5)
    ),
    "bookmarks-only": ViewFault(
        lambda arena, event, path: arena.proxy.blind_stream(event, path=path), 10, unseen=(5, 30)
    ),
    "unanswered": ViewFault(_unanswered, unseen=(5, 30), own_status=True),
}
"""By name."""

_CHILDREN: Final = {
    "job": "/jobs",
    "serve": "/deployments",
    "rayjob": "/rayjobs",
    "rayserve": "/(rayservices|appwrappers)",
}
_GONE: Final = 60.0
"""Seconds until nothing is left of a workload that was deleted."""

_REST: Final = 2.0


def cases(scenarios: Sequence[Scenario], seed: int) -> Iterator[Case]:
    """Cases of each fault, at events about the workload, its child and its pods."""
    every = [(scenario, path, event) for scenario in scenarios for path, event in _events(scenario)]
    for name, fault in FAULTS.items():
        chosen = random.Random(f"{seed}-E-{name}")  # noqa: S311  no secret
        there = [place for place in every if _is_own_status(*place)] if fault.own_status else every
        places = chosen.sample(there, min(fault.cases or len(there), len(there)))
        for scenario, path, event in sorted(places, key=every.index):
            unseen = chosen.uniform(*fault.unseen)
            strike = partial(fault.strike, event=event, path=f"{path}$")
            run = partial(_deleted if event == "DELETED" else _run, scenario, strike, unseen)
            short = path.strip("/(").split("|")[0]
            yield Case("E", f"{scenario.name}-{short}-{event.lower()}-{name}", run, own=True, rests=True)


def _events(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Path of a watch and type of an event."""
    workload = _workloads(scenario)
    child = _CHILDREN[scenario.name.partition("-")[0]]
    for path in (workload, child):
        yield path, "ADDED"
        yield path, "MODIFIED"
    yield "/pods", "MODIFIED"
    yield workload, "DELETED"


def _is_own_status(scenario: Scenario, path: str, event: str) -> bool:
    return event == "MODIFIED" and path == _workloads(scenario)


def _workloads(scenario: Scenario) -> str:
    return "/kaiwojobs" if scenario.kind == "KaiwoJob" else "/kaiwoservices"


async def _run(scenario: Scenario, strike: Callable[[Arena], Fault], unseen: float, arena: Arena) -> None:
    await arena.start_operator()
    fault = strike(arena)
    await arena.submit(scenario)
    await _healed(fault, unseen, arena)
    await arena.reaches(scenario)
    await oracles.all_of(arena, scenario, rest=_REST)


async def _deleted(scenario: Scenario, strike: Callable[[Arena], Fault], unseen: float, arena: Arena) -> None:
    """The workload is deleted, and the operator does not learn it at once; nothing of it stays or returns."""
    operator = await arena.start_operator()
    await arena.submit(scenario)
    await arena.reaches(scenario)
    fault = strike(arena)
    await arena.client.delete(WORKLOADS[scenario.kind], arena.namespace, scenario.name)
    await _healed(fault, unseen, arena)
    for _ in range(int(_GONE / _REST)):
        # An operator that did not see the end of a service replaces its child, which then goes as well.
        await oracles.at_rest(arena, _REST)
        left = await _left(arena, scenario)
        if not left:
            break
    else:
        raise ViolationError("O3", f"left of a workload that was deleted: {', '.join(left)}")
    oracles.bounded(arena)
    oracles.no_traceback(operator)


async def _left(arena: Arena, scenario: Scenario) -> list[str]:
    """What there still is of a workload that was deleted."""
    try:
        await arena.client.get(WORKLOADS[scenario.kind], arena.namespace, scenario.name)
    except NotFound:
        return sorted(await arena.made())
    return [scenario.name]


async def _healed(fault: Fault, unseen: float, arena: Arena) -> None:
    """Wait for the fault, and have what it swallowed listed again after some time."""
    await came(fault)
    if unseen:
        # Nothing but the next list shows what was swallowed. The API server ends a watch after minutes.
        await asyncio.sleep(unseen)
        arena.proxy.clear()
        await arena.proxy.cut_watches()
