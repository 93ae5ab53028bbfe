"""The record of a decision to end a workload; ``status.termination`` keeps it, so a restart loses nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from kaiwo.engine.timestamps import format_time, parse_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object

EndingRule: TypeAlias = Literal["Duration", "Underutilized", "Idle"]
"""Which rule ended a workload: its duration passed, its GPUs were underused, its GPUs were idle."""

RULE_REASONS: Final[dict[EndingRule, str]] = {
    "Duration": "DurationExceeded",
    "Underutilized": "GpuUtilizationLow",
    "Idle": "GpuIdle",
}
"""The reason in the status and in conditions, by rule."""

EndingAction: TypeAlias = Literal["Terminate", "Requeue"]
"""What becomes of a workload whose child is gone: it has ended, or it waits for another child."""

BeneficiaryProgress: TypeAlias = Literal["Waiting", "Served"]
"""Whether the workload that another one was requeued for still waits for its GPUs. It does not any more when
it was admitted, has ended or is deleted."""

FIELD = "termination"
"""The field of a workload's status that has the record."""

MOST_FIGURES = 24
MOST_EARLIER = 5
"""How many earlier decisions to requeue a workload are kept."""

_MAX_NAME = 64
_MAX_TEXT = 1500


@dataclass(frozen=True, slots=True)
class WorkloadIdentity:
    """Which workload is meant.

    Attributes:
        kind: ``KaiwoJob`` or ``KaiwoService``; in a record that somebody else wrote any text.
        namespace: its namespace.
        name: its name.
        uid: its uid.
    """

    kind: str
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        """``KaiwoJob team/urgent``."""
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Beneficiary(WorkloadIdentity):
    """The workload that another one is ended for."""


@dataclass(frozen=True, slots=True)
class EarlierRequeue:
    """What is kept of a decision that was followed by another one.

    Attributes:
        decision: id of the decision.
        requeued_at: when the workload was requeued.
        beneficiary: for whom; None for nobody in particular.
    """

    decision: str
    requeued_at: datetime
    beneficiary: Beneficiary | None = None


@dataclass(frozen=True, slots=True)
class EndingRecord:
    """One decision to end one workload, or to requeue it.

    Attributes:
        decision: id of the decision; workloads that are ended together share it.
        rule: the rule that decided.
        workload_uid: uid of the workload; a copy of it that is made from a backup is not ended.
        child_uid: uid of its child when it was decided.
        evidence: what was decided from, in words.
        figures: the same in numbers; only finite ones are kept, at most :data:`MOST_FIGURES`.
        decided_at: when, UTC.
        beneficiary: for whom; None for nobody in particular.
        action: what becomes of the workload once its child is gone.
        requeued_at: when the child was gone and the workload was requeued; None before, and where it ends.
        requeues: how often the workload was requeued so far.
        earlier: the last decisions to requeue it before this one, newest first, at most
            :data:`MOST_EARLIER`.
    """

    decision: str
    rule: EndingRule
    workload_uid: str
    evidence: str
    decided_at: datetime
    child_uid: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    beneficiary: Beneficiary | None = None
    action: EndingAction = "Terminate"
    requeued_at: datetime | None = None
    requeues: int = 0
    earlier: tuple[EarlierRequeue, ...] = ()

    @property
    def reason(self) -> str:
        """The reason in the status and in conditions."""
        return RULE_REASONS[self.rule]

    @property
    def summary(self) -> str:
        """Who is ended for whom and why, in one sentence. Most evidence names for whom already."""
        whom = str(self.beneficiary) if self.beneficiary is not None else ""
        return self.evidence if whom in self.evidence else f"{self.evidence}; for {whom}"

    def document(self) -> Object:
        """The record as the status has it."""
        figures = {
            name[:_MAX_NAME]: value
            for name, value in sorted(self.figures.items())[:MOST_FIGURES]
            if math.isfinite(value)
        }
        written: Object = {
            "decision": self.decision,
            "rule": self.rule,
            "workloadUID": self.workload_uid,
            "childUID": self.child_uid,
            "evidence": self.evidence[:_MAX_TEXT],
            "figures": figures,
            "decidedAt": format_time(self.decided_at),
        }
        if self.beneficiary is not None:
            written["for"] = _identity(self.beneficiary)
        if self.action != "Terminate":
            written["action"] = self.action
        if self.requeued_at is not None:
            written["requeuedAt"] = format_time(self.requeued_at)
        if self.requeues:
            written["requeues"] = self.requeues
        if self.earlier:
            written["earlierRequeues"] = [
                {
                    "decision": one.decision,
                    "requeuedAt": format_time(one.requeued_at),
                    **({"for": _identity(one.beneficiary)} if one.beneficiary is not None else {}),
                }
                for one in self.earlier[:MOST_EARLIER]
            ]
        return written

    def after(self, before: EndingRecord | None) -> EndingRecord:
        """This decision with what is to be kept of the one before it on the same workload."""
        if before is None or before.workload_uid != self.workload_uid:
            return self
        earlier = before.earlier
        if before.requeued_at is not None:
            last = EarlierRequeue(before.decision, before.requeued_at, before.beneficiary)
            earlier = (last, *earlier)[:MOST_EARLIER]
        return replace(self, requeues=before.requeues, earlier=earlier)

    @classmethod
    def read(cls, written: object) -> EndingRecord | None:
        """The record in a status; None where there is none, or what is there is no record."""
        if not isinstance(written, dict):
            return None
        uid, at = _text(written, "workloadUID"), parse_time(written.get("decidedAt"))
        rule = next((rule for rule in RULE_REASONS if rule == written.get("rule")), None)
        if rule is None or not uid or at is None:
            return None
        figures, requeues = written.get("figures"), written.get("requeues")
        return cls(
            decision=_text(written, "decision"),
            rule=rule,
            workload_uid=uid,
            child_uid=_text(written, "childUID"),
            evidence=_text(written, "evidence"),
            figures=_numbers(figures) if isinstance(figures, dict) else {},
            decided_at=at,
            beneficiary=_beneficiary(written.get("for")),
            action="Requeue" if written.get("action") == "Requeue" else "Terminate",
            requeued_at=parse_time(written.get("requeuedAt")),
            requeues=max(0, requeues) if isinstance(requeues, int) else 0,
            earlier=tuple(_earlier(written.get("earlierRequeues"))),
        )


def ending_of(workload: Workload) -> EndingRecord | None:
    """The decision that is being carried out on a workload; None where it is not being ended.

    The status word alone ends nothing: a CRD of an earlier version drops the record, and a backup restores
    the status of a workload that is another one now.
    """
    if workload.status.status != "TERMINATING":
        return None
    record = _own(workload)
    return record if record is not None and record.requeued_at is None else None


def requeue_of(workload: Workload) -> EndingRecord | None:
    """The decision by which the workload was requeued last; None where its last decision was none."""
    record = _own(workload) if workload.status.termination else None
    if record is None or record.action != "Requeue" or record.requeued_at is None:
        return None
    return record


def _own(workload: Workload) -> EndingRecord | None:
    record = EndingRecord.read(workload.status.termination)
    return record if record is not None and record.workload_uid == workload.uid else None


def ending_text(record: EndingRecord) -> str:
    """The message of the status while a decision is carried out."""
    what = "preempted and requeued" if record.action == "Requeue" else "ended"
    return f"is being {what} by Kaiwo: {record.summary}"


def _text(written: dict[str, Any], name: str) -> str:
    value = written.get(name)
    return value if isinstance(value, str) else ""


def _numbers(figures: dict[str, Any]) -> dict[str, float]:
    return {
        name: value
        for name, value in figures.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _beneficiary(written: object) -> Beneficiary | None:
    if not isinstance(written, dict) or not _text(written, "uid"):
        return None
    return Beneficiary(
        _text(written, "kind"), _text(written, "namespace"), _text(written, "name"), _text(written, "uid")
    )


def _identity(whom: WorkloadIdentity) -> Object:
    return {"kind": whom.kind, "namespace": whom.namespace, "name": whom.name, "uid": whom.uid}


def _earlier(written: object) -> Iterator[EarlierRequeue]:
    for one in written[:MOST_EARLIER] if isinstance(written, list) else ():
        at = parse_time(one.get("requeuedAt")) if isinstance(one, dict) else None
        if at is not None:
            yield EarlierRequeue(_text(one, "decision"), at, _beneficiary(one.get("for")))
