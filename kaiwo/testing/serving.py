"""Runs a server of the standard library in a thread."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import socketserver
    from collections.abc import Iterator

Server = TypeVar("Server", bound="socketserver.BaseServer")

_POLL_SECONDS = 0.05
"""How soon the server notices that it is to stop."""


@contextlib.contextmanager
def serving(server: Server) -> Iterator[Server]:
    """Serve for as long as the block lasts.

    Args:
        server: bound and listening; it is closed at the end.
    """
    thread = threading.Thread(target=server.serve_forever, args=(_POLL_SECONDS,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
