"""The record of a decision to end a workload; ``status.termination`` keeps it, so a restart loses nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from kaiwo.engine.timestamps import format_time, parse_time

if TYPE_CHECKING:
    from collections.abc import Mapping
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

FIELD = "termination"
"""The field of a workload's status that has the record."""

MOST_FIGURES = 24
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
class EndingRecord:
    """One decision to end one workload.

    Attributes:
        decision: id of the decision; workloads that are ended together share it.
        rule: the rule that decided.
        workload_uid: uid of the workload; a copy of it that is made from a backup is not ended.
        child_uid: uid of its child when it was decided.
        evidence: what was decided from, in words.
        figures: the same in numbers; only finite ones are kept, at most :data:`MOST_FIGURES`.
        decided_at: when, UTC.
        beneficiary: for whom; None for nobody in particular.
    """

    decision: str
    rule: EndingRule
    workload_uid: str
    evidence: str
    decided_at: datetime
    child_uid: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    beneficiary: Beneficiary | None = None

    @property
    def reason(self) -> str:
        """The reason in the status and in conditions."""
        return RULE_REASONS[self.rule]

    @property
    def summary(self) -> str:
        """Who is ended for whom and why, in one sentence."""
        whom = f"; for {self.beneficiary}" if self.beneficiary is not None else ""
        return f"{self.evidence}{whom}"

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
            whom = self.beneficiary
            written["for"] = {
                "kind": whom.kind, "namespace": whom.namespace, "name": whom.name, "uid": whom.uid
            }  # fmt: skip
        return written

    @classmethod
    def read(cls, written: object) -> EndingRecord | None:
        """The record in a status; None where there is none, or what is there is no record."""
        if not isinstance(written, dict):
            return None
        uid, at = _text(written, "workloadUID"), parse_time(written.get("decidedAt"))
        rule = next((rule for rule in RULE_REASONS if rule == written.get("rule")), None)
        if rule is None or not uid or at is None:
            return None
        figures = written.get("figures")
        return cls(
            decision=_text(written, "decision"),
            rule=rule,
            workload_uid=uid,
            child_uid=_text(written, "childUID"),
            evidence=_text(written, "evidence"),
            figures=_numbers(figures) if isinstance(figures, dict) else {},
            decided_at=at,
            beneficiary=_beneficiary(written.get("for")),
        )


def ending_of(workload: Workload) -> EndingRecord | None:
    """The decision that is being carried out on a workload; None where it is not being ended.

    The status word alone ends nothing: a CRD of an earlier version drops the record, and a backup restores
    the status of a workload that is another one now.
    """
    if workload.status.status != "TERMINATING":
        return None
    record = EndingRecord.read(workload.status.termination)
    return record if record is not None and record.workload_uid == workload.uid else None


def ending_text(record: EndingRecord) -> str:
    """The message of the status while a decision is carried out."""
    return f"is being ended by Kaiwo: {record.summary}"


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
