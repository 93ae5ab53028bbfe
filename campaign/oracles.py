"""Statements that hold after every case; each raises a `ViolationError` when it does not."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Final

from campaign.children import KINDS, differences
from campaign.scenarios import CANARY
from campaign.violation import ViolationError
from kaiwo.api.crds import WORKLOADS
from kaiwo.engine.errors import NotFound
from kaiwo.engine.resource import EVENT, POD

if TYPE_CHECKING:
    from campaign.arena import Arena, Cluster
    from campaign.scenarios import Scenario
    from kaiwo.testing.operator import OperatorProcess

MOST_REQUESTS: Final = 300
"""Writing requests of one case, with the tries that failed. A workload needs about ten."""

_SETTLE: Final = 20.0
_PAUSE: Final = 0.5
_STEP: Final = 0.25


async def same_as_without_fault(arena: Arena, scenario: Scenario) -> None:
    """O1, O3, O4: what was made is what a run without a fault makes; nothing more, nothing twice."""
    wanted = arena.cluster.references[scenario.name]
    for _ in range(int(_SETTLE / _PAUSE)):
        found = differences(wanted.children, await arena.made())
        if not found:
            return
        await asyncio.sleep(_PAUSE)
    raise ViolationError("O4", "; ".join(found[:5]))


async def truthful(arena: Arena, scenario: Scenario) -> None:
    """O5: the status is about the present generation, and no terminal status was left."""
    obj = await arena.client.get(WORKLOADS[scenario.kind], arena.namespace, scenario.name)
    status, generation = obj.get("status") or {}, obj["metadata"]["generation"]
    if status.get("observedGeneration") != generation:
        raise ViolationError("O5", f"observedGeneration {status.get('observedGeneration')}, not {generation}")
    if left := arena.cluster.left.get(f"{arena.namespace}/{scenario.name}"):
        raise ViolationError("O5", f"a terminal status was left: {left}")


def nothing_else_deleted(arena: Arena, scenario: Scenario) -> None:
    """O3: nothing was deleted but what a run without a fault deletes."""
    wanted = arena.cluster.references[scenario.name].writes
    more = [path for method, path in arena.writes() if method == "DELETE" and (method, path) not in wanted]
    if more:
        raise ViolationError("O3", f"deleted: {', '.join(more[:5])}")


def bounded(arena: Arena) -> None:
    """O6: not more requests than an ordinary workload with a few repetitions needs."""
    count = len(arena.writes())
    if count > MOST_REQUESTS:
        raise ViolationError("O6", f"{count} writing requests, more than {MOST_REQUESTS}")


def no_traceback(operator: OperatorProcess) -> None:
    """O6: no exception that nobody expected."""
    for line in operator.lines:
        if "Traceback (most recent call last)" in line:
            raise ViolationError("O6", f"the operator logged a traceback:\n{operator.log[-3000:]}")


async def at_rest(arena: Arena, seconds: float, within: float = _SETTLE) -> None:
    """O2: once what was created has settled, nothing is written for it.

    Args:
        arena: the case's.
        seconds: without a write that count as rest.
        within: seconds until it has to have settled.

    Raises:
        ViolationError: it has not.
    """
    loop = asyncio.get_running_loop()
    before = arena.writes()
    since, end = loop.time(), loop.time() + within
    while loop.time() - since < seconds:
        await asyncio.sleep(_STEP)
        if more := arena.writes()[len(before) :]:
            before, since = arena.writes(), loop.time()
            if since > end:
                raise ViolationError("O2", f"written at rest: {more[:5]}")


async def queue_empty(arena: Arena) -> None:
    """O6: no key waits for the operator of the case, which is at rest."""
    if arena.operator is None:
        return
    for _ in range(int(_SETTLE / _PAUSE)):
        metrics = await asyncio.to_thread(arena.operator.metrics)
        depth = sum(value for name, value in metrics.items() if name.startswith("workqueue_depth"))
        if not depth:
            return
        await asyncio.sleep(_PAUSE)
    raise ViolationError("O6", f"{depth:g} keys wait at rest")


async def no_secret_shown(cluster: Cluster, namespace: str, log: str) -> None:
    """O7: the value of a Secret is in no object but the Secret, and in no log."""
    if CANARY in log:
        raise ViolationError("O7", "the operator logged the value of a Secret")
    for kind in (*WORKLOADS.values(), *KINDS, EVENT, POD):
        try:
            async for obj in cluster.client.list(kind, namespace):
                if CANARY in json.dumps(obj):
                    raise ViolationError(
                        "O7", f"{kind} {obj['metadata']['name']} shows the value of a Secret"
                    )
        except NotFound:
            continue


async def all_of(arena: Arena, scenario: Scenario, rest: float) -> None:
    """Every oracle that holds for the workload of a scenario that has reached its end.

    Args:
        arena: the case's.
        scenario: whose workload was created.
        rest: seconds to look for writes.

    Raises:
        ViolationError: one does not hold.
    """
    await same_as_without_fault(arena, scenario)
    await truthful(arena, scenario)
    await at_rest(arena, rest)
    nothing_else_deleted(arena, scenario)
    bounded(arena)
    log = arena.operator.log if arena.operator else ""
    await no_secret_shown(arena.cluster, arena.namespace, log)
    if arena.operator:
        no_traceback(arena.operator)
