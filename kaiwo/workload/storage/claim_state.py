"""The state of one claim: bound, growing, waiting for the first pod, or pending, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kaiwo.engine.quantity import quantity
from kaiwo.engine.timestamps import parse_time
from kaiwo.workload.json_access import is_deleting, lenient_map
from kaiwo.workload.observe.waiting import WARNING_TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.observation import Finding
    from kaiwo.workload.storage.classes import StorageClass

EVENTS_SECONDS = 60.0
"""Seconds until the events of a pending claim are read again: only they have the provisioner's error."""

_SELECTED = "volume.kubernetes.io/selected-node"
"""Annotation by which the scheduler requests a volume of a class that waits for the first pod."""


@dataclass(frozen=True, slots=True)
class ClaimState:
    """The state of a claim.

    Attributes:
        state: ``waits`` for the first pod, which is as it should be; ``pending`` for anything else.
        text: one sentence, empty for a bound claim.
        requeue_after: seconds after which to look again without an event.
        needs_events: the claim, where its Warning events may name the cause.
    """

    state: Literal["bound", "expanding", "waits", "pending", "missing"]
    text: str
    requeue_after: float | None = None
    needs_events: Object | None = None


def claim_state(
    name: str,
    claim: Object | None,
    classes: Mapping[str, StorageClass] | None,
    warning_event: Finding | None,
    now: datetime,
) -> ClaimState:
    """The state of one claim.

    Args:
        name: name of the claim.
        claim: the live claim, None when it is not there.
        classes: the storage classes by name, None where they are not known.
        warning_event: the newest Warning event about the claim.
        now: the time of this reconciliation.
    """
    what = f"PersistentVolumeClaim {name}"
    if claim is None:
        return ClaimState("missing", f"{what} is not there")
    if is_deleting(claim):
        return ClaimState("missing", f"{what} is being deleted, and is gone when no pod uses it any more")
    phase = lenient_map(claim.get("status")).get("phase") or "Pending"
    if phase == "Bound":
        return _bound(what, claim)
    given = lenient_map(claim.get("spec")).get("storageClassName")
    known = classes.get(given) if classes is not None and isinstance(given, str) else None
    annotations = lenient_map(lenient_map(claim.get("metadata")).get("annotations"))
    if phase == "Pending" and known is not None and known.waits and _SELECTED not in annotations:
        return ClaimState("waits", f"{what} is bound when its first pod has a node (storage class: {given})")
    exists = ", which exists" if known is not None else ""
    text = f"{what} is {phase} (storage class: {given or 'none'}{exists}){_class_problem(given, classes)}"
    if warning_event is not None:
        text = f"{text}: {warning_event.message}"
    born = parse_time(lenient_map(claim.get("metadata")).get("creationTimestamp"))
    left = WARNING_TIMEOUT - (now - born).total_seconds() if born else 0.0
    if left > 0:
        return ClaimState("pending", text, requeue_after=left)
    return ClaimState("pending", text, requeue_after=EVENTS_SECONDS, needs_events=claim)


def _class_problem(name: object, classes: Mapping[str, StorageClass] | None) -> str:
    """What is wrong with the class itself, as a part of a message."""
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


def _bound(what: str, claim: Object) -> ClaimState:
    asked = _storage(lenient_map(claim.get("spec")).get("resources"), "requests")
    have = _storage(claim.get("status"), "capacity")
    wanted, there = quantity(asked), quantity(have)
    if wanted is not None and there is not None and there < wanted:
        return ClaimState("expanding", f"{what} grows from {have} to {asked}")
    return ClaimState("bound", "")


def _storage(part: object, name: str) -> object:
    return lenient_map(lenient_map(part).get(name)).get("storage")
