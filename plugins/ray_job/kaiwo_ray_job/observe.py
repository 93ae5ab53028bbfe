"""What a live RayJob means for its KaiwoJob."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.observation import Finding, Outcome
from kaiwo.workload.json_access import lenient_map
from kaiwo.workload.observe import pod_status
from kaiwo.workload.observe.waiting import waiting

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.observation import Observation

SILENCE = 60.0
"""Seconds without any status of KubeRay after which a RayJob counts as refused. KubeRay before 1.5 gives a
RayJob that it does not take no status at all, only an event."""

_REFUSED = "InvalidRayJob"
"""How the reasons of these events begin (InvalidRayJobSpec, InvalidRayJobMetadata, InvalidRayJobStatus)."""

_STARTING = "RayJob {} is being started"
_WAITING = (
    "the cluster of RayJob {} waits for somebody to submit a job to it (submissionMode InteractiveMode)"
)
_USUAL = ("", "New", "Initializing", "Waiting", "Running", "Suspended")
"""Deployment statuses that every RayJob passes through on its way to run: no news, and so no writes."""


def observe(seen: Observation) -> Outcome:
    """The status of a RayJob: the first that holds of ended, waiting, active."""
    metadata, spec = lenient_map(seen.child.get("metadata")), lenient_map(seen.child.get("spec"))
    status = lenient_map(seen.child.get("status"))
    name = str(metadata.get("name", ""))
    job, deployment = status.get("jobStatus"), status.get("jobDeploymentStatus")
    if job == "SUCCEEDED":
        return _ended(seen, status, "COMPLETE", Finding("Completed", f"RayJob {name} succeeded"))
    if job == "STOPPED":
        return _ended(seen, status, "FAILED", Finding("Stopped", _said(f"RayJob {name} was stopped", status)))
    if job == "FAILED" or deployment in ("Failed", "ValidationFailed"):
        return _ended(seen, status, "FAILED", _failure(seen, status, name))
    pods = pod_status.current(seen.pods)
    suspended = deployment in ("Suspended", "Suspending") or (bool(spec.get("suspend")) and not deployment)
    if waits := waiting(seen, f"RayJob {name}", pods, suspended=suspended):
        return waits
    if not deployment and not job and not pods:
        return _silent(seen, metadata, name)
    return _active(seen, status, pods, name)


def _silent(seen: Observation, metadata: Object, name: str) -> Outcome:
    """KubeRay has not said anything yet: an event may tell why, and in the end silence is an answer too."""
    if seen.warning_event is not None and seen.warning_event.reason.startswith(_REFUSED):
        text = f"KubeRay does not take RayJob {name}: {seen.warning_event.message}"
        return Outcome("ERROR", seen.warning_event.reason, text)
    times = [
        pod_status.moment(metadata.get("creationTimestamp")),
        pod_status.moment(seen.admission.since) if seen.admission else None,
    ]
    begun = max((at for at in times if at is not None), default=seen.now)
    left = SILENCE - (seen.now - begun).total_seconds()
    if left > 0:
        text, early = _STARTING.format(name), left - SILENCE + pod_status.WARNING_TIMEOUT
        if early > 0:
            return Outcome("STARTING", "Starting", text, requeue_after=early)
        return Outcome("STARTING", "Starting", text, requeue_after=left, needs_events=True)
    return Outcome(
        "ERROR",
        "RayJobIgnored",
        f"KubeRay gave RayJob {name} no status for {SILENCE:.0f} s: its operator does not run, or it refuses "
        f"the spec; 'kubectl describe rayjob {name}' shows its events InvalidRayJob*",
        needs_events=True,
    )


def _said(text: str, status: Object) -> str:
    message = " ".join(str(status.get("message") or "").split())
    return f"{text}: {message}" if message else text


def _failure(seen: Observation, status: Object, name: str) -> Finding:
    # KubeRay writes Ray's verdict a moment before its own reason for it, which is then always this one.
    default = "AppFailed" if status.get("jobStatus") == "FAILED" else status.get("jobDeploymentStatus")
    given = status.get("reason") or default
    reason = given if isinstance(given, str) and given.isalnum() else "Failed"
    said = _said(f"RayJob {name} failed ({reason})", status)
    found = pod_status.failure([*seen.pods, *reversed(seen.gone)])
    if found is None:
        return Finding(reason, said)
    return Finding(found.reason if reason == "Failed" else reason, f"{said}; {found.message}")


def _ended(seen: Observation, status: Object, word: str, finding: Finding) -> Outcome:
    # The pods of an ended RayJob may be terminating already; they still tell when they ran.
    started = pod_status.started(seen.pods)
    begun = pod_status.moment(status.get("startTime"))
    return Outcome(
        status=word,
        reason=finding.reason,
        message=finding.message,
        started=started or (None if seen.workload.status.start_time else begun),
        run_started=begun,
        completed=pod_status.moment(status.get("endTime")) or seen.now,
        passed=(*(("STARTING",) if begun or started else ()), *(("RUNNING",) if started else ())),
    )


def _active(seen: Observation, status: Object, pods: list[Object], name: str) -> Outcome:
    begun = pod_status.moment(status.get("startTime"))
    finding = pod_status.problem(pods, Finding(seen.workload.status.reason, seen.workload.status.message))
    wake: float | None = None
    needs_events = False
    if finding is None:
        conditions = lenient_map(status.get("rayClusterStatus")).get("conditions")
        finding, wake = pod_status.refused_pods(conditions, seen.now)
    if finding is None and wake is None and pods:
        finding, wake = pod_status.unscheduled(pods, seen.now)
    elif finding is None and wake is None and seen.workload.status.start_time is None:
        # KubeRay before 1.5 tells on the RayCluster alone why its pods are refused.
        absence = pod_status.absent(begun, seen.now, f"the RayCluster of RayJob {name}", seen.warning_event)
        finding, wake, needs_events = absence.finding, absence.requeue_after, absence.needs_events
    runs = status.get("jobStatus") == "RUNNING" and any(pod_status.runs(pod) for pod in pods)
    if runs:
        text = f"RayJob {name} runs"
        return Outcome(
            status="RUNNING",
            reason=finding.reason if finding else "Running",
            message=f"{text}; {finding.message}" if finding else text,
            started=pod_status.started(pods),
            run_started=begun,
            passed=("STARTING",),
            requeue_after=wake,
        )
    state = status.get("jobDeploymentStatus")
    text = (_WAITING if state == "Waiting" else _STARTING).format(name)
    if isinstance(state, str) and state not in _USUAL:
        text = f"RayJob {name} is not running yet ({state})"
    return Outcome(
        status="STARTING",
        reason=finding.reason if finding else "Starting",
        message=finding.message if finding else _said(text, status),
        started=pod_status.started(pods),
        run_started=begun,
        requeue_after=wake,
        needs_events=needs_events,
        pod_owner=pod_status.ray_cluster(status),
    )
