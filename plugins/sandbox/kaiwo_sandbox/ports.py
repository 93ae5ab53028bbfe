"""Ports that nothing listens on, and that no other sandbox is about to listen on.

A program listens seconds after its port was chosen. Until then only a note tells other starts that it is
taken: a file in the cache with the time of each choice, which counts until the sandbox is down or a start is
surely over.

Ports are taken below the kernel's range for outgoing connections (32768 and up by default), so that no
client's connection can occupy a port while its server is being restarted.
"""

from __future__ import annotations

import json
import random
import socket
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kaiwo_sandbox.errors import SandboxError
from kaiwo_sandbox.locks import locked
from kaiwo_sandbox.paths import cache_dir, make_private

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

LOOPBACK = "127.0.0.1"
_FIRST, _LAST = 20000, 32000
_ATTEMPTS = 400
_NOTE_SECONDS = 300.0


def free_ports(count: int) -> list[int]:
    """`count` different ports on 127.0.0.1 that are free and now noted as chosen.

    Raises:
        SandboxError: none were found.
    """
    chooser = random.SystemRandom()
    found: list[int] = []
    with _notes() as chosen:
        for _ in range(_ATTEMPTS):
            if len(found) == count:
                return found
            port = chooser.randint(_FIRST, _LAST)
            if port not in chosen and is_free(port):
                chosen[port] = time.time()
                found.append(port)
    raise SandboxError(
        f"No {count} free ports between {_FIRST} and {_LAST} on {LOOPBACK}.",
        why="Other programs listen on nearly all of them.",
        next_step="Stop sandboxes that are not needed: 'kaiwo sandbox status' lists them.",
    )


def claim(ports: Sequence[int]) -> bool:
    """Note these ports as chosen if all of them are free and nobody else chose one; else change nothing."""
    with _notes() as chosen:
        if any(port in chosen or not is_free(port) for port in ports):
            return False
        chosen.update(dict.fromkeys(ports, time.time()))
        return True


def release(ports: Iterable[int]) -> None:
    """Forget that these ports were chosen."""
    with _notes() as chosen:
        for port in ports:
            chosen.pop(port, None)


@contextmanager
def _notes() -> Iterator[dict[int, float]]:
    """The noted ports with the time of their choice, to be changed under a lock; old ones are dropped."""
    file = make_private(cache_dir()) / "ports.json"
    with locked(file.with_suffix(".lock")):
        try:
            noted = {int(port): float(when) for port, when in json.loads(file.read_text()).items()}
        except (OSError, ValueError, TypeError, AttributeError):
            noted = {}
        oldest = time.time() - _NOTE_SECONDS
        chosen = {port: when for port, when in noted.items() if oldest < when <= time.time()}
        yield chosen
        file.write_text(json.dumps(chosen))


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
