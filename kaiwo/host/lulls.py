"""How long the look at a workload may wait after something around it changed.

One step of a queued job changes its child, its pods and its place in the queue, a dozen times together.
People wait for few of these changes; the others are looked at together, a moment later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.workload import podtruth
from kaiwo.workload.shapes import holding

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kaiwo.engine.cache import Event
    from kaiwo.engine.entry import Entry

AT_ONCE = 0.0
"""For a change that people wait for."""

TOGETHER = 0.02
"""Seconds until the look at a change of which nobody knows whether people wait for it: what comes together is
looked at together, and nobody notices a fiftieth of a second."""

LATER = 0.5
"""Seconds until the look at any other change."""


def together(_: Event) -> float:
    """For kinds of which nothing is known: every change may be one that people wait for."""
    return TOGETHER


def of_conditions(types: Collection[str]) -> Callable[[Event], float]:
    """For objects that tell what people wait for by conditions of these types."""

    def lull(event: Event) -> float:
        old, new = event.old, event.new
        if old is None or new is None:
            return LATER if old is None else AT_ONCE
        before, after = (holding(entry.part("status", "conditions")) for entry in (old, new))
        moved = old.deleted != new.deleted or any((kind in before) != (kind in after) for kind in types)
        return AT_ONCE if moved else LATER

    return lull


def of_pod(event: Event) -> float:
    """At once when a container begins to run; what its end means, its owner tells."""
    old, new = event.old, event.new
    begins = new is not None and _runs(new) and not (old is not None and _runs(old))
    return AT_ONCE if begins else LATER


def _runs(pod: Entry) -> bool:
    return podtruth.runs({"status": pod.part("status")})
