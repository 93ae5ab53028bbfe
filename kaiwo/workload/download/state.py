"""What a live download Job and its pods mean: not begun, in trouble, so far along, failed or done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import msgspec

from kaiwo.plugin.observation import Finding
from kaiwo.workload.download.job import name_of
from kaiwo.workload.json_access import holding, lenient_map, lenient_maps
from kaiwo.workload.observe import pod_status

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object
    from kaiwo.workload.model import Facts

DOWNLOADING = "Downloading"

EVENTS_SECONDS = 30.0
"""When to read the events of a pod that does not start once more: of a missing Secret only they tell."""

_TIMED_OUT = "Unable to attach or mount volumes"
"""Begins what the kubelet says every two minutes beside the cause itself; it would replace the cause."""


@dataclass(frozen=True, slots=True)
class DownloadState:
    """What a download Job that exists means.

    Attributes:
        phase: where it stands.
        finding: reason and one line for the workload's status.
        began: whether the program runs or ran, so that it is in progress and not pending.
        ended: when it failed, None while it has not.
        requeue_after: seconds after which to look again though nothing happened, None for never.
        needs_events: an object whose newest warning event may tell why nothing happens, None for none.
        follow: name of the pod whose log tells the progress, empty for none.
    """

    phase: Literal["waits", "failed", "done"]
    finding: Finding
    began: bool = False
    ended: datetime | None = None
    requeue_after: float | None = None
    needs_events: Object | None = None
    follow: str = ""


READS = ("failed", "startTime")
"""Fields of a download Job's status that mean something, beside its conditions."""


def beginning(workload: Workload) -> Finding:
    """What is told of a download Job while nothing is wrong and nothing runs yet."""
    return Finding(DOWNLOADING, f"Job {name_of(workload)} is about to download")


def observe(workload: Workload, job: Object, facts: Facts) -> DownloadState:
    """The state of a live download Job of the workload."""
    metadata = lenient_map(job.get("metadata"))
    name, uid = str(metadata.get("name", "")), metadata.get("uid")
    owned = pod_status.owned(facts.download_pods, uid if isinstance(uid, str) else None)
    conditions = holding(lenient_map(job.get("status")).get("conditions"))
    if "Complete" in conditions or "SuccessCriteriaMet" in conditions:
        return DownloadState("done", Finding("JobCompleted", f"Job {name} succeeded"), began=True)
    if failed := conditions.get("Failed"):
        ended = pod_status.moment(failed.get("lastTransitionTime")) or facts.now
        return DownloadState("failed", _failure(owned, failed, name), began=True, ended=ended)
    if lenient_map(job.get("spec")).get("suspend"):
        text = f"Job {name}, which downloads, is suspended; set its spec.suspend to false to start it"
        return DownloadState("waits", Finding("Suspended", text))
    return _active(workload, job, name, owned, facts)


def _active(workload: Workload, job: Object, name: str, owned: list[Object], facts: Facts) -> DownloadState:
    status = lenient_map(job.get("status"))
    pods = pod_status.current(owned)
    if running := next((pod for pod in pods if pod_status.runs(pod)), None):
        text = facts.progress.text if facts.progress else _told(workload) or DOWNLOADING
        return DownloadState(
            "waits", Finding(DOWNLOADING, text), began=True, follow=pod_status.pod_name(running)
        )
    about = beginning(workload)
    began = bool(status.get("failed")) or any(pod_status.started([pod]) for pod in owned)
    waiting = [pod for pod in pods if lenient_map(pod.get("status")).get("phase") in (None, "Pending")]
    told = Finding(workload.status.reason, workload.status.message)
    if finding := pod_status.problem(waiting, told):
        return DownloadState("waits", finding, began=began)
    if waiting:
        return _starting(waiting[0], facts, told, about, began=began)
    if began:
        return DownloadState("waits", Finding(DOWNLOADING, _between(workload, owned, job)), began=True)
    begun = pod_status.moment(status.get("startTime"))
    warning_event = facts.warning_event_of(job)
    absence = pod_status.absent(begun, facts.now, f"Job {name}", warning_event)
    needs_events = job if absence.needs_events else None
    found = absence.finding or about
    return DownloadState("waits", found, requeue_after=absence.requeue_after, needs_events=needs_events)


def _starting(pod: Object, facts: Facts, told: Finding, about: Finding, *, began: bool) -> DownloadState:
    """A pod whose container does not run yet: for a missing Secret only an event says so."""
    name = pod_status.pod_name(pod)
    finding, wake = pod_status.unscheduled([pod], facts.now)
    if finding is not None or wake is not None:
        return DownloadState("waits", finding or about, began=began, requeue_after=wake)
    warning_event = facts.warning_event_of(pod)
    if warning_event is not None:
        finding = Finding(warning_event.reason, f"pod {name} cannot start: {warning_event.message}")
        if told.reason == finding.reason and warning_event.message.startswith(_TIMED_OUT):
            finding = told
        return DownloadState("waits", finding, began=began, requeue_after=EVENTS_SECONDS, needs_events=pod)
    waited = _waited(pod, facts.now)
    left = pod_status.WARNING_TIMEOUT - waited
    return DownloadState(
        "waits",
        about,
        began=began,
        requeue_after=left if left > 0 else EVENTS_SECONDS,
        needs_events=pod if left <= 0 else None,
    )


def _waited(pod: Object, now: datetime) -> float:
    """Seconds since the pod has a node, or exists."""
    times = [
        pod_status.moment(item.get("lastTransitionTime"))
        for item in lenient_maps(lenient_map(pod.get("status")).get("conditions"))
        if item.get("type") == "PodScheduled"
    ]
    since = next((at for at in times if at is not None), None)
    since = since or pod_status.moment(lenient_map(pod.get("metadata")).get("creationTimestamp"))
    return (now - since).total_seconds() if since else pod_status.WARNING_TIMEOUT


def _told(workload: Workload) -> str:
    """How far the download was said to be; after a restart of the operator nothing better is known yet."""
    status = workload.status
    known = status.status == "PENDING" and status.reason == DOWNLOADING
    return status.message if known and status.message.startswith(DOWNLOADING) else ""


def _between(workload: Workload, owned: list[Object], job: Object) -> str:
    """What is told between two tries, and between the last one and the Job's own verdict."""
    line = last_line(owned)
    if not line:
        return _told(workload) or DOWNLOADING
    tries = lenient_map(job.get("spec")).get("backoffLimit")
    failed = lenient_map(job.get("status")).get("failed")
    count = f" {failed} of {tries + 1}" if isinstance(failed, int) and isinstance(tries, int) else ""
    return f"try{count} failed, the next one goes on from there: {line}"


def _failure(owned: list[Object], failed: Object, name: str) -> Finding:
    """Why the downloads failed for good, in the download program's own words where it left any."""
    code = _code(owned)
    line = last_line(owned) or " ".join(str(failed.get("message") or "").split()) or f"Job {name} failed"
    text = f"the download failed: {line}"
    if code is not None:
        text = f"{text} (exit code {code})"
    match code:  # exit codes of the download program
        case 2:
            return Finding("DownloadInvalid", text)
        case 3:
            return Finding("DownloadUnavailable", text)
        case 4:
            return Finding("DownloadMismatch", text)
        case 5:
            return Finding("DownloadDiskFull", text)
        case 6:
            return Finding("DownloadUnreachable", text)
    cause = pod_status.failure(_newest_first(owned))
    if cause is not None and cause.reason != "ExitCode":
        return Finding(cause.reason, f"the download failed: {cause.message}")
    return Finding("DownloadFailed", text)


def _newest_first(pods: Iterable[Object]) -> list[Object]:
    return sorted(
        pods,
        key=lambda pod: str(lenient_map(pod.get("metadata")).get("creationTimestamp", "")),
        reverse=True,
    )


def _ends(owned: Iterable[Object]) -> list[Object]:
    """How containers ended with an exit code other than 0, the newest pod's first."""
    states = [
        lenient_map(lenient_map(container.get("state")).get("terminated"))
        for pod in _newest_first(owned)
        for container in pod_status.containers(pod)
    ]
    return [state for state in states if state.get("exitCode")]


def _code(owned: Iterable[Object]) -> int | None:
    codes = [state.get("exitCode") for state in _ends(owned)]
    return next((code for code in codes if isinstance(code, int)), None)


def last_line(owned: Iterable[Object]) -> str:
    """What the download program said last where it failed; empty when nobody knows."""
    for state in _ends(owned):
        lines = [line.strip() for line in str(state.get("message") or "").splitlines() if line.strip()]
        for line in reversed(lines):
            if text := _message(line):
                return text
    return ""


def _message(line: str) -> str:
    """The text of a line: of JSON its message, none where it has none (a line about progress)."""
    if not line.startswith("{"):
        return line
    try:
        found = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return line
    return " ".join(str(lenient_map(found).get("message") or "").split())
