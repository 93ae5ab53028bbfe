"""The status of a workload: words, conditions, times, and the events of its transitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaiwo.api.conditions import merge_conditions
from kaiwo.api.status import TERMINAL
from kaiwo.engine.timestamps import format_time
from kaiwo.workload.backend_selection import BACKEND
from kaiwo.workload.download import requested
from kaiwo.workload.model import PlannedEvent
from kaiwo.workload.observe.pod_status import PROBLEMS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from kaiwo.api.conditions import Condition
    from kaiwo.api.status import WorkloadStatus
    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.facts import Allocation

OWN_CONDITIONS = (
    "Schedulable",
    "Admitted",
    "StorageReady",
    "DownloadJobSucceeded",
    "SpecApplied",
    "Preemptable",
    "ResourceUnderutilization",
    "WorkloadTerminatedEarly",
)
"""Condition types that are Kaiwo's; conditions of other types are left as they are."""

_PLANNED = ("Schedulable", "Admitted", "StorageReady", "SpecApplied")
"""Those of them that a plan decides; one that it does not mention no longer applies.

What is told of downloads stays: it is how a finished one is remembered.
"""

_EVENTS = {
    "PENDING": ("Normal", "WorkloadPending"),
    "STARTING": ("Normal", "WorkloadStarting"),
    "RUNNING": ("Normal", "WorkloadRunning"),
    "READY": ("Normal", "WorkloadReady"),
    "COMPLETE": ("Normal", "WorkloadComplete"),
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
_MAX_MESSAGE = 2000
_MAX_EVENT = 1000
"""Longest message of a status and of an Event; the API server takes 1024 characters in an Event."""

_CLOCK_SKEW = 5.0
"""Seconds by which the clocks of a node and of the control plane may differ."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of a workload now, ready to be written.

    Attributes:
        status: status word.
        reason: CamelCase word.
        message: one line.
        conditions: conditions that a plan decides.
        allocation: the split of the running child, None to keep what was recorded.
        backend: name of the backend of the child, empty without a child.
        queue: the queue that the child was given to, empty without one.
        child_uid: uid of the child; None to keep what was recorded of one, empty when there is none.
        started: see :class:`kaiwo.plugin.observation.Outcome`.
        run_started: likewise.
        completed: likewise.
        passed: likewise.
    """

    status: str
    reason: str
    message: str
    conditions: tuple[Condition, ...] = ()
    allocation: Allocation | None = None
    backend: str = ""
    queue: str = ""
    child_uid: str | None = None
    started: datetime | None = None
    run_started: datetime | None = None
    completed: datetime | None = None
    passed: tuple[str, ...] = ()


def document(status: WorkloadStatus) -> Object:
    """A status as the document that was written, absent and empty fields left out."""
    written: Object = status.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude_none=True)
    for name, moment in (("startTime", status.start_time), ("completionTime", status.completion_time)):
        if moment is not None:
            written[name] = format_time(moment)
    if status.conditions:
        written["conditions"] = [dict(condition) for condition in status.conditions]
    return written


def documents(workload: Workload, verdict: Verdict, now: datetime) -> tuple[Object, ...]:
    """The status documents to write, oldest first; empty when the status is right as it is."""
    before = document(workload.status)
    final = _document(workload, before, verdict, now)
    if final == before or _only_started(before, final):
        return ()
    return (*_missed(workload, final, verdict), final)


def _only_started(before: Object, final: Object) -> bool:
    """Whether all that is new is a first container of several: the start is told with the next state."""
    if final["status"] != "STARTING" or "startTime" in before:
        return False
    return {key: value for key, value in final.items() if key != "startTime"} == before


def settled(workload: Workload) -> tuple[Object, ...]:
    """What is still written to a workload that has ended: the generation that was seen."""
    before = document(workload.status)
    if workload.generation and before.get("observedGeneration") != workload.generation:
        return ({**before, "observedGeneration": workload.generation},)
    return ()


def _document(workload: Workload, before: Object, verdict: Verdict, now: datetime) -> Object:
    final: Object = {
        "status": verdict.status,
        "reason": verdict.reason,
        "message": _cut(verdict.message, _MAX_MESSAGE),
    }
    said = {condition.type for condition in verdict.conditions}
    planned = _PLANNED if requested.wants(workload) else (*_PLANNED, requested.CONDITION)
    drop = [name for name in planned if name not in said]
    if conditions := merge_conditions(before.get("conditions", []), verdict.conditions, now, drop):
        final["conditions"] = conditions
    if workload.generation:
        final["observedGeneration"] = workload.generation
    if verdict.child_uid == "":
        # Without a child nothing started; what ended then is what came before it.
        ended = verdict.completed or now
        return final | ({"completionTime": format_time(ended)} if verdict.status in TERMINAL else {})
    if child := verdict.child_uid or before.get("childUID"):
        final["childUID"] = child
    if verdict.allocation is not None:
        final["allocation"] = allocation_document(verdict.allocation, verdict.backend, verdict.queue)
    elif "allocation" in before:
        final["allocation"] = before["allocation"]
    return final | _times(workload.status, before, verdict, now)


def _times(status: WorkloadStatus, before: Object, verdict: Verdict, now: datetime) -> Object:
    times: Object = {}
    start = _start(status, verdict)
    end = verdict.completed or now
    if start is not None:
        times["startTime"] = format_time(start)
        if verdict.status != status.status:
            times["duration"] = max(0, int((end - start).total_seconds()))
        elif "duration" in before:
            times["duration"] = before["duration"]
    if verdict.status in TERMINAL:
        times["completionTime"] = format_time(end)
    return times


def _start(status: WorkloadStatus, verdict: Verdict) -> datetime | None:
    """The start of the run: kept while pods come and go, new after an eviction and with a new child."""
    if verdict.status == "PENDING":
        return None
    new = verdict.child_uid and status.child_uid and verdict.child_uid != status.child_uid
    kept = None if new else status.start_time
    if kept and verdict.run_started and (verdict.run_started - kept).total_seconds() > _CLOCK_SKEW:
        kept = None
    if kept and verdict.started:
        return min(kept, verdict.started)
    return kept or verdict.started


def allocation_document(allocation: Allocation, backend: str, queue: str = "") -> Object:
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


def _missed(workload: Workload, final: Object, verdict: Verdict) -> list[Object]:
    """Documents of the states that recorded facts prove, between the last written one and the final one."""
    if workload.status.status == "ERROR" and verdict.child_uid == workload.status.child_uid:
        return []  # it heals: how it once started was told before the error
    reached = _RANKS.get(workload.status.status, 0)
    documents = []
    for word in verdict.passed:
        if _RANKS.get(word, -1) <= reached or word == verdict.status:
            continue
        reached = _RANKS[word]
        reason, what = _PASSING[word]
        step = {key: value for key, value in final.items() if key not in ("completionTime", "duration")}
        step |= {"status": word, "reason": reason, "message": f"{workload.kind} {workload.name} {what}"}
        if word in ("PENDING", "STARTING"):
            step.pop("startTime", None)
        documents.append(step)
    return documents


def events(workload: Workload, statuses: Sequence[Object], child: str) -> tuple[PlannedEvent, ...]:
    """One event per transition, and a warning when a new trouble shows.

    Args:
        workload: the workload with its last written status.
        statuses: the documents about to be written.
        child: the child's kind and name when it is new, else empty.
    """
    told: list[PlannedEvent] = []
    word, reason = workload.status.status, workload.status.reason
    for step in statuses:
        message = step["message"]
        if step["status"] != word:
            type_, name = _EVENTS.get(step["status"], ("Warning", "WorkloadTerminating"))
            text = f"{child} was created; {message}" if child and not told else message
            told.append(_event(type_, name, text))
            if step["reason"] in PROBLEMS and step["reason"] != reason and type_ == "Normal":
                told.append(_event("Warning", step["reason"], message))
        elif step["reason"] != reason and (step["reason"] in PROBLEMS or step["status"] == "ERROR"):
            told.append(_event("Warning", step["reason"], message))
        word, reason = step["status"], step["reason"]
    return tuple(told)


def _event(type_: str, reason: str, message: str) -> PlannedEvent:
    return PlannedEvent("Normal" if type_ == "Normal" else "Warning", reason, _cut(message, _MAX_EVENT))


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
