"""Runs cases: first each scenario without a fault, then those that share an operator, then the others."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from campaign import oracles
from campaign.arena import PLUGINS, Arena, Reference
from campaign.case import Result, StandaloneCase
from campaign.scenarios import SCENARIOS
from campaign.violation import NotRunError, ViolationError
from kaiwo.engine.resource import NAMESPACE
from kaiwo.testing.fault_proxy import FaultProxy
from kaiwo.testing.operator import OperatorProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from campaign.arena import Cluster
    from campaign.case import Case
    from campaign.scenarios import Scenario

_CORES: Final = os.cpu_count() or 1

SHARING: Final = min(6 * _CORES, 24)
"""Cases at the same time with one operator: most of a case is waiting."""

ALONE: Final = min(2 * _CORES, 16)
"""Cases at the same time with an operator each, or without any. A start takes over a second of a core."""

_READS: Final = 10
_BETWEEN: Final = 3.0
_LONGEST: Final = 240.0
"""Seconds after which a case has failed."""


class Shared:
    """The operator that cases share. Use as an asynchronous context manager.

    Attributes:
        proxy: between it and the API server.
        operator: the running process.
    """

    def __init__(self, cluster: Cluster) -> None:
        """Name the control plane."""
        self._cluster = cluster
        self.proxy = FaultProxy(cluster.connection)

    async def __aenter__(self) -> Self:
        """Start it."""
        await self.proxy.__aenter__()
        self.operator = OperatorProcess(
            kubeconfig=self.proxy.write_kubeconfig(self._cluster.directory / "shared.yaml"),
            plugins=PLUGINS,
            lease_name="campaign",
            leader_election=False,
        ).start()
        await asyncio.to_thread(self.operator.wait_ready)
        return self

    async def __aexit__(self, *exc: object) -> None:
        """End it."""
        await asyncio.to_thread(self.operator.close)
        await self.proxy.__aexit__(RuntimeError)  # each case has checked that its faults took place


async def learn(cluster: Cluster, shared: Shared, scenarios: Sequence[Scenario]) -> None:
    """Run scenarios without a fault, and keep what they come to as references.

    Raises:
        ViolationError: one does not come to its end.
    """

    async def one(scenario: Scenario) -> None:
        async with _arena(cluster, f"clean-{scenario.name}", shared) as arena:
            await arena.submit(scenario)
            await arena.reaches(scenario)
            await oracles.at_rest(arena, 2.0)
            cluster.references[scenario.name] = Reference(
                children=await _settled(arena),
                writes=arena.writes(),
            )

    limit = asyncio.Semaphore(SHARING)

    async def limited(scenario: Scenario) -> None:
        async with limit:
            await one(scenario)

    ended = await asyncio.gather(*(limited(scenario) for scenario in scenarios), return_exceptions=True)
    for error in filter(None, ended):
        raise error


async def _settled(arena: Arena) -> dict[str, Any]:
    """What Kaiwo made, once the other controllers have written into it what they write."""
    found = await arena.made()
    for _ in range(_READS):
        await asyncio.sleep(_BETWEEN)
        before, found = found, await arena.made()
        if before == found:
            return found
    raise ViolationError("O2", f"{arena.namespace}: what was made still changes")


@contextlib.asynccontextmanager
async def own_operator(cluster: Cluster, namespace: str) -> AsyncIterator[Arena]:
    """Room for an operator of one case, with a proxy of its own; the case starts it, and it is ended here.

    Args:
        cluster: the control plane.
        namespace: of the case.
    """
    async with FaultProxy(cluster.connection) as proxy:
        arena = Arena(cluster, namespace, proxy)
        try:
            yield arena
        finally:
            proxy.clear()
            if arena.operator is not None:
                await asyncio.to_thread(arena.operator.close)


@contextlib.asynccontextmanager
async def _arena(cluster: Cluster, stem: str, shared: Shared | None) -> AsyncIterator[Arena]:
    """A namespace of one case; without a shared operator with a proxy of its own."""
    namespace = await cluster.namespace(stem)
    try:
        if shared is not None:
            yield Arena(cluster, namespace, shared.proxy, shared.operator)
            return
        async with own_operator(cluster, namespace) as arena:
            yield arena
    finally:
        await cluster.client.delete(NAMESPACE, None, namespace)


async def run(
    cluster: Cluster, shared: Shared | None, cases: Sequence[Case], told: Callable[[Result], None]
) -> list[Result]:
    """Run cases that are alike in whether they share an operator.

    Args:
        cluster: the control plane.
        shared: their operator; None for cases with one of their own.
        cases: to run.
        told: called with each result.
    """
    limit = asyncio.Semaphore(SHARING if shared else ALONE)

    async def together(cases: Sequence[Case]) -> list[Result]:
        async with limit, contextlib.AsyncExitStack() as stack:
            arenas: list[Arena] = []

            async def carried_out(case: Case) -> None:
                if not arenas:
                    space = _arena(cluster, f"{case.set}-{case.group or case.name}", shared)
                    arenas.append(await stack.enter_async_context(space))
                await case.run(arenas[0])
                if case is cases[-1]:
                    await stack.aclose()

            return [await _judged(case, carried_out(case), told) for case in cases]

    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(f"{case.set}/{case.group or case.name}", []).append(case)
    results = await asyncio.gather(*(together(cases) for cases in groups.values()))
    return [result for of_group in results for result in of_group]


async def run_standalone(cases: Sequence[StandaloneCase], told: Callable[[Result], None]) -> list[Result]:
    """Run cases that need nothing of the campaign's control plane, the exclusive ones at the end.

    Args:
        cases: to run.
        told: called with each result.
    """
    limit = asyncio.Semaphore(ALONE)

    async def carried_out(case: StandaloneCase) -> None:
        with tempfile.TemporaryDirectory(prefix="kaiwo-campaign-") as directory:
            await case.run(Path(directory))

    async def one(case: StandaloneCase) -> Result:
        async with limit:
            return await _judged(case, carried_out(case), told)

    together = [case for case in cases if not case.exclusive]
    results = list(await asyncio.gather(*(one(case) for case in together)))
    results += [await one(case) for case in cases if case.exclusive]
    return results


async def _judged(
    case: Case | StandaloneCase, run: Awaitable[None], told: Callable[[Result], None]
) -> Result:
    began = time.monotonic()
    oracle = message = ""
    done = True
    longest = case.seconds if isinstance(case, StandaloneCase) else _LONGEST
    try:
        async with asyncio.timeout(longest):
            await run
    except ViolationError as error:
        oracle, message = error.oracle, str(error)
    except NotRunError as error:
        done, message = False, str(error)
    except TimeoutError:
        oracle, message = "O6", f"did not end within {longest:g} s"
    except Exception as error:  # noqa: BLE001  a case that fails must not end the others
        oracle, message = "error", f"{type(error).__name__}: {error}"
    result = Result(case, time.monotonic() - began, oracle, message, done)
    told(result)
    return result


def scenarios_of(names: Sequence[str]) -> list[Scenario]:
    """The scenarios with some names; all of them for no name."""
    return [scenario for name, scenario in SCENARIOS.items() if not names or name in names]
