"""Leader election, with a clock that the tests turn."""

from __future__ import annotations

import asyncio
import copy
import time
from typing import TYPE_CHECKING, Any, cast

import pytest

from kaiwo.engine.leader_election import LeaderElector, boottime
from kaiwo.testing.lease_server import LeaseServer

if TYPE_CHECKING:
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object, Resource


class Clock:
    """Seconds; the tests move it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """The time."""
        return self.now


@pytest.fixture
def server() -> LeaseServer:
    """An API server with no Lease yet."""
    return LeaseServer()


@pytest.fixture
def clock() -> Clock:
    """The clock of all candidates."""
    return Clock()


def candidate(server: LeaseServer, clock: Clock, identity: str) -> LeaderElector:
    """A candidate with the default times: 10 s, 7 s, 2 s."""
    return LeaderElector(cast("Client", server), "ns", "kaiwo", identity, clock=clock)


async def test_the_first_candidate_leads_and_the_second_waits(server: LeaseServer, clock: Clock) -> None:
    """Two operators at once: one writes."""
    a, b = candidate(server, clock, "a"), candidate(server, clock, "b")
    assert await a._attempt()
    assert not await b._attempt()
    assert a.valid()
    assert not b.valid()
    assert b.holder == "a"


async def test_writing_ends_before_the_lease_does(server: LeaseServer, clock: Clock) -> None:
    """The holder stops after 7 s without renewal, the successor starts after 10 s: never both."""
    a, b = candidate(server, clock, "a"), candidate(server, clock, "b")
    await a._attempt()
    await b._attempt()
    clock.now += 6.9
    assert a.valid()
    clock.now += 0.2
    assert not a.valid()
    assert not await b._attempt()
    clock.now += 2.9
    assert await b._attempt()
    assert not a.valid()


async def test_a_frozen_process_writes_nothing_when_it_thaws(server: LeaseServer, clock: Clock) -> None:
    """The clock runs on while the process stands still; the lease is invalid at the first check."""
    a, b = candidate(server, clock, "a"), candidate(server, clock, "b")
    await a._attempt()
    await b._attempt()
    clock.now += 60
    assert await b._attempt()
    assert not a.valid()
    await a.keep()
    assert not a.valid()
    assert not await a._attempt()
    assert a.holder == "b"


async def test_renewing_keeps_the_lease(server: LeaseServer, clock: Clock) -> None:
    """A holder that renews keeps others out for as long as it likes."""
    a, b = candidate(server, clock, "a"), candidate(server, clock, "b")
    await a._attempt()
    for _ in range(20):
        clock.now += 2
        assert await a._attempt()
        assert not await b._attempt()
        assert a.valid()


async def test_validity_counts_from_before_the_request(server: LeaseServer, clock: Clock) -> None:
    """A slow answer shortens the time that is left; it never lengthens it."""
    a = candidate(server, clock, "a")
    replace = server.replace

    async def slow(*args: Any, **kwargs: Any) -> Object:
        clock.now += 5
        return await replace(*args, **kwargs)

    await a._attempt()
    server.replace = slow  # type: ignore[method-assign]  # the test makes the answer slow
    await a._attempt()
    clock.now += 2.1
    assert not a.valid()


async def test_a_released_lease_is_taken_at_once(server: LeaseServer, clock: Clock) -> None:
    """A clean stop costs the successor no waiting."""
    a, b = candidate(server, clock, "a"), candidate(server, clock, "b")
    await a._attempt()
    await b._attempt()
    await a.release()
    assert not a.valid()
    assert await b._attempt()
    assert server.lease is not None
    assert server.lease["spec"]["holderIdentity"] == "b"
    assert server.lease["spec"]["leaseTransitions"] == 1


async def test_a_lease_that_somebody_deletes_stays_with_its_holder(server: LeaseServer, clock: Clock) -> None:
    """The holder writes on until it notices, so others wait as long as for a lease that is not renewed."""
    a, b = candidate(server, clock, "a"), candidate(server, clock, "b")
    await a._attempt()
    await b._attempt()
    server.lease = None
    assert not await b._attempt()
    assert a.valid()
    assert not await a._attempt()
    assert await a._attempt()
    assert not await b._attempt()
    server.lease = None
    clock.now += 10.1
    assert not a.valid()
    assert await b._attempt()


async def test_who_does_not_lead_releases_nothing(server: LeaseServer, clock: Clock) -> None:
    """A standby that stops leaves the leader alone."""
    a, b = candidate(server, clock, "a"), candidate(server, clock, "b")
    await a._attempt()
    await b._attempt()
    writes = server.writes
    await b.release()
    assert server.writes == writes


async def test_an_api_server_that_is_away_for_a_moment_costs_nothing(
    server: LeaseServer, clock: Clock
) -> None:
    """One failed renewal is no loss while the lease is valid."""
    a = candidate(server, clock, "a")
    await a._attempt()
    server.away = True
    clock.now += 2
    assert not await a._attempt()
    assert a.valid()
    server.away = False
    assert await a._attempt()


async def test_a_holder_that_was_cut_off_for_long_leads_again_at_once(
    server: LeaseServer, clock: Clock
) -> None:
    """Nobody took over meanwhile: there is nothing to wait for."""
    a, b = candidate(server, clock, "a"), candidate(server, clock, "b")
    await a._attempt()
    await b._attempt()
    clock.now += 8
    await a.keep()
    assert not a.valid()
    assert await a._attempt()
    assert a.valid()
    assert not await b._attempt()


async def test_two_that_take_over_at_the_same_moment_do_not_both_lead(
    server: LeaseServer, clock: Clock
) -> None:
    """The API server's version check decides a race."""
    a, b, c = (candidate(server, clock, name) for name in "abc")
    await a._attempt()
    await b._attempt()
    await c._attempt()
    clock.now += 11
    seen = await server.get(None, "", "", urgent=True)  # type: ignore[arg-type]  # the fake ignores what is asked for

    async def stale(_resource: Resource, _namespace: str, _name: str, *, urgent: bool) -> Object:
        assert urgent
        return copy.deepcopy(seen)

    assert await b._attempt()
    server.get = stale  # type: ignore[method-assign]  # what c read before b wrote
    assert not await c._attempt()
    assert b.valid()
    assert not c.valid()


async def test_times_that_cannot_work_are_refused(server: LeaseServer, clock: Clock) -> None:
    """A holder must stop before its lease ends, and try to renew before it stops."""
    with pytest.raises(ValueError, match="must hold"):
        LeaderElector(cast("Client", server), "ns", "n", "a", duration=5, renew_deadline=7, clock=clock)


def test_the_clock_counts_suspension() -> None:
    """CLOCK_BOOTTIME, where there is one."""
    assert boottime() > 0


async def test_one_renewal_that_hangs_does_not_cost_the_lease(server: LeaseServer) -> None:
    """The request is given up after half of the deadline, and the next one is sent at once."""
    a = LeaderElector(
        cast("Client", server), "ns", "n", "a", duration=2.0, renew_deadline=1.4, retry_period=0.4
    )
    await a._attempt()
    replace, hung = server.replace, 0

    async def hang(*args: Any, **kwargs: Any) -> Object:
        nonlocal hung
        hung += 1
        server.replace = replace  # type: ignore[method-assign]  # the next one is answered
        await asyncio.Event().wait()
        return await replace(*args, **kwargs)

    server.replace = hang  # type: ignore[method-assign]  # the connection is dead
    keeping = asyncio.create_task(a.keep())
    for _ in range(25):
        await asyncio.sleep(0.1)
        assert a.valid()
    assert hung == 1
    assert not keeping.done()
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


async def test_renewals_that_all_hang_cost_the_lease_at_the_deadline(server: LeaseServer) -> None:
    """The holder stops in time, after a second try that has what is left."""
    a = LeaderElector(
        cast("Client", server), "ns", "n", "a", duration=2.0, renew_deadline=1.4, retry_period=0.4
    )
    await a._attempt()
    tries: list[float] = []
    began = time.monotonic()

    async def hang(*_: Any, **__: Any) -> Object:
        tries.append(time.monotonic() - began)
        await asyncio.Event().wait()
        raise AssertionError

    server.get = server.replace = hang  # type: ignore[method-assign]  # the connection is dead
    await asyncio.wait_for(a.keep(), 5)
    assert time.monotonic() - began < 1.9
    assert len(tries) == 2
    assert not a.valid()
