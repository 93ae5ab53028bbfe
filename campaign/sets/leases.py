"""Set T: a day of three replicas with one Lease, under virtual time."""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from campaign import virtual_time
from campaign.case import StandaloneCase
from campaign.violation import ViolationError
from kaiwo.engine import leader_election
from kaiwo.engine.errors import ConnectionBroken
from kaiwo.engine.leader_election import LeaderElector
from kaiwo.testing.lease_server import LeaseServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object

REPLICAS: Final = 3
_DAY: Final = 86_400.0
_SLOWEST: Final = 0.05
"""Seconds that an answer takes at most."""

_FAULTS: Final = (20.0, 600.0)
"""Seconds between two faults, at least and at most."""

_LASTS: Final = (0.5, 60.0)
"""Seconds that a fault lasts, likewise."""

_TAKE_OVER: Final = 16.0
"""Seconds until a replica leads once one can: the Lease runs out, a try comes, and one is lost to another."""

_CHECK: Final = 0.25
_RENEWALS: Final = _DAY / 2
"""Writes of a day without faults: one every two seconds."""

_SECONDS: Final = 900.0
"""Seconds that a case may take. It computes all the time, and other cases run beside it."""


def cases(seed: int) -> Iterator[StandaloneCase]:
    """A quiet day, and one with faults.

    Args:
        seed: chooses the faults.
    """
    for name, faulty in (("quiet", False), ("faulty", True)):
        yield StandaloneCase("T", f"leases-{name}", partial(_run, seed, faulty), seconds=_SECONDS)


async def _run(seed: int, faulty: bool, directory: Path) -> None:
    del directory
    await asyncio.to_thread(virtual_time.run, _day(random.Random(f"{seed}-leases"), faulty=faulty))  # noqa: S311  no secret


@dataclass(slots=True)
class _Path:
    """The way of one replica to the Lease.

    Attributes:
        server: has the Lease.
        chance: of the day.
        broken: requests fail.
        silent: requests are not answered.
    """

    server: LeaseServer
    chance: random.Random
    broken: bool = False
    silent: bool = False

    async def get(self, *what: Any, urgent: bool) -> Object:
        """Read."""
        await self._go()
        return await self.server.get(*what, urgent=urgent)

    async def create(self, *what: Any, urgent: bool) -> Object:
        """POST."""
        await self._go()
        return await self.server.create(*what, urgent=urgent)

    async def replace(self, *what: Any, urgent: bool) -> Object:
        """PUT."""
        await self._go()
        return await self.server.replace(*what, urgent=urgent)

    async def _go(self) -> None:
        await asyncio.sleep(self.chance.uniform(0.0, _SLOWEST))
        if self.silent:
            await asyncio.sleep(_DAY)
        if self.broken:
            raise ConnectionBroken("cut off")


async def _day(chance: random.Random, *, faulty: bool) -> None:
    """Replicas lead in turn as in an operator, while faults come; at each moment one leads at most."""
    logging.getLogger(leader_election.__name__).setLevel(logging.ERROR)
    server = LeaseServer()
    paths = [_Path(server, chance) for _ in range(REPLICAS)]
    clock = asyncio.get_running_loop().time
    electors = [
        LeaderElector(cast("Client", path), "team", "lease", f"replica-{number}", clock=clock)
        for number, path in enumerate(paths)
    ]
    tasks = [asyncio.create_task(_lead(elector)) for elector in electors]
    faults = asyncio.create_task(_faults(server, paths, chance)) if faulty else None
    try:
        turns = await _watch(electors, paths, server, clock)
    finally:
        for task in (*tasks, *([faults] if faults else [])):
            task.cancel()
        await asyncio.gather(*tasks, *([faults] if faults else []), return_exceptions=True)
    if faulty and not turns:
        raise ViolationError("fault", "one replica led for the whole day, so nothing was tested")
    if not faulty and (turns or abs(server.writes - _RENEWALS) > _RENEWALS / 10):
        raise ViolationError("O6", f"{turns} transitions and {server.writes} writes on a day without faults")


async def _lead(elector: LeaderElector) -> None:
    while True:
        await elector.acquire()
        await elector.keep()


async def _faults(server: LeaseServer, paths: list[_Path], chance: random.Random) -> None:
    """One fault after the other: of one replica, of all, or the Lease is deleted."""
    while True:
        await asyncio.sleep(chance.uniform(*_FAULTS))
        what, path = chance.randrange(4), chance.choice(paths)
        if what == 0:
            server.lease = None
            continue
        path.broken, path.silent, server.away = what == 1, what == 2, what == 3  # noqa: PLR2004  by number
        await asyncio.sleep(chance.uniform(*_LASTS))
        path.broken = path.silent = server.away = False


async def _watch(electors: list[LeaderElector], paths: list[_Path], server: LeaseServer, clock: Any) -> int:
    """Who leads, four times a second for a day; how often another one took over.

    The Lease does not say how often: one that was deleted begins anew.
    """
    led, turns, last = clock(), 0, ""
    while clock() < _DAY:
        await asyncio.sleep(_CHECK)
        leading = [elector.identity for elector in electors if elector.valid()]
        if len(leading) > 1:
            raise ViolationError("leader", f"{' and '.join(leading)} lead at once after {clock():.0f} s")
        if leading:
            turns += bool(last) and last != leading[0]
            last = leading[0]
        if leading or server.away or any(path.broken or path.silent for path in paths):
            led = clock()
        elif clock() - led > _TAKE_OVER:
            raise ViolationError(
                "O1", f"nobody leads after {clock():.0f} s, {clock() - led:.0f} s after the fault"
            )
    return turns
