"""Bytes to standard output or error from asynchronous code, as fast as the reader takes them."""

from __future__ import annotations

import asyncio
import os
import select
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Literal

_PIECE = select.PIPE_BUF
"""Bytes that a pipe takes at once when it says that it has room."""


class ByteWriter:
    """Writes to a stream without blocking the event loop: Ctrl-C works while a pager holds the output up."""

    def __init__(self, name: Literal["stdout", "stderr"]) -> None:
        """Take the process's stream of that name."""
        self._stream = (sys.stdout if name == "stdout" else sys.stderr).buffer
        self._stream.flush()
        self._descriptor: int | None = None
        with suppress(OSError, ValueError):
            self._descriptor = self._stream.fileno()

    async def write(self, data: bytes) -> None:
        """Write all of it.

        Raises:
            BrokenPipeError: nobody reads any more.
        """
        if self._descriptor is None or not await _has_room(self._descriptor):
            self._stream.write(data)
            self._stream.flush()
            return
        rest = memoryview(data)
        while True:
            rest = rest[os.write(self._descriptor, rest[:_PIECE]) :]
            if not rest:
                return
            await _has_room(self._descriptor)


async def _has_room(descriptor: int) -> bool:
    """Wait until a pipe or terminal takes bytes; False for a file, which always does."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLOUT)
    if waiting.poll(0):
        return True
    loop = asyncio.get_running_loop()
    room = asyncio.Event()
    try:
        loop.add_writer(descriptor, room.set)
    except (PermissionError, NotImplementedError):
        return False
    try:
        await room.wait()
    finally:
        loop.remove_writer(descriptor)
    return True
