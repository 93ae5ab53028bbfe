"""One object in the cache: decoded metadata beside the JSON of the rest.

As dicts, 10,000 Jobs cost 200 MB. Decoding one part of a 3 KB object takes a few microseconds, so nothing
but the metadata that indexes need stays decoded. Each read decodes afresh, which also keeps readers from
sharing what they change. The JSON of an object that has not changed for a while is packed.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from kaiwo.engine.decode_limits import fault, readable
from kaiwo.engine.errors import UndecodableObject
from kaiwo.engine.packing import LEAST_BYTES, pack, unpack
from kaiwo.engine.resource import Owner, version_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kaiwo.engine.resource import Object, Resource


Path: TypeAlias = tuple[str, ...]
"""Keys from the object down, for example ``("spec", "suspend")``."""

FieldManagers: TypeAlias = "Mapping[Path, tuple[str, ...]]"
"""Names of the managers of a field, by its path."""


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
        """The projection that keeps all that either keeps."""
        keep = () if not self.keep or not other.keep else tuple(dict.fromkeys(self.keep + other.keep))
        return Projection(
            keep,
            tuple(dict.fromkeys(self.owned_fields + other.owned_fields)),
            tuple(dict.fromkeys(self.labels + other.labels)),
        )


class CachedObject:
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
        packed: whether its JSON is compressed; it reads the same.
    """

    __slots__ = (
        "__weakref__",
        "_body",
        "_cleaned",
        "_decoder",
        "_managers",
        "_members",
        "_omitted",
        "deleted",
        "generation",
        "key",
        "labels",
        "owners",
        "packed",
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
    packed: bool
    _decoder: ObjectDecoder
    _body: bytes
    _cleaned: bool
    _managers: FieldManagers | None
    _members: Mapping[str, msgspec.Raw] | None
    _omitted: Mapping[str, str]

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
        """The owner that manages the object, None when there is none."""
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

    @property
    def size(self) -> int:
        """Bytes of its JSON, without what is not kept."""
        return len(self.clean())

    @property
    def undecodable(self) -> str:
        """Why the object cannot be decoded as a whole, with the path of the field; empty when it can."""
        return ", ".join(self._omitted.values())

    def full(self) -> Object:
        """The object (as far as the projection keeps it), without managedFields.

        Raises:
            UndecodableObject: it is nested too deeply or too large; see `undecodable` and `readable`.
        """
        if self._omitted:
            raise self._error()
        return self.readable()

    def readable(self) -> Object:
        """The object without the members that cannot be decoded; for any other object the same as `full`."""
        obj: Object = _decode(self.clean())
        return obj

    def part(self, *path: str, _shape: Any = Any) -> Any:
        """The value at a path of keys, None when absent; reads only as much JSON as it must.

        Whoever is told of a change reads several parts: the JSON is split into its members once.

        Raises:
            UndecodableObject: the path leads into a member that cannot be decoded.
        """
        if path[0] in self._omitted:
            raise self._error()
        as_it_came = not self._cleaned and self._decoder.keeps(path)
        member = self._split(self._body if as_it_came else self.clean()).get(path[0])
        if member is None:
            return None
        path = path[1:]
        try:
            value = _part_decoder(path, _shape)(member)
        except msgspec.ValidationError:  # the path leads through something that is no map
            return None
        for _ in path:
            if value is None:
                return None
            value = value.value
        return value

    def members(self, *path: str) -> Mapping[str, msgspec.Raw]:
        """The members of the map at a path of keys, each as its JSON; empty when it is absent or no map.

        Two versions of an object can be compared by them, without decoding what is the same in both.

        Raises:
            UndecodableObject: the path leads into a member that cannot be decoded.
        """
        value = self.part(*path, _shape=dict[str, msgspec.Raw])
        return value if value is not None else _NO_MEMBERS

    def readable_part(self, *path: str) -> Any:
        """The value at a path of keys, None when absent or in a member that cannot be decoded."""
        return None if path[0] in self._omitted else self.part(*path)

    def managers(self, path: Path) -> tuple[str, ...]:
        """Names of the field managers that own a field.

        Args:
            path: one of the projection's `owned_fields`; others are not remembered and read as empty.
        """
        self.clean()
        return self._managers.get(path, ()) if self._managers else ()

    def clean(self) -> bytes:
        """Drop what is not kept, and return the JSON of the rest.

        This happens late, because most versions are replaced before anybody reads them.
        """
        if self.packed:
            return self._decoder.unpacked(self, self._body)
        if not self._cleaned:
            self._body, self._managers = self._decoder.clean(self._split(self._body))
            self._cleaned, self._members = True, None
        return self._body

    def _split(self, body: bytes) -> Mapping[str, msgspec.Raw]:
        """The members of the object, each as its JSON."""
        if self.packed:
            return _decode_parts(body)
        if self._members is None:
            self._members = _decode_parts(body)
        return self._members

    def pack(self) -> None:
        """Drop what is not kept, and compress the rest."""
        body = self.clean()
        if not self.packed and len(body) >= LEAST_BYTES:
            self._body, self.packed, self._members = pack(body), True, None

    def set_body(self, decoder: ObjectDecoder, body: bytes, omitted: Mapping[str, str]) -> None:
        """Take the JSON as it came; for `ObjectDecoder`, which sets the public attributes too."""
        self._decoder, self._body, self._omitted = decoder, body, omitted
        self._cleaned, self.packed, self._managers, self._members = False, False, None, None

    def _error(self) -> UndecodableObject:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return UndecodableObject(f"{self.resource.kind} {name}: {self.undecodable}", self.clean())

    def __repr__(self) -> str:
        """Kind, name and version."""
        return f"<{self.resource} {self.namespace}/{self.name}@{self.resource_version}>"


_RECENT = 128
"""Objects of one kind that are kept as they came: more than change within a moment, and at 10 KB each
little more than one MB. Older ones are packed."""

_CLEANED = frozenset({("metadata",), ("metadata", "managedFields"), ("apiVersion",), ("kind",)})
"""What is otherwise in the JSON as it came: items of a list carry no apiVersion and kind."""

_NOTHING: dict[str, str] = {}
_NO_MEMBERS: dict[str, msgspec.Raw] = {}


class _Meta(msgspec.Struct, gc=False):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    generation: int = 0
    deleted: str | None = msgspec.field(name="deletionTimestamp", default=None)
    labels: dict[str, str] | None = None
    owners: tuple[Owner, ...] | None = msgspec.field(name="ownerReferences", default=None)


class _Head(msgspec.Struct, gc=False):
    metadata: _Meta


class _ManagedFields(msgspec.Struct, gc=False):
    manager: str = ""
    fields: dict[str, Any] | None = msgspec.field(name="fieldsV1", default=None)


_decode = msgspec.json.Decoder().decode
_decode_head = msgspec.json.Decoder(_Head).decode
_decode_parts = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_managed_fields = msgspec.json.Decoder(list[_ManagedFields]).decode
_encode = msgspec.json.Encoder().encode


class ObjectDecoder:
    """Makes cached objects of one kind from JSON, and cleans them later."""

    def __init__(self, resource: Resource, projection: Projection) -> None:
        """Prepare.

        Args:
            resource: the kind.
            projection: what is kept.
        """
        self._resource = resource
        self._head = {
            "apiVersion": msgspec.Raw(_encode(resource.api_version)),
            "kind": msgspec.Raw(_encode(resource.kind)),
        }
        always: tuple[Path, ...] = (("metadata",), ("apiVersion",), ("kind",))
        self._kept = path_tree((*projection.keep, *always)) if projection.keep else None
        self._owned = projection.owned_fields
        self._recent: deque[weakref.ref[CachedObject]] = deque()
        self._unpacked: tuple[CachedObject, bytes] | None = None  # several parts are read in a row

    def decode(self, raw: bytes | msgspec.Raw, *, sound: bool = False) -> CachedObject:
        """A cached object from JSON; ValueError when it is no object with a name.

        Args:
            raw: the JSON.
            sound: whether it is known that it can be decoded as a whole.
        """
        body, omitted = bytes(raw), _NOTHING
        try:
            if not sound and fault(body):
                body, omitted = readable(body)
            meta = _decode_head(body).metadata
        except (msgspec.DecodeError, ValueError) as error:
            raise ValueError(f"{self._resource}: not an object with metadata and a name: {error}") from error
        obj = CachedObject()
        obj.resource = self._resource
        # Uids and names come back in the labels, owner references and keys of other objects.
        obj.key = (sys.intern(meta.namespace), sys.intern(meta.name))
        obj.uid = sys.intern(meta.uid)
        obj.version = version_number(meta.resource_version)
        obj.generation = meta.generation
        obj.deleted = meta.deleted
        # Keys and most values repeat over thousands of objects.
        obj.labels = (
            {sys.intern(k): sys.intern(v) for k, v in meta.labels.items()} if meta.labels else _NOTHING
        )
        obj.owners = tuple(map(_intern_owner, meta.owners)) if meta.owners else ()
        obj.set_body(self, body, omitted)
        self._recent.append(weakref.ref(obj))
        if len(self._recent) > _RECENT:
            older = self._recent.popleft()()
            if older is not None:
                older.pack()
        return obj

    def unpacked(self, obj: CachedObject, packed: bytes) -> bytes:
        """The JSON of a packed object; that of the last one is kept."""
        if self._unpacked is None or self._unpacked[0] is not obj:
            self._unpacked = obj, unpack(packed)
        return self._unpacked[1]

    def keeps(self, path: Path) -> bool:
        """Whether all at a path is kept as it came."""
        if path[:2] in _CLEANED:
            return False
        node = self._kept
        for key in path:
            if not node:
                return True
            if key not in node:
                return False
            node = node[key]
        return not node

    def clean(self, members: Mapping[str, msgspec.Raw]) -> tuple[bytes, FieldManagers | None]:
        """The JSON of what is kept of an object, and the managers of the projection's `owned_fields`."""
        parts = dict(members)
        metadata = _decode_parts(parts["metadata"])
        managed = metadata.pop("managedFields", None)
        parts["metadata"] = msgspec.Raw(_encode(metadata))
        kept = _encode({**self._head, **parts})
        if self._kept:
            kept = _encode(prune(_decode(kept), self._kept))
        return (
            # What msgspec encodes keeps the memory of its buffer, half as much again; a copy has its own.
            bytes(memoryview(kept)),
            _field_managers(managed, self._owned) if self._owned and managed is not None else None,
        )


Tree: TypeAlias = dict[str, Any]
"""Nested keys; an empty branch keeps everything below it."""


def path_tree(paths: Iterable[Path]) -> Tree:
    """Paths as nested keys. A path keeps all below it, also where another names something deeper."""
    root: Tree = {}
    for path in sorted(paths, key=len):
        node = root
        for key in path[:-1]:
            if node.get(key) == {}:
                break
            node = node.setdefault(key, {})
        else:
            node.setdefault(path[-1], {})
    return root


def prune(value: Any, kept: Tree) -> Any:
    """The value with only what the tree names; ``*`` names every item of a list."""
    if not kept:
        return value
    if isinstance(value, dict):
        return {key: prune(value[key], branch) for key, branch in kept.items() if key in value}
    if isinstance(value, list) and "*" in kept:
        return [prune(item, kept["*"]) for item in value]
    return value


@lru_cache(maxsize=256)
def _part_decoder(path: Path, shape: Any) -> Callable[[bytes], Any]:
    """A decoder that reads one path and skips over the rest, as nested one-field structs."""
    for key in reversed(path):
        shape = msgspec.defstruct("Part", [("value", shape | None, None)], rename={"value": key}, gc=False)
    return msgspec.json.Decoder(shape).decode


def _intern_owner(owner: Owner) -> Owner:
    api_version, kind, name, uid = map(sys.intern, (owner.api_version, owner.kind, owner.name, owner.uid))
    return Owner(api_version, kind, name, uid, owner.controller)


def _field_managers(raw: msgspec.Raw, paths: Iterable[Path]) -> FieldManagers | None:
    """For each path the names of the managers that own it or anything below; None when there are none."""
    try:
        managed = _decode_managed_fields(raw)
    except msgspec.DecodeError:
        return None
    found: list[tuple[Path, tuple[str, ...]]] = []
    for path in paths:
        names = tuple(sorted({sys.intern(item.manager) for item in managed if _owns(item.fields, path)}))
        if names:
            found.append((path, names))
    return _shared(tuple(found)) if found else None


def managers_of(obj: Object, path: Path) -> tuple[str, ...]:
    """Names of the managers that own a field or anything below it, of an object with its managedFields."""
    managed = obj["metadata"].get("managedFields") or ()
    return tuple(sorted({item.get("manager", "") for item in managed if _owns(item.get("fieldsV1"), path)}))


def _owns(fields: Tree | None, path: Path) -> bool:
    node: Any = fields
    for key in path:
        if not isinstance(node, dict):
            return False
        node = node.get(f"f:{key}")
    return isinstance(node, dict)


@lru_cache(maxsize=1024)
def _shared(found: tuple[tuple[Path, tuple[str, ...]], ...]) -> FieldManagers:
    """One dict for all objects whose fields are owned alike: most are."""
    return dict(found)
