"""Adoption of objects that users made themselves: what to do about one of them, and the workload it gets.

Whoever may create an object in a namespace only causes a workload in that namespace. Labels prove nothing:
before anything is deleted or owned, the host checks that Kaiwo made the workload, see :func:`is_proven`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from kaiwo.api.spec_rules import MAX_SPEC_VALUES
from kaiwo.api.spec_size import count_values
from kaiwo.api.workload import API_VERSION
from kaiwo.engine.cached_object import managers_of
from kaiwo.plugin.facts import Allocation
from kaiwo.workload.gpus.resource_keys import is_gpu
from kaiwo.workload.json_access import lenient_map, lenient_text, value_at
from kaiwo.workload.labels import (
    ADOPTED,
    ADOPTED_RECORD,
    ADOPTION_MANAGER,
    MANAGED,
    MANAGED_VALUE,
    POD_LABEL,
    REQUESTED_BY,
)
from kaiwo.workload.metadata import controller_of, embedded, name_problem
from kaiwo.workload.pods.requests import pod_requests

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.adoption import Adoption
    from kaiwo.plugin.backends import Backend
    from kaiwo.plugin.vendors import GpuVendor

MAX_REFERENCE_BYTES = 128 << 10
"""The largest reference copy. A Job of everyday size has 3 KB; every status write of a workload costs the API
server its whole size."""

_RESERVE = 100  # values of the workload beside the copy: user, queue, labels


@dataclass(frozen=True, slots=True)
class AdoptionCandidate:
    """An object that may be adopted.

    Attributes:
        uid: its uid.
        name: its name.
        managed: whether it has the label.
        deleting: whether it is being deleted.
        controller: uid of its controller, empty without one.
    """

    uid: str
    name: str
    managed: bool = True
    deleting: bool = False
    controller: str = ""

    @classmethod
    def of(cls, entry: CachedObject) -> AdoptionCandidate:
        """The candidate that a cached object is."""
        owner = entry.controller
        return cls(
            uid=entry.uid,
            name=entry.name,
            managed=is_managed(entry.labels),
            deleting=entry.deleted is not None,
            controller=owner.uid if owner is not None else "",
        )

    @classmethod
    def of_live(cls, obj: Object) -> AdoptionCandidate:
        """The candidate that an object is, as the API server answered it."""
        metadata = obj["metadata"]
        owner = controller_of(obj)
        return cls(
            uid=metadata["uid"],
            name=metadata["name"],
            managed=is_managed(lenient_map(metadata.get("labels"))),
            deleting=bool(metadata.get("deletionTimestamp")),
            controller=lenient_text(owner.get("uid")) if owner is not None else "",
        )

    @property
    def eligible(self) -> bool:
        """Whether it may get a workload as its controller. A second controller is never added."""
        return self.managed and not self.deleting and not self.controller


@dataclass(frozen=True, slots=True)
class Adopter:
    """The workload of a candidate's name.

    Attributes:
        uid: its uid.
        adopted: uid of the object that it was made for by its label, empty for a workload of a user's.
        deleting: whether it is being deleted.
        ended: whether Kaiwo ends it, or has: then its object goes before it, and it stays to say why.
    """

    uid: str
    adopted: str = ""
    deleting: bool = False
    ended: bool = False

    @classmethod
    def of(cls, entry: CachedObject) -> Adopter:
        """The workload that a cached object is."""
        return cls(
            entry.uid,
            entry.labels.get(ADOPTED, ""),
            deleting=entry.deleted is not None,
            ended=entry.part("status", "status") in ("TERMINATING", "TERMINATED"),
        )


@dataclass(frozen=True, slots=True)
class NotAdopted:
    """Why an object is left alone although it asks to be adopted.

    Attributes:
        reason: one CamelCase word.
        message: what, why, next step.
    """

    reason: str
    message: str


Step: TypeAlias = Literal["nothing", "create", "own", "delete"] | NotAdopted
"""``create`` a workload for the object and make it the owner; ``own``: it exists already, make it the owner;
``delete`` the workload, whose object is gone."""


def is_managed(labels: Mapping[str, str]) -> bool:
    """Whether an object asks to be adopted."""
    return labels.get(MANAGED) == MANAGED_VALUE


def decide(candidate: AdoptionCandidate | None, workload: Adopter | None, backend: Backend) -> Step:
    """What to do about one name: the object of a user's, and the workload.

    Args:
        candidate: the object of the backend's child kind, None when there is none.
        workload: the workload of that name, None when there is none.
        backend: the backend, which declares an adoption.
    """
    if workload is not None and workload.adopted:
        return _of_adopter(candidate, workload)
    if candidate is None or not candidate.eligible:
        return "nothing"
    kind, child = backend.kind, backend.child.kind
    if workload is not None:
        return NotAdopted(
            "NameConflict",
            f"{child} {candidate.name} is not adopted: {kind} {candidate.name} exists and was not made for "
            f"it. The {child} runs as before. Delete the {kind}, or create the {child} under another name",
        )
    if problem := name_problem(candidate.name, backend.max_name_length, backend.name_pattern):
        return NotAdopted(
            "InvalidName",
            f"{child} {candidate.name} is not adopted: the name of a {kind} {problem}. "
            f"The {child} runs as before. Create it under such a name",
        )
    return "create"


def _of_adopter(candidate: AdoptionCandidate | None, workload: Adopter) -> Step:
    if workload.deleting or workload.ended:
        return "nothing"
    if candidate is None or candidate.uid != workload.adopted:
        return "delete"
    if candidate.controller == workload.uid:
        return "nothing"
    if candidate.eligible:
        return "own"
    # One that is being deleted is gone in a moment; another controller, or no label any more, is for good.
    return "nothing" if candidate.deleting else "delete"


def is_proven(workload: Object, uid: str) -> bool:
    """Whether Kaiwo made a workload for the object with this uid; whoever makes a workload may label it.

    Args:
        workload: the live workload, with its managedFields.
        uid: of the object.
    """
    metadata = lenient_map(workload.get("metadata"))
    if lenient_map(metadata.get("labels")).get(ADOPTED) != uid:
        return False
    recorded = lenient_map(workload.get("status")).get("childUID")
    return recorded == uid or ADOPTION_MANAGER in managers_of(workload, ADOPTED_RECORD)


def owner_patch(candidate: Object, workload: Object) -> Object:
    """The merge patch that makes a workload the controller of an object; its other owners stay.

    Args:
        candidate: the live object.
        workload: the live workload.
    """
    metadata = workload["metadata"]
    owners = lenient_map(candidate.get("metadata")).get("ownerReferences") or []
    reference = {
        "apiVersion": API_VERSION,
        "kind": workload["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {"metadata": {"ownerReferences": [*owners, reference]}}


def workloads_for(obj: Object, backend: Backend, queue_label: str, omitted: str = "") -> list[Object]:
    """The workloads to try to create for an object, the most complete first.

    The API server may refuse one: a policy judges what is embedded, and who may be named. Then the next has
    less.

    Args:
        obj: the live object, or what of it can be decoded.
        backend: the backend, which declares an adoption.
        queue_label: key of the label that names an object's queue, empty without a queue system.
        omitted: why the object could not be read as a whole, empty when it could.
    """
    metadata = lenient_map(obj.get("metadata"))
    labels, annotations = (lenient_map(metadata.get(name)) for name in ("labels", "annotations"))
    user = lenient_text(annotations.get(REQUESTED_BY))
    queue = lenient_text(labels.get(queue_label)) if queue_label else ""
    queued = {"clusterQueue": queue} if queue else {}
    known = {**({"user": user} if user else {}), **queued}
    copy = None if omitted else reference(obj, backend.adoption)
    specs: list[Object] = [{**known, backend.block: copy}] if copy is not None else []
    specs += [known, queued]
    head: Object = {
        "name": metadata.get("name"),
        "namespace": metadata.get("namespace"),
        "labels": {ADOPTED: metadata.get("uid")},
    }
    if backend.adoption is not None and backend.adoption.pod_label:
        head["annotations"] = {POD_LABEL: backend.adoption.pod_label}
    distinct = [spec for index, spec in enumerate(specs) if spec not in specs[:index]]
    return [
        {
            "apiVersion": API_VERSION,
            "kind": backend.kind,
            "metadata": head,
            "spec": {backend.block: {}, **spec},
        }
        for spec in distinct
    ]


def reference(obj: Object, adoption: Adoption | None) -> Object | None:
    """The reference copy of an object for the workload's spec; None for one that is too large."""
    metadata = lenient_map(obj.get("metadata"))
    kept: Object = {}
    for name in ("labels", "annotations"):
        if values := embedded(lenient_map(metadata.get(name))):
            kept[name] = values
    copy = {**({"metadata": kept} if kept else {}), "spec": lenient_map(obj.get("spec"))}
    for path in adoption.left_out if adoption is not None else ():
        copy = _without(copy, path)
    if count_values(copy) > MAX_SPEC_VALUES - _RESERVE:
        return None
    return copy if len(msgspec.json.encode(copy)) <= MAX_REFERENCE_BYTES else None


def _without(value: Any, path: Sequence[str]) -> Any:
    name, *rest = path
    if not isinstance(value, dict) or name not in value:
        return value
    if not rest:
        return {key: item for key, item in value.items() if key != name}
    return {**value, name: _without(value[name], rest)}


def gpus_of(pod_spec: Object, vendors: Iterable[GpuVendor]) -> dict[str, tuple[str, int]]:
    """The GPUs that a pod requests: vendor and number, by resource key.

    Args:
        pod_spec: spec of a pod or of its template. Containers and init containers count, requests and limits.
        vendors: loaded GPU vendors.
    """
    known = tuple(vendors)
    found: dict[str, tuple[str, int]] = {}
    for key, amount in pod_requests(pod_spec).items():
        vendor = next((vendor.name for vendor in known if is_gpu(key, vendor.resource_keys)), None)
        if vendor is not None and amount.nano > 0:
            found[key] = (vendor, amount.units)
    return found


def allocation_of(obj: Object, adoption: Adoption, vendors: Iterable[GpuVendor]) -> Allocation:
    """The split of GPUs of an adopted object as its pod template requests them; of several keys the first."""
    given = value_at(obj, adoption.pods) if adoption.pods else 1
    pods = given if isinstance(given, int) and not isinstance(given, bool) and given >= 0 else 1
    spec = lenient_map(value_at(obj, (*adoption.pod_template, "spec")))
    found = gpus_of(spec, vendors)
    if not found:
        return Allocation(pods=pods)
    key = min(found)
    vendor, count = found[key]
    return Allocation(vendor=vendor, resource_key=key, gpus_per_replica=count, pods=pods)
