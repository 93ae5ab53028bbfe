"""A job that is preempted and requeued: it is held until the workload that it made room for has its GPUs.

A queue gives GPUs that become free by priority and creation. The child that is created again is newer than
what waits already, but a queue of the same cohort may still prefer it. So there is none while the beneficiary
waits, for :data:`HOLD_SECONDS` at most.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from kaiwo.api.conditions import Condition, find_condition
from kaiwo.api.status_words import TERMINAL
from kaiwo.engine.timestamps import format_time
from kaiwo.plugin.observation import Outcome
from kaiwo.workload.ending.record import requeue_of
from kaiwo.workload.json_access import lenient_maps, lenient_text
from kaiwo.workload.missing_queue import recorded_queue
from kaiwo.workload.model import ChildRecord, Plan
from kaiwo.workload.status import recorded_conditions

if TYPE_CHECKING:
    from datetime import datetime

    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object
    from kaiwo.workload.ending.record import BeneficiaryProgress, EndingRecord
    from kaiwo.workload.model import DeletedChild, PlanContext

REASON: Final = "PreemptedAndRequeued"
CONDITION: Final = "Requeued"

HOLD_SECONDS = 600.0
"""How long a job is held at most: what cannot use the GPUs in that time does not keep them from others."""

_AT_ONCE = 0.1
_CLOCK_SKEW = 60.0
_OVER = TERMINAL | {"TERMINATING"}
_RUNS = frozenset({"RUNNING", "READY"})
_OF_THE_RUN = frozenset({"Admitted", "Preemptable", "ResourceUnderutilization", CONDITION})
"""Conditions that no longer apply when the run is over."""


def progress_of(status: Object) -> BeneficiaryProgress:
    """How far a workload is that others were preempted for, by its status."""
    word = status.get("status")
    if word in _OVER:
        return "Served"
    if status.get("reason") == "Unschedulable":
        return "Waiting"
    admitted = find_condition(lenient_maps(status.get("conditions")), "Admitted") or {}
    has_quota = bool(lenient_text(status.get("childUID"))) and admitted.get("status") == "True"
    return "Served" if word in _RUNS or has_quota else "Waiting"


def plan_requeue(case: PlanContext, record: EndingRecord) -> Plan:
    """The plan of a job whose child and pods are gone, and that was not to end with them."""
    requeued = replace(record, requeued_at=case.facts.now, requeues=record.requeues + 1)
    # Whether it is held is what the next plan says, from the status that has been written by then.
    return replace(_held(case, requeued, case.facts.now, _AT_ONCE), ending=requeued)


def plan_held(case: PlanContext) -> Plan | None:
    """The plan of a requeued job that has no child yet; None when one may be created."""
    record, now = requeue_of(case.workload), case.facts.now
    if record is None or record.requeued_at is None or record.beneficiary is None:
        return None
    if case.workload.status.child_uid or case.facts.beneficiary == "Served":
        return None
    left = HOLD_SECONDS - (now - record.requeued_at).total_seconds()
    # A time in the future is that of a clock that was set back.
    if not 0 < left <= HOLD_SECONDS + _CLOCK_SKEW:
        return None
    return _held(case, record, record.requeued_at, left)


def _held(case: PlanContext, record: EndingRecord, since: datetime, wait: float) -> Plan:
    latest = format_time(since + timedelta(seconds=HOLD_SECONDS))
    text = (
        f"{_preempted(record)}; its {case.backend.child.kind} is created again when that one is admitted, "
        f"has ended or is deleted, at {latest} at the latest"
    )
    kept = (one for one in recorded_conditions(case.workload) if one.type not in _OF_THE_RUN)
    held = Condition(CONDITION, "False", REASON, text, case.workload.generation or None)
    outcome = Outcome(
        "PENDING",
        REASON,
        text,
        conditions=(*kept, held),
        requeue_after=wait,
    )
    return Plan(outcome, ChildRecord(queue=recorded_queue(case.workload)), backend=case.backend.name)


def with_requeue(workload: Workload, plan: Plan) -> Plan:
    """The plan of a job that was requeued and is not held any more, with the condition that says so."""
    record = requeue_of(workload)
    if record is None or plan.outcome is None or plan.outcome.reason == REASON:
        return plan
    others = (one for one in plan.outcome.conditions if one.type != CONDITION)
    condition = Condition(CONDITION, "True", REASON, _preempted(record), workload.generation or None)
    return replace(plan, outcome=replace(plan.outcome, conditions=(*others, condition)))


def is_preempted_child(workload: Workload, missing: DeletedChild) -> bool:
    """Whether a child that is gone is the one that was preempted: its end is no end of the job."""
    record = requeue_of(workload)
    if record is None or not record.child_uid:
        return False
    metadata = missing.obj.get("metadata")
    return isinstance(metadata, dict) and metadata.get("uid") == record.child_uid


def _preempted(record: EndingRecord) -> str:
    times = "once" if record.requeues == 1 else f"{record.requeues} times"
    whom = f" for {record.beneficiary}" if record.beneficiary is not None else ""
    return f"preempted{whom} ({record.reason}) and requeued, {times} so far"
