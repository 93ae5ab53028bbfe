"""Kueue's objects as the synchronization compares them: the desired ones and the live ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from kaiwo.engine.writer import render_hash
from kaiwo.workload.json_access import lenient_map, lenient_maps
from kaiwo_kueue.conversion import from_v1beta2, normal_form
from kaiwo_kueue.kinds import APPLIED, MANAGED_LABEL, PRIORITY_CLASS, QUEUE_CONFIG, SINGLETON

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.resource import Object, Resource

Identity: TypeAlias = tuple[str, str, str]
"""Plural, namespace (empty for cluster-scoped kinds) and name."""

Severity: TypeAlias = Literal["FAILED", "PENDING", "INFO"]


@dataclass(frozen=True, slots=True)
class SyncProblem:
    """Why an object is not as described.

    Attributes:
        kind: of the object.
        name: of the object.
        reason: one CamelCase word.
        message: what, where, why, next step.
        severity: FAILED needs an administrator, PENDING heals by itself, INFO is reported only.
    """

    kind: Resource
    name: str
    reason: str
    message: str
    severity: Severity = "FAILED"


@dataclass(frozen=True, slots=True)
class DesiredObject:
    """An object that a KaiwoQueueConfig describes.

    Attributes:
        kind: of the object.
        name: of the object.
        spec: its spec in v1beta2 form; of a WorkloadPriorityClass, value and description.
        namespace: empty for cluster-scoped kinds.
        labels: labels it gets.
    """

    kind: Resource
    name: str
    spec: Object
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def identity(self) -> Identity:
        """What identifies it among all objects."""
        return (self.kind.plural, self.namespace, self.name)

    @property
    def normal_spec(self) -> Object:
        """The spec in the form in which specs are compared."""
        return normal_form(self.kind, self.spec)

    @property
    def digest(self) -> str:
        """A hash of spec and labels, the same for both generations of the API."""
        return render_hash({"spec": self.normal_spec, "labels": dict(self.labels)})

    def body(self, version: str, *, uid: str = "", owner: str = "", resource_version: str = "") -> Object:
        """The object to apply.

        Args:
            version: API version that the cluster serves.
            uid: of the object that is changed; empty to create one.
            owner: uid of the KaiwoQueueConfig that owns it; empty when Kaiwo did not create it.
            resource_version: that the live object must still have; empty for any.
        """
        labels = dict(self.labels)
        metadata: Object = {"name": self.name, "annotations": {APPLIED: self.digest}}
        if self.namespace:
            metadata["namespace"] = self.namespace
        if uid:
            metadata["uid"] = uid
        if resource_version:
            metadata["resourceVersion"] = resource_version
        if owner:
            metadata["ownerReferences"] = [
                {
                    "apiVersion": QUEUE_CONFIG.api_version,
                    "kind": QUEUE_CONFIG.kind,
                    "name": SINGLETON,
                    "uid": owner,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ]
        else:
            labels[MANAGED_LABEL] = "true"
        if labels:
            metadata["labels"] = labels
        spec = from_v1beta2(self.kind, self.spec, version)
        return {
            "apiVersion": f"{self.kind.group}/{version}",
            "kind": self.kind.kind,
            "metadata": metadata,
            **(spec if self.kind == PRIORITY_CLASS else {"spec": spec}),
        }


@dataclass(frozen=True, slots=True)
class LiveObject:
    """An object of the cluster.

    Attributes:
        kind: of the object.
        namespace: empty for cluster-scoped kinds.
        name: of the object.
        uid: of the object.
        generation: of its spec.
        deleting: it is being deleted.
        owner: uid of the KaiwoQueueConfig that owns it, empty when none does.
        managed: it carries the label of objects that Kaiwo manages and did not create.
        applied: hash of what was applied last.
        labels: its labels.
        normal_spec: its spec in normal form.
        resource_version: its resourceVersion.
    """

    kind: Resource
    namespace: str
    name: str
    uid: str
    generation: int
    deleting: bool
    owner: str
    managed: bool
    applied: str
    labels: Mapping[str, str]
    normal_spec: Object
    resource_version: str = ""

    @property
    def identity(self) -> Identity:
        """What identifies it among all objects."""
        return (self.kind.plural, self.namespace, self.name)

    @property
    def is_owned(self) -> bool:
        """Whether a KaiwoQueueConfig owns it, so that Kaiwo may delete it."""
        return bool(self.owner)


def live_object(entry: CachedObject) -> LiveObject:
    """A cached object in the form in which it is compared."""
    obj = entry.full()
    metadata = lenient_map(obj.get("metadata"))
    kind = entry.resource
    spec: Object
    if kind == PRIORITY_CLASS:
        spec = {key: obj[key] for key in ("value", "description") if key in obj}
    else:
        spec = lenient_map(obj.get("spec"))
    owner = next(
        (item.uid for item in entry.owners if item.kind == QUEUE_CONFIG.kind and item.controller), ""
    )
    annotations = lenient_map(metadata.get("annotations"))
    return LiveObject(
        kind=kind,
        namespace=entry.namespace,
        name=entry.name,
        uid=entry.uid,
        generation=entry.generation,
        deleting=entry.deleted is not None,
        owner=owner,
        managed=entry.labels.get(MANAGED_LABEL) == "true",
        applied=str(annotations.get(APPLIED, "")),
        labels=entry.labels,
        normal_spec=normal_form(kind, spec),
        resource_version=entry.resource_version,
    )


def flavors_of(normal_spec: Object) -> frozenset[str]:
    """Names of the flavors that a ClusterQueue lists."""
    return frozenset(
        str(flavor.get("name"))
        for group in lenient_maps(normal_spec.get("resourceGroups"))
        for flavor in lenient_maps(group.get("flavors"))
    )
