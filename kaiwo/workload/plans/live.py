"""A workload with a live child: its outcome, and what of a change is applied to the child."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kaiwo.api.conditions import Condition, find_condition
from kaiwo.api.status_words import TERMINAL
from kaiwo.engine.timestamps import parse_time
from kaiwo.plugin.observation import Observation, Outcome
from kaiwo.workload import missing_queue, plugin_calls
from kaiwo.workload.applied_record import AppliedRecord, decode
from kaiwo.workload.defaults import queue_facts
from kaiwo.workload.download.step import finished_condition
from kaiwo.workload.ending.duration import passed_event, preemptable
from kaiwo.workload.errors import PluginError
from kaiwo.workload.json_access import lenient_map, lenient_text
from kaiwo.workload.model import ChildRecord, Plan, PlannedEvent
from kaiwo.workload.observe import pod_status
from kaiwo.workload.plans import adopted, replacement, secondary_resources
from kaiwo.workload.plans.create import schedulable, spec_warnings
from kaiwo.workload.plans.update import Update, kept_child, plan_update
from kaiwo.workload.status import run_start
from kaiwo.workload.storage.state import volume_outcome

if TYPE_CHECKING:
    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.queues import Admission
    from kaiwo.workload.model import PlanContext

QUEUE_TIMEOUT = 2.0
"""Seconds to wait for a queue's first decision about a new child, so that the first status already has it.
The API server's times are whole seconds."""

RETRY_SECONDS = 30.0
"""Seconds until a child is observed again after a plugin failed to."""


@dataclass(frozen=True, slots=True)
class _Queueing:
    queued: bool = False
    queue: str = ""
    admission: Admission | None = None
    missing: bool = False


def plan_live(case: PlanContext) -> Plan:
    """The plan for a workload whose child exists, is ours, and was made by the selected backend."""
    live: Object = case.facts.live or {}
    record = None if case.adopted else decode(live)
    try:
        queueing = _queueing(case, live, record)
        outcome = _observe(case, live, queueing)
    except PluginError as error:
        # The last known state stays while nobody can read it.
        queueing = _Queueing()
        word = case.workload.status.status or "STARTING"
        outcome = Outcome(word, "PluginError", str(error), requeue_after=RETRY_SECONDS)
    ended = outcome.status in TERMINAL
    metadata = lenient_map(live.get("metadata"))
    deleting = bool(metadata.get("deletionTimestamp"))
    if deleting and not ended and case.adopted:
        outcome = adopted.deleting(case)
    elif deleting and not ended:
        outcome = replacement.replacing(case, record) or Outcome(
            "PENDING",
            "ChildDeleting",
            f"{case.backend.child.kind} {case.workload.name} is being deleted; then it is created again",
        )
    if case.adopted:
        able, applied = adopted.conditions(case)
        update = Update(applied, adopted.allocation(case))
        outcome = replace(outcome, conditions=(able,))
    elif ended or deleting:
        update = kept_child(case, record)
    else:
        update = plan_update(case, record, queueing.admission)
    ignored = [] if case.adopted else spec_warnings(case.workload, case.registry, case.backend, case.facts)
    warnings = (*ignored, *update.warnings)
    volumes = volume_outcome(case.workload, record.resolved, case.facts) if record else None
    volumes = _with_step(case, volumes)
    outcome = _with_volume_cause(outcome, volumes)
    passed: tuple[PlannedEvent, ...] = ()
    if case.workload.spec.duration and not ended and not deleting:
        outcome, passed = _with_duration(case, outcome)
    return Plan(
        _with_conditions(case, outcome, queueing, update, warnings, volumes=volumes, ended=ended),
        ChildRecord(
            uid=uid if isinstance(uid := metadata.get("uid"), str) else None,
            kind=case.backend.child.kind,
            backend=case.backend.name,
            allocation=update.allocation,
            queue=queueing.queue,
        ),
        writes=update.writes,
        events=(
            *replacement.replaced_event(case.workload, outcome),
            *_outside_quota(case.workload, queueing, outcome),
            *passed,
        ),
        warnings=warnings,
        backend=case.backend.name,
        rendered=update.rendered,
        status_delay=_status_delay(case, outcome, queueing),
    )


def _with_duration(case: PlanContext, outcome: Outcome) -> tuple[Outcome, tuple[PlannedEvent, ...]]:
    """The outcome with the condition of a duration that has passed, or the timer for the moment it will."""
    status, uid = case.workload.status, lenient_map((case.facts.live or {}).get("metadata")).get("uid")
    start = run_start(status, outcome, new_child=bool(status.child_uid) and uid != status.child_uid)
    condition, left = preemptable(case.workload, start, case.facts.now)
    if condition is not None:
        outcome = replace(outcome, conditions=(*outcome.conditions, condition))
    delays = [seconds for seconds in (left, outcome.requeue_after) if seconds is not None]
    return replace(outcome, requeue_after=min(delays, default=None)), passed_event(case.workload, condition)


def _with_step(case: PlanContext, volumes: Outcome | None) -> Outcome | None:
    """The state of volumes of a child, with what brings a missing one back: only a new child gets it."""
    started = case.workload.kind == "KaiwoJob" and case.workload.status.start_time is not None
    if volumes is None or volumes.reason != "VolumeMissing" or started:
        return volumes
    child = f"{case.backend.child.kind} {case.workload.name}"
    text = f"{volumes.message}; delete {child}, and it is created again after the volume"
    conditions = tuple(replace(condition, message=text) for condition in volumes.conditions)
    return replace(volumes, message=text, conditions=conditions)


def _with_volume_cause(outcome: Outcome, volumes: Outcome | None) -> Outcome:
    """The outcome of a child whose pods wait for a volume, with what the volume waits for before it."""
    if outcome.reason != "VolumeNotBound" or volumes is None or volumes.status != "PENDING":
        return outcome
    return replace(outcome, message=f"{volumes.message}; {outcome.message}")


def _with_conditions(
    case: PlanContext,
    outcome: Outcome,
    queueing: _Queueing,
    update: Update,
    warnings: tuple[str, ...],
    *,
    volumes: Outcome | None,
    ended: bool,
) -> Outcome:
    """The outcome with all conditions, and with what the volumes wait for."""
    storage = update.storage or (volumes.conditions[0] if volumes is not None else None)
    conditions = (
        schedulable(case.workload, update.allocation) if update.allocation else None,
        _admitted(case, queueing, outcome),
        storage,
        finished_condition(case.workload, case.facts),
        _with_warnings(update.condition, warnings),
        *outcome.conditions,
    )
    requeue_after, needs_events = outcome.requeue_after, outcome.needs_events
    if volumes is not None and not ended:
        delays = (requeue_after, volumes.requeue_after)
        requeue_after = min((seconds for seconds in delays if seconds is not None), default=None)
        needs_events = needs_events or volumes.needs_events
    first = not case.workload.status.status and outcome.status != "PENDING"
    return replace(
        outcome,
        # The wait in a queue is a state of its own also where the first status comes after it.
        passed=("PENDING", *outcome.passed) if first and queueing.queued else outcome.passed,
        requeue_after=requeue_after,
        needs_events=needs_events,
        pod_owner=outcome.pod_owner if outcome.needs_events else None,
        conditions=tuple(condition for condition in conditions if condition is not None),
    )


def _status_delay(case: PlanContext, outcome: Outcome, queueing: _Queueing) -> float | None:
    """Seconds to wait for the queue's first decision about a child; None when its state is written now."""
    admission = queueing.admission
    if not queueing.queued or admission is None or not admission.undecided or outcome.status != "PENDING":
        return None
    since = parse_time(admission.since)
    if since is None or case.workload.status.status not in ("", "PENDING"):
        return None
    left = QUEUE_TIMEOUT - (case.facts.now - since).total_seconds()
    return min(left, QUEUE_TIMEOUT) if left > 0 else None


def _queueing(case: PlanContext, live: Object, record: AppliedRecord | None) -> _Queueing:
    system, assigned = case.registry.queue, record.queue if record else None
    if system is None and assigned is None:
        return _Queueing()
    labels = lenient_map(lenient_map(live.get("metadata")).get("labels"))
    if system is not None and case.adopted:
        queue = lenient_text(labels.get(system.queue_label))
        if not queue:
            return _Queueing()
        admission = plugin_calls.admission(system, live, queue_facts(case.registry, case.facts))
        return _Queueing(queued=True, queue=queue, admission=admission)
    wanted = assigned.labels if assigned else {}
    queued = bool(wanted) and all(key in labels for key in wanted)
    queue = assigned.queue if assigned and queued else ""
    if system is not None:
        admission = plugin_calls.admission(system, live, queue_facts(case.registry, case.facts))
        return _Queueing(queued, queue, admission)
    if not queued:
        return _Queueing()
    admission = missing_queue.last_admission(case.workload, pod_status.since(case.facts.pods, live))
    return _Queueing(queued, queue, admission, missing=True)


def _observe(case: PlanContext, live: Object, queueing: _Queueing) -> Outcome:
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
        adopted=case.adopted,
        settings=case.facts.settings.get(case.backend.plugin),
        owners=case.facts.owners,
    )
    outcome = plugin_calls.observed(case.backend, seen)
    again = queueing.admission.requeue_after if queueing.queued and queueing.admission else None
    if again is not None:
        outcome = replace(outcome, requeue_after=min(again, outcome.requeue_after or again))
    if outcome.status == "COMPLETE" or outcome.reason in pod_status.PROBLEMS:
        return outcome
    for _, finding in plugin_calls.findings(case.registry.diagnosis, seen, case.facts.settings):
        return replace(outcome, reason=finding.reason, message=finding.message)
    return outcome


def _with_warnings(condition: Condition | None, warnings: tuple[str, ...]) -> Condition | None:
    """SpecApplied with the warnings: not everybody saw those of the command line."""
    if condition is None or condition.status != "True" or not warnings:
        return condition
    return replace(condition, message="; ".join(warnings))


_ACTIVE = ("STARTING", "RUNNING", "READY")


def _admitted(case: PlanContext, queueing: _Queueing, outcome: Outcome) -> Condition | None:
    workload, admission = case.workload, queueing.admission
    if queueing.missing:
        return missing_queue.admitted(workload, case.facts)
    if not queueing.queued or admission is None:
        return None
    generation = workload.generation or None
    before = find_condition(workload.status.conditions, "Admitted") or {}
    if admission.state == "evicted" and outcome.status in _ACTIVE and before.get("status") == "True":
        # Being evicted, it is stopped in a moment: the condition changes together with the state.
        text = str(before.get("message") or "")
        return Condition("Admitted", "True", str(before.get("reason") or ""), text, generation)
    if admission.state == "unmanaged":
        return Condition("Admitted", "Unknown", "NotManagedByQueue", admission.message, generation)
    if admission.state in ("admitted", "finished"):
        return Condition("Admitted", "True", admission.reason, admission.message, generation)
    return Condition("Admitted", "False", admission.reason, admission.message, generation)


def _outside_quota(workload: Workload, queueing: _Queueing, outcome: Outcome) -> tuple[PlannedEvent, ...]:
    if queueing.admission is None or queueing.admission.state != "unmanaged":
        return ()
    before = find_condition(workload.status.conditions, "Admitted")
    if before is not None and before.get("reason") == "NotManagedByQueue":
        return ()
    # What is suspended and ignored does not run at all.
    prefix = "runs outside quota: " if outcome.status in _ACTIVE else ""
    return (PlannedEvent("Warning", "NotManagedByQueue", f"{prefix}{queueing.admission.message}"),)
