"""One object in the cache: decoded metadata beside the JSON of the rest.

As dicts, 10,000 Jobs cost 200 MB. Decoding one part of a 3 KB object takes a few microseconds, so nothing
but the metadata that indexes need stays decoded. Each read decodes afresh, which also keeps readers from
sharing what they change. How the JSON is kept is told in `kaiwo.engine.form`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaiwo.engine.form import Form
    from kaiwo.engine.resource import Object, Resource

Path: TypeAlias = tuple[str, ...]
"""Keys from the object down, for example ``("spec", "suspend")``."""


@dataclass(frozen=True, slots=True)
class Projection:
    """What is kept of each object of one kind. Metadata is always kept, managedFields never.

    Attributes:
        keep: paths that are kept; ``*`` stands for every item of a list. Empty keeps everything.
        owned_fields: paths whose field managers are remembered, read from managedFields before they go.
        labels: label keys with an index.
    """

    keep: tuple[Path, ...] = ()
    owned_fields: tuple[Path, ...] = ()
    labels: tuple[str, ...] = ()

    def union(self, other: Projection) -> Projection:
        """What keeps all that either keeps."""
        keep = () if not self.keep or not other.keep else tuple(dict.fromkeys(self.keep + other.keep))
        return Projection(
            keep,
            tuple(dict.fromkeys(self.owned_fields + other.owned_fields)),
            tuple(dict.fromkeys(self.labels + other.labels)),
        )


class Owner(msgspec.Struct, frozen=True, gc=False):
    """One owner reference.

    Attributes:
        api_version: of the owner's kind.
        kind: of the owner.
        name: of the owner.
        uid: of the owner.
        controller: whether this owner manages the object.
    """

    api_version: str = msgspec.field(name="apiVersion", default="")
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


_decode = msgspec.json.Decoder().decode


class Entry:
    """One object as last seen.

    Labels and owners are shared and read-only; what the methods return is the caller's own.

    Attributes:
        resource: the kind.
        key: namespace (empty for cluster-scoped objects) and name.
        uid: of the object.
        version: resourceVersion, a number.
        generation: of the spec; 0 for kinds without.
        deleted: deletionTimestamp (RFC 3339), None while it is not being deleted.
        labels: of the object.
        owners: its owner references.
    """

    __slots__ = (
        "__weakref__",
        "_body",
        "_form",
        "_fresh",
        "_managers",
        "deleted",
        "generation",
        "key",
        "labels",
        "owners",
        "resource",
        "uid",
        "version",
    )

    resource: Resource
    key: tuple[str, str]
    uid: str
    version: int
    generation: int
    deleted: str | None
    labels: Mapping[str, str]
    owners: tuple[Owner, ...]
    _form: Form
    _body: bytes
    _fresh: bool
    _managers: Mapping[Path, tuple[str, ...]] | None

    @property
    def namespace(self) -> str:
        """Namespace, empty for cluster-scoped objects."""
        return self.key[0]

    @property
    def name(self) -> str:
        """Name of the object."""
        return self.key[1]

    @property
    def resource_version(self) -> str:
        """ResourceVersion as the API writes it."""
        return str(self.version)

    @property
    def controller(self) -> Owner | None:
        """The owner that manages the object, None when nobody does."""
        for owner in self.owners:
            if owner.controller:
                return owner
        return None

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations, empty when there are none."""
        return self.part("metadata", "annotations") or {}

    @property
    def created(self) -> str:
        """creationTimestamp, RFC 3339."""
        return self.part("metadata", "creationTimestamp") or ""

    def full(self) -> Object:
        """The object (as far as the projection keeps it), without managedFields."""
        obj: Object = _decode(self.document())
        return obj

    def part(self, *path: str) -> Any:
        """The value at a path of keys, None when absent; reads only as much JSON as it must."""
        document = self._body if self._fresh and self._form.keeps(path) else self.document()
        try:
            value = _part_decoder(path)(document)
        except msgspec.ValidationError:  # the path leads through something that is no map
            return None
        for _ in path:
            if value is None:
                return None
            value = value.value
        return value

    def managers(self, path: Path) -> tuple[str, ...]:
        """Names of the field managers that own a field.

        Args:
            path: one of the projection's `owned_fields`; others are not remembered and read as empty.
        """
        if self._fresh:
            self.document()
        return self._managers.get(path, ()) if self._managers else ()

    def document(self) -> bytes:
        """What is kept of the object, as JSON."""
        if self._fresh:
            self._body, self._managers = self._form.clean(self._body)
            self._fresh = False
        return self._form.packing.unpack(self._body)

    def settle(self) -> None:
        """Keep it as small as possible from now on: it will not be read soon."""
        self._body = self._form.packing.pack(self.document())

    def hold(self, form: Form, raw: bytes) -> None:
        """Begin with the JSON as it came; see `Form`."""
        self._form, self._body, self._fresh, self._managers = form, raw, True, None

    def __repr__(self) -> str:
        """Kind, name and version."""
        return f"<{self.resource} {self.namespace}/{self.name}@{self.resource_version}>"


@lru_cache(maxsize=256)
def _part_decoder(path: Path) -> Callable[[bytes], Any]:
    """A decoder that reads one path and skips over the rest, as nested one-field structs."""
    shape: Any = Any
    for key in reversed(path):
        shape = msgspec.defstruct("Part", [("value", shape | None, None)], rename={"value": key}, gc=False)
    return msgspec.json.Decoder(shape).decode
