"""Free ports on the loopback address, reserved across processes.

A program listens seconds after its port was chosen. Until then a file in the cache records the port and the
time of the choice. A reservation counts until the sandbox is deleted, or until it is older than any start.

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
    from collections.abc import Iterable, Iterator, Mapping, Sequence

LOOPBACK = "127.0.0.1"
_FIRST, _LAST = 20000, 32000
_ATTEMPTS = 400
_RESERVATION_SECONDS = 300.0


def free_ports(count: int) -> list[int]:
    """Reserve `count` different free ports on 127.0.0.1.

    Raises:
        SandboxError: there are not enough of them.
    """
    chooser = random.SystemRandom()
    found: list[int] = []
    with _reservations() as reserved:
        for _ in range(_ATTEMPTS):
            if len(found) == count:
                return found
            port = chooser.randint(_FIRST, _LAST)
            if port not in reserved and is_free(port):
                reserved[port] = time.time()
                found.append(port)
    raise SandboxError(
        f"fewer than {count} free ports between {_FIRST} and {_LAST} on {LOOPBACK}",
        hint="stop sandboxes that are not needed (kaiwo sandbox status lists them)",
    )


def claim(ports: Sequence[int]) -> bool:
    """Reserve all of these ports and return True; reserve none and return False if one is not available."""
    with _reservations() as reserved:
        if any(port in reserved or not is_free(port) for port in ports):
            return False
        reserved.update(dict.fromkeys(ports, time.time()))
        return True


def allocate(names: Sequence[str], *, preferred: Mapping[str, int]) -> dict[str, int]:
    """Reserve a port per name; the preferred ones if all of them are available, else others.

    Raises:
        SandboxError: there are not enough free ports.
    """
    kept = dict(preferred) if claim(list(preferred.values())) else {}
    missing = [name for name in names if name not in kept]
    return kept | dict(zip(missing, free_ports(len(missing)), strict=True))


def release(ports: Iterable[int]) -> None:
    """Remove the reservations of these ports."""
    with _reservations() as reserved:
        for port in ports:
            reserved.pop(port, None)


@contextmanager
def _reservations() -> Iterator[dict[int, float]]:
    """Yield the reserved ports with the times of reservation, under a lock, and save changes."""
    file = make_private(cache_dir()) / "ports.json"
    with locked(file.with_suffix(".lock")):
        try:
            recorded = {int(port): float(when) for port, when in json.loads(file.read_text()).items()}
        except (OSError, ValueError, TypeError, AttributeError):
            recorded = {}
        oldest = time.time() - _RESERVATION_SECONDS
        reserved = {port: when for port, when in recorded.items() if oldest < when <= time.time()}
        yield reserved
        file.write_text(json.dumps(reserved))


def is_free(port: int) -> bool:
    """Whether a server can listen on `port` of 127.0.0.1; connections in TIME_WAIT do not count."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def wait_until_free(port: int, timeout: float = 10.0) -> None:
    """Return when a server can listen on `port` again; a killed process may hold it for a moment.

    Raises:
        SandboxError: the port is still in use after `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if is_free(port):
            return
        time.sleep(0.05)
    raise SandboxError(
        f"port {port} on {LOOPBACK} is still in use after {timeout:.0f} s",
        hint="run kaiwo sandbox down, then kaiwo sandbox up; a new sandbox gets new ports",
    )
