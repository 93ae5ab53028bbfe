"""Runs cases: first each scenario without a fault, then those that share an operator, then the others."""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from campaign import oracles
from campaign.arena import PLUGINS, Arena, Reference
from campaign.judging import judged, judged_in_folder
from campaign.machine import CORES, Machine
from campaign.scenarios import SCENARIOS
from campaign.violation import ViolationError
from kaiwo.engine.resource import NAMESPACE
from kaiwo.testing.fault_proxy import FaultProxy
from kaiwo.testing.operator import OperatorProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from campaign.arena import Cluster
    from campaign.case import Case, Result, StandaloneCase
    from campaign.scenarios import Scenario

Item = TypeVar("Item")

PLACES: Final = min(20 * CORES, 48)
"""Of cases at the same time, at most: most of a case is waiting. `Machine` says when one may start. The nodes
of the campaign have 24 GPUs; more cases would wait for those of others."""

_ORDINARY: Final = 2
"""Places of a case."""

_SEVERAL: Final = 3
"""Places of a case whose own operator or operators have to keep times, such as that of a Lease."""

ALONE: Final = min(2 * CORES, 16)
"""Cases at the same time, at most, with a control plane each; and as many others that need none."""

RESTING: Final = max(1, min(24 * CORES, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 28))
"""Cases at the same time that have ended but for the watch for late writes. Each may have an operator, which
takes a hundred megabytes."""

_WORK_SHARED, _WORK_OWN, _WORK_PLANE, _WORK_PROGRAM = 0.5, 2.0, 5.0, 2.0
"""Seconds of one core that a case takes at first: to create a workload, or to start an operator, a control
plane with an operator, or another program."""

REST: Final = 60.0
"""Seconds without a write that count as rest (O2)."""

_READS: Final = 10
_BETWEEN: Final = 3.0


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

    limit = asyncio.Semaphore(PLACES)

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
    cluster: Cluster,
    shared: Shared | None,
    cases: Sequence[Case],
    report: Callable[[Result], None],
    *,
    rest: float = REST,
    machine: Machine | None = None,
) -> list[Result]:
    """Run cases that are alike in whether they share an operator, those of all sets in turn.

    Args:
        cluster: the control plane.
        shared: their operator; None for cases with one of their own.
        cases: to run.
        report: called with each result.
        rest: seconds for which nothing may be written after cases that leave something behind. Other cases
            run meanwhile.
        machine: says when one may start; None for any time.
    """
    places = _Places(machine)
    groups: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.set, case.group or case.name), []).append(case)
    order = in_turn(list(groups), lambda key: key[0])
    of_groups = [_Group(cluster, shared, groups[key], report, rest) for key in order]
    # The group waits until all have cleared up, also when it is cancelled.
    async with asyncio.TaskGroup() as tasks:
        for group in of_groups:
            tasks.create_task(group.run(places))
    return [result for group in of_groups for result in group.results]


def in_turn(items: Sequence[Item], kind: Callable[[Item], str]) -> list[Item]:
    """Items of several kinds so that all kinds end together: some compute and others wait.

    Args:
        items: those of each kind stay in order.
        kind: of an item.
    """
    of_kind: dict[str, list[Item]] = {}
    for item in items:
        of_kind.setdefault(kind(item), []).append(item)
    placed = [
        ((index + 0.5) / len(those), name, item)
        for name, those in of_kind.items()
        for index, item in enumerate(those)
    ]
    return [item for _, _, item in sorted(placed, key=lambda each: each[:2])]


class _FailedError(Exception):
    """The last case of a group has failed; that is recorded."""


@dataclass(frozen=True, slots=True)
class _Places:
    """How many groups of cases there are at a time.

    Attributes:
        machine: says when one may start.
        running: places of those whose cases run.
        resting: places of those that are watched for late writes.
    """

    machine: Machine | None = None
    running: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(PLACES))
    resting: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(RESTING))
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @contextlib.asynccontextmanager
    async def take(self, count: int, work: float) -> AsyncIterator[None]:
        """Take some of the places of those that run, and give them back at the end.

        Args:
            count: of places.
            work: seconds of one core that the beginning takes.
        """
        async with self._turn:
            for _ in range(count):
                await self.running.acquire()
        try:
            async with _admitted(self.machine, work):
                yield
        finally:
            for _ in range(count):
                self.running.release()


@contextlib.asynccontextmanager
async def _admitted(machine: Machine | None, work: float) -> AsyncIterator[None]:
    """Wait until the machine has time for a case."""
    if machine is None:
        yield
        return
    await machine.admit(work)
    machine.running += 1
    try:
        yield
    finally:
        machine.running -= 1


@dataclass(slots=True)
class _Group:
    """Cases that run one after another in one namespace. Only the last one may leave something to watch.

    Attributes:
        results: of its cases.
    """

    cluster: Cluster
    shared: Shared | None
    cases: Sequence[Case]
    report: Callable[[Result], None]
    rest: float
    results: list[Result] = field(default_factory=list)
    _arena: Arena | None = None
    _stack: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    async def run(self, places: _Places) -> None:
        """Run the cases, and give their place to others while the end of the last one is watched."""
        last = self.cases[-1]
        with contextlib.suppress(_FailedError):
            async with self._stack:
                async with places.take(self._places(), _WORK_OWN if self.shared is None else _WORK_SHARED):
                    for case in self.cases:
                        self.results.append(await judged(case, self._carry_out(case)))
                        if not case.rests:
                            self.report(self.results[-1])
                    if self.results[-1].oracle or not self.results[-1].run:
                        raise _FailedError  # or the proxy would raise for a fault that did not take place
                    if last.rests:
                        await places.resting.acquire()
                if last.rests:
                    late = await judged(last, self._watch())
                    places.resting.release()
                    self.results[-1] = replace(
                        late, seconds=self.results[-1].seconds, began=self.results[-1].began
                    )
                if self.results[-1].oracle:
                    raise _FailedError
        if last.rests:
            self.report(self.results[-1])

    def _places(self) -> int:
        return _ORDINARY if self.shared is not None or self.cases[-1].rests else _SEVERAL

    async def _carry_out(self, case: Case) -> None:
        if self._arena is None:
            space = _arena(self.cluster, f"{case.set}-{case.group or case.name}", self.shared)
            self._arena = await self._stack.enter_async_context(space)
        await case.run(self._arena)
        if case is self.cases[-1] and not case.rests:
            await self._stack.aclose()

    async def _watch(self) -> None:
        assert self._arena is not None  # noqa: S101  the cases have run
        await oracles.at_rest(self._arena, self.rest, within=0.0)
        if self.shared is None:
            await oracles.queue_empty(self._arena)
        await self._stack.aclose()


async def run_standalone(
    cases: Sequence[StandaloneCase],
    report: Callable[[Result], None],
    *,
    at_once: int = ALONE,
    machine: Machine | None = None,
    carry_out: Callable[[StandaloneCase], Awaitable[Result]] = judged_in_folder,
) -> list[Result]:
    """Run cases that need nothing of the campaign's control plane, those of all sets in turn.

    Args:
        cases: to run.
        report: called with each result.
        at_once: cases at the same time with a control plane each; and as many others.
        machine: says when one may start; None for any time.
        carry_out: runs one.
    """
    limits = {plane: asyncio.Semaphore(at_once) for plane in (False, True)}

    async def one(case: StandaloneCase) -> Result:
        work = _WORK_PLANE if case.plane else _WORK_PROGRAM
        async with limits[case.plane], _admitted(machine, work):
            result = await carry_out(case)
        report(result)
        return result

    async with asyncio.TaskGroup() as tasks:  # as above
        running = [tasks.create_task(one(case)) for case in in_turn(cases, lambda case: case.set)]
    return [task.result() for task in running]


def scenarios_of(names: Sequence[str]) -> list[Scenario]:
    """The scenarios with some names; all of them for no name."""
    return [scenario for name, scenario in SCENARIOS.items() if not names or name in names]
