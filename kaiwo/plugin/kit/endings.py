"""Ending workloads early: decisions, their records, and whom to end for a workload that waits for GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kaiwo.workload.ending.decision import EndingAnswer, EndingDecision, EndingVictim, ForeignVictim
from kaiwo.workload.ending.preemption import Choice, GpuDemand, GpuHolder, GpuRoom, choose
from kaiwo.workload.ending.record import Beneficiary, EndingRecord, WorkloadIdentity

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    "WorkloadIdentity",
    "choose",
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
