"""Event delays: how long the reconciliation of a workload may wait after an object of it changed.

One step of a queued job changes its child, its pods and its queue object, a dozen times together. People wait
for few of these changes; the others share one reconciliation, a moment later.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from kaiwo.workload.json_access import holding, lenient_map, lenient_maps
from kaiwo.workload.observe import pod_status

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.resource import Object
    from kaiwo.engine.store import CacheEvent

    _Members: TypeAlias = Mapping[str, msgspec.Raw]

_ZERO = msgspec.Raw(b"0")
_decode = msgspec.json.Decoder().decode

NO_DELAY = 0.0
"""For a change that people wait for."""

SHORT_DELAY = 0.02
"""Seconds for a change of which it is unknown whether people wait for it. Changes that come together cause
one reconciliation."""

NORMAL_DELAY = 0.5
"""Seconds for any other change."""

LONG_DELAY = 2.0
"""Seconds for a change that is followed by another one: a Job is complete a second after its pods, a child
that was resumed gets pods, and these are scheduled and run. Should nothing follow, there is still a
reconciliation."""

QUEUE_DELAY = 30.0
"""Seconds for a new queue object without conditions. It tells no more than its absence did, and the first
status, which waits for the queue's decision, is written before."""

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


@dataclass(frozen=True, slots=True)
class StatusReads:
    """What is read of the status of children.

    Attributes:
        fields: names of fields beside `conditions`; empty where all may be read.
        conditions: types of conditions; empty where all may be read.
        without_pods: fields that are read only of a child without pods that are known.
    """

    fields: frozenset[str] = frozenset()
    conditions: frozenset[str] = frozenset()
    without_pods: frozenset[str] = frozenset()

    def same(self, before: _Members, after: _Members, *, has_pods: bool) -> bool:
        """Whether all that is read is the same in two statuses."""
        if not self.fields:
            return False
        fields = self.fields if has_pods else self.fields | self.without_pods
        return all(_read(before, name) == _read(after, name) for name in fields) and self._same_conditions(
            before.get("conditions"), after.get("conditions")
        )

    def counts_differ(self, before: _Members, after: _Members) -> bool:
        """Whether two statuses differ in what is read in place of pods; True where that is not declared."""
        counts = self.without_pods
        return not counts or any(_read(before, name) != _read(after, name) for name in counts)

    def _same_conditions(self, before: msgspec.Raw | None, after: msgspec.Raw | None) -> bool:
        if before == after:
            return True
        if not self.conditions:
            return False
        old, new = _held(before), _held(after)
        return all(old.get(kind) == new.get(kind) for kind in self.conditions)


def of_child(
    urgent: Collection[str],
    reads: StatusReads = StatusReads(),
    has_pods: Callable[[CachedObject], bool] = lambda _: False,
) -> Callable[[CacheEvent], float]:
    """For children of which it is known what people wait for.

    Args:
        urgent: types of their conditions that people wait for.
        reads: what is read of their status.
        has_pods: whether pods of a child are known.
    """

    def delay(event: CacheEvent) -> float:
        old, new = event.old, event.new
        if old is None or new is None:
            return NORMAL_DELAY if old is None else NO_DELAY
        before, after = old.members("status"), new.members("status")
        known = has_pods(new)
        if reads.same(before, after, has_pods=known) and _same_but_status(old, new):
            return IGNORED
        if old.deleted != new.deleted or _moved(before, after, urgent):
            return NO_DELAY
        return NORMAL_DELAY if known or reads.counts_differ(before, after) else LONG_DELAY

    return delay


def of_queue_object(urgent: Collection[str]) -> Callable[[CacheEvent], float]:
    """For objects of a queue system: a new one means little before it has conditions, a moment later."""
    waited_for = of_child(urgent)

    def delay(event: CacheEvent) -> float:
        new = event.new
        if event.old is None and new is not None and not new.part("status", "conditions"):
            return QUEUE_DELAY
        return waited_for(event)

    return delay


def of_pod(event: CacheEvent) -> float:
    """For pods: no delay when a container begins to run.

    After a success the pod's owner changes a moment later; what only starts runs a moment later.
    """
    old, new = event.old, event.new
    status = lenient_map(new.part("status")) if new is not None else {}
    if status.get("phase") == "Succeeded" or _only_starts(status):
        return LONG_DELAY
    begins = pod_status.runs({"status": status}) and not (old is not None and _runs(old))
    return NO_DELAY if begins else NORMAL_DELAY


_STARTS = (None, "ContainerCreating", "PodInitializing")
"""Reasons for which a container that starts as it should waits."""


def _only_starts(status: Object) -> bool:
    """Whether a pod is on its way, and nothing says that it cannot be scheduled or started."""
    if status.get("phase") != "Pending":
        return False
    conditions = lenient_maps(status.get("conditions"))
    if any(item.get("type") == "PodScheduled" and item.get("status") == "False" for item in conditions):
        return False
    states = [lenient_map(item.get("state")) for item in pod_status.containers({"status": status}, init=True)]
    return all(
        "terminated" not in state and lenient_map(state.get("waiting")).get("reason") in _STARTS
        for state in states
        if "running" not in state
    )


def _runs(pod: CachedObject) -> bool:
    return pod_status.runs({"status": pod.part("status")})


def _moved(before: _Members, after: _Members, types: Collection[str]) -> bool:
    """Whether conditions of these types came or went between two statuses."""
    old, new = before.get("conditions"), after.get("conditions")
    if old == new:
        return False
    held, holds = _held(old), _held(new)
    return any((kind in held) != (kind in holds) for kind in types)


def _held(conditions: msgspec.Raw | None) -> Mapping[str, Object]:
    """The conditions that hold, by type."""
    return holding(_decode(conditions)) if conditions is not None else {}


def _read(status: _Members, name: str) -> msgspec.Raw | None:
    """A field of a status; None also for a count of zero, which is the same as none."""
    value = status.get(name)
    return None if value == _ZERO else value


def _same_but_status(old: CachedObject, new: CachedObject) -> bool:
    """Whether nothing but the status changed, of a kind that counts generations of its spec."""
    return (
        bool(new.generation)
        and (old.generation, old.labels, old.owners, old.deleted)
        == (new.generation, new.labels, new.owners, new.deleted)
        and old.members("metadata", "annotations") == new.members("metadata", "annotations")
    )
