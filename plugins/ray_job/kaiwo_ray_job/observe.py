"""Reads the outcome of a KaiwoJob from its live RayJob."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.kit import pod_status
from kaiwo.plugin.kit.json_access import lenient_map
from kaiwo.plugin.kit.observe import (
    WARNING_TIMEOUT,
    check_pods,
    failure,
    passed,
    reason_word,
    waiting,
    with_pods_before,
)
from kaiwo.plugin.kit.pod_status import works
from kaiwo.plugin.kit.values import parse_time
from kaiwo.plugin.observation import Finding, Outcome
from kaiwo.workload.observe.ray_messages import failure_text
from kaiwo.workload.observe.ray_workers import with_workers
from kaiwo.workload.pods.ray_cluster import cluster_of

if TYPE_CHECKING:
    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.observation import Observation

STATUS_TIMEOUT = 60.0
"""Seconds without a status after which a RayJob counts as rejected. KubeRay before 1.5 sets no status on a
RayJob that it rejects, it only sends an event."""

_REFUSED = "InvalidRayJob"
"""How the reasons of these events begin (InvalidRayJobSpec, InvalidRayJobMetadata, InvalidRayJobStatus)."""

_STARTING = "RayJob {} is being started"
_WAITING = (
    "the cluster of RayJob {} waits for somebody to submit a job to it (submissionMode InteractiveMode)"
)
_OWN_CONTROLLER = "ray.io/kuberay-operator"
"""Who runs a RayJob whose ``managedBy`` names nobody else."""

_USUAL = ("", "New", "Initializing", "Waiting", "Running", "Suspended")
"""Deployment statuses that every RayJob passes through before it runs; they are not reported."""


def observe(seen: Observation) -> Outcome:
    """The outcome of a RayJob: the first that holds of ended, waiting, active."""
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
    if elsewhere := _elsewhere(spec, status, name):
        return elsewhere
    if not deployment and not job and not pods:
        return _without_status(seen, metadata, name)
    return _active(seen, status, pods, name)


def _elsewhere(spec: Object, status: Object, name: str) -> Outcome | None:
    """The outcome of a RayJob that another controller runs, without pods here; None for the usual one."""
    manager = spec.get("managedBy")
    if not manager or manager == _OWN_CONTROLLER:
        return None
    begun = parse_time(status.get("startTime"))
    who = f"RayJob {name} is run by {manager}, as its spec.managedBy says"
    if status.get("jobStatus") != "RUNNING":
        return Outcome("STARTING", "Starting", f"{who}; its job does not run yet", run_started=begun)
    started = parse_time(lenient_map(status.get("rayJobInfo")).get("startTime")) or begun
    return Outcome(
        status="RUNNING",
        reason="Running",
        message=f"{who}; its job runs",
        started=started,
        run_started=begun,
        passed=("STARTING",),
    )


def _without_status(seen: Observation, metadata: Object, name: str) -> Outcome:
    """The outcome while KubeRay has set no status: an event may name the cause, in the end it is an error."""
    if seen.warning_event is not None and seen.warning_event.reason.startswith(_REFUSED):
        text = f"KubeRay rejects RayJob {name}: {seen.warning_event.message}"
        return Outcome("ERROR", seen.warning_event.reason, text)
    times = [
        parse_time(metadata.get("creationTimestamp")),
        parse_time(seen.admission.since) if seen.admission else None,
    ]
    begun = max((at for at in times if at is not None), default=seen.now)
    left = STATUS_TIMEOUT - (seen.now - begun).total_seconds()
    if left > 0:
        text, early = _STARTING.format(name), left - STATUS_TIMEOUT + WARNING_TIMEOUT
        if early > 0:
            return Outcome("STARTING", "Starting", text, requeue_after=early)
        return Outcome("STARTING", "Starting", text, requeue_after=left, needs_events=seen.child)
    return Outcome(
        "ERROR",
        "RayJobIgnored",
        f"KubeRay gave RayJob {name} no status for {STATUS_TIMEOUT:.0f} s: its operator does not run, or it "
        f"refuses the spec; 'kubectl describe rayjob {name}' shows its events InvalidRayJob*",
        needs_events=seen.child,
    )


def _said(text: str, status: Object) -> str:
    message = failure_text(status.get("message"))
    return f"{text}: {message}" if message else text


def _failure(seen: Observation, status: Object, name: str) -> Finding:
    # KubeRay writes Ray's status a moment before its own reason, which is then always AppFailed.
    default = "AppFailed" if status.get("jobStatus") == "FAILED" else status.get("jobDeploymentStatus")
    given = status.get("reason") or default
    reason = reason_word(given)
    said = _said(f"RayJob {name} failed ({reason})", status)
    found = failure(seen, parse_time(status.get("startTime")))
    if found is None:
        return Finding(reason, with_pods_before(said, seen.recorded))
    return Finding(found.reason if reason == "Failed" else reason, f"{said}; {found.message}")


def _ended(seen: Observation, status: Object, word: str, finding: Finding) -> Outcome:
    # The pods of an ended RayJob may be terminating already; they still have their start times.
    started = pod_status.started(seen.pods)
    begun = parse_time(status.get("startTime"))
    return Outcome(
        status=word,
        reason=finding.reason,
        message=finding.message,
        started=started or (None if seen.workload.status.start_time else begun),
        run_started=begun,
        completed=parse_time(status.get("endTime")) or seen.now,
        passed=passed(begun, started),
    )


def _active(seen: Observation, status: Object, pods: list[Object], name: str) -> Outcome:
    begun = parse_time(status.get("startTime"))
    check = check_pods(
        seen,
        pods,
        f"the RayCluster of RayJob {name}",
        begun,
        expected=seen.workload.status.start_time is None,
        conditions=lenient_map(status.get("rayClusterStatus")).get("conditions"),
    )
    finding = check.finding
    runs = status.get("jobStatus") == "RUNNING" and any(works(pod, seen.now, seen.recorded) for pod in pods)
    if runs:
        text = f"RayJob {name} runs"
        return Outcome(
            status="RUNNING",
            reason=finding.reason if finding else "Running",
            message=f"{text}; {finding.message}" if finding else text,
            started=pod_status.started(pods),
            run_started=begun,
            passed=("STARTING",),
            requeue_after=check.requeue_after,
        )
    cluster = lenient_map(seen.child.get("spec")).get("rayClusterSpec")
    finding, requeue_after, needs_events = with_workers(check, seen, cluster, f"RayJob {name}")
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
        requeue_after=requeue_after,
        needs_events=seen.child if needs_events else None,
        pod_owner=cluster_of(status),  # before KubeRay 1.5 only events about the RayCluster name the cause
    )
