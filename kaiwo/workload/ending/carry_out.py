"""Carries out the decision to end a workload: the child is deleted, and once it is gone the workload ended.

The child is deleted in the foreground: its pods get SIGTERM and their grace period, and it stays until they
are gone. Nothing is created for the workload any more, unless it is to be requeued; its volume claims stay.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kaiwo.api.conditions import Condition
from kaiwo.engine.timestamps import parse_time
from kaiwo.plugin.observation import Observation, Outcome
from kaiwo.workload import plugin_calls
from kaiwo.workload.ending.record import ending_text
from kaiwo.workload.ending.requeue import plan_requeue
from kaiwo.workload.errors import PluginError
from kaiwo.workload.json_access import is_deleting, lenient_map, lenient_text, name_of
from kaiwo.workload.metadata import is_ours
from kaiwo.workload.model import Plan
from kaiwo.workload.plans.replacement import deletion
from kaiwo.workload.status import recorded_conditions

if TYPE_CHECKING:
    from datetime import datetime

    from kaiwo.engine.resource import Object
    from kaiwo.workload.ending.record import EndingRecord
    from kaiwo.workload.model import PlanContext

CONDITION = "WorkloadTerminatedEarly"

OVERDUE_SECONDS = 30.0
"""Seconds after the end of its grace period from which a pod that is still there is named: its node may have
failed, or its container cannot be killed."""


def plan_ending(case: PlanContext, record: EndingRecord) -> Plan:
    """The plan of a workload that is being ended.

    A job that completed by itself before it was stopped is complete: it was not terminated early.
    """
    workload, live = case.workload, case.facts.live
    child = live if live is not None and is_ours(live, workload, case.facts.made) else None
    missing = case.facts.missing_child
    last = child if child is not None else (missing.obj if missing is not None else None)
    if last is not None and (ended := _ended_by_itself(case, last, record)):
        return Plan(ended, backend=case.backend.name)
    requeues = record.action == "Requeue" and not case.adopted
    if child is not None and requeues and _is_another(child, record):
        # An operator that knew more than this one requeued the job already.
        return plan_requeue(case, record)
    if child is not None and not is_deleting(child):
        return Plan(_ending(case, record, ""), writes=(deletion(case),), backend=case.backend.name)
    if child is not None or case.facts.pods:
        overdue, wait = _overdue(case.facts.pods, case.facts.now)
        outcome = _ending(case, record, overdue)
        return Plan(replace(outcome, requeue_after=wait), backend=case.backend.name)
    if requeues:
        return plan_requeue(case, record)
    text = f"ended by Kaiwo: {record.summary}"
    return Plan(
        Outcome(
            "TERMINATED",
            record.reason,
            text,
            conditions=_conditions(case, Condition(CONDITION, "True", record.reason, text)),
        ),
        backend=case.backend.name,
    )


def _is_another(child: Object, record: EndingRecord) -> bool:
    """Whether the child was created after the decision: the one that was decided on is gone."""
    uid = lenient_map(child.get("metadata")).get("uid")
    return bool(record.child_uid) and uid != record.child_uid


def _ending(case: PlanContext, record: EndingRecord, overdue: str) -> Outcome:
    rest = f"; {overdue}" if overdue else ""
    return Outcome(
        "TERMINATING",
        record.reason,
        f"{ending_text(record)}{rest}",
        conditions=recorded_conditions(case.workload),
    )


def _conditions(case: PlanContext, condition: Condition) -> tuple[Condition, ...]:
    condition = replace(condition, observed_generation=case.workload.generation or None)
    others = [item for item in recorded_conditions(case.workload) if item.type != condition.type]
    return (*others, condition)


def _ended_by_itself(case: PlanContext, child: Object, record: EndingRecord) -> Outcome | None:
    """The end of a child that ended before it was stopped; None where it did not."""
    seen = Observation(
        workload=case.workload,
        child=child,
        pods=case.facts.pods,
        admission=None,
        queued=False,
        now=case.facts.now,
        gone=case.facts.gone_pods,
        adopted=case.adopted,
    )
    try:
        outcome = plugin_calls.observed(case.backend, seen)
    except PluginError:
        return None  # nobody can read it; it is ended as decided
    stopped = is_deleting(child)
    # What fails while it is being stopped fails because of that.
    if outcome.status != "COMPLETE" and (stopped or outcome.status != "FAILED"):
        return None
    text = f"it ended by itself before it was stopped; it was to be ended: {record.summary}"
    condition = Condition(CONDITION, "False", "EndedByItself", text)
    return replace(outcome, requeue_after=None, needs_events=None, conditions=_conditions(case, condition))


def _overdue(pods: tuple[Object, ...], now: datetime) -> tuple[str, float | None]:
    """Which pods outlive their grace period, in words, and seconds until the next one would."""
    late: list[tuple[str, str]] = []
    waits: list[float] = []
    for pod in pods:
        # The time until which a pod has its grace period.
        until = parse_time(lenient_map(pod.get("metadata")).get("deletionTimestamp"))
        if until is None:
            continue
        left = OVERDUE_SECONDS - (now - until).total_seconds()
        if left > 0:
            waits.append(left)
        else:
            late.append((name_of(pod), lenient_text(lenient_map(pod.get("spec")).get("nodeName"))))
    text = ""
    if late:
        name, node = min(late)
        others = f" and {len(late) - 1} more" if len(late) > 1 else ""
        text = (
            f"pod {name}{others} on node {node or 'unknown'} is still there after its grace period; "
            "check the node"
        )
    return text, min(waits, default=None)
