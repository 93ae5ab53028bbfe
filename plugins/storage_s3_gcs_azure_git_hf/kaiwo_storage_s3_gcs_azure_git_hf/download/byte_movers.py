"""Moves bytes between sockets: in the kernel where the system can do that, by copying elsewhere."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import socket

MAX_BYTES = 1024**2
"""The most bytes of one move."""


class ByteMover(Protocol):
    """Moves bytes from one socket to another."""

    def move(self, source: socket.socket, target: socket.socket, limit: int) -> int:
        """Move bytes that have arrived, at most `limit`; how many, 0 at the end.

        Raises:
            OSError: a connection broke.
        """
        ...

    def close(self) -> None:
        """Release what the mover holds; the sockets stay open."""
        ...


class SpliceMover:
    """Moves bytes in the kernel through a pipe; Linux only."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        with contextlib.suppress(OSError):  # the user's pipe limit; small pipes work too
            fcntl.fcntl(self._writer, fcntl.F_SETPIPE_SZ, MAX_BYTES)

    def move(self, source: socket.socket, target: socket.socket, limit: int) -> int:
        """Move bytes that have arrived, at most `limit`; how many, 0 at the end."""
        moved = left = os.splice(source.fileno(), self._writer, min(limit, MAX_BYTES))
        while left:
            left -= os.splice(self._reader, target.fileno(), left)
        return moved

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._reader)
        os.close(self._writer)


class CopyMover:
    """Moves bytes through the memory of the process."""

    def move(self, source: socket.socket, target: socket.socket, limit: int) -> int:
        """Move bytes that have arrived, at most `limit`; how many, 0 at the end."""
        data = source.recv(min(limit, MAX_BYTES))
        target.sendall(data)
        return len(data)

    def close(self) -> None:
        """Do nothing; there is nothing to release."""


def byte_mover() -> ByteMover:
    """The fastest mover that this system supports."""
    return SpliceMover() if hasattr(os, "splice") and hasattr(fcntl, "F_SETPIPE_SZ") else CopyMover()
