"""Ending workloads early: decisions, their records, and whom to end for a workload that waits for GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kaiwo.workload.ending.decision import EndingAnswer, EndingDecision, EndingVictim, ForeignVictim
from kaiwo.workload.ending.preemption import Choice, GpuDemand, GpuHolder, GpuRoom, anywhere, choose
from kaiwo.workload.ending.queue_order import served_before
from kaiwo.workload.ending.record import Beneficiary, EndingRecord, WorkloadIdentity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.resource import Resource
    from kaiwo.plugin.queue_relief import QueueRelief, QuotaWait, ReliefRequest

__all__ = [
    "Beneficiary",
    "Choice",
    "EndingAnswer",
    "EndingDecision",
    "EndingRecord",
    "EndingService",
    "EndingVictim",
    "ForeignVictim",
    "GpuDemand",
    "GpuHolder",
    "GpuRoom",
    "QuotaService",
    "WorkloadIdentity",
    "anywhere",
    "choose",
    "served_before",
]


class EndingService(Protocol):
    """The one place where workloads are ended early, ``ControllerHost.endings``.

    It takes one decision at a time, so that two rules never end two workloads for one need. A KaiwoJob or
    KaiwoService is an :class:`EndingVictim`: nothing is left to do then. For other workloads there
    is :class:`ForeignVictim`: the plugin keeps the record before it ends them.
    """

    @property
    def under_way(self) -> Mapping[str, EndingRecord]:
        """Decisions that are being carried out or were a moment ago, by uid of the victim."""
        ...

    async def decide(self, decision: EndingDecision) -> EndingAnswer:
        """Record a decision, which ends its victims; an answer without any is a refusal."""
        ...

    def resume(self, record: EndingRecord) -> None:
        """Take note of a decision about a foreign workload that an earlier process did not finish."""
        ...

    def settle(self, uid: str) -> None:
        """Take note that a foreign workload has ended."""
        ...


class QuotaService(Protocol):
    """What the queue system says of quota, ``ControllerHost.quota``. Its code may raise."""

    @property
    def kinds(self) -> tuple[Resource, ...]:
        """Kinds of the objects that wait for quota or hold it; they are watched already."""
        ...

    @property
    def synced(self) -> bool:
        """Whether all that the queue system reads is in the cache."""
        ...

    def waiting(self, entry: CachedObject) -> QuotaWait | None:
        """What an object of `kinds` waits for; None for one that has its quota, or where nobody can tell."""
        ...

    def objects(self, namespace: str, owners: Iterable[str]) -> list[CachedObject]:
        """The objects of `kinds` in a namespace that belong to owners with these uids."""
        ...

    def reliefs(
        self, waiting: Mapping[str, ReliefRequest], held: Mapping[str, Iterable[CachedObject]]
    ) -> Mapping[str, QueueRelief]:
        """What ending the holders of `held` gives to those that wait, by uid."""
        ...

    async def unchanged(self, entries: Iterable[CachedObject]) -> bool:
        """Whether the API server has no newer state of any of these objects."""
        ...
