"""The duration of a workload: from its end on, the workload may be ended for another one."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from kaiwo.api.conditions import Condition, find_condition
from kaiwo.api.duration import InvalidDuration, parse_duration
from kaiwo.engine.timestamps import format_time
from kaiwo.workload.ending.record import RULE_REASONS
from kaiwo.workload.model import PlannedEvent

if TYPE_CHECKING:
    from datetime import datetime

    from kaiwo.api.workload import Workload

CONDITION = "Preemptable"

_LONGEST_TIMER = 86400.0
"""Seconds; a timer of years would be lost with the process anyhow."""


def deadline_of(duration: str | None, start: datetime | None) -> datetime | None:
    """When the duration of a workload has passed; None without a duration, a start or an end."""
    if not duration or start is None:
        return None
    try:
        return start + parse_duration(duration)
    except (InvalidDuration, OverflowError):
        return None


def preemptable(
    workload: Workload, start: datetime | None, now: datetime
) -> tuple[Condition | None, float | None]:
    """The condition of a workload whose duration has passed, or seconds until it has.

    Args:
        workload: the workload.
        start: when its current run started, None while it has not.
        now: the time, UTC.
    """
    deadline = deadline_of(workload.spec.duration, start)
    if deadline is None or start is None:
        return None, None
    left = (deadline - now) / timedelta(seconds=1)
    if left > 0:
        return None, min(left, _LONGEST_TIMER)
    text = (
        f"spec.duration of {workload.spec.duration} passed at {format_time(deadline)}; "
        "the workload runs on until another one needs its GPUs"
    )
    return Condition(CONDITION, "True", RULE_REASONS["Duration"], text, workload.generation or None), None


def passed_event(workload: Workload, condition: Condition | None) -> tuple[PlannedEvent, ...]:
    """The event of a duration that has passed, once."""
    before = find_condition(workload.status.conditions, CONDITION) or {}
    if condition is None or before.get("status") == "True":
        return ()
    return (PlannedEvent("Warning", condition.reason, condition.message),)
