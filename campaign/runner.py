"""Runs cases: first each scenario without a fault, then those that share an operator, then the others."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any, Final, Self

from campaign import oracles
from campaign.arena import PLUGINS, Arena, Reference
from campaign.case import Result, ViolationError
from campaign.scenarios import SCENARIOS
from kaiwo.engine.resource import NAMESPACE
from kaiwo.testing.fault_proxy import FaultProxy
from kaiwo.testing.operator import OperatorProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from campaign.arena import Cluster
    from campaign.case import Case
    from campaign.scenarios import Scenario

SHARING: Final = 6
"""Cases at the same time with one operator."""

ALONE: Final = 2
"""Cases at the same time with an operator each."""

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
async def _arena(cluster: Cluster, stem: str, shared: Shared | None) -> AsyncIterator[Arena]:
    """A namespace of one case; without a shared operator with a proxy of its own."""
    namespace = await cluster.namespace(stem)
    try:
        if shared is not None:
            yield Arena(cluster, namespace, shared.proxy, shared.operator)
            return
        async with FaultProxy(cluster.connection) as proxy:
            arena = Arena(cluster, namespace, proxy)
            try:
                yield arena
            finally:
                proxy.clear()
                if arena.operator is not None:
                    await asyncio.to_thread(arena.operator.close)
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

    results: list[Result] = []

    def ended(case: Case, began: float, oracle: str, message: str) -> None:
        results.append(Result(case, time.monotonic() - began, oracle, message))
        told(results[-1])

    async def together(cases: Sequence[Case]) -> None:
        async with (
            limit,
            _arena(cluster, f"{cases[0].set}-{cases[0].group or cases[0].name}", shared) as arena,
        ):
            for case in cases:
                ended(case, time.monotonic(), *await _verdict(case, arena))

    async def group(cases: Sequence[Case]) -> None:
        began = time.monotonic()
        try:
            await together(cases)
        except Exception as error:  # noqa: BLE001  what surrounds a case must not end the others
            for case in cases:
                if not any(result.case is case for result in results):
                    ended(case, began, "error", f"{type(error).__name__}: {error}")

    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(f"{case.set}/{case.group or case.name}", []).append(case)
    await asyncio.gather(*(group(cases) for cases in groups.values()))
    return results


async def _verdict(case: Case, arena: Arena) -> tuple[str, str]:
    """The oracle that does not hold after a case, and what was found; both empty when all hold."""
    try:
        async with asyncio.timeout(_LONGEST):
            await case.run(arena)
    except ViolationError as error:
        return error.oracle, str(error)
    except TimeoutError:
        return "O6", f"did not end within {_LONGEST:g} s"
    except Exception as error:  # noqa: BLE001  a case that fails must not end the others
        return "error", f"{type(error).__name__}: {error}"
    return "", ""


def scenarios_of(names: Sequence[str]) -> list[Scenario]:
    """The scenarios with some names; all of them for no name."""
    return [scenario for name, scenario in SCENARIOS.items() if not names or name in names]
