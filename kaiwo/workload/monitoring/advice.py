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

_DAY: Final = 48 * 3600
_MINUTES: Final = 2 * 3600


def right_sizing(status: Object, now: datetime) -> str:
    """One sentence on GPUs that were not used, with its basis; empty where there is none.

    Args:
        status: of the workload.
        now: the time; for a workload that has ended, the end of its run counts.
    """
    found = lenient_map(status.get("utilization"))
    gpus, used = found.get("gpus"), found.get("mostGpusUsed")
    since = parse_time(found.get("observedSince"))
    until = parse_time(status.get("completionTime")) or now
    if not _count(gpus) or not _count(used) or since is None or until - since < SHORTEST or used >= gpus:
        return ""
    return f"asked for {gpus} GPU{'s' * (gpus > 1)}, used at most {used} over {_span(until - since)}"


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _span(time: timedelta) -> str:
    seconds = int(time.total_seconds())
    if seconds >= _DAY:
        return f"{seconds // 86400} d"
    return f"{seconds // 3600} h" if seconds >= _MINUTES else f"{seconds // 60} min"
