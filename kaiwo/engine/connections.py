"""Connections over aiohttp: how they are made, checked before a write, upgraded, and dropped."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp import hdrs
from aiohttp.connector import NEEDS_CLEANUP_CLOSED

from kaiwo.engine.errors import NotLeading, from_response

if TYPE_CHECKING:
    from collections.abc import Callable

SWITCHING = 101
"""HTTP status of an answer that upgrades the connection."""

MAY_WRITE: ContextVar[Callable[[], bool] | None] = ContextVar("MAY_WRITE", default=None)
"""The check that the request of this task must pass, None for one that need not."""


class Connector(aiohttp.TCPConnector):
    """A connector whose connections are closed once :func:`close` has returned.

    A connection that is given up in the middle of an answer sends TLS's close_notify first and waits for the
    peer's. Some Pythons can lose it meanwhile; for those aiohttp keeps a list, but only on demand.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(enable_cleanup_closed=NEEDS_CLEANUP_CLOSED, **options)


class WriteCheckConnector(Connector):
    """Checks a mutating request at the last moment: when the connection stands and nothing is sent yet.

    Making a connection can take long, and a process can be frozen meanwhile.
    """

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[aiohttp.tracing.Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 -- aiohttp's signature
    ) -> aiohttp.connector.Connection:
        """A connection, or NotLeading."""
        connection = await super().connect(req, traces, timeout)
        may_write = MAY_WRITE.get()
        if may_write is not None and not may_write():
            connection.release()
            raise NotLeading(f"{req.method} {req.url.path}: not sent, this process does not lead")
        return connection


class UpgradeResponse(aiohttp.ClientResponse):
    """An answer; one that rejects an upgrade is raised with its body, which aiohttp would drop unread."""

    async def start(self, connection: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        """Read the head of the answer; ApiError when it rejects an upgrade."""
        await super().start(connection)
        if hdrs.UPGRADE in self.request_info.headers and self.status != SWITCHING:
            raise from_response(self.status, await self.read(), self.headers)
        return self


async def close(session: aiohttp.ClientSession) -> None:
    """Close a session and its connections at once: a loop that ends cannot wait for TLS's close_notify."""
    connector = session.connector
    if isinstance(connector, aiohttp.TCPConnector):
        await connector.close(abort_ssl=True)
    await session.close()
    await asyncio.sleep(0)


def abort(response: aiohttp.ClientResponse) -> None:
    """Drop the connection of an answer that was not read to its end; TLS's close_notify is not awaited."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
