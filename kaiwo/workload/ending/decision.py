"""A decision to end workloads, as a rule hands it over, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kaiwo.workload.ending.record import EndingRecord, WorkloadIdentity

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from datetime import datetime

    from kaiwo.api.plugin_fields import WorkloadKind
    from kaiwo.workload.ending.record import Beneficiary, EndingAction, EndingRule

    KeepRecord = Callable[[EndingRecord], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class EndingVictim(WorkloadIdentity):
    """A workload to end.

    Attributes:
        kind: of the workload.
        resource_version: the version that was decided from; another one by now makes the decision void.
            Empty to take whatever is known, as long as the workload has not ended.
        evidence: what was decided from, one sentence.
        figures: the same in numbers.
        action: what becomes of it once its child is gone.
    """

    kind: WorkloadKind
    evidence: str
    resource_version: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    action: EndingAction = "Terminate"


@dataclass(frozen=True, slots=True)
class ForeignVictim(WorkloadIdentity):
    """A workload that has no status of Kaiwo: its rule keeps the record, and ends it from then on.

    Attributes:
        evidence: what was decided from, one sentence.
        refusal: reads again, and returns why the workload is left alone; empty to end it.
        keep: writes the record; whether the API server has it now.
        figures: the evidence in numbers.
    """

    evidence: str
    refusal: Callable[[], Awaitable[str]]
    keep: KeepRecord
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EndingDecision:
    """What a rule decided: these workloads end, together.

    Attributes:
        rule: the rule.
        victims: who ends, at least one.
        decided_at: when, UTC.
        beneficiary: for whom; None for nobody in particular.
    """

    rule: EndingRule
    victims: tuple[EndingVictim | ForeignVictim, ...]
    decided_at: datetime
    beneficiary: Beneficiary | None = None

    def record(self, victim: EndingVictim | ForeignVictim, child_uid: str, decision: str) -> EndingRecord:
        """The record for the status of one of them."""
        return EndingRecord(
            decision=decision,
            rule=self.rule,
            workload_uid=victim.uid,
            child_uid=child_uid,
            evidence=victim.evidence,
            figures=victim.figures,
            decided_at=self.decided_at,
            beneficiary=self.beneficiary,
            action=victim.action if isinstance(victim, EndingVictim) else "Terminate",
        )


@dataclass(frozen=True, slots=True)
class EndingAnswer:
    """What became of a decision.

    Attributes:
        ended: those whose status has the decision now; they are being ended, also if the operator stops.
        refused: why the others, or all, are left alone; empty when none is.
        refused_uids: uids of the victims that this is about; empty where no victim would be ended now.
    """

    ended: tuple[EndingVictim | ForeignVictim, ...] = ()
    refused: str = ""
    refused_uids: tuple[str, ...] = ()
