"""Kinds, their URLs, and what every object has: an owner and a version."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

Object: TypeAlias = dict[str, Any]
"""A Kubernetes object as plain JSON; nothing is dropped, renamed or coerced on the way."""


@dataclass(frozen=True, slots=True, order=True)
class Resource:
    """One served kind of one API version.

    Attributes:
        group: API group, empty for the core group.
        version: API version, for example ``v1``.
        kind: kind as written in manifests, for example ``Job``.
        plural: resource name as written in URLs and roles, for example ``jobs``.
        namespaced: whether objects of the kind live in namespaces.
        fallbacks: older versions of the same kind, newest first, for clusters that do not serve `version`.
            The client finds out which one is served; objects then carry that one's ``apiVersion``. Kinds
            that differ in nothing else are equal.
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    fallbacks: tuple[str, ...] = field(default=(), compare=False)

    @property
    def api_version(self) -> str:
        """The ``apiVersion`` of manifests: ``group/version``, or the version alone in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """The URL path of the collection, an object, or one of its subresources."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/" + "/".join(parts)

    def __str__(self) -> str:
        """``plural.group`` as kubectl writes it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


class Owner(msgspec.Struct, frozen=True, gc=False):
    """One owner reference.

    Attributes:
        api_version, kind, name, uid: of the owner.
        controller: whether this owner manages the object.
    """

    api_version: str = msgspec.field(name="apiVersion", default="")
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


def version_number(version: str) -> int:
    """A resourceVersion as the number it is (so since Kubernetes 1.35 by contract, before that in fact).

    0, which is older than all, for anything else.
    """
    return int(version) if version.isascii() and version.isdigit() else 0


POD = Resource("", "v1", "Pod", "pods")
NODE = Resource("", "v1", "Node", "nodes", namespaced=False)
NAMESPACE = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
EVENT = Resource("", "v1", "Event", "events")
CONFIG_MAP = Resource("", "v1", "ConfigMap", "configmaps")
SECRET = Resource("", "v1", "Secret", "secrets")
PERSISTENT_VOLUME_CLAIM = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
SERVICE = Resource("", "v1", "Service", "services")
JOB = Resource("batch", "v1", "Job", "jobs")
DEPLOYMENT = Resource("apps", "v1", "Deployment", "deployments")
LEASE = Resource("coordination.k8s.io", "v1", "Lease", "leases")
PRIORITY_CLASS = Resource("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False)
STORAGE_CLASS = Resource("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)
CUSTOM_RESOURCE_DEFINITION = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
