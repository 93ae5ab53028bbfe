"""Through Kueue: KaiwoJobs of one GPU beside the same Jobs given to Kueue directly, on 32 fake GPUs.

Jobs that run for ten seconds wait for GPUs, as in a cluster. Jobs that run for one wait for the machine:
every program of the control plane shares its cores, so what another program needs makes all of them slower.

The clock runs from the first create request to the write by which the last one is complete: of the KaiwoJob's
status here, of the Job's there. Both by the API server's own audit log, with the same pods, queue and quota.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from bench.access import LOAD, OPERATOR
from bench.fanout import load_command
from bench.platform import GPUS, QUEUED, statuses
from bench.process import Program, until
from bench.report import Figure, Target
from bench.subjects import started

if TYPE_CHECKING:
    from bench.audit import Write
    from bench.platform import Platform

_LIMIT_SECONDS = 900.0
_REST_SECONDS = 30.0
_QUIET_SECONDS = 5.0
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
        cpu_ms: the operator's CPU per job, in milliseconds; 0 without one.
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


def completed(writes: list[Write], operator: bool) -> dict[tuple[str, str], float]:
    """When each one became complete, by namespace and name: its KaiwoJob's status, or its Job's."""
    found: dict[tuple[str, str], float] = {}
    if operator:
        ended = [write for write, word in statuses(writes, OPERATOR) if word == "COMPLETE"]
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


def _measure(platform: Platform, count: int, run_time: str, *, operator: bool) -> Passage:
    platform.clear()
    writes: list[Write] = []
    done: dict[tuple[str, str], float] = {}

    def complete() -> bool:
        more = platform.audit.read()
        writes.extend(more)
        for key, at in completed(more, operator).items():
            done.setdefault(key, at)
        return len(done) >= count

    with started(platform, "operator", QUEUED) if operator else nullcontext() as program:
        platform.audit.read()
        before = program.cpu_seconds() if program else 0.0
        kind = "kaiwojobs" if operator else "jobs"
        command = load_command(platform, count, "queued", kind=kind, run_time=run_time)
        with Program(command, platform.directory / "load.log") as load:
            load.wait(_LIMIT_SECONDS)
        until(complete, _LIMIT_SECONDS, program or platform.server, f"all {count} complete")
        first = min(write.received for write in writes if write.user.username == LOAD)
        rate = count / (max(done.values()) - first)
        if program is None:
            return Passage(rate)
        used = program.cpu_seconds() - before
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


def run(platform: Platform, count: int, rounds: int, run_time: str) -> list[Figure]:
    """Both in turn; which goes first alternates, because a server slows down as it ages."""
    direct: list[Passage] = []
    through: list[Passage] = []
    for number in range(rounds):
        for operator in (False, True) if number % 2 == 0 else (True, False):
            (through if operator else direct).append(_measure(platform, count, run_time, operator=operator))
    platform.clear()
    last = through[-1]
    beyond = (last.writes.total() - last.changes) / count
    label = f"{count:,} jobs of {run_time} through Kueue on {GPUS} GPUs"
    share = Target(0.95, "at least", of_floor=True)
    return [
        Figure(
            f"{label}: rate", median(p.rate for p in through), "/s", median(p.rate for p in direct), share
        ),
        Figure(f"{label}: CPU per job", median(p.cpu_ms for p in through), "ms", None, Target(8)),
        Figure(f"{label}: changes of status or reason per job", last.changes / count, ""),
        Figure(f"{label}: writes per job beyond one for each of them", beyond, "", None, Target(1)),
        Figure(f"{label}: refused writes", last.refused, "", 0, Target(0)),
        Figure(
            f"{label}: at rest, {_REST_SECONDS:.0f} s: writes but the Lease's", last.at_rest, "", 0, Target(0)
        ),
    ]
