"""Follows the workloads that jobs were requeued for, so that these are created again in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.crds import WORKLOADS, workload_kind
from kaiwo.engine.workqueue import Key
from kaiwo.workload.ending.record import FIELD, EndingRecord
from kaiwo.workload.ending.requeue import progress_of
from kaiwo.workload.json_access import lenient_map

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.engine.store import Cache, CacheEvent
    from kaiwo.workload.ending.record import Beneficiary, BeneficiaryProgress


class Beneficiaries:
    """Which jobs are held, and whether the workloads that they are held for still wait."""

    def __init__(self, cache: Cache) -> None:
        """Set up.

        Args:
            cache: all watched kinds.
        """
        self._cache = cache
        self._held: dict[str, tuple[Key, Beneficiary]] = {}

    def follow(self, requeue: Callable[[Key], None]) -> None:
        """Follow changes; workloads must be watched already.

        Args:
            requeue: called with a held KaiwoJob when the workload that it is held for changes.
        """
        self._requeue = requeue
        for resource in WORKLOADS.values():
            self._cache.subscribe(resource, self._on_event)

    def progress(self, uid: str) -> BeneficiaryProgress | None:
        """Whether the workload that a job is held for still waits.

        Args:
            uid: of the job.

        Returns:
            None for a job that is not held, and while nobody knows.
        """
        known = self._held.get(uid)
        if known is None:
            return None
        whom = known[1]
        kind = workload_kind(whom.kind)
        if kind is None:
            return "Served"  # nobody can tell; it is held for nobody
        resource = WORKLOADS[kind]
        entry = self._cache.get(resource, whom.namespace, whom.name)
        if entry is not None and entry.uid == whom.uid and entry.deleted is None:
            return progress_of(lenient_map(entry.readable_part("status")))
        return "Served" if self._cache.synced(resource) else None

    def _on_event(self, event: CacheEvent) -> None:
        entry, uid = event.new, event.latest.uid
        record = EndingRecord.read(entry.readable_part("status", FIELD)) if entry is not None else None
        held = entry is not None and record is not None and record.requeued_at is not None
        if entry is None or record is None or not held or entry.readable_part("status", "childUID"):
            self._held.pop(uid, None)
        elif record.beneficiary is not None:
            self._held[uid] = (Key(entry.namespace, entry.name), record.beneficiary)
        for key, whom in self._held.values():
            if whom.uid == uid:
                self._requeue(key)
