"""Streams in one WebSocket: each message begins with the number of its channel.

This is Kubernetes' ``channel.k8s.io``: v5 can also say that a channel ended, v4 cannot.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import aiohttp
from aiohttp import WSMsgType

from kaiwo.engine.errors import ConnectionBroken

if TYPE_CHECKING:
    from collections.abc import Iterator

V5 = "v5.channel.k8s.io"
V4 = "v4.channel.k8s.io"

_END_OF_CHANNEL = 255
_PIECE = 32 << 10  # bytes of a message that is sent: as much as kubelets send
_PING_SECONDS = 20.0
_BROKEN_AFTER = 3
"""Pings without an answer after which the connection counts as dead."""


class ChannelSocket:
    """A WebSocket with channels. One task reads at a time; sending waits until the other side takes it.

    A ping goes out every 20 seconds: proxies close idle connections, and a laptop that slept does not know
    that its own is gone. An unanswered one says nothing while the other side has not read all that was sent.

    Attributes:
        protocol: the subprotocol that was agreed on, empty for none.
    """

    def __init__(
        self,
        socket: aiohttp.ClientWebSocketResponse[bool],
        what: str,
        *,
        ping_seconds: float = _PING_SECONDS,
    ) -> None:
        """Take over an open WebSocket.

        Args:
            socket: opened without answering pings by itself.
            what: for messages, for example ``exec in pod train-0``.
            ping_seconds: between two pings.
        """
        self.protocol = socket.protocol or ""
        self._socket = socket
        self._what = what
        self._sent = 0  # bytes
        self._read_by_peer = 0  # of these, proved by an answered ping
        self._waits = False
        self._unanswered = 0
        self._is_broken = False
        self._pings = asyncio.ensure_future(self._ping(ping_seconds))

    async def receive(self) -> tuple[int, bytes] | None:
        """The next message as (channel, data); None when the other side closed.

        Raises:
            ConnectionBroken: the connection broke, or does not answer any more.
        """
        while True:
            self._waits = True
            try:
                message = await self._socket.receive()
            finally:
                self._waits = False
            self._unanswered = 0
            match message.type:
                case WSMsgType.BINARY | WSMsgType.TEXT:
                    if message.data:
                        return message.data[0], message.data[1:]
                case WSMsgType.PING:
                    await self._guarded(self._socket.pong(message.data))
                case WSMsgType.PONG:
                    with suppress(ValueError):
                        self._read_by_peer = int(message.data)
                case WSMsgType.CLOSE | WSMsgType.CLOSING:
                    return None
                case WSMsgType.CLOSED if (
                    not self._is_broken and self._socket.close_code == aiohttp.WSCloseCode.OK
                ):
                    return None
                case _:
                    raise ConnectionBroken(f"{self._what}: the connection broke")

    async def send(self, channel: int, data: bytes) -> None:
        """Send data; returns when the connection has room for more.

        Raises:
            ConnectionBroken: the connection is gone.
        """
        head = bytes((channel,))
        for piece in _pieces(data):
            self._sent += len(piece)
            await self._guarded(self._socket.send_bytes(head + piece))

    async def end(self, channel: int) -> bool:
        """Say that a channel ended; False when the protocol has no way to."""
        if self.protocol != V5:
            return False
        await self._guarded(self._socket.send_bytes(bytes((_END_OF_CHANNEL, channel))))
        return True

    async def close(self) -> None:
        """Close the connection."""
        self._pings.cancel()
        with suppress(asyncio.CancelledError):
            await self._pings
        await self._socket.close()

    async def _guarded(self, sending: object) -> None:
        try:
            await sending  # type: ignore[misc]  # a coroutine of aiohttp's
        except (aiohttp.ClientError, OSError, RuntimeError) as error:
            raise ConnectionBroken(f"{self._what}: the connection broke") from error

    async def _ping(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            if self._unanswered >= _BROKEN_AFTER and self._waits and self._read_by_peer == self._sent:
                self._is_broken = True
                await self._socket.close()
                return
            self._unanswered += 1
            try:
                await self._socket.ping(str(self._sent).encode())
            except (aiohttp.ClientError, OSError):
                return  # whoever reads learns it


def _pieces(data: bytes) -> Iterator[bytes]:
    return (data[start : start + _PIECE] for start in range(0, len(data), _PIECE))
