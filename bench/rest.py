"""At rest: many live objects, nothing happens, and nothing may be written but the Lease."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from bench.access import OPERATOR
from bench.report import Figure, Target

if TYPE_CHECKING:
    from bench.process import Program
    from bench.server import Server

SETTLE_SECONDS = 5.0
"""Events of the fan-out may still be on their way; they are not at rest."""


def run(server: Server, program: Program, count: int, seconds: float) -> list[Figure]:
    """Watch a running operator over `count` live objects for `seconds`."""
    time.sleep(SETTLE_SECONDS)
    server.audit.read()
    before = program.cpu_seconds()
    time.sleep(seconds)
    used = program.cpu_seconds() - before
    writes = Counter(write.target for write in server.audit.read() if write.user.username == OPERATOR)
    leases = sum(number for target, number in writes.items() if target.endswith(" leases"))
    label = f"at rest, {count:,} objects, {seconds:.0f} s"
    return [
        Figure(f"{label}: writes but the Lease's", writes.total() - leases, "", 0, Target(0)),
        Figure(f"{label}: writes of the Lease", leases, ""),
        Figure(f"{label}: CPU", used / seconds * 100, "%", 0, Target(1)),
    ]
