"""At rest: many live objects, nothing happens, and nothing may be written but the Lease."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bench.access import OPERATOR
from bench.report import Figure, Target

if TYPE_CHECKING:
    from bench.audit import Write
    from bench.process import Program
    from bench.server import Server

_QUIET_SECONDS = 5.0
_SETTLE_SECONDS = 180.0
"""Events of the fan-out leave slowly, behind everything else; until the last has gone it is not at rest."""


def _settle(server: Server) -> None:
    """Wait until nothing but the Lease has been written for a while."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    while time.monotonic() < deadline:
        time.sleep(_QUIET_SECONDS)
        if not any(_counts(write) for write in server.audit.read()):
            return


def _counts(write: Write) -> bool:
    return write.user.username == OPERATOR and write.object_ref.resource != "leases"


def run(server: Server, program: Program, count: int, seconds: float) -> list[Figure]:
    """Watch a running operator over `count` live objects for `seconds`."""
    _settle(server)
    before = program.cpu_seconds()
    time.sleep(seconds)
    used = program.cpu_seconds() - before
    writes = [write for write in server.audit.read() if write.user.username == OPERATOR]
    leases = sum(not _counts(write) for write in writes)
    label = f"at rest, {count:,} objects, {seconds:.0f} s"
    return [
        Figure(f"{label}: writes but the Lease's", len(writes) - leases, "", 0, Target(0)),
        Figure(f"{label}: writes of the Lease", leases, ""),
        Figure(f"{label}: CPU", used / seconds * 100, "%", 0, Target(1)),
    ]
