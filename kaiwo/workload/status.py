"""Writes an outcome as the status of a workload: conditions, times, and the events of its transitions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kaiwo.api.conditions import Condition, merge_conditions
from kaiwo.api.status_words import TERMINAL
from kaiwo.engine.timestamps import format_time
from kaiwo.workload.backend_selection import BACKEND
from kaiwo.workload.download import requested
from kaiwo.workload.ending.record import FIELD
from kaiwo.workload.json_access import cut
from kaiwo.workload.model import PlannedEvent
from kaiwo.workload.observe.pod_status import PROBLEMS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from kaiwo.api.status import WorkloadStatus
    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.facts import Allocation
    from kaiwo.plugin.observation import Outcome
    from kaiwo.workload.model import ChildRecord, Plan

OWN_CONDITIONS = (
    "Schedulable",
    "Admitted",
    "StorageReady",
    "DownloadJobSucceeded",
    "SpecApplied",
    "Adopted",
    "Preemptable",
    "ResourceUnderutilization",
    "WorkloadTerminatedEarly",
    "PreemptionDecided",
    "Requeued",
)
"""Condition types that are Kaiwo's; conditions of other types are left as they are."""

_PLANNED = (
    "Schedulable",
    "Admitted",
    "StorageReady",
    "SpecApplied",
    "Preemptable",
    "ResourceUnderutilization",
)
"""Those of them that a plan decides; one that it does not mention no longer applies.

The condition of the downloads stays: it records which download is finished.
"""

_EVENTS = {
    "PENDING": ("Normal", "WorkloadPending"),
    "STARTING": ("Normal", "WorkloadStarting"),
    "RUNNING": ("Normal", "WorkloadRunning"),
    "READY": ("Normal", "WorkloadReady"),
    "COMPLETE": ("Normal", "WorkloadComplete"),
    "TERMINATING": ("Warning", "WorkloadTerminating"),
    "TERMINATED": ("Normal", "WorkloadTerminated"),
    "FAILED": ("Warning", "WorkloadFailed"),
    "ERROR": ("Warning", "WorkloadError"),
}
_PASSING = {
    "PENDING": ("Waiting", "waited for its turn"),
    "STARTING": ("Starting", "was started"),
    "RUNNING": ("Running", "ran"),
    "READY": ("Ready", "was ready"),
}
_WARNED = PROBLEMS | {"WriteRefused"}
_MAX_MESSAGE = 2000
_MAX_EVENT = 1000
"""Longest message of a status and of an Event; the API server accepts 1024 characters in an Event."""

_CLOCK_SKEW = 5.0
"""Seconds by which the clocks of a node and of the control plane may differ."""


def document(status: WorkloadStatus) -> Object:
    """A status as the document that was written, absent and empty fields left out."""
    written: Object = status.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude_none=True)
    for name, moment in (("startTime", status.start_time), ("completionTime", status.completion_time)):
        if moment is not None:
            written[name] = format_time(moment)
    if status.conditions:
        written["conditions"] = [dict(condition) for condition in status.conditions]
    return written


def with_status(workload: Workload, plan: Plan, now: datetime) -> Plan:
    """The plan with the status documents, oldest first, and the events that report its outcome.

    No documents when the status is right as it is. Of a workload that has ended only the observed generation
    is still written.
    """
    before = document(workload.status)
    if plan.outcome is None:
        if not workload.generation or before.get("observedGeneration") == workload.generation:
            return plan
        return replace(plan, statuses=({**before, "observedGeneration": workload.generation},))
    if plan.ending is not None:
        before = {**before, FIELD: plan.ending.document()}
    final = _document(workload, before, plan.outcome, plan.child, now)
    utilization = before.get("utilization") if plan.utilization is None else plan.utilization
    if utilization and "childUID" in final:
        final["utilization"] = utilization
    if final == before or _only_started(before, final):
        return plan
    if plan.status_delay is not None:
        delays = (plan.status_delay, plan.outcome.requeue_after)
        soonest = min(seconds for seconds in delays if seconds is not None)
        return replace(plan, outcome=replace(plan.outcome, requeue_after=soonest))
    statuses = (*_missed(workload, final, plan.outcome, plan.child), final)
    return replace(plan, statuses=statuses, events=(*_events(workload, statuses, plan.child), *plan.events))


def _only_started(before: Object, final: Object) -> bool:
    """Whether only the start of a first container is new: it is written with the next state."""
    if final["status"] != "STARTING" or "startTime" in before:
        return False
    return {key: value for key, value in final.items() if key != "startTime"} == before


def recorded_conditions(workload: Workload) -> tuple[Condition, ...]:
    """Kaiwo's conditions as the status has them."""
    return tuple(
        Condition(
            str(item.get("type")),
            item.get("status", "Unknown"),
            str(item.get("reason", "")),
            str(item.get("message", "")),
            item.get("observedGeneration"),
        )
        for item in workload.status.conditions
        if item.get("type") in OWN_CONDITIONS
    )


def _document(
    workload: Workload, before: Object, outcome: Outcome, child: ChildRecord | None, now: datetime
) -> Object:
    final: Object = {
        "status": outcome.status,
        "reason": outcome.reason,
        "message": cut(outcome.message, _MAX_MESSAGE),
    }
    given = {condition.type for condition in outcome.conditions}
    downloads = workload.spec.storage is not None and requested.wants(workload)
    planned = _PLANNED if downloads else (*_PLANNED, requested.CONDITION)
    drop = [name for name in planned if name not in given]
    if conditions := merge_conditions(before.get("conditions", []), outcome.conditions, now, drop):
        final["conditions"] = conditions
    if workload.generation:
        final["observedGeneration"] = workload.generation
    if FIELD in before:
        final[FIELD] = before[FIELD]
    if child is not None and child.uid == "":
        # Without a child nothing started; what ended then is what came before it.
        ended = outcome.completed or now
        final |= {"allocation": {"queue": child.queue}} if child.queue else {}
        return final | ({"completionTime": format_time(ended)} if outcome.status in TERMINAL else {})
    if uid := (child.uid if child is not None else None) or before.get("childUID"):
        final["childUID"] = uid
    if child is not None and child.allocation is not None:
        final["allocation"] = _allocation(child.allocation, child.backend, child.queue)
    elif "allocation" in before:
        final["allocation"] = before["allocation"]
    return final | _times(workload.status, before, outcome, child, now)


def _times(
    status: WorkloadStatus, before: Object, outcome: Outcome, child: ChildRecord | None, now: datetime
) -> Object:
    times: Object = {}
    new = child is not None and child.uid and status.child_uid and child.uid != status.child_uid
    start = run_start(status, outcome, new_child=bool(new))
    end = outcome.completed or now
    if start is not None:
        times["startTime"] = format_time(start)
        if outcome.status != status.status:
            times["duration"] = max(0, int((end - start).total_seconds()))
        elif "duration" in before:
            times["duration"] = before["duration"]
    if outcome.status in TERMINAL:
        times["completionTime"] = format_time(end)
    return times


def run_start(status: WorkloadStatus, outcome: Outcome, *, new_child: bool = False) -> datetime | None:
    """The start of the run: kept while pods come and go, new after an eviction and with a new child."""
    if outcome.status == "PENDING":
        return None
    kept = None if new_child else status.start_time
    if kept and outcome.run_started and (outcome.run_started - kept).total_seconds() > _CLOCK_SKEW:
        kept = None
    if kept and outcome.started:
        return min(kept, outcome.started)
    return kept or outcome.started


def _allocation(allocation: Allocation, backend: str, queue: str = "") -> Object:
    """The split of GPUs as ``status.allocation`` shows it."""
    shown: Object = {
        BACKEND: backend,
        "gpus": allocation.gpus,
        "replicas": allocation.replicas,
        "gpusPerReplica": allocation.gpus_per_replica,
    }
    if allocation.vendor:
        shown |= {"vendor": allocation.vendor, "resourceKey": allocation.resource_key}
    if allocation.pods != allocation.replicas:
        shown["pods"] = allocation.pods
    if queue:
        shown["queue"] = queue
    if allocation.models:
        shown["models"] = list(allocation.models)
    return shown


_RANKS = {word: rank for rank, word in enumerate(("", "PENDING", "STARTING", "RUNNING", "READY"))}


def _missed(workload: Workload, final: Object, outcome: Outcome, child: ChildRecord | None) -> list[Object]:
    """Documents of the states that recorded facts prove, between the last written one and the final one."""
    uid = child.uid if child is not None else None
    if workload.status.status == "ERROR" and uid == workload.status.child_uid:
        return []  # it recovers: how it once started was written before the error
    reached = _RANKS.get(workload.status.status, 0)
    documents = []
    for word in outcome.passed:
        if _RANKS.get(word, -1) <= reached or word == outcome.status:
            continue
        reached = _RANKS[word]
        reason, what = _PASSING[word]
        step = {key: value for key, value in final.items() if key not in ("completionTime", "duration")}
        step |= {"status": word, "reason": reason, "message": f"{workload.kind} {workload.name} {what}"}
        if word in ("PENDING", "STARTING"):
            step.pop("startTime", None)
        documents.append(step)
    return documents


def _events(workload: Workload, statuses: Sequence[Object], child: ChildRecord | None) -> list[PlannedEvent]:
    """One event per transition, and a warning for each new problem."""
    events: list[PlannedEvent] = []
    word, reason = workload.status.status, workload.status.reason
    created = child is not None and child.kind and child.uid != workload.status.child_uid
    for step in statuses:
        message = step["message"]
        if step["status"] != word:
            type_, name = _EVENTS.get(step["status"], ("Warning", "WorkloadError"))
            text = message
            if child is not None and created and not events:
                text = f"{child.kind} {workload.name} was created; {message}"
            events.append(_event(type_, name, text))
            if step["reason"] in _WARNED and step["reason"] != reason and type_ == "Normal":
                events.append(_event("Warning", step["reason"], message))
        elif step["reason"] != reason and (step["reason"] in _WARNED or step["status"] == "ERROR"):
            events.append(_event("Warning", step["reason"], message))
        word, reason = step["status"], step["reason"]
    return events


def _event(type_: str, reason: str, message: str) -> PlannedEvent:
    return PlannedEvent("Normal" if type_ == "Normal" else "Warning", reason, cut(message, _MAX_EVENT))
