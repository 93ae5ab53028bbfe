"""Set T: long times under a clock of the test: durations over a day, certificates over a year.

The metrics endpoint that is gone for a day is a case of set K.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from campaign.case import StandaloneCase
from campaign.violation import ViolationError
from kaiwo.admission.certificates import Certificates, expiry, fault_of, is_trusted, next_certificates
from kaiwo.api.workload import Workload
from kaiwo.testing.builders import NOW, job
from kaiwo.workload.ending.duration import CONDITION, preemptable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

JOBS: Final = 2000
"""Workloads with a duration."""

REPLICAS: Final = 3
YEAR: Final = timedelta(days=365)
_DAY: Final = timedelta(days=1)
_STEP: Final = timedelta(hours=6)
_LATE: Final = timedelta(seconds=1)
_MOST_TIMERS: Final = 3
_NAMES: Final = ("kaiwo-webhooks.kaiwo-system.svc",)
_SKEWS: Final = {"equal": timedelta(), "apart": timedelta(minutes=59)}
"""By name: how far the clock of each replica is before that of the next."""


def cases(seed: int) -> Iterator[StandaloneCase]:
    """A day of durations, and a year of certificates with clocks that are equal or not.

    Args:
        seed: of the durations.
    """
    yield StandaloneCase("T", "durations", partial(_durations, seed))
    for name, skew in _SKEWS.items():
        yield StandaloneCase("T", f"certificates-{name}", partial(_certificates, skew))


async def _durations(seed: int, directory: Path) -> None:
    """Each timer is followed as the work queue does it: the condition comes on time, with few timers."""
    del directory
    chosen = random.Random(f"{seed}-T")  # noqa: S311  no secret
    workloads: list[tuple[Workload, datetime, datetime]] = []
    pending: list[tuple[datetime, int]] = []
    for number in range(JOBS):
        minutes = chosen.randint(1, 23 * 60)
        start = NOW + timedelta(seconds=chosen.randint(0, 3600))
        workloads.append(
            (
                Workload.from_object(job(f"job-{number}", duration=f"{minutes}m")),
                start,
                start + timedelta(minutes=minutes),
            )
        )
        pending.append((start, number))
    heapq.heapify(pending)
    said: dict[int, datetime] = {}
    timers: Counter[int] = Counter()
    while pending and pending[0][0] <= NOW + _DAY:
        now, number = heapq.heappop(pending)
        workload, start, deadline = workloads[number]
        timers[number] += 1
        condition, left = preemptable(workload, start, now)
        if left is not None:
            heapq.heappush(pending, (now + timedelta(seconds=left), number))
        elif condition is None or condition.type != CONDITION:
            raise ViolationError("O1", f"job-{number} has neither a condition nor a timer at {now}")
        elif now < deadline:
            raise ViolationError("O5", f"job-{number} is said to be over {deadline - now} early")
        else:
            said[number] = now
    if len(said) != JOBS:
        raise ViolationError("O1", f"{JOBS - len(said)} of {JOBS} durations passed without a word")
    if late := max(at - workloads[number][2] for number, at in said.items()) > _LATE:
        raise ViolationError("O5", f"a duration was noticed {late} late")
    if max(timers.values()) > _MOST_TIMERS:
        raise ViolationError("O6", f"a workload was reconciled {max(timers.values())} times for one duration")


@dataclass(slots=True)
class _Replica:
    """One operator: its clock, and what it serves with."""

    skew: timedelta
    serving: Certificates


async def _certificates(skew: timedelta, directory: Path) -> None:
    """Every six hours each replica looks at what is stored, and serves with it until the next time."""
    del directory
    stored, now, changes, first = Certificates(), NOW, 0, set()
    replicas = [_Replica(skew * number, Certificates()) for number in range(REPLICAS)]
    while now < NOW + YEAR:
        trusted_before = stored.authorities
        for replica in replicas:
            serving = replica.serving if replica.serving.certificate else None
            if change := next_certificates(stored, serving, _NAMES, now + replica.skew):
                stored = change.certificates
                changes += 1
        for replica in replicas:
            if replica.serving.certificate:
                _usable(replica, stored, trusted_before, now)
            replica.serving = stored
        first.add(expiry(stored))
        now += _STEP
    rotations = len(first) - 1
    if not rotations:
        raise ViolationError("fault", "no certificate was rotated in a year")
    if changes > 2 * (rotations + 1):
        raise ViolationError("O2", f"{changes} writes for {rotations} rotations; each needs two")


def _usable(replica: _Replica, stored: Certificates, before: bytes, now: datetime) -> None:
    """What a replica serves with is valid by every clock, and trusted before and after the last write."""
    for clock in (now, now + replica.skew):
        if fault := fault_of(replica.serving, _NAMES, clock):
            raise ViolationError("O1", f"served at {clock}: {fault.message}")
    for authorities in (before, stored.authorities):
        if not is_trusted(replica.serving.certificate, authorities):
            raise ViolationError("O1", f"served at {now} with a certificate that nobody trusts")
