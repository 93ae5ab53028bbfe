"""Whom a queue serves first with what becomes free when workloads are ended. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.plugin.queue_relief import QueueRelief

_LAST = datetime.max.replace(tzinfo=UTC)


def served_before(relief: QueueRelief, others: Mapping[str, QueueRelief], ended: frozenset[str]) -> str:
    """Another waiting workload that gets what becomes free, or keeps the queue from giving it on.

    Args:
        relief: of the workload that others are to be ended for.
        others: of other workloads that wait, by uid.
        ended: uids of those that are to be ended.

    Returns:
        The uid of the first one, empty where there is none.
    """
    mine = _place(relief)
    rivals = sorted(
        (_place(other), uid)
        for uid, other in others.items()
        if other.queue in relief.sharing and _place(other) < mine
    )
    for _, uid in rivals:
        rival = others[uid]
        if rival.place(frozenset()) is not None:
            continue  # it has its quota, or gets it whoever ends
        if rival.place(ended) is not None or (relief.strict and rival.queue == relief.queue):
            return uid
    return ""


def _place(relief: QueueRelief) -> tuple[int, datetime]:
    """The place in the order of the queue, the least first."""
    return -relief.priority, relief.queued_at or _LAST
