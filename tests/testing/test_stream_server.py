"""The server of tests: no connection outlives it, whatever its client does."""

from __future__ import annotations

import asyncio
import gc
import socket
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import pytest

from kaiwo.testing.stream_server import stream_server

if TYPE_CHECKING:
    from collections.abc import Callable


async def _wait(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """Wait for the end of what the client sends."""
    await reader.read()


async def _flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send more than anybody takes."""
    writer.write(bytes(16 << 20))


@pytest.mark.parametrize("serve", [_wait, _flood])
@pytest.mark.parametrize("steps", range(5))
def test_no_connection_outlives_the_server(serve: Callable[..., object], steps: int) -> None:
    """One that was made some steps of the event loop before the end, by a client that reads nothing."""

    async def scenario(client: socket.socket) -> None:
        async with stream_server(serve) as port:  # type: ignore[arg-type]
            await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", port))
            for _ in range(steps):
                await asyncio.sleep(0)

    with closing(socket.socket()) as client, suppress(ConnectionError):
        client.setblocking(False)  # noqa: FBT003
        asyncio.run(scenario(client))
    gc.collect()
