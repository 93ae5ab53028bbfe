"""Children that cannot change: replaced as a whole, and absent while their workload is scaled to zero."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.conditions import Condition
from kaiwo.plugin.observation import Outcome
from kaiwo.workload import plugin_calls
from kaiwo.workload.applied_record import fingerprint
from kaiwo.workload.json_access import lenient_map
from kaiwo.workload.metadata import is_ours
from kaiwo.workload.model import Delete, Plan, PlannedEvent
from kaiwo.workload.plans.diff import changed
from kaiwo.workload.status import Verdict, documents, events

if TYPE_CHECKING:
    from kaiwo.api.workload import Workload
    from kaiwo.plugin.backends import Backend
    from kaiwo.workload.applied_record import AppliedRecord
    from kaiwo.workload.model import PlanContext

REPLACING = "Replacing"
"""Reason while a child is deleted so that another one can take its place."""


def is_scaled_to_zero(workload: Workload, backend: Backend) -> bool:
    """Whether the workload has no child because it is scaled to zero."""
    return backend.absent_at_zero and workload.spec.replicas == 0


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
    """The plan of a workload that is scaled to zero: its child goes, the workload stays and says so."""
    live, workload, kind = case.facts.live, case.workload, case.backend.child.kind
    ours = live is not None and is_ours(live, workload)
    going = ours and lenient_map(lenient_map(live).get("metadata")).get("deletionTimestamp")
    text = f"{kind} {workload.name} is being deleted" if going else f"no {kind} exists"
    verdict = Verdict(
        status="PENDING",
        reason="ScaledToZero",
        message=f"spec.replicas is 0: {text}; raise it to start the service",
        conditions=(Condition("SpecApplied", "True", "Applied", "", workload.generation or None),),
        child_uid=None if ours else "",
    )
    statuses = documents(workload, verdict, case.facts.now)
    return Plan(
        writes=(deletion(case),) if ours and not going else (),
        statuses=statuses,
        events=events(workload, statuses, ""),
        backend=case.backend.name,
    )


def replacing(case: PlanContext, record: AppliedRecord | None) -> Outcome | None:
    """The state of a child that is being deleted because a change needs another one; None otherwise."""
    live = case.facts.live or {}
    if record is None or plugin_calls.immutable_part(case.backend, live) is None:
        return None
    fields = changed(record.fields, fingerprint(case.workload))
    if not fields:
        return None
    names = ", ".join(f"spec.{name}" for name in fields)
    return Outcome(
        "PENDING",
        REPLACING,
        f"{names} changed, which needs a new {case.backend.child.kind}: the old one is being deleted, and "
        "the service is down until the new one runs",
    )


def told(workload: Workload, observed: Outcome) -> tuple[PlannedEvent, ...]:
    """The event of a replacement, once."""
    if observed.reason != REPLACING or workload.status.reason == REPLACING:
        return ()
    return (PlannedEvent("Normal", "ResourceReplaced", observed.message),)
