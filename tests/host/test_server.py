"""Probes and metrics as a kubelet and Prometheus meet them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter

from kaiwo.host.server import ProbeServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class World:
    """An endpoint and the state it reports."""

    def __init__(self) -> None:
        self.ready = False
        self.registry = CollectorRegistry()
        self.endpoint = ProbeServer(
            ("127.0.0.1", 0), ready=lambda: (self.ready, {"ready": self.ready}), registry=self.registry
        )
        self.base = ""

    async def get(self, path: str) -> tuple[int, str, Any]:
        """Status, content type and body."""
        async with aiohttp.ClientSession() as session, session.get(self.base + path) as answer:
            return answer.status, answer.content_type, await answer.text()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Served on a free port."""
    made = World()
    host, port = await made.endpoint.start()
    made.base = f"http://{host}:{port}"
    yield made
    await made.endpoint.close()


async def test_alive_is_not_ready(world: World) -> None:
    """Caches that still fill keep traffic away but do not get the process killed."""
    assert (await world.get("/healthz"))[0] == 200
    assert (await world.get("/readyz"))[0] == 503
    world.ready = True
    status, kind, body = await world.get("/readyz")
    assert (status, kind, body) == (200, "application/json", '{"ready": true}')


async def test_metrics_are_prometheus_text(world: World) -> None:
    """What is registered is scraped."""
    Counter("kaiwo_things", "Things.", registry=world.registry).inc(3)
    status, kind, body = await world.get("/metrics")
    assert (status, kind) == (200, "text/plain")
    assert "kaiwo_things_total 3.0" in body


async def test_an_address_in_use_is_an_error_at_the_start(world: World) -> None:
    """Two operators on one address: the second says so instead of running without probes."""
    port = int(world.base.rsplit(":", 1)[1])
    second = ProbeServer(("127.0.0.1", port), ready=lambda: (True, {}), registry=world.registry)
    with pytest.raises(OSError, match=str(port)):
        await second.start()
    await second.close()
