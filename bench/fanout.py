"""Fan-out: many KaiwoJobs at once, until each has its Job and its first status.

The clock runs from the first create request to the last answer to the subject, by the API server's own audit
log. CPU is what the subject used meanwhile, memory is the largest it ever held.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from bench.access import LOAD
from bench.load import CLIENTS
from bench.process import Program, until
from bench.subjects import USER, Subject, started

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.audit import Write
    from bench.server import Server

_SETTLE_SECONDS = 1800.0
"""At 30 Jobs a second 50,000 take this long; a subject that stands still fails after a minute."""
_STALL_SECONDS = 60.0


@dataclass(slots=True)
class Progress:
    """What the audit log shows of one user's work."""

    user: str
    writes: Counter[str] = field(default_factory=Counter)
    first_request: float = 0.0
    last_answer: float = 0.0
    jobs: set[tuple[str, str]] = field(default_factory=set)
    statuses: set[tuple[str, str]] = field(default_factory=set)

    def add(self, writes: Iterable[Write]) -> bool:
        """Take in what the log gained; whether the user wrote anything but its Lease."""
        worked = False
        for write in writes:
            if write.user.username == LOAD and not self.first_request:
                self.first_request = write.received
            if write.user.username != self.user:
                continue
            worked = worked or write.object_ref.resource != "leases"
            self.writes[write.target if write.ok else f"{write.target} ({write.response_status.code})"] += 1
            if not write.ok:
                continue
            ref = write.object_ref
            if write.target == "create jobs":
                self._count(self.jobs, write)
            elif ref.resource == "kaiwojobs" and ref.subresource == "status":
                self._count(self.statuses, write)
        return worked

    def _count(self, seen: set[tuple[str, str]], write: Write) -> None:
        key = (write.object_ref.namespace, write.object_ref.name)
        if key not in seen:
            seen.add(key)
            self.last_answer = max(self.last_answer, write.done)

    def complete(self, count: int) -> bool:
        """Whether `count` KaiwoJobs have a Job and a status."""
        return len(self.jobs) >= count and len(self.statuses) >= count


@dataclass(frozen=True, slots=True)
class FanOut:
    """One measurement.

    Attributes:
        rate: Jobs per second.
        cpu_ms: the subject's CPU per job, in milliseconds.
        memory: its peak resident memory, MiB.
        writes: its requests by verb and resource.
    """

    rate: float
    cpu_ms: float
    memory: float
    writes: Counter[str]

    @property
    def writes_per_job(self) -> float:
        """Writes per job; Events, the Lease and KaiwoConfig are counted apart."""
        apart = ("events", "leases", "kaiwoconfigs")
        counted = sum(n for target, n in self.writes.items() if not any(word in target for word in apart))
        return counted / max(1, self.writes["create jobs"])


def load_command(server: Server, count: int, prefix: str, **options: float | str) -> list[str]:
    """The command of the load generator."""
    command = [sys.executable, "-m", "bench.load", "--access", str(server.access_file(LOAD))]
    command += ["--count", str(count), "--prefix", prefix]
    for name, value in options.items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    return command


def measure(server: Server, program: Program, subject: Subject, count: int) -> FanOut:
    """Fan out `count` KaiwoJobs to a running subject."""
    server.audit.read()
    progress = Progress(USER[subject])
    moved = time.monotonic()

    def done() -> bool:
        nonlocal moved
        if progress.add(server.audit.read()):
            moved = time.monotonic()
        elif time.monotonic() - moved > _STALL_SECONDS:
            jobs, statuses = len(progress.jobs), len(progress.statuses)
            raise RuntimeError(f"{subject} stands still at {jobs} Jobs and {statuses} statuses of {count}")
        return progress.complete(count)

    before = program.cpu_seconds()
    command = load_command(server, count, subject, clients=CLIENTS)
    with Program(command, server.directory / "load.log") as load:
        load.wait(_SETTLE_SECONDS)
    moved = time.monotonic()
    until(done, _SETTLE_SECONDS, program, f"all {count} KaiwoJobs served")
    return FanOut(
        rate=count / (progress.last_answer - progress.first_request),
        cpu_ms=(program.cpu_seconds() - before) * 1000 / count,
        memory=program.peak_mebibytes(),
        writes=progress.writes,
    )


def run(server: Server, subject: Subject, count: int) -> FanOut:
    """One measurement from an empty server to an empty server."""
    server.clear()
    with started(server, subject) as program:
        result = measure(server, program, subject, count)
    server.clear()
    return result


def middle(results: list[FanOut]) -> FanOut:
    """The medians of several measurements."""
    return FanOut(
        rate=median(each.rate for each in results),
        cpu_ms=median(each.cpu_ms for each in results),
        memory=median(each.memory for each in results),
        writes=results[-1].writes,
    )
