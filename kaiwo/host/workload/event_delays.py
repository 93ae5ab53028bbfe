"""How long the look at a workload may wait after something around it changed.

One step of a queued job changes its child, its pods and its place in the queue, a dozen times together.
People wait for few of these changes; the others are looked at together, a moment later.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kaiwo.workload.json_access import holding
from kaiwo.workload.observe import pod_status

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.store import CacheEvent

AT_ONCE = 0.0
"""For a change that people wait for."""

TOGETHER = 0.02
"""Seconds until the look at a change of which nobody knows whether people wait for it: what comes together is
looked at together, and nobody notices a fiftieth of a second."""

LATER = 0.5
"""Seconds until the look at any other change."""

LAST = 2.0
"""Seconds until the look at a change that another one follows: a Job is complete a second after its pods, and
its place in a queue gets a state. Should nothing follow, that is worth a look, too."""


NEVER = math.inf
"""For a change that tells nothing: there is no look because of it."""


def together(_: CacheEvent) -> float:
    """For kinds of which nothing is known: every change may be one that people wait for."""
    return TOGETHER


def of_itself(event: CacheEvent) -> float:
    """For a workload: a change of its status alone is nearly always the operator's own."""
    old, new = event.old, event.new
    return LATER if old is not None and new is not None and _same_but_status(old, new) else AT_ONCE


def of_child(urgent: Collection[str], reads: Collection[str]) -> Callable[[CacheEvent], float]:
    """For children of which it is known what people wait for.

    Args:
        urgent: types of their conditions that people wait for.
        reads: fields of their status that mean something, beside `conditions`; empty where all may.
    """
    waited_for = of_conditions(urgent)
    told = ("conditions", *reads)

    def delay(event: CacheEvent) -> float:
        old, new = event.old, event.new
        silent = (
            reads
            and old is not None
            and new is not None
            and _same_but_status(old, new)
            and all(old.part("status", name) == new.part("status", name) for name in told)
        )
        return NEVER if silent else waited_for(event)

    return delay


def of_place(urgent: Collection[str]) -> Callable[[CacheEvent], float]:
    """For objects of a queue system: a new one tells little before it has conditions, a moment later."""
    waited_for = of_conditions(urgent)

    def delay(event: CacheEvent) -> float:
        new = event.new
        if event.old is None and new is not None and not new.part("status", "conditions"):
            return LAST
        return waited_for(event)

    return delay


def of_conditions(types: Collection[str]) -> Callable[[CacheEvent], float]:
    """For objects that tell what people wait for by conditions of these types."""

    def delay(event: CacheEvent) -> float:
        old, new = event.old, event.new
        if old is None or new is None:
            return LATER if old is None else AT_ONCE
        before, after = (holding(entry.part("status", "conditions")) for entry in (old, new))
        moved = old.deleted != new.deleted or any((kind in before) != (kind in after) for kind in types)
        return AT_ONCE if moved else LATER

    return delay


def of_pod(event: CacheEvent) -> float:
    """At once when a container begins to run.

    What a success means, the pod's owner tells a moment later; that it does not is worth a look in the end.
    """
    old, new = event.old, event.new
    if new is not None and new.part("status", "phase") == "Succeeded":
        return LAST
    begins = new is not None and _runs(new) and not (old is not None and _runs(old))
    return AT_ONCE if begins else LATER


def _runs(pod: CachedObject) -> bool:
    return pod_status.runs({"status": pod.part("status")})


def _same_but_status(old: CachedObject, new: CachedObject) -> bool:
    """Whether nothing but the status changed, of a kind that counts generations of its spec."""
    return (
        bool(new.generation)
        and (old.generation, old.labels, old.owners, old.deleted)
        == (new.generation, new.labels, new.owners, new.deleted)
        and old.annotations == new.annotations
    )
