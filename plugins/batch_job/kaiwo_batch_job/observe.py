"""Reads the outcome of a KaiwoJob from its live Job."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kaiwo.plugin.kit import pod_status
from kaiwo.plugin.kit.json_access import holding, is_deleting, lenient_map, one_line
from kaiwo.plugin.kit.observe import (
    NOTHING_FOUND,
    changed_at,
    check_pods,
    missing_pods,
    passed,
    waiting,
    with_pods_before,
)
from kaiwo.plugin.kit.pod_status import works
from kaiwo.plugin.kit.values import parse_time
from kaiwo.plugin.observation import Finding, Outcome
from kaiwo_batch_job.added_containers import added_container
from kaiwo_batch_job.failure_policy import counted

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.observation import Observation

SETTLING_SECONDS = 10.0
"""How long the Job controller may take to set the Job's condition after the last container ended."""

_DEADLINE = "DeadlineExceeded"
_OWN_CONTROLLER = "kubernetes.io/job-controller"
"""Who runs a Job whose ``managedBy`` names nobody else (batch/v1)."""
_STARTING = "no container of Job {} runs yet"


def observe(seen: Observation) -> Outcome:
    """The outcome of a Job: the first that holds of ended, waiting for the queue, suspended, active."""
    metadata, spec = lenient_map(seen.child.get("metadata")), lenient_map(seen.child.get("spec"))
    status = lenient_map(seen.child.get("status"))
    uid = metadata.get("uid")
    pods = pod_status.current(seen.pods, uid if isinstance(uid, str) else None)
    begun = parse_time(status.get("startTime"))
    conditions = holding(status.get("conditions"))
    name = str(metadata.get("name", ""))
    if done := conditions.get("Complete") or conditions.get("SuccessCriteriaMet"):
        completed = parse_time(status.get("completionTime")) or changed_at(done)
        return _ended(seen, begun, "COMPLETE", Finding("Completed", f"Job {name} completed"), completed)
    if failed := conditions.get("Failed"):
        return _ended(seen, begun, "FAILED", _failure(seen, failed, begun, name), changed_at(failed))
    suspended = bool(spec.get("suspend"))
    if waits := waiting(seen, f"Job {name}", pods, suspended=suspended):
        return waits
    if suspended:
        # Admitted, and resumed in a moment: the state after that is reported at once.
        return Outcome("STARTING", "Starting", _STARTING.format(name))
    if failing := conditions.get("FailureTarget"):
        return _failing(seen, failing, begun, name)
    if seen.adopted:
        return _adopted(seen, spec, status, begun, name)
    if not _own(seen) and (elsewhere := _without_pods(spec, status, begun, name)):
        return elsewhere
    return _active(seen, pods, begun, name)


def _ended(
    seen: Observation, begun: datetime | None, word: str, finding: Finding, completed: datetime | None
) -> Outcome:
    # Pods of an ended Job may be terminating already; they still have their start times.
    pods = _own(seen)
    started = pod_status.started(pods)
    return Outcome(
        status=word,
        reason=finding.reason,
        message=finding.message,
        started=started or (begun if _ran_unseen(seen, word) else None),
        run_started=begun,
        completed=completed or seen.now,
        passed=passed(begun, started),
    )


def _ran_unseen(seen: Observation, word: str) -> bool:
    """Whether to take the Job's own start time for that of its containers, whose pods are gone.

    A job whose last status was STARTING, and that failed, never ran.
    """
    recorded = seen.workload.status
    return recorded.start_time is None and (word == "COMPLETE" or recorded.status != "STARTING")


def _failing(seen: Observation, failing: Object, begun: datetime | None, name: str) -> Outcome:
    """The outcome of a Job that has failed and whose last pods are being stopped.

    The cause is read from the pods that are being deleted: soon they are gone.
    """
    kept = _kept(seen, begun, name)
    if failing.get("reason") == _DEADLINE:
        return kept  # what was killed for a deadline has a code that explains nothing
    pods, gone = _failure_candidates(seen, begun)
    going = [pod for pod in pods if is_deleting(pod)]
    cause = pod_status.failure([*pods, *gone])
    if cause is None or cause != pod_status.failure([*going, *gone]):
        return _with_unready_node(kept, going)  # the pod with the cause stays
    waits = next((text for pod in going if (text := pod_status.unconfirmed(pod))), "")
    message = f"{cause.message}; {waits}" if waits else cause.message
    return replace(kept, reason=cause.reason, message=message)


def _with_unready_node(kept: Outcome, going: Iterable[Object]) -> Outcome:
    """The recorded status, with what is known of a node that confirms the deletion of no pod."""
    finding = next((found for pod in going if (found := pod_status.unready_node(pod))), None)
    return replace(kept, reason=finding.reason, message=finding.message) if finding else kept


def _kept(seen: Observation, begun: datetime | None, name: str) -> Outcome:
    """The recorded status, for a moment in which nothing new is known: one state, one write."""
    recorded = seen.workload.status
    known = recorded.status in ("STARTING", "RUNNING")
    return Outcome(
        status=recorded.status if known else "STARTING",
        reason=recorded.reason if known else "Starting",
        message=recorded.message if known else _STARTING.format(name),
        started=pod_status.started(_own(seen)),
        run_started=begun,
    )


def _failure(seen: Observation, failed: Object, begun: datetime | None, name: str) -> Finding:
    text = one_line(failed.get("message"))
    reason = str(failed.get("reason") or "Failed")
    if reason == _DEADLINE:
        said = f"Job {name} was active longer than its activeDeadlineSeconds (DeadlineExceeded)"
        return Finding(reason, with_pods_before(said, seen.recorded))
    pods, gone = _failure_candidates(seen, begun)
    return (
        pod_status.failure([*pods, *gone]) or _recorded(seen) or Finding(reason, text or f"Job {name} failed")
    )


def _recorded(seen: Observation) -> Finding | None:
    """The recorded finding, if it is more than that the Job starts or runs: the pods may be gone by now."""
    return seen.recorded if seen.recorded.reason not in ("", "Starting", "Running", "Creating") else None


def _own(seen: Observation) -> list[Object]:
    """All pods of this Job, those that are being deleted included."""
    return _of(seen.child, seen.pods)


def _failure_candidates(seen: Observation, begun: datetime | None) -> tuple[list[Object], list[Object]]:
    """The pods that may be why the Job fails: those that exist, and those that are gone, the latest first.

    Pods of the run before an eviction are not among them, nor those whose failure the Job ignores.
    """
    gone = _of(seen.child, reversed(seen.gone))
    own, before = (pod_status.of_run(pods, begun) for pods in (_own(seen), gone))
    return counted(seen.child, own), counted(seen.child, before)


def _of(child: Object, pods: Iterable[Object]) -> list[Object]:
    uid = lenient_map(child.get("metadata")).get("uid")
    return [pod for pod in pods if not (owners := pod_status.controllers(pod)) or uid in owners]


def _without_pods(
    spec: Object, status: Object, begun: datetime | None, name: str, *, adopted: bool = False
) -> Outcome | None:
    """The outcome of a Job that has no pods here; None for the usual one."""
    if spec.get("parallelism") == 0:
        where = "its spec.parallelism" if adopted else "spec.job.spec.parallelism"
        text = f"Job {name} has parallelism 0, so it makes no pods; raise {where} to start it"
        return Outcome("PENDING", "Suspended", text)
    manager = spec.get("managedBy")
    if not manager or manager == _OWN_CONTROLLER:
        return None
    who = f"Job {name} is run by {manager}, as its spec.managedBy says"
    ready = status.get("ready")
    if isinstance(ready, int) and ready > 0:
        text = f"{who}; {ready} of its pods are ready"
        return Outcome("RUNNING", "Running", text, started=begun, run_started=begun, passed=("STARTING",))
    return Outcome("STARTING", "Starting", f"{who}; none of its pods is ready yet", run_started=begun)


def _adopted(seen: Observation, spec: Object, status: Object, begun: datetime | None, name: str) -> Outcome:
    """The outcome of a Job that a user made: its own status and events have to do for its pods."""
    if elsewhere := _without_pods(spec, status, begun, name, adopted=True):
        return elsewhere
    ready, active = (
        number if isinstance(number := status.get(field), int) else 0 for field in ("ready", "active")
    )
    if ready > 0:
        text = f"Job {name} runs" if ready >= active else f"{ready} of {active} pods are ready"
        return Outcome("RUNNING", "Running", text, started=begun, run_started=begun, passed=("STARTING",))
    recorded = seen.workload.status
    if recorded.status == "RUNNING" and recorded.start_time is not None and not active:
        return _kept(seen, begun, name)  # its last pod has ended, and it gets its condition in a moment
    missing = NOTHING_FOUND if active else missing_pods(begun, seen.now, f"Job {name}", seen.warning_event)
    finding = missing.finding
    message = _STARTING.format(name)
    if active and recorded.start_time is not None and recorded.start_time == begun:
        message = (
            f"no pod of Job {name} is ready any more: their containers restart, or Kubernetes does not reach "
            f"their nodes; 'kaiwo why' shows which"
        )
    return Outcome(
        status="STARTING",
        reason=finding.reason if finding else "Starting",
        message=finding.message if finding else message,
        run_started=begun,
        requeue_after=missing.requeue_after,
        needs_events=seen.child if missing.needs_events else None,
    )


def _active(seen: Observation, pods: list[Object], begun: datetime | None, name: str) -> Outcome:
    going = [] if pods else _own(seen)
    if going and (seen.workload.status.status == "STARTING" or any(pod_status.runs(pod) for pod in going)):
        # The last pods are being deleted and have no successors yet.
        return _with_unready_node(_kept(seen, begun, name), going)
    running = [pod for pod in pods if works(pod, seen.now, seen.recorded)]
    finding, requeue_after, needs_events = check_pods(seen, pods, f"Job {name}", begun, expected=not going)
    if running:
        message = f"Job {name} runs"
        if finding:
            reached = sum(not pod_status.on_unready_node(pod) for pod in running)
            wanted = sum(not pod_status.has_ended(pod) for pod in pods)
            count = f"{reached} of {wanted} pods run; " if reached else ""
            message = f"{count}{finding.message}"
        elif held := added_container(seen.child, running, seen.now):
            message, requeue_after = held.message or message, held.requeue_after
        return Outcome(
            status="RUNNING",
            reason=finding.reason if finding else "Running",
            message=message,
            started=pod_status.started(pods),
            run_started=begun,
            passed=passed(begun, None),
            requeue_after=requeue_after,
        )
    if ending := _settling(seen, pods):
        return ending
    return Outcome(
        status="STARTING",
        reason=finding.reason if finding else "Starting",
        message=finding.message if finding else _STARTING.format(name),
        started=pod_status.started(pods),
        run_started=begun,
        requeue_after=requeue_after,
        needs_events=seen.child if needs_events else None,
    )


def _settling(seen: Observation, pods: list[Object]) -> Outcome | None:
    """The recorded status between the end of the last container and the Job's own condition.

    Without it every job would go back to STARTING just before it ends.
    """
    recorded = seen.workload.status
    ended = _all_ended(pods)
    if recorded.status != "RUNNING" or ended is None:
        return None
    left = SETTLING_SECONDS - (seen.now - ended).total_seconds()
    if left <= 0:
        return None
    return Outcome(
        status="RUNNING",
        reason=recorded.reason or "Running",
        message=recorded.message or "",
        started=pod_status.started(pods),
        requeue_after=left,
    )


def _all_ended(pods: Iterable[Object]) -> datetime | None:
    """When the last container of these pods ended; None while one has not, or without any pod."""
    ends: list[datetime | None] = []
    for pod in pods:
        states = [lenient_map(container.get("state")) for container in pod_status.containers(pod)]
        if not states:
            return None
        ends += [parse_time(lenient_map(state.get("terminated")).get("finishedAt")) for state in states]
    known = [end for end in ends if end is not None]
    return max(known) if known and len(known) == len(ends) else None
