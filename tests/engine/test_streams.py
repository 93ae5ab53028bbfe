"""Streams of lines from a server that does as it likes."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from kaiwo.engine.client import Client
from kaiwo.engine.credentials import static
from kaiwo.engine.errors import ConnectionBroken
from kaiwo.engine.reader import LONGEST_LOG_LINE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def serving(*chunks: bytes, sent: list[int]) -> AsyncIterator[Client]:
    """A client of a server whose logs are these chunks; counts the bytes that were sent."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
            sent.append(len(chunk))
        return response

    application = web.Application()
    application.router.add_get("/api/v1/namespaces/team/pods/pod/log", answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        async with Client(static(f"http://127.0.0.1:{runner.addresses[0][1]}")) as client:
            yield client
    finally:
        await runner.cleanup()


async def lines_of(client: Client) -> list[bytes]:
    """All lines of the log."""
    async with aclosing(client.log("team", "pod", container="download")) as lines:
        return [line async for line in lines]


async def test_lines_come_whole_however_they_were_sent() -> None:
    """Cut anywhere, several at once, the longest that is allowed."""
    long = b"x" * LONGEST_LOG_LINE
    async with serving(b"on", b"e\ntwo\nth", b"ree\n", long, b"\n", sent=[]) as client:
        assert await lines_of(client) == [b"one", b"two", b"three", long]


async def test_a_line_without_end_is_given_up() -> None:
    """A container that writes no line break cannot fill the operator's memory."""
    sent: list[int] = []
    endless = (b"x" * 65536,) * 4096
    async with asyncio.timeout(30), serving(*endless, sent=sent) as client:
        with pytest.raises(ConnectionBroken, match="a line of more than 65536 bytes"):
            await lines_of(client)
    assert sum(sent) < sum(map(len, endless)) / 4
