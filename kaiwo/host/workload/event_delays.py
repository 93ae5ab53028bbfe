"""Event delays: how long the reconciliation of a workload may wait after an object of it changed.

One step of a queued job changes its child, its pods and its queue object, a dozen times together. People wait
for few of these changes; the others share one reconciliation, a moment later.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from kaiwo.workload.json_access import holding, lenient_map
from kaiwo.workload.observe import pod_status

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.store import CacheEvent

_decode = msgspec.json.Decoder().decode

NO_DELAY = 0.0
"""For a change that people wait for."""

SHORT_DELAY = 0.02
"""Seconds for a change of which it is unknown whether people wait for it. Changes that come together cause
one reconciliation."""

NORMAL_DELAY = 0.5
"""Seconds for any other change."""

LONG_DELAY = 2.0
"""Seconds for a change that is followed by another one: a Job is complete a second after its pods, and a new
queue object soon has conditions. Should nothing follow, there is still a reconciliation."""

IGNORED = math.inf
"""For a change that means nothing: there is no reconciliation because of it."""


def of_any(_: CacheEvent) -> float:
    """For kinds of which nothing is known: people may wait for any change."""
    return SHORT_DELAY


def of_new(event: CacheEvent) -> float:
    """For objects of which nothing but their existence is read."""
    return SHORT_DELAY if event.old is None else IGNORED


def of_workload(event: CacheEvent) -> float:
    """For a workload: a change of its status alone is nearly always the operator's own."""
    old, new = event.old, event.new
    return NORMAL_DELAY if old is not None and new is not None and _same_but_status(old, new) else NO_DELAY


def of_child(urgent: Collection[str], reads: Collection[str]) -> Callable[[CacheEvent], float]:
    """For children of which it is known what people wait for.

    Args:
        urgent: types of their conditions that people wait for.
        reads: fields of their status that are read, beside `conditions`; empty where all may.
    """
    read = ("conditions", *reads)

    def delay(event: CacheEvent) -> float:
        old, new = event.old, event.new
        if old is None or new is None:
            return NORMAL_DELAY if old is None else NO_DELAY
        before, after = old.members("status"), new.members("status")
        same = reads and all(before.get(name) == after.get(name) for name in read)
        if same and _same_but_status(old, new):
            return IGNORED
        moved = old.deleted != new.deleted or _moved(before, after, urgent)
        return NO_DELAY if moved else NORMAL_DELAY

    return delay


def of_queue_object(urgent: Collection[str]) -> Callable[[CacheEvent], float]:
    """For objects of a queue system: a new one means little before it has conditions, a moment later."""
    waited_for = of_child(urgent, ())

    def delay(event: CacheEvent) -> float:
        new = event.new
        if event.old is None and new is not None and not new.part("status", "conditions"):
            return LONG_DELAY
        return waited_for(event)

    return delay


def of_pod(event: CacheEvent) -> float:
    """For pods: no delay when a container begins to run.

    After a success the pod's owner changes a moment later.
    """
    old, new = event.old, event.new
    status = lenient_map(new.part("status")) if new is not None else {}
    if status.get("phase") == "Succeeded":
        return LONG_DELAY
    begins = pod_status.runs({"status": status}) and not (old is not None and _runs(old))
    return NO_DELAY if begins else NORMAL_DELAY


def _runs(pod: CachedObject) -> bool:
    return pod_status.runs({"status": pod.part("status")})


def _moved(
    before: Mapping[str, msgspec.Raw], after: Mapping[str, msgspec.Raw], types: Collection[str]
) -> bool:
    """Whether conditions of these types came or went between two statuses."""
    old, new = before.get("conditions"), after.get("conditions")
    if old == new:
        return False
    held, holds = (holding(_decode(raw)) if raw is not None else {} for raw in (old, new))
    return any((kind in held) != (kind in holds) for kind in types)


def _same_but_status(old: CachedObject, new: CachedObject) -> bool:
    """Whether nothing but the status changed, of a kind that counts generations of its spec."""
    return (
        bool(new.generation)
        and (old.generation, old.labels, old.owners, old.deleted)
        == (new.generation, new.labels, new.owners, new.deleted)
        and old.members("metadata", "annotations") == new.members("metadata", "annotations")
    )
