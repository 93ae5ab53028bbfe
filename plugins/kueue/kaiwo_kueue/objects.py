"""Kueue's objects as the synchronization compares them: the desired ones and the live ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from kaiwo.plugin.kit.controllers import render_hash
from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps
from kaiwo_kueue.conversion import from_v1beta2, normal_form
from kaiwo_kueue.kinds import (
    APPLIED,
    CLUSTER_QUEUE,
    CONFIG_UID_LABEL,
    DEFAULT_LABEL,
    DRAINING_LABEL,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    MANAGED_LABEL,
    PRIORITY_CLASS,
    QUEUE_CONFIG,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.plugin.kit.cache import CachedObject
    from kaiwo.plugin.kit.kinds import Object, Resource

Identity: TypeAlias = tuple[str, str, str]
"""Plural, namespace (empty for cluster-scoped kinds) and name."""

Severity: TypeAlias = Literal["FAILED", "PENDING", "INFO"]

HOLD = "Hold"
HELD = (HOLD, "HoldAndDrain")
"""Values of ``stopPolicy`` with which a queue admits nothing."""


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
class ConfigOwner:
    """The KaiwoQueueConfig that lists objects.

    Attributes:
        uid: of the KaiwoQueueConfig; empty for objects that Kaiwo did not create.
        is_default: whether its list is as the operator wrote it.
    """

    uid: str = ""
    is_default: bool = False

    def labels(self, kind: Resource) -> dict[str, str]:
        """The labels of an object of a kind that it lists."""
        if not self.uid:
            return {MANAGED_LABEL: "true"}
        labels = {MANAGED_BY_LABEL: MANAGED_BY, CONFIG_UID_LABEL: self.uid}
        return {**labels, DEFAULT_LABEL: "true"} if self.is_default and kind == CLUSTER_QUEUE else labels


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

    def body(self, version: str, owner: ConfigOwner, *, uid: str = "", resource_version: str = "") -> Object:
        """The object to apply.

        Args:
            version: API version that the cluster serves.
            owner: the KaiwoQueueConfig that lists it.
            uid: of the object that is changed; empty to create one.
            resource_version: that the live object must still have; empty for any.
        """
        metadata: Object = {
            "name": self.name,
            "annotations": {APPLIED: self.digest},
            "labels": {**self.labels, **owner.labels(self.kind)},
        }
        if self.namespace:
            metadata["namespace"] = self.namespace
        if uid:
            metadata["uid"] = uid
        if resource_version:
            metadata["resourceVersion"] = resource_version
        return _object(self.kind, version, metadata, from_v1beta2(self.kind, self.spec, version))


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
        owner: uid of the KaiwoQueueConfig that lists it, or that listed it last; empty for an object that
            Kaiwo did not create.
        managed: it carries the label of objects that Kaiwo manages and did not create.
        applied: hash of what was applied last.
        labels: its labels.
        normal_spec: its spec in normal form.
        spec: its spec as the cluster serves it.
        resource_version: its resourceVersion.
        referenced: it has an owner reference to the KaiwoQueueConfig, as earlier versions wrote it.
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
    spec: Object = field(default_factory=dict)
    resource_version: str = ""
    referenced: bool = False

    @property
    def identity(self) -> Identity:
        """What identifies it among all objects."""
        return (self.kind.plural, self.namespace, self.name)

    @property
    def is_owned(self) -> bool:
        """Whether Kaiwo created it, and therefore may delete it."""
        return bool(self.owner)

    @property
    def is_draining(self) -> bool:
        """Whether Kaiwo holds it until no workload uses it."""
        return self.labels.get(DRAINING_LABEL) == "true"

    @property
    def is_default(self) -> bool:
        """Whether the KaiwoQueueConfig that listed it last was as the operator wrote it."""
        return self.labels.get(DEFAULT_LABEL) == "true"

    def held_body(self, version: str) -> Object:
        """The object to apply so that the queue is held until no workload uses it; the rest stays.

        Args:
            version: API version that the cluster serves.
        """
        labels = ConfigOwner(self.owner, self.is_default).labels(self.kind)
        metadata: Object = {"name": self.name, "uid": self.uid, "labels": {**labels, DRAINING_LABEL: "true"}}
        if self.applied:
            metadata["annotations"] = {APPLIED: self.applied}
        if self.namespace:
            metadata["namespace"] = self.namespace
        spec = self.spec if self.spec.get("stopPolicy") in HELD else {**self.spec, "stopPolicy": HOLD}
        return _object(self.kind, version, metadata, spec)


def _object(kind: Resource, version: str, metadata: Object, spec: Object) -> Object:
    return {
        "apiVersion": f"{kind.group}/{version}",
        "kind": kind.kind,
        "metadata": metadata,
        **(spec if kind == PRIORITY_CLASS else {"spec": spec}),
    }


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
    owners = (item for item in entry.owners if item.kind == QUEUE_CONFIG.kind and item.controller)
    reference = next((item.uid for item in owners), "")
    annotations = lenient_map(metadata.get("annotations"))
    return LiveObject(
        kind=kind,
        namespace=entry.namespace,
        name=entry.name,
        uid=entry.uid,
        generation=entry.generation,
        deleting=entry.deleted is not None,
        owner=entry.labels.get(CONFIG_UID_LABEL) or reference,
        managed=entry.labels.get(MANAGED_LABEL) == "true",
        applied=str(annotations.get(APPLIED, "")),
        labels=entry.labels,
        normal_spec=normal_form(kind, spec),
        spec=spec,
        resource_version=entry.resource_version,
        referenced=bool(reference),
    )


def flavors_of(normal_spec: Object) -> frozenset[str]:
    """Names of the flavors that a ClusterQueue lists."""
    return frozenset(
        str(flavor.get("name"))
        for group in lenient_maps(normal_spec.get("resourceGroups"))
        for flavor in lenient_maps(group.get("flavors"))
    )
