"""Why a child does not run yet: its queue holds it, or its pods are refused, missing or not scheduled."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from kaiwo.engine.timestamps import parse_time
from kaiwo.plugin.observation import Finding, Outcome
from kaiwo.workload.json_access import lenient_map, lenient_maps
from kaiwo.workload.observe import crash_loop, pod_failure, pod_status

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import datetime

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.observation import Observation
    from kaiwo.plugin.queues import Admission

SCHEDULER_TIMEOUT = 30.0
"""Seconds without a PodScheduled condition after which the scheduler counts as missing."""

POD_TIMEOUT = 30.0
"""Seconds without a pod after which their creation counts as failing."""

WARNING_TIMEOUT = 3.0
"""Seconds without a pod after which the child's Warning events are read."""

_REFUSED = "FailedCreate"
_KUBERAY_REFUSED = "FailedToCreate"
"""Prefix of KubeRay's reasons for a pod that the API server rejected."""

_KEPT = "FailedDelete"
"""Prefix of the reasons of the same condition where it is the deletion of a pod that was rejected."""

_BEFORE = "; its pods before: "

_NAMED_POD = re.compile(r'\bpods "[^"]*" is')
"""How the API server rejects a pod; each attempt has a name of its own, so the name is left out."""

_COMBINED = "(combined from similar events): "
"""What a controller's event begins with from the eleventh try on."""


class PodCheck(NamedTuple):
    """What was found about pods that do not run.

    Attributes:
        finding: why they do not run, None where nothing is wrong or it is too early to say.
        requeue_after: seconds after which to check again, None when an event will come.
        needs_events: the child's Warning events may name the cause.
    """

    finding: Finding | None = None
    requeue_after: float | None = None
    needs_events: bool = False


NOTHING_FOUND = PodCheck()
"""Nothing is wrong with the pods."""


def waiting(seen: Observation, what: str, pods: Iterable[Object], *, suspended: bool) -> Outcome | None:
    """The outcome of a child that may not start, None when it may.

    Args:
        seen: what is known of the child.
        what: kind and name of the child, for messages.
        pods: pods of the current run.
        suspended: whether the child is suspended as its spec or its controller says.
    """
    admission = seen.admission
    if seen.queued and admission is not None and admission.state in ("pending", "evicted"):
        if suspended or not any(pod_status.runs(pod) for pod in pods):
            return Outcome("PENDING", admission.reason, admission_message(admission, seen.recorded))
        return None
    if not suspended:
        return None
    if seen.queued and admission is None:
        return Outcome("PENDING", "Queued", f"{what} waits for its queue")
    if seen.queued and admission is not None and admission.state == "admitted":
        return None  # it is resumed in a moment: the state after that is reported at once
    if admission is not None and (seen.queued or admission.state in ("pending", "evicted")):
        return Outcome("PENDING", admission.reason, admission.message)
    return suspended_by_somebody(what)


def suspended_by_somebody(what: str) -> Outcome:
    """The outcome of an object that is suspended, and that no known queue system holds.

    Args:
        what: kind and name of the object.
    """
    text = (
        f"{what} is suspended; set its spec.suspend to false to start it. If it is suspended again, a queue "
        "system of the cluster does that: have the namespace excluded there"
    )
    return Outcome("PENDING", "Suspended", text)


def admission_message(admission: Admission, recorded: Finding) -> str:
    """The message of a child that its queue holds, with what was wrong with its pods if it is held for that.

    The pods are gone then, and only the status still knows.

    Args:
        admission: of the child.
        recorded: reason and message of the status.
    """
    return with_pods_before(admission.message, recorded) if admission.not_ready else admission.message


def with_pods_before(message: str, recorded: Finding) -> str:
    """A message about a child whose pods were deleted as it took too long, with what was wrong with them.

    Args:
        message: of who deleted them, which has no cause.
        recorded: reason and message of the status.
    """
    before = recorded.message if recorded.reason in pod_status.PROBLEMS else pods_before(recorded.message)
    return f"{message}{_BEFORE}{before}" if before else message


def pods_before(message: str) -> str:
    """What the message of an eviction says was wrong with the pods; empty where it says nothing."""
    return message.partition(_BEFORE)[2]


def check_pods(
    seen: Observation,
    pods: Collection[Object],
    what: str,
    begun: datetime | None,
    *,
    expected: bool = True,
    conditions: object = (),
) -> PodCheck:
    """Why pods of a child do not run, the first that holds of: a problem, rejected, not scheduled, missing.

    Args:
        seen: what is known of the child.
        pods: pods of the current run.
        what: kind and name of what creates them, for messages.
        begun: when its controller began to create them, None while it has not.
        expected: whether it is a problem when there are none.
        conditions: conditions of what creates them, which may have a ReplicaFailure.
    """
    if finding := pod_status.problem(pods, seen.recorded, seen.now):
        return PodCheck(finding, requeue_after=crash_loop.next_check(pods, seen.now, seen.recorded))
    refused = refused_pods(conditions, seen.now)
    if refused.finding is not None or refused.requeue_after is not None:
        return refused
    if pods:
        return unscheduled(pods, seen.now)
    return missing_pods(begun, seen.now, what, seen.warning_event) if expected else NOTHING_FOUND


def unscheduled(pods: Iterable[Object], now: datetime) -> PodCheck:
    """Pods that no scheduler considers: a finding after `SCHEDULER_TIMEOUT`, else the time left.

    They have no PodScheduled condition, or a scheduling gate that no queue holds.
    """
    left: list[float] = []
    for pod in pods:
        status, spec = lenient_map(pod.get("status")), lenient_map(pod.get("spec"))
        types = [item.get("type") for item in lenient_maps(status.get("conditions"))]
        gates = pod_status.other_gates(pod)
        considered = "PodScheduled" in types and not gates
        if considered or spec.get("nodeName") or status.get("phase", "Pending") != "Pending":
            continue
        created = parse_time(lenient_map(pod.get("metadata")).get("creationTimestamp"))
        if created is None:
            continue
        left.append(SCHEDULER_TIMEOUT - (now - created).total_seconds())
        if left[-1] <= 0 and gates:
            text = (
                f"pod {pod_failure.pod_name(pod)} has the scheduling gate {', '.join(gates)}; it is "
                "scheduled when whoever set the gate removes it"
            )
            return PodCheck(Finding("SchedulingGated", text))
        if left[-1] <= 0:
            scheduler = spec.get("schedulerName") or "default-scheduler"
            text = (
                f"pod {pod_failure.pod_name(pod)} is not scheduled: scheduler {scheduler!r} has not "
                f"responded for {SCHEDULER_TIMEOUT:.0f} s; install it, or set KaiwoConfig "
                "scheduling.kubeSchedulerName"
            )
            return PodCheck(Finding("SchedulerMissing", text))
    return PodCheck(requeue_after=min(left, default=None))


def refused_pods(conditions: object, now: datetime, warning_event: Finding | None = None) -> PodCheck:
    """Why pods cannot be created, as a condition ReplicaFailure says; nothing in the first seconds.

    The next attempt often succeeds, so a failure is not reported before `WARNING_TIMEOUT`.

    Args:
        conditions: of a Deployment or a RayCluster.
        now: the time of this reconciliation.
        warning_event: the newest Warning event about what creates the pods. A Deployment's condition keeps
            the text of its first failure; the event has the current one.
    """
    for item in lenient_maps(conditions):
        reason = str(item.get("reason") or "")
        if reason.startswith(_KEPT):
            continue
        if item.get("type") == "ReplicaFailure" and item.get("status") == "True":
            text = str(item.get("message") or "").removeprefix(reason)
            since = parse_time(item.get("lastTransitionTime"))
            left = WARNING_TIMEOUT - (now - since).total_seconds() if since else 0.0
            if left > 0:
                return PodCheck(requeue_after=left)
            if warning_event is not None and warning_event.reason == _REFUSED:
                text = warning_event.message
            return PodCheck(Finding(_REFUSED, _rejection(text) or "pods cannot be created"))
    return NOTHING_FOUND


def missing_pods(
    begun: datetime | None, now: datetime, what: str, warning_event: Finding | None = None
) -> PodCheck:
    """Why a child that began has no pod.

    Args:
        begun: when its controller began, None while it has not.
        now: the time of this reconciliation.
        what: the child's kind and name, for the message.
        warning_event: the newest Warning event about the child.
    """
    if begun is None:
        return NOTHING_FOUND
    if warning_event is not None:
        reason = _REFUSED if warning_event.reason.startswith(_KUBERAY_REFUSED) else warning_event.reason
        cause = _rejection(warning_event.message)
        return PodCheck(Finding(reason, f"{what} has no pod: {cause}" if cause else f"{what} has no pod"))
    waited = (now - begun).total_seconds()
    if waited < WARNING_TIMEOUT:
        return PodCheck(requeue_after=WARNING_TIMEOUT - waited)
    if waited < POD_TIMEOUT:
        return PodCheck(requeue_after=POD_TIMEOUT - waited, needs_events=True)
    text = (
        f"{what} began {POD_TIMEOUT:.0f} s ago or earlier and has no pod; a quota, a policy or a bad field "
        "may stop them: its events say which"
    )
    return PodCheck(Finding("NoPods", text), needs_events=True)


def _rejection(text: str) -> str:
    return _NAMED_POD.sub("each pod is", " ".join(text.split()).removeprefix(_COMBINED))
