"""A workload with a live child: what it means, and what of a change reaches it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kaiwo.api.conditions import Condition, find_condition, merge_conditions
from kaiwo.api.status import TERMINAL
from kaiwo.plugin.observation import Observation, Outcome
from kaiwo.workload import plugin_calls
from kaiwo.workload.applied_record import AppliedRecord, decode
from kaiwo.workload.defaults import queue_facts
from kaiwo.workload.download.step import told_of_running
from kaiwo.workload.errors import PluginError, SpecError
from kaiwo.workload.json_access import lenient_map
from kaiwo.workload.model import Delete, Plan, PlannedEvent
from kaiwo.workload.observe import pod_status
from kaiwo.workload.plans import replacement, secondary_resources
from kaiwo.workload.plans.blocked import blocked_by_api
from kaiwo.workload.plans.create import schedulable, spec_warnings
from kaiwo.workload.plans.update import Update, plan_update
from kaiwo.workload.status import Verdict, document, documents, events
from kaiwo.workload.storage.state import Volumes, volume_state

if TYPE_CHECKING:
    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.queues import Admission
    from kaiwo.workload.model import Facts, PlanContext, Registry

FIRST_WORD = 2.0
"""Seconds in which a queue's first word about a new child is waited for, so that a workload which is
admitted at once, or waits for a reason, says so in its first status. The API server tells whole seconds."""

RETRY_SECONDS = 30.0
"""When to look again after a plugin failed to read the state of a child."""


@dataclass(frozen=True, slots=True)
class _Queueing:
    queued: bool = False
    queue: str = ""
    admission: Admission | None = None


def plan_live(case: PlanContext, switched: str) -> Plan:
    """The plan for a workload whose child exists.

    Args:
        case: the workload, with the live child, which is ours, and the backend that made it.
        switched: the field by which the workload now asks for another backend, empty when it does not.
    """
    live: Object = case.facts.live or {}
    record = decode(live)
    try:
        queueing = _queueing(live, record, case.registry, case.facts)
        observed = _observe(case, live, queueing)
    except PluginError as error:
        # The last known state stays while nobody can read it.
        queueing = _Queueing()
        word = case.workload.status.status or "STARTING"
        observed = Outcome(word, "PluginError", str(error), requeue_after=RETRY_SECONDS)
    ended = observed.status in TERMINAL
    metadata = lenient_map(live.get("metadata"))
    if metadata.get("deletionTimestamp") and not ended:
        observed = replacement.replacing(case, record) or Outcome(
            "PENDING",
            "ChildDeleting",
            f"{case.backend.child.kind} {case.workload.name} is being deleted; then it is created again",
        )
    if ended or metadata.get("deletionTimestamp"):
        change = Update(
            None if switched else _applied(case.workload, ()),
            record.resolved.allocation if record else None,
            warnings=record.warnings if record else (),
        )
    else:
        change = _with_tuning(case, plan_update(case, record, queueing.admission, switched))
    warnings = (
        *spec_warnings(case.workload, case.registry, case.backend, case.facts.nodes),
        *change.warnings,
    )
    volumes = volume_state(case.workload, record.resolved, case.facts) if record else Volumes()
    if ended:
        volumes = replace(volumes, requeue_after=None, needs_events=None)
    return _plan(case, observed, queueing, replace(change, warnings=warnings), volumes)


def _with_tuning(case: PlanContext, change: Update) -> Update:
    """The edits, and what else of an applied spec reaches what the child's own controller made."""
    if change.condition is not None and change.condition.status != "True":
        return change
    if any(isinstance(write, Delete) and write.resource == case.backend.child for write in change.writes):
        return change
    try:
        patches = secondary_resources.tuned(case)
    except (SpecError, PluginError) as error:
        told = Condition("SpecApplied", "False", "PluginError", str(error), case.workload.generation or None)
        return replace(change, condition=told)
    rejected = case.facts.rejection
    if rejected is not None and rejected.resource in case.backend.secondary:
        refusal = blocked_by_api(rejected)
        return replace(
            change,
            condition=Condition(
                "SpecApplied", "False", refusal.reason, refusal.message, case.workload.generation or None
            ),
        )
    return replace(change, writes=(*change.writes, *patches))


def _plan(
    case: PlanContext,
    observed: Outcome,
    queueing: _Queueing,
    change: Update,
    volumes: Volumes,
) -> Plan:
    uid = lenient_map(lenient_map(case.facts.live).get("metadata")).get("uid")
    wakes = [seconds for seconds in (observed.requeue_after, volumes.requeue_after) if seconds is not None]
    conditions = [
        schedulable(case.workload, change.allocation) if change.allocation else None,
        _admitted(case.workload, queueing, observed),
        change.storage or volumes.condition,
        told_of_running(case.workload, case.facts),
        _with_warnings(change.condition, change.warnings),
    ]
    verdict = Verdict(
        status=observed.status,
        reason=observed.reason,
        message=observed.message,
        conditions=tuple(condition for condition in conditions if condition is not None),
        allocation=change.allocation,
        backend=case.backend.name,
        queue=queueing.queue,
        child_uid=uid if isinstance(uid, str) else None,
        started=observed.started,
        run_started=observed.run_started,
        completed=observed.completed,
        passed=(*_queued_before(case.workload, observed, queueing), *observed.passed),
    )
    statuses = documents(case.workload, verdict, case.facts.now)
    early = _too_early(case, observed, queueing) if statuses else None
    if early is not None:
        wakes.append(early)
        statuses = ()
    new = case.workload.status.child_uid != verdict.child_uid
    told = events(case.workload, statuses, f"{case.backend.child.kind} {case.workload.name}" if new else "")
    return Plan(
        writes=change.writes,
        statuses=statuses,
        events=(
            *told,
            *replacement.told(case.workload, observed),
            *_outside_quota(case.workload, queueing, observed),
        ),
        requeue_after=min(wakes, default=None),
        warnings=change.warnings,
        backend=case.backend.name,
        rendered=change.rendered,
        needs_events=case.facts.live if observed.needs_events else volumes.needs_events,
        pod_owner=observed.pod_owner if observed.needs_events else None,
    )


def _too_early(case: PlanContext, observed: Outcome, queueing: _Queueing) -> float | None:
    """Seconds until it is told that a queue has not looked at a child yet; None when it is told at once."""
    admission = queueing.admission
    if not queueing.queued or admission is None or not admission.undecided or observed.status != "PENDING":
        return None
    since = pod_status.moment(admission.since)
    if since is None or case.workload.status.status not in ("", "PENDING"):
        return None
    left = FIRST_WORD - (case.facts.now - since).total_seconds()
    return min(left, FIRST_WORD) if left > 0 else None


def _queued_before(workload: Workload, observed: Outcome, queueing: _Queueing) -> tuple[str, ...]:
    """The wait in a queue, where the first status of a workload comes after it."""
    first = not workload.status.status and observed.status != "PENDING"
    return ("PENDING",) if first and queueing.queued else ()


def _queueing(live: Object, record: AppliedRecord | None, registry: Registry, facts: Facts) -> _Queueing:
    if registry.queue is None:
        return _Queueing()
    labels = lenient_map(lenient_map(live.get("metadata")).get("labels"))
    assigned = record.queue if record else None
    wanted = assigned.labels if assigned else {}
    queued = bool(wanted) and all(key in labels for key in wanted)
    queue = assigned.queue if assigned and queued else ""
    return _Queueing(
        queued, queue, plugin_calls.admission(registry.queue, live, queue_facts(registry, facts))
    )


def _observe(
    case: PlanContext,
    live: Object,
    queueing: _Queueing,
) -> Outcome:
    seen = Observation(
        workload=case.workload,
        child=live,
        pods=pod_status.since(case.facts.pods, live),
        admission=queueing.admission,
        queued=queueing.queued,
        now=case.facts.now,
        secondary=secondary_resources.live(case.backend, case.workload, case.facts),
        warning_event=case.facts.warning_event_of(live),
        gone=pod_status.since(case.facts.gone_pods, live),
    )
    observed = plugin_calls.observed(case.backend, seen)
    again = queueing.admission.requeue_after if queueing.queued and queueing.admission else None
    if again is not None:
        observed = replace(observed, requeue_after=min(again, observed.requeue_after or again))
    if observed.status == "COMPLETE" or observed.reason in pod_status.PROBLEMS:
        return observed
    finding = plugin_calls.finding(case.registry, seen)
    return replace(observed, reason=finding.reason, message=finding.message) if finding else observed


def _applied(workload: Workload, warnings: tuple[str, ...]) -> Condition:
    text = "; ".join(warnings)
    return Condition("SpecApplied", "True", "Applied", text, workload.generation or None)


def _with_warnings(condition: Condition | None, warnings: tuple[str, ...]) -> Condition | None:
    """Warnings stand with the condition that says the spec was applied: not everybody saw a command's."""
    if condition is None or condition.status != "True" or not warnings:
        return condition
    return replace(condition, message="; ".join(warnings))


_AT_WORK = ("STARTING", "RUNNING", "READY")


def _admitted(workload: Workload, queueing: _Queueing, observed: Outcome) -> Condition | None:
    admission = queueing.admission
    if not queueing.queued or admission is None:
        return None
    generation = workload.generation or None
    before = find_condition(workload.status.conditions, "Admitted") or {}
    if admission.state == "evicted" and observed.status in _AT_WORK and before.get("status") == "True":
        # Being evicted, it is stopped in a moment: the condition changes together with the state.
        text = str(before.get("message") or "")
        return Condition("Admitted", "True", str(before.get("reason") or ""), text, generation)
    if admission.state == "unmanaged":
        return Condition("Admitted", "Unknown", "NotManagedByQueue", admission.message, generation)
    if admission.state in ("admitted", "finished"):
        return Condition("Admitted", "True", admission.reason, admission.message, generation)
    return Condition("Admitted", "False", admission.reason, admission.message, generation)


def _outside_quota(workload: Workload, queueing: _Queueing, observed: Outcome) -> tuple[PlannedEvent, ...]:
    if queueing.admission is None or queueing.admission.state != "unmanaged":
        return ()
    before = find_condition(workload.status.conditions, "Admitted")
    if before is not None and before.get("reason") == "NotManagedByQueue":
        return ()
    # What is suspended and ignored does not run at all.
    said = "runs outside quota: " if observed.status in _AT_WORK else ""
    return (PlannedEvent("Warning", "NotManagedByQueue", f"{said}{queueing.admission.message}"),)


def keep(workload: Workload, facts: Facts, applied: Condition) -> Plan:
    """The plan of a running workload whose new spec cannot be understood: its child goes on."""
    before = document(workload.status)
    after = {**before, "conditions": merge_conditions(before.get("conditions", []), [applied], facts.now)}
    if workload.generation:
        after["observedGeneration"] = workload.generation
    return Plan(statuses=() if after == before else (after,))
