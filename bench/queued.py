"""Through Kueue: KaiwoJobs of one GPU beside the same Jobs given to Kueue directly, on 32 fake GPUs.

Jobs that run for ten seconds wait for GPUs, as in a cluster. Jobs that run for one wait for the machine:
every program of the control plane shares its cores, so what another program needs makes all of them slower.

The clock runs from the first create request to the write by which the last one is complete: of the KaiwoJob's
status here, of the Job's there. Both by the API server's own audit log, with the same pods, queue and quota.

The CPU per job has another floor: a program that receives and sends the same and decides nothing
(`bench.queued_floor`). Where jobs wait for GPUs it gets fewer jobs, but enough to keep these busy for most
of the time. Where they wait for the machine it gets as many, and its rate shows what the statuses and Events
alone cost.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from bench.access import FLOOR, LOAD, OPERATOR
from bench.fanout import load_command
from bench.following import READY
from bench.platform import GPUS, QUEUED, statuses
from bench.process import Program, until
from bench.report import Figure, Target
from bench.subjects import started

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.audit import Write
    from bench.platform import Platform

_LIMIT_SECONDS = 900.0
_REST_SECONDS = 30.0
_QUIET_SECONDS = 5.0
_READY_SECONDS = 60.0
_FLOOR_SHARE = 4
_SHARE = Target(0.95, "at least", of_floor=True)
_APART = ("events", "leases", "kaiwoconfigs", "kaiwoqueueconfigs")

WAIT_FOR_GPUS = "10s"
"""How long a job runs where GPUs are what is short: 32 of them end three jobs a second."""

WAIT_FOR_MACHINE = "1s"
"""How long a job runs where the machine is what is short."""


@dataclass(frozen=True, slots=True)
class Passage:
    """One measurement.

    Attributes:
        rate: jobs completed per second.
        cpu_ms: CPU per job of the operator, or of the floor, in milliseconds; 0 without either.
        writes: the operator's accepted writes by verb and resource.
        changes: how often the jobs changed their status or the reason of it.
        refused: its refused writes.
        at_rest: its writes afterwards but the Lease's, in half a minute.
    """

    rate: float
    cpu_ms: float = 0.0
    writes: Counter[str] = field(default_factory=Counter)
    changes: int = 0
    refused: int = 0
    at_rest: int = 0


@contextmanager
def _floor(platform: Platform) -> Iterator[Program]:
    log = platform.directory / "queued-floor.log"
    command = [sys.executable, "-m", "bench.queued_floor", "--kubeconfig", str(platform.kubeconfig(FLOOR))]
    with Program(command, log) as program:
        until(lambda: READY.encode() in log.read_bytes(), _READY_SECONDS, program, "ready")
        yield program


def completed(writes: list[Write], user: str) -> dict[tuple[str, str], float]:
    """When each one became complete, by namespace and name.

    Args:
        writes: of all programs.
        user: whose status of the KaiwoJob counts; empty for the status of the Job.
    """
    found: dict[tuple[str, str], float] = {}
    if user:
        ended = [write for write, word in statuses(writes, user) if word == "COMPLETE"]
    else:
        ended = [write for write in writes if _ends_job(write)]
    for write in ended:
        found.setdefault((write.object_ref.namespace, write.object_ref.name), write.done)
    return found


def _ends_job(write: Write) -> bool:
    if write.object_ref.resource != "jobs" or write.object_ref.subresource != "status" or not write.ok:
        return False
    conditions = (write.body.get("status") or {}).get("conditions") or ()
    return any(item.get("type") == "Complete" and item.get("status") == "True" for item in conditions)


def changes(writes: list[Write]) -> int:
    """How often KaiwoJobs changed their status or its reason, by what was written into them."""
    latest: dict[tuple[str, str], tuple[object, object]] = {}
    count = 0
    for write in writes:
        if write.target == "patch kaiwojobs/status" and write.ok:
            key = (write.object_ref.namespace, write.object_ref.name)
            before = latest.get(key, (None, None))
            status = write.body.get("status") or {}
            latest[key] = (status.get("status", before[0]), status.get("reason", before[1]))
            count += latest[key] != before
    return count


def _measure(platform: Platform, count: int, run_time: str, user: str = "") -> Passage:
    """Measure the program of a user, OPERATOR or FLOOR; without one the jobs are given to Kueue."""
    platform.clear()
    writes: list[Write] = []
    done: dict[tuple[str, str], float] = {}

    def complete() -> bool:
        more = platform.audit.read()
        writes.extend(more)
        for key, at in completed(more, user).items():
            done.setdefault(key, at)
        return len(done) >= count

    subject = {OPERATOR: lambda: started(platform, "operator", QUEUED), FLOOR: lambda: _floor(platform)}
    with subject[user]() if user else nullcontext() as program:
        platform.audit.read()
        before = program.cpu_seconds() if program else 0.0
        kind = "kaiwojobs" if user else "jobs"
        command = load_command(platform, count, "queued", kind=kind, run_time=run_time)
        with Program(command, platform.directory / "load.log") as load:
            load.wait(_LIMIT_SECONDS)
        until(complete, _LIMIT_SECONDS, program or platform.server, f"all {count} complete")
        first = min(write.received for write in writes if write.user.username == LOAD)
        rate = count / (max(done.values()) - first)
        if program is None:
            return Passage(rate)
        used = program.cpu_seconds() - before
        if user == FLOOR:
            return Passage(rate, used * 1000 / count)
        time.sleep(_QUIET_SECONDS)  # Events leave behind everything else
        writes.extend(platform.audit.read())
        time.sleep(_REST_SECONDS)
        resting = [write for write in platform.audit.read() if _counts(write)]
    mine = [write for write in writes if _counts(write)]
    return Passage(
        rate,
        used * 1000 / count,
        Counter(write.target for write in mine if write.ok),
        changes(mine),
        sum(not write.ok for write in mine),
        len(resting),
    )


def _counts(write: Write) -> bool:
    return write.user.username == OPERATOR and write.object_ref.resource not in _APART


def _floor_count(count: int, run_time: str) -> int:
    return count if run_time == WAIT_FOR_MACHINE else max(count // _FLOOR_SHARE, 2 * GPUS)


def run(platform: Platform, count: int, rounds: int, run_time: str) -> list[Figure]:
    """Both in turn; which goes first alternates, because a server slows down as it ages."""
    direct: list[Passage] = []
    through: list[Passage] = []
    floor: list[Passage] = []
    for number in range(rounds):
        for user in ("", OPERATOR) if number % 2 == 0 else (OPERATOR, ""):
            (through if user else direct).append(_measure(platform, count, run_time, user))
        floor.append(_measure(platform, _floor_count(count, run_time), run_time, FLOOR))
    platform.clear()
    last = through[-1]
    beyond = (last.writes.total() - last.changes) / count
    label = f"{count:,} jobs of {run_time} through Kueue on {GPUS} GPUs"
    bare = median(p.rate for p in direct)
    rates = [
        Figure(f"{label}: rate", median(p.rate for p in through), "/s", bare, _SHARE),
        Figure(f"{label}: rate of a program that only sends", median(p.rate for p in floor), "/s", bare),
    ]
    return [
        *(rates if run_time == WAIT_FOR_MACHINE else rates[:1]),
        Figure(
            f"{label}: CPU per job",
            median(p.cpu_ms for p in through),
            "ms",
            median(p.cpu_ms for p in floor),
            Target(8),
        ),
        Figure(f"{label}: changes of status or reason per job", last.changes / count, ""),
        Figure(f"{label}: writes per job beyond one for each of them", beyond, "", None, Target(1)),
        Figure(f"{label}: refused writes", last.refused, "", 0, Target(0)),
        Figure(
            f"{label}: at rest, {_REST_SECONDS:.0f} s: writes but the Lease's", last.at_rest, "", 0, Target(0)
        ),
    ]
