"""GPU time of workloads within a window: reserved and waiting, from what their objects show."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from kaiwo.api.status_words import TERMINAL
from kaiwo.engine.timestamps import parse_time
from kaiwo.workload.json_access import lenient_map, lenient_maps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo.engine.resource import Object

_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class GpuHours:
    """GPU time, in GPU-hours.

    Attributes:
        reserved: GPUs were held for the workload, whether it used them or not.
        waiting: it waited for GPUs, for quota, nodes or data.
        unclear: between the first start and the last admission of a workload that was evicted; its object
            does not show when it held GPUs.
    """

    reserved: float = 0.0
    waiting: float = 0.0
    unclear: float = 0.0

    def __add__(self, other: GpuHours) -> GpuHours:
        """The sum."""
        return GpuHours(
            self.reserved + other.reserved, self.waiting + other.waiting, self.unclear + other.unclear
        )


@dataclass(frozen=True, slots=True)
class _Span:
    """A part of a workload's life: ``reserved``, ``waiting`` or ``unclear``."""

    kind: str
    start: datetime
    end: datetime


def gpu_hours(workload: Object, start: datetime, end: datetime, now: datetime) -> GpuHours:
    """The GPU time of one workload within a window.

    Args:
        workload: a KaiwoJob or KaiwoService.
        start: of the window.
        end: of the window; what lies after `now` counts nothing.
        now: the time of reading; what has not ended lasts until then.
    """
    gpus = gpus_of(workload)
    total = {"reserved": 0.0, "waiting": 0.0, "unclear": 0.0}
    if not gpus:
        return GpuHours()
    last = min(end, now)
    for span in _spans(workload, now):
        overlap = min(span.end, last) - max(span.start, start)
        if overlap > timedelta():
            total[span.kind] += gpus * (overlap / _HOUR)
    return GpuHours(**total)


def gpus_of(workload: Object) -> int:
    """GPUs in all: as allocated, else as requested."""
    if allocated := allocated_gpus(lenient_map(lenient_map(workload.get("status")).get("allocation"))):
        return allocated
    spec = lenient_map(workload.get("spec"))
    asked, each, replicas = (spec.get(key) for key in ("gpus", "gpusPerReplica", "replicas"))
    if _count(each):
        return int(each) * (int(replicas) if _count(replicas) else 1)  # type: ignore[arg-type]  # likewise
    return int(asked) if _count(asked) else 0  # type: ignore[arg-type]  # likewise


def allocated_gpus(allocation: Object) -> int:
    """GPUs of all pods by ``status.allocation``, 0 where it does not say."""
    replicas, each = allocation.get("pods", allocation.get("replicas")), allocation.get("gpusPerReplica")
    if _count(replicas) and _count(each):
        return int(replicas) * int(each)  # type: ignore[arg-type]  # counts, as checked
    return 0


def holds_gpus(status: Object) -> bool:
    """Whether a workload with that status holds its GPUs, by the rule of `gpu_hours`."""
    if status.get("status") in TERMINAL:
        return False
    admitted, _ = _admission(status)
    return status.get("startTime") is not None if admitted is None else admitted


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _spans(workload: Object, now: datetime) -> Iterator[_Span]:
    """The life of a workload in spans that follow each other; clocks that differ make none negative."""
    metadata, status = lenient_map(workload.get("metadata")), lenient_map(workload.get("status"))
    created = parse_time(metadata.get("creationTimestamp"))
    if created is None:
        return
    started = parse_time(status.get("startTime"))
    admitted, since = _admission(status)
    end = _end(status, created, started, now)
    marks: list[tuple[str, datetime]]
    if admitted is None:
        # No queue: GPUs are held from the start of the first container on.
        marks = [("waiting", started or end), ("reserved", end)]
    elif admitted and started is not None and since is not None and started < since:
        marks = [("waiting", started), ("unclear", since), ("reserved", end)]
    elif admitted:
        marks = [("waiting", since or started or end), ("reserved", end)]
    elif started is not None and since is not None and started < since:
        marks = [("waiting", started), ("reserved", since), ("waiting", end)]
    else:
        marks = [("waiting", end)]
    at = created
    for kind, mark in marks:
        until = min(max(mark, at), max(end, at))
        if until > at:
            yield _Span(kind, at, until)
        at = until


def _admission(status: Object) -> tuple[bool | None, datetime | None]:
    """Whether a queue has admitted the workload, None without a queue, and since when."""
    for condition in lenient_maps(status.get("conditions")):
        if condition.get("type") == "Admitted" and condition.get("status") in ("True", "False"):
            return condition.get("status") == "True", parse_time(condition.get("lastTransitionTime"))
    return None, None


def _end(status: Object, created: datetime, started: datetime | None, now: datetime) -> datetime:
    """When the workload ended, now if it has not."""
    if status.get("status") not in TERMINAL:
        return now
    completed = parse_time(status.get("completionTime"))
    if completed is not None:
        return completed
    seconds = status.get("duration")
    if started is not None and isinstance(seconds, int):
        return started + timedelta(seconds=min(max(seconds, 0), 10**9))
    times = [
        moment
        for condition in lenient_maps(status.get("conditions"))
        if (moment := parse_time(condition.get("lastTransitionTime"))) is not None
    ]
    return max([*times, started or created])
