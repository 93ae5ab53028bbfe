"""How far a download is, from the log of its pod."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from kaiwo.testing.fault_proxy import FaultProxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from kaiwo.engine.credentials import Connection
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster

FOREVER = {"kaiwo-sandbox/forever": "true"}


class LogProxy(FaultProxy):
    """A proxy that answers for the kubelet when somebody follows a log: fake pods write none."""

    def __init__(self, upstream: Connection) -> None:
        super().__init__(upstream)
        self.lines: list[bytes] = []
        self.opened = 0
        self.news = asyncio.Event()

    def write(self, done: int, total: int) -> None:
        """A further line of the download program."""
        self.lines.append(json.dumps({"event": "progress", "bytesDone": done, "bytesTotal": total}).encode())
        self.news.set()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if not request.path.endswith("/log"):
            return await super()._handle(request)
        assert request.query["tailLines"] == "1"
        self.opened += 1
        response = web.StreamResponse()
        response.content_type = "text/plain"
        await response.prepare(request)
        sent = max(0, len(self.lines) - 1)
        while True:
            self.news.clear()
            for line in self.lines[sent:]:
                await response.write(line + b"\n")
            sent = len(self.lines)
            await self.news.wait()


@pytest.fixture
async def logs(connection: Connection) -> AsyncIterator[LogProxy]:
    """A proxy whose pods have logs."""
    async with LogProxy(connection) as made:
        yield made


async def test_progress_is_reported_and_seldom_written(
    operator: Start, lab: Any, logs: LogProxy, tmp_path: Path
) -> None:
    """The first number at once, no other within the minute; one stream; a restart changes nothing."""
    process = await operator(kubeconfig=logs.write_kubeconfig(tmp_path / "kubeconfig"))
    gib = 1024**3
    logs.write(26 * gib, 64 * gib)
    await lab.submit("slow", storage=lab.cloning(), pods=FOREVER)
    status = await lab.says("slow", "Downloading 40 % of 64 GiB")
    assert (status["status"], status["reason"]) == ("PENDING", "Downloading")
    await asyncio.sleep(1)  # a change is seen a moment before the proxy notes the request that made it
    before = len(logs.writes())
    for share in range(41, 60):
        logs.write(share * gib * 64 // 100 + gib, 64 * gib)
        await asyncio.sleep(0.2)
    assert logs.writes()[before:] == []
    assert logs.opened == 1

    assert await asyncio.to_thread(process.stop) == 0
    await asyncio.to_thread(process.start().wait_ready)
    for _ in range(40):
        if logs.opened == 2:
            break
        await asyncio.sleep(0.5)
    await asyncio.sleep(2)
    assert logs.opened == 2
    assert logs.writes()[before:] == []


async def test_a_log_that_cannot_be_read_harms_nothing(
    operator: Start, lab: Any, proxy: FaultProxy, tmp_path: Path
) -> None:
    """The workload downloads without a number, and starts."""
    proxy.answer(403, path="/log$", times=None)
    await operator(kubeconfig=proxy.write_kubeconfig(tmp_path / "kubeconfig"))
    await lab.submit("mute", storage=lab.cloning(), pods={"kaiwo-sandbox/run-time": "4s"})
    await lab.says("mute", "Downloading")
    await lab.reaches("mute", "COMPLETE", timeout=60.0)
