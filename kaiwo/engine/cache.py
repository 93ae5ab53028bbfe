"""What the API server is known to hold: one compact entry per object, indexed by owner and labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from kaiwo.engine.resource import Object, Resource

Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Projection:
    """What is kept of each object of one kind.

    Attributes:
        keep: paths below the object that are kept, "*" stands for every list item; empty keeps everything
            (apart from managedFields). Metadata is always kept. Pods need a dozen fields.
        owned_fields: paths whose field managers are remembered (read from managedFields before they are dropped).
        labels: label keys with an index for `Cache.labelled`.
    """

    keep: tuple[Path, ...] = ()
    owned_fields: tuple[Path, ...] = ()
    labels: tuple[str, ...] = ()


class Owner:
    """One ownerReference: api_version, kind, name, uid, controller."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool


class Entry:
    """One object as last seen. Metadata is decoded; the rest waits as bytes and every read gives a fresh copy.

    Treat labels, annotations and owners as read-only.
    """

    resource: Resource
    namespace: str  # "" for cluster-scoped objects
    name: str
    uid: str
    resource_version: str
    generation: int
    created: str  # RFC 3339, as the API server writes it
    deleted: str | None  # deletionTimestamp
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    owners: tuple[Owner, ...]

    @property
    def controller(self) -> Owner | None:
        """The owner that controls the object."""
        ...

    def full(self) -> Object:
        """The whole (projected) object, without managedFields."""
        ...

    def part(self, *path: str) -> Any:
        """The value at a path such as ("status",) or ("spec", "suspend"), None when absent."""
        ...

    def managers(self, path: Path) -> tuple[str, ...]:
        """Names of the field managers that own a path declared in Projection.owned_fields."""
        ...


@dataclass(frozen=True, slots=True)
class Event:
    """A change in the cache. `old` is None for a new object, `new` is None for a deleted one."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    resource: Resource
    old: Entry | None
    new: Entry | None

    @property
    def entry(self) -> Entry:
        """The newest known state."""
        ...


class Cache:
    """Stores of all watched kinds."""

    def register(self, resource: Resource, projection: Projection = Projection()) -> None: ...
    def subscribe(self, resource: Resource, handler: Callable[[Event], None]) -> None: ...
    def synced(self, resource: Resource) -> bool: ...
    def get(self, resource: Resource, namespace: str | None, name: str) -> Entry | None: ...
    def list(self, resource: Resource, namespace: str | None = None) -> Iterable[Entry]: ...
    def owned_by(self, uid: str, resource: Resource | None = None) -> list[Entry]: ...
    def labelled(self, resource: Resource, label: str, value: str) -> list[Entry]: ...
    def assume(self, resource: Resource, obj: Object | bytes) -> None:
        """Take in the answer to an own write at once (read your writes); older watch events are ignored after it."""
