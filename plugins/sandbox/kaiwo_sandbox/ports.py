"""Ports that nothing listens on.

They are taken below the kernel's range for outgoing connections (32768 and up by default), so that no
client's connection can occupy a port while its server is being restarted.
"""

from __future__ import annotations

import random
import socket
import time
from contextlib import ExitStack

from kaiwo_sandbox.errors import SandboxError

LOOPBACK = "127.0.0.1"
_FIRST, _LAST = 20000, 32000
_ATTEMPTS = 400


def free_ports(count: int) -> list[int]:
    """`count` different ports on 127.0.0.1 that were free a moment ago.

    Raises:
        SandboxError: none were found.
    """
    chooser = random.SystemRandom()
    found: list[int] = []
    with ExitStack() as held:
        for _ in range(_ATTEMPTS):
            if len(found) == count:
                return found
            port = chooser.randint(_FIRST, _LAST)
            sock = held.enter_context(socket.socket())
            try:
                sock.bind((LOOPBACK, port))
            except OSError:
                continue
            found.append(port)
    raise SandboxError(
        f"No {count} free ports between {_FIRST} and {_LAST} on {LOOPBACK}.",
        why="Other programs listen on nearly all of them.",
        next_step="Stop sandboxes that are not needed: 'kaiwo sandbox status' lists them.",
    )


def is_free(port: int) -> bool:
    """Whether `port` on 127.0.0.1 can be listened on; connections that linger from before do not count."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def wait_until_free(port: int, timeout: float = 10.0) -> None:
    """Return when `port` can be listened on again; a killed process may hold it for a moment.

    Raises:
        SandboxError: it is still taken after `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if is_free(port):
            return
        time.sleep(0.05)
    raise SandboxError(
        f"Port {port} on {LOOPBACK} is still taken after {timeout:.0f} s.",
        why="Another program took it while the sandbox restarted its own.",
        next_step="Run 'kaiwo sandbox down' and 'kaiwo sandbox up', which choose new ports.",
    )
