"""A command that runs in a container: its input, its output, the size of its terminal, and its exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kaiwo.engine.channels import V4, V5, ChannelSocket
from kaiwo.engine.errors import ConnectionBroken, from_status

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object

PROTOCOLS = (V5, V4)

STDIN, STDOUT, STDERR = 0, 1, 2
_STATUS, _RESIZE = 3, 4


class ExecSession:
    """One running command. Read until `read` returns None; then `exit_code` is known.

    Attributes:
        exit_code: of the command, None while it runs.
    """

    def __init__(self, channels: ChannelSocket) -> None:
        self.exit_code: int | None = None
        self._channels = channels

    async def read(self) -> tuple[int, bytes] | None:
        """The next piece of output as (STDOUT or STDERR, data); None when the command ended.

        Raises:
            ConnectionBroken: the connection broke before the command ended.
            ApiError: the command could not be started.
        """
        while self.exit_code is None:
            message = await self._channels.receive()
            if message is None:
                raise ConnectionBroken("exec: the connection was closed before the command ended")
            channel, data = message
            if channel == _STATUS:
                self.exit_code = exit_code(data)
            elif data and channel in (STDOUT, STDERR):
                return message
        return None

    async def write(self, data: bytes) -> None:
        """Send input; waits until it is taken."""
        await self._channels.send(STDIN, data)

    async def end_stdin(self) -> bool:
        """Say that the input ended; False when the cluster has no way to."""
        return await self._channels.end(STDIN)

    async def resize(self, columns: int, rows: int) -> None:
        """Tell the remote terminal its size."""
        await self._channels.send(_RESIZE, msgspec.json.encode({"Width": columns, "Height": rows}))

    async def close(self) -> None:
        """Close the connection; a command that still runs loses its input and output."""
        await self._channels.close()


def exit_code(raw: bytes) -> int:
    """The exit code in the Status that ends a session.

    Raises:
        ApiError: the command did not run.
        ConnectionBroken: it is no Status.
    """
    try:
        status: Object = msgspec.json.decode(raw, type=dict)
    except msgspec.DecodeError as error:
        text = raw[:200].decode("utf-8", "replace")
        raise ConnectionBroken(f"exec: expected a status, got {text!r}") from error
    if status.get("status") == "Success":
        return 0
    failure = from_status(status)
    if failure.reason == "NonZeroExitCode":
        for cause in failure.causes:
            if cause.reason == "ExitCode" and cause.message.isdigit():
                return int(cause.message)
    raise failure
