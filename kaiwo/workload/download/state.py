"""What a live download Job and its pods mean: not begun, in trouble, so far along, failed or done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import msgspec

from kaiwo.plugin.backends import Finding
from kaiwo.workload import podtruth
from kaiwo.workload.download.job import name_of
from kaiwo.workload.shapes import holding, lenient_map, lenient_maps

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
class State:
    """What a download Job that exists means.

    Attributes:
        phase: where it stands.
        finding: reason and one line for the workload's status.
        began: whether the program runs or ran, so that it is in progress and not pending.
        ended: when it failed, None while it has not.
        wake_after: seconds after which to look again though nothing happened, None for never.
        puzzled: an object whose newest warning event may tell why nothing happens, None for none.
        follow: name of the pod whose log tells the progress, empty for none.
    """

    phase: Literal["waits", "failed", "done"]
    finding: Finding
    began: bool = False
    ended: datetime | None = None
    wake_after: float | None = None
    puzzled: Object | None = None
    follow: str = ""


READS = ("failed", "startTime")
"""Fields of a download Job's status that mean something, beside its conditions."""


def beginning(workload: Workload) -> Finding:
    """What is told of a download Job while nothing is wrong and nothing runs yet."""
    return Finding(DOWNLOADING, f"Job {name_of(workload)} is about to download")


def observe(workload: Workload, job: Object, facts: Facts) -> State:
    """The state of a live download Job of the workload."""
    metadata = lenient_map(job.get("metadata"))
    name, uid = str(metadata.get("name", "")), metadata.get("uid")
    owned = podtruth.owned(facts.download_pods, uid if isinstance(uid, str) else None)
    conditions = holding(lenient_map(job.get("status")).get("conditions"))
    if "Complete" in conditions or "SuccessCriteriaMet" in conditions:
        return State("done", Finding("JobCompleted", f"Job {name} succeeded"), began=True)
    if failed := conditions.get("Failed"):
        ended = podtruth.moment(failed.get("lastTransitionTime")) or facts.now
        return State("failed", _failure(owned, failed, name), began=True, ended=ended)
    if lenient_map(job.get("spec")).get("suspend"):
        text = f"Job {name}, which downloads, is suspended; set its spec.suspend to false to start it"
        return State("waits", Finding("Suspended", text))
    return _active(workload, job, name, owned, facts)


def _active(workload: Workload, job: Object, name: str, owned: list[Object], facts: Facts) -> State:
    status = lenient_map(job.get("status"))
    pods = podtruth.current(owned)
    if running := next((pod for pod in pods if podtruth.runs(pod)), None):
        text = facts.progress.text if facts.progress else _told(workload) or DOWNLOADING
        return State("waits", Finding(DOWNLOADING, text), began=True, follow=podtruth.pod_name(running))
    about = beginning(workload)
    began = bool(status.get("failed")) or any(podtruth.started([pod]) for pod in owned)
    waiting = [pod for pod in pods if lenient_map(pod.get("status")).get("phase") in (None, "Pending")]
    told = Finding(workload.status.reason, workload.status.message)
    if finding := podtruth.problem(waiting, told):
        return State("waits", finding, began=began)
    if waiting:
        return _starting(waiting[0], facts, told, about, began=began)
    if began:
        return State("waits", Finding(DOWNLOADING, _between(workload, owned, job)), began=True)
    begun = podtruth.moment(status.get("startTime"))
    complaint = facts.complaint_of(job)
    absence = podtruth.absent(begun, facts.now, f"Job {name}", complaint)
    puzzled = job if absence.puzzled else None
    found = absence.finding or about
    return State("waits", found, wake_after=absence.wake_after, puzzled=puzzled)


def _starting(pod: Object, facts: Facts, told: Finding, about: Finding, *, began: bool) -> State:
    """A pod whose container does not run yet: for a missing Secret only an event says so."""
    name = podtruth.pod_name(pod)
    finding, wake = podtruth.unscheduled([pod], facts.now)
    if finding is not None or wake is not None:
        return State("waits", finding or about, began=began, wake_after=wake)
    complaint = facts.complaint_of(pod)
    if complaint is not None:
        finding = Finding(complaint.reason, f"pod {name} cannot start: {complaint.message}")
        if told.reason == finding.reason and complaint.message.startswith(_TIMED_OUT):
            finding = told
        return State("waits", finding, began=began, wake_after=EVENTS_SECONDS, puzzled=pod)
    waited = _waited(pod, facts.now)
    left = podtruth.COMPLAINT_PATIENCE - waited
    return State(
        "waits",
        about,
        began=began,
        wake_after=left if left > 0 else EVENTS_SECONDS,
        puzzled=pod if left <= 0 else None,
    )


def _waited(pod: Object, now: datetime) -> float:
    """Seconds since the pod has a node, or exists."""
    times = [
        podtruth.moment(item.get("lastTransitionTime"))
        for item in lenient_maps(lenient_map(pod.get("status")).get("conditions"))
        if item.get("type") == "PodScheduled"
    ]
    since = next((at for at in times if at is not None), None)
    since = since or podtruth.moment(lenient_map(pod.get("metadata")).get("creationTimestamp"))
    return (now - since).total_seconds() if since else podtruth.COMPLAINT_PATIENCE


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
    cause = podtruth.failure(_newest_first(owned))
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
        for container in podtruth.containers(pod)
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
