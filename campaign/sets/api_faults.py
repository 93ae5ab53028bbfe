"""Set F: the API server answers the operator badly, or not at all; once, or for a minute."""

from __future__ import annotations

import asyncio
import random
import re
from functools import partial
from typing import TYPE_CHECKING, Final

from campaign import oracles
from campaign.case import Case
from campaign.own import came
from campaign.violation import ViolationError
from kaiwo.workload.plans.blocked import REJECTED_RETRY_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from campaign.arena import Arena, Cluster
    from campaign.scenarios import Scenario
    from kaiwo.testing.faults import Fault

FAULTS: Final[dict[str, Callable[..., Fault]]] = {
    "409": lambda proxy, times=1, **where: proxy.answer(409, times=times, **where),
    "422": lambda proxy, times=1, **where: proxy.answer(422, times=times, **where),
    "429": lambda proxy, times=1, **where: proxy.answer(429, retry_after=1, times=times, **where),
    "500": lambda proxy, times=1, **where: proxy.answer(500, times=times, **where),
    "503": lambda proxy, times=3, **where: proxy.answer(503, times=times, **where),
    "slow": lambda proxy, times=1, **where: proxy.delay(5.0, times=times, **where),
    "reset": lambda proxy, times=1, **where: proxy.reset(times=times, **where),
    "lost-answer": lambda proxy, times=1, **where: proxy.lose_answer(times=times, **where),
    "half-answer": lambda proxy, times=1, **where: proxy.cut_answer(times=times, **where),
}
"""By name: what befalls one request, or as many as are given."""

_REJECTED: Final = "422"
"""Sent again at once it would be rejected again, so Kaiwo waits for a minute."""

_FOR_A_MINUTE: Final = tuple(name for name in FAULTS if name != "slow")
_MINUTE: Final = 60.0
_MOST_TRIES: Final = 30
"""Requests of one kind within the first minute of failures. Pauses double from 0.05 s, and are up to half as
long by jitter, which makes 12. The first try is four requests, and each change of the child brings a further
one: up to 22 were counted for Ray workloads with a queue or a download."""

_LASTING: Final = 2
"""Scenarios for each fault that lasts for a minute."""

_KINDS: Final = {
    "kaiwojobs": "job",
    "kaiwoservices": "serve",
    "jobs": "job",
    "deployments": "serve",
    "rayjobs": "rayjob",
    "rayservices": "rayserve",
    "pods": "job",
    "nodes": "job",
    "persistentvolumeclaims": "job",
    "kaiwoconfigs": "job",
}
"""Kinds that an operator reads, each with a backend whose workloads need it."""

_READS: Final = {
    "GET": ("429", "500", "503", "slow", "reset", "half-answer"),
    "WATCH": ("429", "500", "503", "slow", "reset"),
}
"""By method: what can befall a list and a watch."""

_READ_CASES: Final = 60


def cases(cluster: Cluster, scenarios: Sequence[Scenario], seed: int) -> Iterator[Case]:
    """A case for each writing request of each scenario, and each fault; and others that the seed chooses."""
    for scenario in scenarios:
        for method, path in sorted(set(cluster.references[scenario.name].writes)):
            for fault in FAULTS:
                target = path.rpartition("{namespace}/")[2].replace("/", ".")
                name = f"{scenario.name}-{method.lower()}-{target}-{fault}"
                yield Case("F", name, partial(_run, scenario, method, path, fault), rests=True)
    chosen = random.Random(f"{seed}-F")  # noqa: S311  no secret
    for fault in _FOR_A_MINUTE:
        for scenario in chosen.sample(list(scenarios), min(_LASTING, len(scenarios))):
            run = partial(_lasting, scenario, fault)
            yield Case("F", f"{scenario.name}-for-a-minute-{fault}", run, own=True, rests=True)
    yield from _reads(scenarios, chosen)


def _reads(scenarios: Sequence[Scenario], chosen: random.Random) -> Iterator[Case]:
    every = [(kind, method, fault) for kind in _KINDS for method in _READS for fault in _READS[method]]
    for kind, method, fault in sorted(chosen.sample(every, _READ_CASES)):
        fitting = [each for each in scenarios if each.name.partition("-")[0] == _KINDS[kind]]
        if fitting:
            run = partial(_read, chosen.choice(fitting), kind, method, fault)
            yield Case("F", f"{method.lower()}-{kind}-{fault}", run, own=True, rests=True)


async def _run(scenario: Scenario, method: str, path: str, name: str, arena: Arena) -> None:
    fault = FAULTS[name](arena.proxy, method=method, path=_exact(path, arena))
    await arena.submit(scenario)
    await came(fault)
    await arena.reaches(scenario, pause=REJECTED_RETRY_SECONDS if name == _REJECTED else 0.0)
    await oracles.all_of(arena, scenario, rest=2.0)


async def _lasting(scenario: Scenario, name: str, arena: Arena) -> None:
    """A write of one path fails for a minute. It is tried ever more seldom, and succeeds afterwards."""
    await arena.start_operator()
    method, path = arena.cluster.references[scenario.name].writes[0]
    exact = _exact(path, arena)
    fault = FAULTS[name](arena.proxy, times=None, method=method, path=exact)
    await arena.submit(scenario)
    await came(fault)
    await asyncio.sleep(_MINUTE)
    # Dry runs are sent for a cause, however many writes fail for it.
    tries = sum(
        record.method == method and bool(re.search(exact, record.path)) and "dryRun=All" not in record.query
        for record in arena.proxy.records
    )
    if tries > _MOST_TRIES:
        raise ViolationError("O6", f"{tries} requests {method} {exact} in {_MINUTE:g} s")
    arena.proxy.clear()
    await arena.reaches(scenario)
    await oracles.all_of(arena, scenario, rest=2.0)


async def _read(scenario: Scenario, kind: str, method: str, name: str, arena: Arena) -> None:
    """The first list or watch of a kind fails while the operator starts beside a workload that is there."""
    await arena.submit(scenario)
    fault = FAULTS[name](arena.proxy, method=method, path=f"/{kind}$")
    await arena.start_operator()
    await came(fault)
    await arena.reaches(scenario)
    await oracles.all_of(arena, scenario, rest=2.0)


def _exact(path: str, arena: Arena) -> str:
    return re.escape(path.replace("{namespace}", arena.namespace)) + "$"
