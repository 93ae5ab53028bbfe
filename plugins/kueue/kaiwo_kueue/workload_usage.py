"""Kueue's Workloads as holders of quota and as pending ones."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

from kaiwo.plugin.kit.allocation import pod_requests
from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps, lenient_text
from kaiwo.plugin.kit.names import NAME, RUN_ID, TYPE, USER, WORKLOAD_TYPES
from kaiwo.plugin.kit.values import Quantity, parse_time, quantity
from kaiwo.plugin.queue_usage import QueuedObject, QueuedWorkload, QuotaHolder
from kaiwo_kueue.holding import requeued_at
from kaiwo_kueue.kinds import PRIORITY_BOOST
from kaiwo_kueue.refusals import is_refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.queue_usage import FlavorResource

_KINDS = {word: kind for kind, word in WORKLOAD_TYPES.items()}
_REQUEUED = ("PodsReadyTimeout", "AdmissionCheck")
"""Reasons of an eviction after which a Workload goes to the end of its queue (Kueue's default)."""

_FOREVER = 100 * 365 * 86400
_BOOST = re.compile(r"[+-]?[0-9]{1,10}")  # Kueue reads 32 bits


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """Where a Workload is queued: the ClusterQueue, empty where its LocalQueue leads to none."""

    queue: str
    entrance: str


def subject_of(workload: Object) -> QueuedObject:
    """The object that a Workload stands for: a Kaiwo workload by the labels of its pods, else its owner."""
    metadata = lenient_map(workload.get("metadata"))
    namespace, uid = lenient_text(metadata.get("namespace")), lenient_text(metadata.get("uid"))
    kind, name = _owner(metadata)
    labels = _pod_labels(workload)
    user, run = lenient_text(labels.get(USER)), lenient_text(labels.get(RUN_ID))
    known = _KINDS.get(lenient_text(labels.get(TYPE)))
    if known and run and labels.get(NAME):
        return QueuedObject(known, namespace, lenient_text(labels[NAME]), user, uid, f"{kind} {name}", run)
    return QueuedObject(kind, namespace, name, "", uid)


def _owner(metadata: Object) -> tuple[str, str]:
    owners = lenient_maps(metadata.get("ownerReferences"))
    owner = next((item for item in owners if item.get("controller")), owners[0] if owners else {})
    if owner.get("kind") and owner.get("name"):
        return lenient_text(owner["kind"]), lenient_text(owner["name"])
    return "Workload", lenient_text(metadata.get("name"))


def _pod_labels(workload: Object) -> Object:
    sets = lenient_maps(spec_of(workload).get("podSets"))
    template = lenient_map(sets[0].get("template")) if sets else {}
    return lenient_map(lenient_map(template.get("metadata")).get("labels"))


def holder_of(workload: Object, place: QueuePlace, conditions: Mapping[str, Object]) -> QuotaHolder:
    """A Workload that has an admission."""
    admitted = conditions.get("Admitted", {})
    state, message = _state(workload, conditions)
    ends, ends_by = _end(workload, admitted)
    return QuotaHolder(
        subject=subject_of(workload),
        queue=place.queue,
        entrance=place.entrance,
        amounts=held(workload),
        priority=priority(workload),
        created=created_of(workload),
        since=parse_time(conditions.get("QuotaReserved", {}).get("lastTransitionTime")),
        ends=ends,
        ends_by=ends_by,
        state=state,
        message=message,
    )


def _state(
    workload: Object, conditions: Mapping[str, Object]
) -> tuple[Literal["reserved", "admitted", "evicted"], str]:
    evicted, ready = conditions.get("Evicted", {}), conditions.get("PodsReady", {})
    if evicted.get("status") == "True":
        return "evicted", lenient_text(evicted.get("message"))
    if conditions.get("Admitted", {}).get("status") != "True":
        checks = lenient_maps(lenient_map(workload.get("status")).get("admissionChecks"))
        waiting = [
            f"{item.get('name')}: {item.get('message') or item.get('state')}"
            for item in checks
            if item.get("state") != "Ready"
        ]
        return "reserved", f"waits for admission check {', '.join(waiting)}" if waiting else ""
    return "admitted", lenient_text(ready.get("message")) if ready.get("status") == "False" else ""


def _end(workload: Object, admitted: Object) -> tuple[datetime | None, str]:
    seconds, past = _limit(workload), lenient_map(workload.get("status"))
    start = parse_time(admitted.get("lastTransitionTime"))
    if seconds is None or start is None or admitted.get("status") != "True":
        return None, ""
    spent = past.get("accumulatedPastExecutionTimeSeconds")
    if spent is None:
        # So misspelt in v1beta1.
        spent = past.get("accumulatedPastExexcutionTimeSeconds")
    left = max(0.0, seconds - (spent if isinstance(spent, int) else 0))
    return start + timedelta(seconds=left), "maximumExecutionTimeSeconds"


def _limit(workload: Object) -> float | None:
    seconds = spec_of(workload).get("maximumExecutionTimeSeconds")
    return min(float(seconds), _FOREVER) if isinstance(seconds, int) and seconds > 0 else None


def held(workload: Object) -> dict[FlavorResource, Quantity]:
    """The quota that a Workload holds; of pods that have ended none."""
    status = lenient_map(workload.get("status"))
    reclaimed = {
        item.get("name"): item.get("count")
        for item in lenient_maps(status.get("reclaimablePods"))
        if isinstance(item.get("count"), int)
    }
    total: dict[FlavorResource, Quantity] = {}
    for assigned in lenient_maps(lenient_map(status.get("admission")).get("podSetAssignments")):
        flavors, pods = lenient_map(assigned.get("flavors")), assigned.get("count")
        gone = reclaimed.get(assigned.get("name"), 0)
        for resource, value in lenient_map(assigned.get("resourceUsage")).items():
            amount = quantity(value)
            if amount is None or resource not in flavors:
                continue
            if isinstance(pods, int) and pods > 0 and gone:
                amount = Quantity(amount.nano * max(0, pods - gone) // pods, amount.form)
            key = (str(flavors[resource]), str(resource))
            total[key] = total[key] + amount if key in total else amount
    return {key: amount for key, amount in total.items() if amount}


def pending_of(workload: Object, place: QueuePlace, conditions: Mapping[str, Object]) -> QueuedWorkload:
    """A Workload without an admission; its position and what it lacks are not known yet."""
    spec = spec_of(workload)
    evicted = conditions.get("Evicted", {})
    created = created_of(workload)
    message = lenient_text(conditions.get("QuotaReserved", {}).get("message"))
    at, by = created, "creation"
    held = "" if spec.get("active") is False else _held(workload, conditions)
    if evicted.get("status") == "True" and evicted.get("reason") in _REQUEUED:
        at, by = parse_time(evicted.get("lastTransitionTime")) or created, "eviction"
    return QueuedWorkload(
        subject=subject_of(workload),
        queue=place.queue,
        entrance=place.entrance,
        requests=requested(workload),
        priority=priority(workload),
        created=created,
        ordered_at=at,
        ordered_by="eviction" if by == "eviction" else "creation",
        state="inactive" if spec.get("active") is False or held else "pending",
        held=held,
        runs_for=_limit(workload),
        message=message,
        refused=message if is_refused(message) else "",
    )


def _held(workload: Object, conditions: Mapping[str, Object]) -> str:
    if conditions.get("Requeued", {}).get("status") != "False":
        return ""
    at = requeued_at(workload)
    return (
        f"it was evicted and is queued again at {at}" if at else "it was evicted and is not queued again yet"
    )


def requested(workload: Object) -> dict[str, Quantity]:
    """What all pods of a Workload request."""
    total: dict[str, Quantity] = {}
    for amounts in requested_sets(workload):
        _add(total, amounts)
    return total


def requested_sets(workload: Object) -> list[dict[str, Quantity]]:
    """What each pod set of a Workload requests: as Kueue recorded it, else as its template says."""
    recorded = lenient_maps(lenient_map(workload.get("status")).get("resourceRequests"))
    if recorded:
        values = [lenient_map(item.get("resources")).items() for item in recorded]
        return [
            {key: amount for key, value in items if (amount := quantity(value)) is not None}
            for items in values
        ]
    found = []
    for podset in lenient_maps(spec_of(workload).get("podSets")):
        count = podset.get("count")
        pods = count if isinstance(count, int) else 1
        one = pod_requests(lenient_map(lenient_map(podset.get("template")).get("spec")))
        found.append({resource: amount * pods for resource, amount in one.items()})
    return found


def least_sets(workload: Object) -> list[dict[str, Quantity]]:
    """What each pod set of a Workload requests at least: it may permit that fewer pods are admitted."""
    podsets, found = lenient_maps(spec_of(workload).get("podSets")), requested_sets(workload)
    if len(podsets) != len(found):
        return found
    return [_least(podset, amounts) for podset, amounts in zip(podsets, found, strict=True)]


def _least(podset: Object, amounts: dict[str, Quantity]) -> dict[str, Quantity]:
    count, least = podset.get("count"), podset.get("minCount")
    if not isinstance(count, int) or not isinstance(least, int) or not 0 < least < count:
        return amounts
    return {key: Quantity(amount.nano * least // count, amount.form) for key, amount in amounts.items()}


def _add(total: dict[str, Quantity], amounts: Mapping[str, Quantity]) -> None:
    for resource, amount in amounts.items():
        total[resource] = total[resource] + amount if resource in total else amount


def priority(workload: Object) -> int:
    """The priority by which Kueue orders a Workload."""
    annotations = lenient_map(lenient_map(workload.get("metadata")).get("annotations"))
    value = spec_of(workload).get("priority")
    boost = lenient_text(annotations.get(PRIORITY_BOOST))
    more = int(boost) if _BOOST.fullmatch(boost) else 0
    return (value if isinstance(value, int) else 0) + more


def created_of(workload: Object) -> datetime | None:
    """When a Workload was created."""
    return parse_time(lenient_map(workload.get("metadata")).get("creationTimestamp"))


def spec_of(obj: Object) -> Object:
    """The spec of an object; empty where there is none."""
    return lenient_map(obj.get("spec"))


def namespace_of(obj: Object) -> str:
    """The namespace of an object."""
    return lenient_text(lenient_map(obj.get("metadata")).get("namespace"))


def number_of(value: object) -> int:
    """A whole number; 0 for anything else."""
    return value if isinstance(value, int) else 0
