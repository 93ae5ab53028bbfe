"""What Kueue says of a child, in Kueue's own words."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from kaiwo.engine.quantity import quantity
from kaiwo.plugin.queues import Admission
from kaiwo.workload.json_access import lenient_map, lenient_maps
from kaiwo_kueue.conversion import to_v1beta2
from kaiwo_kueue.kinds import (
    ADMISSION_GATE,
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    MANAGED_POD_LABEL,
    NAMESPACE_LABEL,
    QUEUE_LABEL,
    WORKLOAD,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.queues import QueueFacts

UNMANAGED_AFTER = 30.0
"""Seconds after which an object that Kueue has not taken up counts as unmanaged."""


def admission(child: Object, facts: QueueFacts) -> Admission | None:
    """What Kueue says of a live child; None for one that no queue was asked for."""
    metadata = lenient_map(child.get("metadata"))
    queue = lenient_map(metadata.get("labels")).get(QUEUE_LABEL)
    if not isinstance(queue, str) or not queue or WORKLOAD not in facts.objects:
        return None
    said = [_said(workload, queue, facts) for workload in facts.objects[WORKLOAD]]
    if not said:
        return _nobody(child, queue, facts)
    if len(said) == 1:
        return said[0]
    return _together(said)


def is_over(conditions: Sequence[Object]) -> bool:
    """Whether a Workload with these conditions has finished; it keeps its admission, and holds nothing."""
    return any(item.get("type") == "Finished" and item.get("status") == "True" for item in conditions)


def _together(said: Sequence[Admission]) -> Admission:
    """One answer for a child whose pods are queued one by one: admitted as soon as one of them is."""
    waiting = [item for state in ("evicted", "pending") for item in said if item.state == state]
    admitted = next((item for item in said if item.state == "admitted"), None)
    if admitted is not None:
        # Without a count, which would change with every pod that is admitted.
        why = next((item.message for item in waiting if not item.undecided), "")
        return replace(admitted, message=f"some pods wait: {why}") if why else admitted
    if waiting:
        first = waiting[0]
        text = f"{len(waiting)} of {len(said)} pods wait: {first.message}"
        return Admission(first.state, first.reason, text, first.since)
    return said[0]


def _said(workload: Object, queue: str, facts: QueueFacts) -> Admission:
    """What one Workload says.

    Conditions stay after what they tell of is over, so that their presence means nothing: a finished
    Workload is still admitted, an evicted one has its quota for a moment.
    """
    status = lenient_map(workload.get("status"))
    by_type = {str(item.get("type")): item for item in lenient_maps(status.get("conditions"))}
    for kind, state in (("Finished", "finished"), ("Evicted", "evicted"), ("Admitted", "admitted")):
        condition = by_type.get(kind)
        if condition is not None and condition.get("status") == "True":
            message = str(condition.get("message") or "")
            if state == "evicted":
                message = _after_eviction(message, by_type.get("QuotaReserved"))
            return Admission(state, str(condition.get("reason") or kind), message, _since(condition))  # type: ignore[arg-type]  # one of the literals
    reserved = by_type.get("QuotaReserved")
    waits = f"waits in queue {queue}"
    if reserved is None:
        return Admission("pending", "Queued", waits, _created(workload), undecided=True)
    message, since = str(reserved.get("message") or waits), _since(reserved)
    if reserved.get("status") == "True":
        checks = _checks(status)
        return Admission("pending", "QuotaReserved", f"{message}{checks}", since)
    if text := _no_quota(workload, queue, message, facts):
        return Admission("pending", "NoQuota", text, since)
    return Admission("pending", str(reserved.get("reason") or "Pending"), message, since)


def _after_eviction(why: str, reserved: Object | None) -> str:
    """Why it was evicted, and what it waits for since."""
    now = str((reserved or {}).get("message") or "") if (reserved or {}).get("status") == "False" else ""
    return why if not now or now == why else f"{why}; {now}"


def _checks(status: Object) -> str:
    """Admission checks that are not done, in words."""
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
    """Why no wait can help: the queue covers no such resource, or has none of it; empty when it has.

    Kueue's own text must name the resource: its configuration may exclude or rename resources.
    """
    local = next((o for o in facts.objects.get(LOCAL_QUEUE, ()) if _meta_name(o) == queue), {})
    name = lenient_map(local.get("spec")).get("clusterQueue") or queue
    queues = {
        _meta_name(obj): to_v1beta2(CLUSTER_QUEUE, lenient_map(obj.get("spec")))
        for obj in facts.objects.get(CLUSTER_QUEUE, ())
    }
    own = queues.get(str(name))
    if own is None:
        return ""
    cohort = own.get("cohortName")
    lenders = [spec for spec in queues.values() if cohort and spec.get("cohortName") == cohort] or [own]
    covered = _covered(own)
    for key in sorted(_asked(workload)):
        if key not in message:
            continue
        if key not in covered:
            text = f"queue {name} does not cover {key}; it covers {', '.join(covered) or 'nothing'}"
            return f"{text} ({message})"
        if not _is_promised(key, message) and not any(_quota(spec, key) for spec in lenders):
            return f"queue {name} has no quota for {key}; it covers {', '.join(covered)} ({message})"
    return ""


def _is_promised(key: str, message: str) -> bool:
    """Whether Kueue itself says that there is quota: that of a Cohort stands in none of its queues."""
    for said in message.split("insufficient ")[1:]:
        if said.startswith(f"unused quota for {key} in "):
            return True
        if said.startswith(f"quota for {key} in "):
            # The older generation writes "maximum capacity (50 > 4)", the newer one "maximum capacity (4)".
            most = said.partition("maximum capacity (")[2].partition(")")[0].rpartition(" > ")[2]
            if quantity(most):
                return True
    return False


def _asked(workload: Object) -> set[str]:
    """Resources that the pods of a Workload request; a limit alone is a request as well."""
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


def _quota(spec: Object, key: str) -> bool:
    """Whether a queue has any of a resource."""
    return any(
        resource.get("name") == key and bool(quantity(resource.get("nominalQuota")))
        for group in lenient_maps(spec.get("resourceGroups"))
        for flavor in lenient_maps(group.get("flavors"))
        for resource in lenient_maps(flavor.get("resources"))
    )


def _meta_name(obj: Object) -> str:
    return str(lenient_map(obj.get("metadata")).get("name", ""))


def _nobody(child: Object, queue: str, facts: QueueFacts) -> Admission:
    """Kueue has no Workload for a child: it is new, it has no pods yet, or nobody manages it."""
    kind = str(child.get("kind", "object"))
    metadata = lenient_map(child.get("metadata"))
    can_wait = "suspend" in lenient_map(child.get("spec"))
    free = [pod for pod in facts.pods if not _is_gated(pod)]
    if not can_wait:
        if free:
            text = (
                f"Kueue manages no {kind} here: its pods run although queue {queue} was asked for. Switch "
                f"Kueue's integration for {kind} on, and label the namespace {NAMESPACE_LABEL}=true"
            )
            return Admission("unmanaged", "NotManagedByQueue", text, _created(child))
        waits = f"waits in queue {queue}"
        since = max([_created(child), *map(_created, facts.pods)])
        return Admission("pending", "Queued", waits, since, undecided=True)
    left = _left(child, facts.now)
    if left > 0:
        waits = f"waits in queue {queue}"
        return Admission("pending", "Queued", waits, _created(child), requeue_after=left, undecided=True)
    text = (
        f"Kueue has taken no notice of {kind} {metadata.get('name')} for {UNMANAGED_AFTER:.0f} s: label the "
        f"namespace {metadata.get('namespace')} {NAMESPACE_LABEL}=true, or see that Kueue runs with its "
        f"integration for {kind}; then delete the {kind}, it is made again"
    )
    return Admission("unmanaged", "NotManagedByQueue", text, _created(child))


def _is_gated(pod: Object) -> bool:
    labels = lenient_map(lenient_map(pod.get("metadata")).get("labels"))
    gates = lenient_maps(lenient_map(pod.get("spec")).get("schedulingGates"))
    return MANAGED_POD_LABEL in labels or any(gate.get("name") == ADMISSION_GATE for gate in gates)


def _left(child: Object, now: datetime | None) -> float:
    """Seconds of patience that are left."""
    try:
        created = datetime.fromisoformat(_created(child))
    except ValueError:
        return UNMANAGED_AFTER
    if now is None or created.tzinfo is None:
        return UNMANAGED_AFTER
    return UNMANAGED_AFTER - (now - created).total_seconds()
