"""An index of the workloads that preemption is about, kept from the events of the cache.

An event costs one look at a status, whatever the number of workloads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kaiwo.api.conditions import find_condition
from kaiwo.api.crds import WORKLOADS
from kaiwo.engine.timestamps import parse_time
from kaiwo.workload.ending.duration import CONDITION
from kaiwo.workload.json_access import lenient_map, lenient_maps, lenient_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.resource import Resource
    from kaiwo.engine.store import Cache, CacheEvent

_RUNS = frozenset({"STARTING", "RUNNING", "READY"})
UNSCHEDULABLE = "Unschedulable"


@dataclass(frozen=True, slots=True)
class WaitingWorkload:
    """A workload that waits for GPUs.

    Attributes:
        resource: its kind.
        namespace: its namespace.
        name: its name.
        uid: its uid.
        queued_since: since when a queue holds it; None where its pods find no node.
    """

    resource: Resource
    namespace: str
    name: str
    uid: str
    queued_since: datetime | None


class GpuIndex:
    """Which workloads wait for GPUs, and which hold GPUs beyond their duration.

    Attributes:
        waiting: the former by uid.
        overdue: the latter by uid, as kind, namespace and name.
    """

    def __init__(self, cache: Cache, on_change: Callable[[], None]) -> None:
        """Subscribe to the cache.

        Args:
            cache: workloads are watched already.
            on_change: called when somebody comes, or waits anew.
        """
        self._on_change = on_change
        self.waiting: dict[str, WaitingWorkload] = {}
        self.overdue: dict[str, tuple[Resource, str, str]] = {}
        for resource in WORKLOADS.values():
            cache.subscribe(resource, self._on_event)

    def _on_event(self, event: CacheEvent) -> None:
        entry, uid = event.new, event.latest.uid
        if entry is None or entry.deleted is not None:
            self._forget(uid)
            return
        status = lenient_map(entry.readable_part("status"))
        if not lenient_map(status.get("allocation")).get("gpus"):
            self._forget(uid)
            return
        waits, late = _waiting(entry, status), _is_overdue(status)
        new = late and uid not in self.overdue
        if late:
            self.overdue[uid] = (entry.resource, entry.namespace, entry.name)
        else:
            self.overdue.pop(uid, None)
        if waits is None:
            self.waiting.pop(uid, None)
        elif self.waiting.get(uid) != waits:
            self.waiting[uid] = waits
            new = True
        if new:
            self._on_change()

    def _forget(self, uid: str) -> None:
        self.waiting.pop(uid, None)
        self.overdue.pop(uid, None)


def _is_overdue(status: dict[str, Any]) -> bool:
    condition = find_condition(lenient_maps(status.get("conditions")), CONDITION)
    return status.get("status") in _RUNS and condition is not None and condition.get("status") == "True"


def _waiting(entry: CachedObject, status: dict[str, Any]) -> WaitingWorkload | None:
    if not lenient_text(status.get("childUID")):
        return None
    identity = (entry.resource, entry.namespace, entry.name, entry.uid)
    if status.get("reason") == UNSCHEDULABLE:
        return WaitingWorkload(*identity, None)
    admitted = find_condition(lenient_maps(status.get("conditions")), "Admitted")
    if status.get("status") != "PENDING" or admitted is None or admitted.get("status") != "False":
        return None
    since = parse_time(admitted.get("lastTransitionTime"))
    return WaitingWorkload(*identity, since) if since is not None else None
