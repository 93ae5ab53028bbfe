"""Runs a TCP server of asyncio, no connection of which outlives it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

_STEPS = 5
"""Steps of the event loop from accepting a connection until its handler runs; three in CPython 3.11."""


@contextlib.asynccontextmanager
async def stream_server(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[int]:
    """Serve on a free port of loopback for as long as the block lasts; gives the port.

    A connection that is open when its event loop ends is reported in whichever test the garbage collector
    runs next. So all are cut at the end, also those whose clients have gone unnoticed.

    Args:
        serve: handles a connection, which is closed when it returns.
    """
    handlers: set[asyncio.Task[None]] = set()
    accepted: set[asyncio.WriteTransport] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 -- a handler runs in a task
        handlers.add(task)
        accepted.add(writer.transport)
        try:
            await serve(reader, writer)
        except asyncio.CancelledError:
            pass  # the block has ended; asyncio would report a handler that was cancelled
        finally:
            writer.close()
            handlers.discard(task)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for _ in range(_STEPS):
            await asyncio.sleep(0)
        for task in handlers:
            task.cancel()
        if handlers:
            await asyncio.wait(handlers)
        await cut(accepted)


async def cut(transports: Iterable[asyncio.WriteTransport]) -> None:
    """Close connections at once, whatever is still to be sent on them."""
    for transport in transports:
        transport.abort()
    await asyncio.sleep(0)  # the sockets are closed in the next step
