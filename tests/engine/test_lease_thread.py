"""The Lease is renewed while the event loop computes."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any, cast

import pytest

from kaiwo.engine.leader_election import LeaderElector
from kaiwo.engine.lease_thread import LeaseThread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object

DEADLINE = 0.7


class LeaseClient:
    """Keeps one Lease, and says in which threads it was called."""

    def __init__(self) -> None:
        self.lease: Object = {"metadata": {"resourceVersion": "1"}, "spec": {"holderIdentity": ""}}
        self.writes: list[float] = []
        self.threads: set[str] = set()
        self.closed = False
        self.slow = 0.0

    async def get(self, *_: Any, **__: Any) -> Object:
        """Read."""
        self.threads.add(threading.current_thread().name)
        return self.lease

    async def replace(self, _: Any, lease: Object, **__: Any) -> Object:
        """Write."""
        self.threads.add(threading.current_thread().name)
        await asyncio.sleep(self.slow)
        self.writes.append(time.monotonic())
        self.lease = lease
        return lease

    async def close(self) -> None:
        """Close."""
        self.closed = True


@pytest.fixture
def client() -> LeaseClient:
    """An API server with a free Lease."""
    return LeaseClient()


@pytest.fixture
async def lease(client: LeaseClient) -> AsyncIterator[LeaseThread]:
    """A candidate that renews each 0.2 s and loses the Lease after 0.7 s."""
    elector = LeaderElector(
        cast("Client", client), "ns", "n", "me", duration=1.0, renew_deadline=DEADLINE, retry_period=0.2
    )
    thread = LeaseThread(elector, cast("Client", client))
    yield thread
    await thread.close()


async def test_a_loop_that_computes_for_longer_than_the_lease_keeps_it(
    lease: LeaseThread, client: LeaseClient
) -> None:
    """Three deadlines without one pass of the event loop: renewals go on and this process may write."""
    await lease.acquire()
    keeping = asyncio.create_task(lease.keep())
    await asyncio.sleep(0.05)
    began = time.monotonic()
    valid = True
    while time.monotonic() - began < 3 * DEADLINE:
        valid = valid and lease.valid()
    assert valid
    assert len([at for at in client.writes if at > began]) >= 5
    assert client.threads == {"lease"}
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


async def test_the_lease_is_released_after_the_renewal_that_was_under_way(
    lease: LeaseThread, client: LeaseClient
) -> None:
    """Stopping gives the Lease up at once, also in the middle of a renewal."""
    await lease.acquire()
    client.slow = 0.3
    keeping = asyncio.create_task(lease.keep())
    await asyncio.sleep(0.3)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    client.slow = 0.0
    await lease.release()
    assert client.lease["spec"]["holderIdentity"] == ""
    assert not lease.valid()


async def test_the_thread_ends_with_its_connection(lease: LeaseThread, client: LeaseClient) -> None:
    """Nothing is left of it after the operator has stopped."""
    await lease.acquire()
    assert "lease" in {thread.name for thread in threading.enumerate()}
    await lease.release()
    await lease.close()
    assert client.closed
    assert "lease" not in {thread.name for thread in threading.enumerate()}


async def test_a_lease_that_another_process_took_is_reported(lease: LeaseThread, client: LeaseClient) -> None:
    """The operator learns of it when its loop comes to it, and may not write before that either."""
    await lease.acquire()
    client.lease = {"metadata": {"resourceVersion": "9"}, "spec": {"holderIdentity": "other"}}
    client.slow = 60.0
    async with asyncio.timeout(5):
        await lease.keep()
    assert not lease.valid()
    assert "held by other" in lease.health()[1]
