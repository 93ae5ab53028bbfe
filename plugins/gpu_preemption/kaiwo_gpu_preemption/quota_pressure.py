"""What the queue would give to workloads that it holds, if others with idle GPUs were ended."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kaiwo.plugin.kit.endings import served_before
from kaiwo.plugin.queue_relief import ReliefRequest
from kaiwo_gpu_preemption.node_fit import required_labels

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kaiwo.plugin.kit.cache import CachedObject
    from kaiwo.plugin.kit.endings import QuotaService
    from kaiwo.plugin.queue_relief import QueueRelief
    from kaiwo_gpu_preemption.pressure import Pressure
    from kaiwo_gpu_preemption.queued import QueuedWorkloads
    from kaiwo_gpu_preemption.tracked import Tracked

_log = logging.getLogger(__name__)


class QuotaPressure:
    """Asks the queue system for the decisions of one pass after the other."""

    def __init__(self, quota: QuotaService, queued: QueuedWorkloads) -> None:
        """Set up.

        Args:
            quota: what the queue system says.
            queued: all that has no quota.
        """
        self._quota = quota
        self._queued = queued

    def reliefs(self, waiting: Iterable[Pressure], ready: Sequence[Tracked]) -> Mapping[str, QueueRelief]:
        """What each workload that a queue holds would get, by uid; those that get nothing are left out.

        Args:
            waiting: workloads that wait.
            ready: workloads whose GPUs may be taken back.
        """
        requests = {
            one.tracked.owner.uid: ReliefRequest(
                tuple(entry.readable() for entry in self.objects(one.tracked)),
                one.demand.resource_key,
                required_labels(one.place),
            )
            for one in waiting
            if one.demand.cause == "quota"
        }
        return self._ask(requests, ready)

    def served_before(self, one: Pressure, relief: QueueRelief, victims: Sequence[Tracked]) -> bool:
        """Whether the queue gives what becomes free to somebody else, tracked or not, and not to this one."""
        own = {entry.uid for entry in self.objects(one.tracked)}
        rivals = {
            entry.uid: ReliefRequest((entry.readable(),), one.demand.resource_key)
            for entry in self._queued.all()
            if entry.uid not in own
        }
        reliefs = self._ask(rivals, victims)
        return bool(served_before(relief, reliefs, frozenset(victim.owner.uid for victim in victims)))

    async def unchanged(self, one: Pressure) -> bool:
        """Whether the queue still holds a workload, by what the API server says now.

        Raises:
            EngineError: that cannot be known.
        """
        return await self._quota.unchanged(self.objects(one.tracked))

    def objects(self, tracked: Tracked) -> list[CachedObject]:
        """The queue system's objects of a workload."""
        return self._quota.objects(tracked.owner.namespace, tracked.owner_uids)

    def _ask(
        self, requests: Mapping[str, ReliefRequest], holders: Sequence[Tracked]
    ) -> Mapping[str, QueueRelief]:
        if not requests or not self._quota.synced:
            return {}
        held = {holder.owner.uid: self.objects(holder) for holder in holders}
        try:
            return self._quota.reliefs(requests, held)
        except Exception:  # noqa: BLE001  (the queue system's code may raise anything)
            _log.exception("what a queue would give cannot be known; nobody is ended for those that it holds")
            return {}
