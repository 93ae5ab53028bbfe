"""Advice on how many GPUs a workload needs, from what it used."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from kaiwo.engine.timestamps import parse_time
from kaiwo.workload.json_access import lenient_map

if TYPE_CHECKING:
    from datetime import datetime

    from kaiwo.engine.resource import Object

SHORTEST: Final = timedelta(hours=1)
"""Time for which a workload must have been observed before it gets advice."""


def right_sizing(status: Object, now: datetime) -> str:
    """One sentence on GPUs that were not used, with its basis; empty where there is none.

    Args:
        status: of the workload.
        now: the time; for a workload that has ended, the end of its run counts.
    """
    found = lenient_map(status.get("utilization"))
    gpus, used = _count(found.get("gpus")), _count(found.get("mostGpusUsed"))
    since = parse_time(found.get("observedSince"))
    until = parse_time(status.get("completionTime")) or now
    if gpus is None or used is None or used >= gpus or since is None or until - since < SHORTEST:
        return ""
    return f"asked for {gpus} GPU{'s' * (gpus > 1)}, used at most {used} over {_span(until - since)}"


def gpu_use(status: Object) -> str:
    """How GPUs and their memory are used by the status of a workload, empty where that is not known."""
    found = lenient_map(status.get("utilization"))
    percent, memory = _count(found.get("percent")), _count(found.get("memoryPercent"))
    parts = [] if percent is None else [f"{percent} %"]
    parts += [] if memory is None else [f"memory {memory} %"]
    return ", ".join(parts)


def with_basis(status: Object, now: datetime) -> str:
    """The same sentence with what it is based on."""
    advice = right_sizing(status, now)
    since = lenient_map(status.get("utilization")).get("observedSince")
    return advice and f"{advice} (most GPUs used in one reading of the metrics since {since})"


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _span(time: timedelta) -> str:
    """A span in days from two days on, in hours from two hours on, else in minutes."""
    seconds = int(time.total_seconds())
    for unit, size in (("d", 86400), ("h", 3600)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds // 60} min"
