"""Admission of a child by Kueue, with Kueue's own reasons and messages."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps, name_of
from kaiwo.plugin.kit.kinds import NAMESPACE
from kaiwo.plugin.kit.values import parse_time, quantity
from kaiwo.plugin.queues import Admission
from kaiwo_kueue.conversion import to_v1beta2
from kaiwo_kueue.holding import (
    DEACTIVATED,
    NOT_READY,
    cluster_queue,
    inactive_queue,
    is_left_out,
    is_over_again,
    next_try,
    unnamed_checks,
)
from kaiwo_kueue.kinds import (
    ADMISSION_GATE,
    CLUSTER_QUEUE,
    MANAGED_POD_LABEL,
    NAMESPACE_LABEL,
    QUEUE_LABEL,
    STOPPING_ANNOTATION,
    WORKLOAD,
)
from kaiwo_kueue.refusals import is_refused, refusal_text
from kaiwo_kueue.workload_usage import namespace_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.queues import QueueFacts

_PREEMPTOR = re.compile(r"Preempted to accommodate a workload \(UID: ([^,)\s]+)")

_MANAGES_ALL = "manageJobsWithoutQueueName"
"""Field of Kueue's configuration: whether Kueue also manages objects without a queue label."""

UNMANAGED_AFTER = 30.0
"""Seconds after which an object without a Workload counts as not managed by Kueue."""


def admission(child: Object, facts: QueueFacts) -> Admission | None:
    """The admission of a live child; None for one that has no queue, and that Kueue does not hold."""
    metadata = lenient_map(child.get("metadata"))
    queue = lenient_map(metadata.get("labels")).get(QUEUE_LABEL)
    if WORKLOAD not in facts.objects:
        return None
    if not isinstance(queue, str) or not queue:
        return _without_queue(child, facts.objects[WORKLOAD])
    admissions = [_workload_admission(workload, queue, facts) for workload in facts.objects[WORKLOAD]]
    if not admissions:
        return _without_workload(child, queue, facts)
    if len(admissions) == 1:
        return admissions[0]
    return _combined(admissions)


def _without_queue(child: Object, workloads: Sequence[Object]) -> Admission | None:
    """The admission of an object that names no queue; None where Kueue has no Workload of it.

    Kueue suspends such objects and makes their Workloads where it manages jobs without a queue name. No queue
    can admit these, so they wait until somebody acts.
    """
    held = [workload for workload in workloads if not lenient_map(workload.get("spec")).get("queueName")]
    if not held:
        return None
    kind, metadata = str(child.get("kind", "object")), lenient_map(child.get("metadata"))
    name, namespace = metadata.get("name"), metadata.get("namespace")
    suspended = "suspend" in lenient_map(child.get("spec"))
    resume = f"set spec.suspend of the {kind} to false" if suspended else "delete its pods"
    text = (
        f"Kueue holds {kind} {name}: it names no queue, and {_MANAGES_ALL} is true in Kueue's "
        f"configuration. Exclude namespace {namespace} in managedJobsNamespaceSelector there, or set "
        f"{_MANAGES_ALL} to false, then {resume}; or give it a queue: "
        f"kubectl label {kind.lower()} {name} -n {namespace} {QUEUE_LABEL}=QUEUE"
    )
    return Admission("pending", "Suspended", text, _created(held[0]), unqueued=True)


def is_stopping(child: Object) -> bool:
    """Whether Kueue has suspended a Job, and has yet to take back what it set on its pod template.

    It does that in three writes. When the Job changes before the last of them, the Job may fit its Workload
    again: Kueue then takes it for running, and it stays suspended for ever (Kueue 0.18).
    """
    annotations = lenient_map(lenient_map(child.get("metadata")).get("annotations"))
    return annotations.get(STOPPING_ANNOTATION) == "true"


def is_over(conditions: Sequence[Object]) -> bool:
    """Whether a Workload with these conditions has finished; it stays admitted and uses no quota."""
    return any(item.get("type") == "Finished" and item.get("status") == "True" for item in conditions)


def _combined(admissions: Sequence[Admission]) -> Admission:
    """The admission of a child whose pods are queued one by one: admitted as soon as one of them is."""
    waiting = [item for state in ("evicted", "pending") for item in admissions if item.state == state]
    admitted = next((item for item in admissions if item.state == "admitted"), None)
    if admitted is not None:
        # Without a count, which would change with every pod that is admitted.
        why = next((item.message for item in waiting if not item.undecided), "")
        return replace(admitted, message=f"some pods wait: {why}", pods_wait=True) if why else admitted
    if waiting:
        # Of equal pods, Kueue 0.18 considers one and writes nothing about the others.
        first = min(waiting, key=lambda item: item.undecided)
        text = f"{len(waiting)} of {len(admissions)} pods wait: {first.message}"
        return Admission(first.state, first.reason, text, first.since, pods_wait=True)
    return admissions[0]


def _workload_admission(workload: Object, queue: str, facts: QueueFacts) -> Admission:
    """The admission that the conditions of one Workload show.

    Conditions stay True after a later one became True: a finished Workload is still admitted, and an evicted
    one keeps its quota for a moment. So they are tested in a fixed order.
    """
    conditions = lenient_maps(lenient_map(workload.get("status")).get("conditions"))
    by_type = {str(item.get("type")): item for item in conditions}
    for kind, state in (("Finished", "finished"), ("Evicted", "evicted"), ("Admitted", "admitted")):
        condition = by_type.get(kind)
        if condition is None or condition.get("status") != "True":
            continue
        message, reason = str(condition.get("message") or ""), str(condition.get("reason") or kind)
        if state == "evicted":
            reserved = by_type.get("QuotaReserved")
            if is_over_again(reason, message, workload, reserved):
                return _waiting(workload, queue, reserved, facts, f" (it was evicted before: {message})")
            if is_left_out(workload, reason, reserved):
                break
            text = _eviction_message(workload, message, reserved, queue, facts)
            message = f"{text}{next_try(workload, reason)}"
        return Admission(state, reason, message, _since(condition), not_ready=reason in NOT_READY)  # type: ignore[arg-type]  # one of the literals
    return _waiting(workload, queue, by_type.get("QuotaReserved"), facts)


def _waiting(
    workload: Object, queue: str, reserved: Object | None, facts: QueueFacts, before: str = ""
) -> Admission:
    """The admission of a Workload that waits.

    Args:
        workload: the Workload.
        queue: name of its LocalQueue.
        reserved: its condition QuotaReserved.
        facts: have the queues.
        before: what to add about an eviction before.
    """
    if is_left_out(workload, "", reserved):
        text = f"Workload {name_of(workload)} is not active{next_try(workload, DEACTIVATED)}"
        return Admission("pending", DEACTIVATED, text, _since(reserved or {}) or _created(workload))
    waits = f"waits in queue {queue}"
    if reserved is None or lenient_map(workload.get("spec")).get("queueName") != queue:
        # Kueue has not considered it yet, or not since it was given this queue.
        return Admission("pending", "Queued", waits, _created(workload), undecided=True)
    message, since = str(reserved.get("message") or waits), _since(reserved)
    if reserved.get("status") == "True":
        checks = _checks(lenient_map(workload.get("status")))
        return Admission("pending", "QuotaReserved", f"{message}{checks}", since)
    if text := _no_quota(workload, queue, message, facts):
        return Admission("pending", "NoQuota", f"{text}{before}", since)
    if is_refused(message):
        text = refusal_text(message, namespace_of(workload), cluster_queue(queue, facts))
        return Admission("pending", "Inadmissible", f"{text}{before}", since)
    why = inactive_queue(reserved, queue, facts)
    return Admission("pending", str(reserved.get("reason") or "Pending"), f"{message}{why}{before}", since)


def _preemptor(message: str, facts: QueueFacts) -> str:
    """Who preempted it: Kueue's message has only the uid of a Workload."""
    found = _PREEMPTOR.search(message)
    name = facts.owner_of(found[1]) if found is not None else ""
    return f"preempted by {name}: " if name else ""


def _eviction_message(
    workload: Object, why: str, reserved: Object | None, queue: str, facts: QueueFacts
) -> str:
    """Why it was evicted, and what it has waited for since then."""
    message = f"{_preemptor(why, facts)}{why}{unnamed_checks(workload, why)}"
    now = str((reserved or {}).get("message") or "") if (reserved or {}).get("status") == "False" else ""
    return message if not now or now == why else f"{message}; {now}{inactive_queue(reserved, queue, facts)}"


def _checks(status: Object) -> str:
    """Admission checks that are not ready, as text."""
    waiting = [
        f"{item.get('name')}: {item.get('message') or item.get('state')}"
        for item in lenient_maps(status.get("admissionChecks"))
        if item.get("state") != "Ready"
    ]
    return f"; waits for admission check {', '.join(waiting)}" if waiting else ""


def _since(condition: Object) -> str:
    return str(condition.get("lastTransitionTime") or "")


def _created(obj: Object) -> str:
    return str(lenient_map(obj.get("metadata")).get("creationTimestamp") or "")


def _no_quota(workload: Object, queue: str, message: str, facts: QueueFacts) -> str:
    """Why waiting cannot help: the queue does not cover a resource, or has no quota of it; empty when it can.

    The resource must appear in Kueue's message: Kueue's configuration may exclude or rename resources.
    """
    name = cluster_queue(queue, facts)
    queues = {
        name_of(obj): to_v1beta2(CLUSTER_QUEUE, lenient_map(obj.get("spec")))
        for obj in facts.objects.get(CLUSTER_QUEUE, ())
    }
    own = queues.get(name)
    if own is None:
        return ""
    cohort = own.get("cohortName")
    lenders = [spec for spec in queues.values() if cohort and spec.get("cohortName") == cohort] or [own]
    covered = _covered(own)
    for key in sorted(requested(workload)):
        if key not in message:
            continue
        if key not in covered:
            text = f"queue {name} does not cover {key}; it covers {', '.join(covered) or 'nothing'}"
            return f"{text} ({message})"
        if not _has_quota_in_message(key, message) and not any(_has_quota(spec, key) for spec in lenders):
            return f"queue {name} has no quota for {key}; it covers {', '.join(covered)} ({message})"
    return ""


def _has_quota_in_message(key: str, message: str) -> bool:
    """Whether Kueue's message shows that there is quota: a Cohort's own quota is in none of its queues."""
    for part in message.split("insufficient ")[1:]:
        if part.startswith(f"unused quota for {key} in "):
            return True
        if part.startswith(f"quota for {key} in "):
            # The older generation writes "maximum capacity (50 > 4)", the newer one "maximum capacity (4)".
            most = part.partition("maximum capacity (")[2].partition(")")[0].rpartition(" > ")[2]
            if quantity(most):
                return True
    return False


def requested(workload: Object) -> set[str]:
    """Resources that the pods of a Workload request; a limit without a request is one, too."""
    keys: set[str] = set()
    for podset in lenient_maps(lenient_map(workload.get("spec")).get("podSets")):
        pod = lenient_map(lenient_map(podset.get("template")).get("spec"))
        for part in ("containers", "initContainers"):
            for container in lenient_maps(pod.get(part)):
                resources = lenient_map(container.get("resources"))
                for side in ("requests", "limits"):
                    keys |= {
                        key for key, value in lenient_map(resources.get(side)).items() if quantity(value)
                    }
    return keys


def _covered(spec: Object) -> list[str]:
    return [
        str(key)
        for group in lenient_maps(spec.get("resourceGroups"))
        for key in group.get("coveredResources") or ()
    ]


def _has_quota(spec: Object, key: str) -> bool:
    """Whether a queue has any of a resource."""
    return any(
        resource.get("name") == key and bool(quantity(resource.get("nominalQuota")))
        for group in lenient_maps(spec.get("resourceGroups"))
        for flavor in lenient_maps(group.get("flavors"))
        for resource in lenient_maps(flavor.get("resources"))
    )


def _without_workload(child: Object, queue: str, facts: QueueFacts) -> Admission:
    """The admission of a child without a Workload: it is new, it has no pods yet, or Kueue ignores it."""
    kind = str(child.get("kind", "object"))
    metadata = lenient_map(child.get("metadata"))
    suspendable = "suspend" in lenient_map(child.get("spec"))
    ungated = [pod for pod in facts.pods if not _is_gated(pod)]
    if not suspendable:
        if ungated:
            text = (
                f"Kueue does not manage {kind}s here: the pods run outside queue {queue}. Enable Kueue's "
                f"integration for {kind}, and label the namespace {NAMESPACE_LABEL}=true"
            )
            return Admission("unmanaged", "NotManagedByQueue", text, _created(child))
        waits = f"waits in queue {queue}"
        since = max([_created(child), *map(_created, facts.pods)])
        return Admission("pending", "Queued", waits, since, undecided=True)
    seconds = _seconds_left(child, facts.now)
    if seconds > 0:
        waits = f"waits in queue {queue}"
        return Admission("pending", "Queued", waits, _created(child), requeue_after=seconds, undecided=True)
    text = f"Kueue created no Workload for {kind} {metadata.get('name')} within {UNMANAGED_AFTER:.0f} s: "
    if _is_labelled(facts):
        # With thousands of new objects Kueue needs minutes, and deleting one would only make that longer.
        text += (
            f"it does not run, has not come to this {kind} yet, lacks the integration for {kind}, or selects "
            f"namespaces by more than {NAMESPACE_LABEL}=true, which {metadata.get('namespace')} has; see "
            "kubectl get pods -n kueue-system"
        )
    else:
        text += (
            f"label the namespace {metadata.get('namespace')} {NAMESPACE_LABEL}=true, or run Kueue with its "
            f"integration for {kind}; then delete the {kind}, it is created again"
        )
    return Admission("unmanaged", "NotManagedByQueue", text, _created(child))


def _is_labelled(facts: QueueFacts) -> bool:
    """Whether the workload's namespace is known to be one that Kueue manages as it is usually installed."""
    labels = [
        lenient_map(lenient_map(obj.get("metadata")).get("labels"))
        for obj in facts.objects.get(NAMESPACE, ())
    ]
    return any(found.get(NAMESPACE_LABEL) == "true" for found in labels)


def _is_gated(pod: Object) -> bool:
    labels = lenient_map(lenient_map(pod.get("metadata")).get("labels"))
    gates = lenient_maps(lenient_map(pod.get("spec")).get("schedulingGates"))
    return MANAGED_POD_LABEL in labels or any(gate.get("name") == ADMISSION_GATE for gate in gates)


def _seconds_left(child: Object, now: datetime | None) -> float:
    """Seconds until the child counts as not managed."""
    created = parse_time(_created(child))
    if now is None or created is None:
        return UNMANAGED_AFTER
    return UNMANAGED_AFTER - (now - created).total_seconds()
