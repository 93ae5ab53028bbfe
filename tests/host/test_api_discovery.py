"""Which kinds are served, as workloads are told."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kaiwo.engine.client import Client
from kaiwo.engine.credentials import Connection
from kaiwo.engine.resource import JOB, Resource
from kaiwo.host.api_discovery import ServedKinds

if TYPE_CHECKING:
    from collections.abc import Collection

RAY_JOB = Resource("ray.io", "v1", "RayJob", "rayjobs")


class Api(Client):
    """An API server that serves some kinds."""

    def __init__(self, *kinds: Resource) -> None:
        super().__init__(Connection("http://127.0.0.1:9"))
        self.kinds = frozenset(kinds)
        self.polls: asyncio.Queue[None] = asyncio.Queue()

    async def served(self, resources: Collection[Resource]) -> frozenset[Resource]:
        """Which of the resources are served."""
        self.polls.put_nowait(None)
        return self.kinds & frozenset(resources)


async def test_a_kind_that_goes_is_missed_as_soon_as_a_watch_sees_it() -> None:
    """While all kinds are served, discovery is asked every five minutes only."""
    async with Api(JOB, RAY_JOB) as client:
        served, changed = ServedKinds(client, [JOB, RAY_JOB]), asyncio.Event()
        served.on_change(changed.set)
        polling = asyncio.create_task(served.run())
        try:
            async with asyncio.timeout(20):
                await client.polls.get()
                client.kinds = frozenset({JOB})
                served.ask()
                await changed.wait()
        finally:
            polling.cancel()
        assert [served(JOB), served(RAY_JOB)] == [True, False]
