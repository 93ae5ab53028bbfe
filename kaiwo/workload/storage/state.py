"""The state of a workload's claims: bound, waiting for the first pod, or pending, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kaiwo.api.conditions import Condition
from kaiwo.engine.quantity import quantity
from kaiwo.engine.resource import PERSISTENT_VOLUME_CLAIM
from kaiwo.engine.timestamps import parse_time
from kaiwo.plugin.observation import Outcome
from kaiwo.workload.json_access import lenient_map
from kaiwo.workload.observe.waiting import WARNING_TIMEOUT
from kaiwo.workload.storage.volumes import volumes

if TYPE_CHECKING:
    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.rendering import Resolved
    from kaiwo.workload.model import Facts

EVENTS_SECONDS = 60.0
"""Seconds until the events of a pending claim are read again: only they have the provisioner's error."""

_SELECTED = "volume.kubernetes.io/selected-node"
"""Annotation by which the scheduler requests a volume of a class that waits for the first pod."""


@dataclass(frozen=True, slots=True)
class _Claim:
    state: Literal["bound", "expanding", "waits", "pending", "missing"]
    text: str
    requeue_after: float | None = None
    needs_events: Object | None = None


def volume_outcome(workload: Workload, resolved: Resolved, facts: Facts) -> Outcome | None:
    """The state of a workload's volumes, None without volumes; the condition StorageReady has it as well.

    Pending only while a volume is missing for another reason than that no pod uses it yet.
    """
    found = [
        _claim(volume.claim, facts.auxiliaries.get((PERSISTENT_VOLUME_CLAIM, volume.claim)), facts)
        for volume in volumes(workload, resolved)
    ]
    if not found:
        return None
    by = {claim.state: [one.text for one in found if one.state == claim.state] for claim in found}
    generation = workload.generation or None
    if "missing" in by:
        condition = Condition("StorageReady", "False", "VolumeMissing", "; ".join(by["missing"]), generation)
    elif "pending" in by:
        condition = Condition("StorageReady", "False", "VolumePending", "; ".join(by["pending"]), generation)
    elif "waits" in by:
        text = "; ".join(by["waits"])
        condition = Condition("StorageReady", "Unknown", "WaitForFirstConsumer", text, generation)
    elif "expanding" in by:
        text = "; ".join(by["expanding"])
        condition = Condition("StorageReady", "True", "VolumeExpanding", text, generation)
    else:
        condition = Condition("StorageReady", "True", "Bound", "all volumes are bound", generation)
    delays = [claim.requeue_after for claim in found if claim.requeue_after is not None]
    return Outcome(
        "PENDING" if condition.status == "False" else "",
        condition.reason,
        condition.message,
        requeue_after=min(delays, default=None),
        needs_events=next((claim.needs_events for claim in found if claim.needs_events is not None), None),
        conditions=(condition,),
    )


def is_new(volumes: Outcome) -> bool:
    """Whether the volumes are only pending because their claims were created a moment ago."""
    return volumes.reason == "VolumePending" and volumes.needs_events is None


def _claim(name: str, claim: Object | None, facts: Facts) -> _Claim:
    what = f"PersistentVolumeClaim {name}"
    if claim is None:
        return _Claim("missing", f"{what} is not there")
    phase = lenient_map(claim.get("status")).get("phase") or "Pending"
    if phase == "Bound":
        return _bound(what, claim)
    given = lenient_map(claim.get("spec")).get("storageClassName")
    classes = facts.storage_classes
    known = classes.get(given) if classes is not None and isinstance(given, str) else None
    annotations = lenient_map(lenient_map(claim.get("metadata")).get("annotations"))
    if phase == "Pending" and known is not None and known.waits and _SELECTED not in annotations:
        return _Claim("waits", f"{what} is bound when its first pod has a node (storage class: {given})")
    exists = ", which exists" if known is not None else ""
    text = f"{what} is {phase} (storage class: {given or 'none'}{exists}){_class_problem(given, facts)}"
    warning_event = facts.warning_event_of(claim)
    if warning_event is not None:
        text = f"{text}: {warning_event.message}"
    born = parse_time(lenient_map(claim.get("metadata")).get("creationTimestamp"))
    left = WARNING_TIMEOUT - (facts.now - born).total_seconds() if born else 0.0
    if left > 0:
        return _Claim("pending", text, requeue_after=left)
    return _Claim("pending", text, requeue_after=EVENTS_SECONDS, needs_events=claim)


def _class_problem(name: object, facts: Facts) -> str:
    """What is wrong with the class itself, as a part of a message."""
    classes = facts.storage_classes
    if classes is None or name == "":
        return ""
    existing = ", ".join(sorted(classes)) or "none"
    if name is None:
        if any(item.default for item in classes.values()):
            return ""
        return (
            "; no class was asked for and the cluster has no default one: set "
            "spec.storage.storageClassName or KaiwoConfig storage.defaultStorageClass; "
            f"existing: {existing}"
        )
    if not isinstance(name, str) or name in classes:
        return ""
    return f"; no StorageClass {name!r} exists; existing: {existing}"


def _bound(what: str, claim: Object) -> _Claim:
    asked = _storage(lenient_map(claim.get("spec")).get("resources"), "requests")
    have = _storage(claim.get("status"), "capacity")
    wanted, there = quantity(asked), quantity(have)
    if wanted is not None and there is not None and there < wanted:
        return _Claim("expanding", f"{what} grows from {have} to {asked}")
    return _Claim("bound", "")


def _storage(part: object, name: str) -> object:
    return lenient_map(lenient_map(part).get(name)).get("storage")
