"""Children that cannot change: replaced as a whole, and absent while their workload is scaled to zero."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.conditions import Condition
from kaiwo.plugin.observation import Outcome
from kaiwo.workload import plugin_calls
from kaiwo.workload.applied_record import changed_fields
from kaiwo.workload.json_access import lenient_map
from kaiwo.workload.metadata import is_ours
from kaiwo.workload.missing_queue import recorded_queue
from kaiwo.workload.model import ChildRecord, Delete, Plan, PlannedEvent

if TYPE_CHECKING:
    from kaiwo.api.workload import Workload
    from kaiwo.workload.applied_record import AppliedRecord
    from kaiwo.workload.model import PlanContext

REPLACING = "Replacing"
"""Reason while a child is deleted so that another one can take its place."""


def deletion(case: PlanContext) -> Delete:
    """Delete the child and, before it, all that belongs to it: its GPUs are free when it is gone."""
    metadata = lenient_map(lenient_map(case.facts.live).get("metadata"))
    return Delete(
        case.backend.child,
        case.workload.namespace,
        case.workload.name,
        str(metadata.get("uid", "")),
        propagation="Foreground",
    )


def plan_scaled_to_zero(case: PlanContext) -> Plan:
    """The plan of a workload that is scaled to zero: its child is deleted."""
    live, workload, kind = case.facts.live, case.workload, case.backend.child.kind
    ours = live is not None and is_ours(live, workload, case.facts.made)
    deleting = ours and lenient_map(lenient_map(live).get("metadata")).get("deletionTimestamp")
    text = f"{kind} {workload.name} is being deleted" if deleting else f"no {kind} exists"
    outcome = Outcome(
        "PENDING",
        "ScaledToZero",
        f"spec.replicas is 0: {text}; raise it to start the service",
        conditions=(Condition("SpecApplied", "True", "Applied", "", workload.generation or None),),
    )
    return Plan(
        outcome,
        None if ours else ChildRecord(queue=recorded_queue(workload)),
        writes=(deletion(case),) if ours and not deleting else (),
        backend=case.backend.name,
    )


def replacing(case: PlanContext, record: AppliedRecord | None) -> Outcome | None:
    """The outcome of a child that is being deleted because a change needs another one; None otherwise."""
    live = case.facts.live or {}
    if record is None or plugin_calls.immutable_part(case.backend, live) is None:
        return None
    fields = changed_fields(record, case.workload)
    if not fields:
        return None
    names = ", ".join(f"spec.{name}" for name in fields)
    return Outcome(
        "PENDING",
        REPLACING,
        f"{names} changed and needs a new {case.backend.child.kind}: the old one is being deleted, and "
        "the service is down until the new one runs",
    )


def replaced_event(workload: Workload, outcome: Outcome) -> tuple[PlannedEvent, ...]:
    """The event of a replacement, once."""
    if outcome.reason != REPLACING or workload.status.reason == REPLACING:
        return ()
    return (PlannedEvent("Normal", "ResourceReplaced", outcome.message),)
