"""The outcome of a live download Job: not started, stuck, downloading, failed or complete."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from kaiwo.api.conditions import find_condition
from kaiwo.engine.timestamps import parse_time
from kaiwo.plugin.observation import Finding, Outcome
from kaiwo.workload.download.job import LIMIT_SETTINGS, SCRATCH_SETTING, name_of
from kaiwo.workload.download.requested import CONDITION
from kaiwo.workload.json_access import holding, lenient_map, lenient_maps, one_line
from kaiwo.workload.observe import pod_status
from kaiwo.workload.observe.pod_failure import failure, pod_name
from kaiwo.workload.observe.waiting import (
    NOTHING_FOUND,
    WARNING_TIMEOUT,
    PodCheck,
    missing_pods,
    suspended_by_somebody,
    unscheduled,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.queues import Admission
    from kaiwo.workload.model import Facts

DOWNLOADING = "Downloading"

EVENTS_SECONDS = 30.0
"""Seconds until the events of a pod that does not start are read again: only they name a missing Secret."""

_UNTOLD_SECONDS = 5.0
"""Seconds after the creation of a Job in which nobody is said to have suspended it: a queue system's webhook
does that at once, and the queue system's own object follows."""

_TIMED_OUT = "Unable to attach or mount volumes"
"""Prefix of a warning that the kubelet repeats beside the cause itself; it would replace the cause."""


READS = ("failed", "startTime")
"""Fields of a download Job's status that `observe` reads, beside its conditions."""

READS_CONDITIONS = ("Complete", "SuccessCriteriaMet", "Failed")
"""Types of the conditions that it reads."""


def beginning(workload: Workload) -> Finding:
    """The finding about a download Job while nothing is wrong and nothing runs yet."""
    return Finding(DOWNLOADING, f"Job {name_of(workload)} is about to download")


def running_pod(job: Object, facts: Facts) -> Object | None:
    """The pod of a live download Job that downloads now."""
    return next((pod for pod in pod_status.current(_owned(job, facts)) if pod_status.runs(pod)), None)


def observe(workload: Workload, job: Object, facts: Facts, admission: Admission | None = None) -> Outcome:
    """The outcome of a live download Job: COMPLETE, FAILED, or PENDING with or without a start.

    Args:
        workload: the workload.
        job: the Job.
        facts: what is known of the cluster.
        admission: what the queue system says of the Job. Kaiwo queues none, but a queue system may manage
            Jobs that name no queue.
    """
    name = str(lenient_map(job.get("metadata")).get("name", ""))
    owned = _owned(job, facts)
    conditions = holding(lenient_map(job.get("status")).get("conditions"))
    if "Complete" in conditions or "SuccessCriteriaMet" in conditions:
        return Outcome("COMPLETE", "JobCompleted", f"Job {name} succeeded")
    if failed := conditions.get("Failed"):
        finding = _beyond_limit(owned, failed, job) or _failure(owned, failed, name)
        ended = parse_time(failed.get("lastTransitionTime")) or facts.now
        return Outcome("FAILED", finding.reason, finding.message, completed=ended)
    if lenient_map(job.get("spec")).get("suspend"):
        return _suspended(workload, job, name, admission, facts)
    return _active(workload, job, name, owned, facts)


def _suspended(
    workload: Workload, job: Object, name: str, admission: Admission | None, facts: Facts
) -> Outcome:
    """The outcome of a suspended Job, in the words of the queue system where that holds it."""
    if admission is None or admission.state == "unmanaged":
        made = parse_time(lenient_map(job.get("metadata")).get("creationTimestamp"))
        left = _UNTOLD_SECONDS - (facts.now - made).total_seconds() if made else 0.0
        if left > 0:
            return replace(_pending(beginning(workload)), requeue_after=left)
        return suspended_by_somebody(f"download Job {name}")
    if admission.state not in ("pending", "evicted"):
        return _pending(beginning(workload))  # it is resumed in a moment
    named = name in admission.message
    text = admission.message if named else f"download Job {name}: {admission.message}"
    return Outcome("PENDING", admission.reason, text)


def _owned(job: Object, facts: Facts) -> list[Object]:
    uid = lenient_map(job.get("metadata")).get("uid")
    return pod_status.owned(facts.download_pods, uid if isinstance(uid, str) else None)


def _pending(finding: Finding, check: PodCheck = NOTHING_FOUND, about: Object | None = None) -> Outcome:
    return Outcome(
        "PENDING",
        finding.reason,
        finding.message,
        requeue_after=check.requeue_after,
        needs_events=about if check.needs_events else None,
    )


def has_begun(job: Object, facts: Facts) -> bool:
    """Whether the program of a live download Job runs or ran, and the Job is not suspended."""
    if lenient_map(job.get("spec")).get("suspend"):
        return False
    if lenient_map(job.get("status")).get("failed") or running_pod(job, facts) is not None:
        return True
    return pod_status.started(_owned(job, facts)) is not None


def last_try(job: Object, facts: Facts) -> datetime | None:
    """When the last pod of a live download Job was created, or the Job where no pod is known."""
    times = [
        parse_time(lenient_map(obj.get("metadata")).get("creationTimestamp"))
        for obj in (job, *_owned(job, facts))
    ]
    return max((at for at in times if at is not None), default=None)


def _active(workload: Workload, job: Object, name: str, owned: list[Object], facts: Facts) -> Outcome:
    pods = pod_status.current(owned)
    if any(pod_status.runs(pod) for pod in pods):
        return _pending(Finding(DOWNLOADING, _progress(workload, owned, job, facts)))
    waiting = [pod for pod in pods if lenient_map(pod.get("status")).get("phase") in (None, "Pending")]
    recorded = Finding(workload.status.reason, workload.status.message)
    if finding := pod_status.problem(waiting, recorded):
        return _pending(finding)
    about = beginning(workload)
    if waiting:
        return _starting(waiting[0], facts, recorded, about)
    if has_begun(job, facts):
        return _pending(Finding(DOWNLOADING, _between(workload, owned, job)))
    begun = parse_time(lenient_map(job.get("status")).get("startTime"))
    check = missing_pods(begun, facts.now, f"Job {name}", facts.warning_event_of(job))
    return _pending(check.finding or about, check, job)


def _starting(pod: Object, facts: Facts, recorded: Finding, about: Finding) -> Outcome:
    """The outcome while a pod's container does not run yet; a missing Secret shows in an event alone."""
    check = unscheduled([pod], facts.now)
    if check.finding is not None or check.requeue_after is not None:
        return _pending(check.finding or about, check)
    warning_event = facts.warning_event_of(pod)
    again = PodCheck(requeue_after=EVENTS_SECONDS, needs_events=True)
    if warning_event is not None:
        text = f"pod {pod_name(pod)} cannot start: {warning_event.message}"
        finding = Finding(warning_event.reason, text)
        if recorded.reason == finding.reason and warning_event.message.startswith(_TIMED_OUT):
            finding = recorded
        return _pending(finding, again, pod)
    left = WARNING_TIMEOUT - _waited(pod, facts.now)
    return _pending(about, PodCheck(requeue_after=left) if left > 0 else again, pod)


def _waited(pod: Object, now: datetime) -> float:
    """Seconds since the pod has a node, or exists."""
    times = [
        parse_time(item.get("lastTransitionTime"))
        for item in lenient_maps(lenient_map(pod.get("status")).get("conditions"))
        if item.get("type") == "PodScheduled"
    ]
    since = next((at for at in times if at is not None), None)
    since = since or parse_time(lenient_map(pod.get("metadata")).get("creationTimestamp"))
    return (now - since).total_seconds() if since else WARNING_TIMEOUT


def is_in_progress(workload: Workload) -> bool:
    """Whether the status says that a download has begun and has not ended."""
    before = find_condition(workload.status.conditions, CONDITION)
    return before is not None and before.get("reason") == "JobInProgress"


def _recorded_progress(workload: Workload) -> str:
    """The progress that the status has; after a restart of the operator nothing better is known yet."""
    status = workload.status
    known = status.reason == DOWNLOADING and is_in_progress(workload)
    return (status.message if known else "") or DOWNLOADING


def _between(workload: Workload, owned: list[Object], job: Object) -> str:
    """The message between two attempts, and between the last one and the Job's own condition."""
    cause = _cause(owned)
    if not cause:
        return _recorded_progress(workload)
    return f"try{_count(job)} failed, the next one continues from there: {cause}"


def _progress(workload: Workload, owned: list[Object], job: Object, facts: Facts) -> str:
    """The message while an attempt runs: its progress, and before that why the one before failed."""
    reported = facts.progress.text if facts.progress else ""
    if cause := _cause(owned):
        return f"try{_count(job)} failed ({cause}), it goes on: {reported or DOWNLOADING}"
    return reported or _recorded_progress(workload)


def _cause(owned: list[Object]) -> str:
    """Why the last try failed; empty where none did."""
    code = _code(owned)
    return last_line(owned) or (f"exit code {code}" if code is not None else "")


def _count(job: Object) -> str:
    """How many attempts have failed, of how many."""
    tries = lenient_map(job.get("spec")).get("backoffLimit")
    failed = lenient_map(job.get("status")).get("failed")
    return f" {failed} of {tries + 1}" if isinstance(failed, int) and isinstance(tries, int) else ""


def _beyond_limit(owned: list[Object], failed: Object, job: Object) -> Finding | None:
    """Which limit the last try exceeded, with the setting of the limit; None where it exceeded none."""
    if failed.get("reason") == "DeadlineExceeded":
        seconds = lenient_map(job.get("spec")).get("activeDeadlineSeconds")
        return _limit(f"the Job did not end within {seconds} s", LIMIT_SETTINGS["timeout"])
    last = _newest_first(owned)[:1]
    for pod in last:
        status = lenient_map(pod.get("status"))
        text = one_line(status.get("message")).rstrip(" .")
        if status.get("reason") == "Evicted" and "ephemeral" in text:
            return _limit(text, SCRATCH_SETTING)
    for state in _ends(last):
        record = _record(state)
        if setting := LIMIT_SETTINGS.get(str(record.get("limit"))):
            message = one_line(record.get("message"))
            return _limit(message.partition("; ")[0], setting)
    return None


def _limit(text: str, setting: str) -> Finding:
    return Finding(
        "DownloadLimitExceeded",
        f"the download failed: {text}; download less, or raise KaiwoConfig {setting}",
    )


def _record(state: Object) -> Object:
    """The last line of a container's termination message as JSON, empty where there is none."""
    for line in reversed(str(state.get("message") or "").splitlines()):
        try:
            return lenient_map(msgspec.json.decode(line))
        except (msgspec.DecodeError, RecursionError):
            continue
    return {}


def _failure(owned: list[Object], failed: Object, name: str) -> Finding:
    """Why the downloads failed for good, with the last message of the download program where there is one."""
    code = _code(owned)
    line = last_line(owned) or one_line(failed.get("message")) or f"Job {name} failed"
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
    # Each pod is a try of its own, and the last one decides.
    cause = next((found for pod in _newest_first(owned) if (found := failure([pod]))), None)
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
    """The last message of the download program where it failed; empty when there is none."""
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
    except (msgspec.DecodeError, RecursionError):
        return line
    return one_line(lenient_map(found).get("message"))
