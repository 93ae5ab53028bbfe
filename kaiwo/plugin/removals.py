"""What an uninstallation takes back of what a plugin wrote in the cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object, Resource


@dataclass(frozen=True, slots=True)
class Removal:
    """One object to delete, or one change that takes back what Kaiwo wrote on it.

    Attributes:
        resource: kind of the object.
        namespace: of the object, empty for cluster-scoped kinds.
        name: of the object.
        uid: of the object; a successor of the same name is left alone.
        what: what is removed, for people; empty for the whole object.
        patch: merge patch; None deletes the object.
        resource_version: that the object must still have; empty for any.
    """

    resource: Resource
    namespace: str
    name: str
    uid: str
    what: str = ""
    patch: Object | None = None
    resource_version: str = ""

    @classmethod
    def of(cls, resource: Resource, obj: Object) -> Removal:
        """The deletion of a live object."""
        metadata = obj["metadata"]
        return cls(resource, metadata.get("namespace", ""), metadata["name"], metadata["uid"])

    @classmethod
    def change(cls, resource: Resource, obj: Object, what: str, patch: Object) -> Removal:
        """The change of a live object, as it was read, that takes back what Kaiwo wrote on it."""
        return replace(
            cls.of(resource, obj), what=what, patch=patch, resource_version=obj["metadata"]["resourceVersion"]
        )
