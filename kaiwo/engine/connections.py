"""Connections over aiohttp: how they are made, checked before a write, upgraded, and dropped."""

from __future__ import annotations

import asyncio
import socket
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


def make_socket(user_timeout: float | None, address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that is not connected yet.

    Args:
        user_timeout: seconds after which the kernel gives up the connection when what was sent has not been
            acknowledged. Otherwise it would deliver a request minutes later, once the network works again.
        address: as getaddrinfo returns it.
    """
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    option = getattr(socket, "TCP_USER_TIMEOUT", None)  # Linux has it, where operators run
    if user_timeout is not None and option is not None:
        made.setsockopt(socket.IPPROTO_TCP, option, round(user_timeout * 1000))
    return made


class CheckedRequest(aiohttp.ClientRequest):
    """Checks a mutating request right before its first byte is written.

    aiohttp sends the head together with the body, in a task of its own. Between a check that is made any
    earlier and that task the event loop runs whatever else is ready, and the process can be frozen meanwhile.
    """

    async def write_bytes(
        self,
        writer: aiohttp.abc.AbstractStreamWriter,
        conn: aiohttp.connector.Connection,
        content_length: int | None = None,
    ) -> None:
        """Write head and body, or end the request with NotLeading."""
        may_write = MAY_WRITE.get()
        if may_write is None or may_write():
            await super().write_bytes(writer, conn, content_length)
        elif conn.protocol is not None:
            text = f"{self.method} {self.url.path}: not sent, this process does not lead"
            conn.protocol.set_exception(NotLeading(text))


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
