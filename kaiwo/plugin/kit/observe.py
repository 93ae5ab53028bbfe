"""The observe kit: from what is known of a live child to the outcome that ``observe`` of a backend returns.

The usual order is: ended, waiting, active::

    def observe(seen: Observation) -> Outcome:
        spec, status = lenient_map(seen.child.get("spec")), lenient_map(seen.child.get("status"))
        what, conditions = f"Run {seen.workload.name}", holding(status.get("conditions"))
        if done := conditions.get("Done"):
            return ended(seen, "COMPLETE", Finding("Completed", f"{what} is done"), changed_at(done))
        if broken := conditions.get("Broken"):
            text = one_line(broken.get("message"))
            finding = failure(seen) or Finding("RunFailed", f"{what} failed: {text}")
            return ended(seen, "FAILED", finding, changed_at(broken))
        pods = pod_status.current(seen.pods)
        if waits := waiting(seen, what, pods, suspended=bool(spec.get("suspend"))):
            return waits
        return active(seen, what, pods)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.engine.timestamps import parse_time
from kaiwo.plugin.observation import Finding, Outcome
from kaiwo.workload.json_access import lenient_map
from kaiwo.workload.metadata import controller_of
from kaiwo.workload.observe import pod_failure, pod_status
from kaiwo.workload.observe.crash_loop import works
from kaiwo.workload.observe.unready_node import on_unready_node
from kaiwo.workload.observe.waiting import (
    NOTHING_FOUND,
    WARNING_TIMEOUT,
    PodCheck,
    admission_message,
    check_pods,
    missing_pods,
    refused_pods,
    unscheduled,
    waiting,
    with_pods_before,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import datetime

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.observation import Observation

__all__ = [
    "NOTHING_FOUND",
    "WARNING_TIMEOUT",
    "PodCheck",
    "active",
    "admission_message",
    "by_owner",
    "changed_at",
    "check_pods",
    "ended",
    "failure",
    "missing_pods",
    "owner",
    "passed",
    "reason_word",
    "refused_pods",
    "unscheduled",
    "waiting",
    "with_pods_before",
]


def changed_at(condition: object) -> datetime | None:
    """When a condition last changed; None where it does not say."""
    return parse_time(lenient_map(condition).get("lastTransitionTime"))


def reason_word(value: object, default: str = "Failed") -> str:
    """A reason that somebody else wrote, if it can be one of a status; else the default."""
    return value if isinstance(value, str) and value.isalnum() and value.isascii() else default


def passed(begun: datetime | None, started: datetime | None) -> tuple[str, ...]:
    """The status words that a child has passed through, for :attr:`Outcome.passed`.

    Args:
        begun: when its controller began to work on it, None while it has not.
        started: when the first container of the run started, None while none has.
    """
    return (*(("STARTING",) if begun or started else ()), *(("RUNNING",) if started else ()))


def failure(seen: Observation, begun: datetime | None = None) -> Finding | None:
    """Why pods of the child failed, those that no longer exist included; None when no pod has a cause.

    Args:
        seen: what is known of the child.
        begun: when its current run began, None if unknown. Pods of the run before an eviction do not count.
    """
    return pod_failure.failure(pod_status.of_run((*seen.pods, *reversed(seen.gone)), begun))


def owner(pod: Object) -> tuple[str, str] | None:
    """Kind and name of the object that controls a pod, None without one."""
    reference = controller_of(pod)
    return (str(reference.get("kind", "")), str(reference.get("name", ""))) if reference else None


def by_owner(pods: Iterable[Object]) -> dict[tuple[str, str], list[Object]]:
    """Pods by kind and name of the object that controls them, for a child that makes them through others.

    Pods without such an object are left out.
    """
    found: dict[tuple[str, str], list[Object]] = {}
    for pod in pods:
        if maker := owner(pod):
            found.setdefault(maker, []).append(pod)
    return found


def ended(
    seen: Observation,
    status: str,
    finding: Finding,
    completed: datetime | None = None,
    begun: datetime | None = None,
) -> Outcome:
    """The outcome of a child that ended for good.

    Args:
        seen: what is known of the child.
        status: ``COMPLETE`` or ``FAILED``.
        finding: the reason, and a sentence with the cause.
        completed: when it ended, None for now.
        begun: when its current run began (a Job's ``startTime``), None if unknown.
    """
    # Pods of an ended child may be terminating already; they still have their start times.
    started = pod_status.started(seen.pods)
    return Outcome(
        status=status,
        reason=finding.reason,
        message=finding.message,
        started=started,
        run_started=begun,
        completed=completed or seen.now,
        passed=passed(begun, started),
    )


def active(
    seen: Observation,
    what: str,
    pods: Collection[Object],
    begun: datetime | None = None,
    *,
    expected: bool = True,
    conditions: object = (),
) -> Outcome:
    """The outcome of a child that may run: RUNNING while a container runs, else STARTING with what is wrong.

    Args:
        seen: what is known of the child.
        what: kind and name of the child, for messages.
        pods: pods of the current run.
        begun: when its controller began to create them, None if unknown; then missing pods are no problem.
        expected: whether it is a problem when there are none.
        conditions: conditions of what creates them, which may have a ReplicaFailure.
    """
    found = check_pods(seen, pods, what, begun, expected=expected, conditions=conditions)
    working = [pod for pod in pods if works(pod, seen.now, seen.recorded)]
    running, reached = len(working), sum(not on_unready_node(pod) for pod in working)
    finding = found.finding or Finding("Running" if running else "Starting", "")
    message = finding.message
    if running:
        wanted = sum(not pod_status.has_ended(pod) for pod in pods)
        count = f"{reached} of {wanted} pods run; " if reached else ""
        message = f"{count}{message}" if message else f"{what} runs"
    return Outcome(
        status="RUNNING" if running else "STARTING",
        reason=finding.reason,
        message=message or f"no container of {what} runs yet",
        started=pod_status.started(pods),
        run_started=begun,
        passed=("STARTING",) if running or begun else (),
        requeue_after=found.requeue_after,
        needs_events=seen.child if found.needs_events and not running else None,
    )
