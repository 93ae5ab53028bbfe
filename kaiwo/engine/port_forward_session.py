"""One connection to a port of a pod, over a WebSocket of its own.

A WebSocket for each connection keeps a slow one from holding up the others: the flow control is TCP's. The
protocol cannot end one direction alone; `SPDY over WebSocket` could, and has no flow control for each stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.engine.channels import V4
from kaiwo.engine.errors import StreamFailed

if TYPE_CHECKING:
    from kaiwo.engine.channels import ChannelSocket

PROTOCOLS = (V4,)

_DATA, _ERROR = 0, 1
_PORT_BYTES = 2  # each channel begins with the port's number


class PortForwardSession:
    """One connection to a port in a pod."""

    def __init__(self, channels: ChannelSocket) -> None:
        self._channels = channels
        self._head = {_DATA: _PORT_BYTES, _ERROR: _PORT_BYTES}

    async def read(self) -> bytes | None:
        """The next bytes; None when the pod closed the connection.

        Raises:
            StreamFailed: the connection could not be made, for example because nothing listens on the port.
            ConnectionBroken: the connection broke.
        """
        while (message := await self._channels.receive()) is not None:
            channel, data = message
            head = self._head.get(channel, 0)
            if head:
                self._head[channel] = max(0, head - len(data))
                data = data[head:]
            if data and channel == _ERROR:
                raise StreamFailed(data.decode("utf-8", "replace").strip())
            if data and channel == _DATA:
                return data
        return None

    async def write(self, data: bytes) -> None:
        """Send bytes; waits until they are taken."""
        await self._channels.send(_DATA, data)

    async def close(self) -> None:
        """Close the connection."""
        await self._channels.close()
