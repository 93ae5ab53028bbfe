"""One object in the cache: decoded metadata beside the JSON of the rest.

As dicts, 10,000 Jobs cost 200 MB. Decoding one part of a 3 KB object takes a few microseconds, so nothing
but the metadata that indexes need stays decoded. Each read decodes afresh, which also keeps readers from
sharing what they change..
"""

from __future__ import annotations

import sys
import weakref
import zlib
from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from kaiwo.engine.managed_fields import managers_of
from kaiwo.engine.prune import prune, tree

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
    _form: ObjectDecoder
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

    def hold(self, form: ObjectDecoder, raw: bytes) -> None:
        """Begin with the JSON as it came; see `ObjectDecoder`."""
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


_RECENT = 128
"""Objects of one kind that are kept as they came: more than change within a moment, and at 10 KB each
little more than one MB."""

_CLEANED = frozenset({("metadata",), ("metadata", "managedFields"), ("apiVersion",), ("kind",)})
"""What is otherwise in the JSON as it came: items of a list carry no apiVersion and kind."""

_NO_LABELS: dict[str, str] = {}
_Parts = dict[str, msgspec.Raw]


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


_decode_head = msgspec.json.Decoder(_Head).decode
_decode_parts = msgspec.json.Decoder(_Parts).decode
_decode_any = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class ObjectDecoder:
    """Of one kind.

    Attributes:
        packing: packs its documents.
    """

    def __init__(self, resource: Resource, projection: Projection) -> None:
        """Prepare.

        Args:
            resource: the kind.
            projection: what is kept.
        """
        self.packing = Packing()
        self._resource = resource
        self._head = {
            "apiVersion": msgspec.Raw(_encode(resource.api_version)),
            "kind": msgspec.Raw(_encode(resource.kind)),
        }
        always: tuple[Path, ...] = (("metadata",), ("apiVersion",), ("kind",))
        self._kept = tree((*projection.keep, *always)) if projection.keep else None
        self._owned = projection.owned_fields
        self._recent: deque[weakref.ref[CachedObject]] = deque()

    def decode(self, raw: bytes | msgspec.Raw) -> CachedObject:
        """An entry from JSON; ValueError when it is no object with a name."""
        try:
            meta = _decode_head(raw).metadata
        except msgspec.DecodeError as error:
            raise ValueError(f"{self._resource}: not an object with metadata and a name: {error}") from error
        entry = CachedObject()
        entry.resource = self._resource
        # Uids and names come back in the labels, owner references and keys of other objects.
        entry.key = (sys.intern(meta.namespace), sys.intern(meta.name))
        entry.uid = sys.intern(meta.uid)
        entry.version = number(meta.resource_version)
        entry.generation = meta.generation
        entry.deleted = meta.deleted
        # Keys and most values repeat over thousands of objects.
        entry.labels = (
            {sys.intern(k): sys.intern(v) for k, v in meta.labels.items()} if meta.labels else _NO_LABELS
        )
        entry.owners = tuple(map(_intern_owner, meta.owners)) if meta.owners else ()
        entry.hold(self, bytes(raw))
        self._recent.append(weakref.ref(entry))
        if len(self._recent) > _RECENT:
            cold = self._recent.popleft()()
            if cold is not None:
                cold.settle()
        return entry

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

    def clean(self, raw: bytes) -> tuple[bytes, Mapping[Path, tuple[str, ...]] | None]:
        """What is kept of an object's JSON, and who manages the fields of which that is to be known."""
        parts = _decode_parts(raw)
        metadata = _decode_parts(parts["metadata"])
        managed = metadata.pop("managedFields", None)
        parts["metadata"] = msgspec.Raw(_encode(metadata))
        whole = _encode({**self._head, **parts})
        return (
            _encode(prune(_decode_any(whole), self._kept)) if self._kept else whole,
            managers_of(managed, self._owned) if self._owned and managed is not None else None,
        )


def number(version: str) -> int:
    """A resourceVersion as the number it is (so since Kubernetes 1.35 by contract, before that in fact).

    0, which is older than all, for anything else.
    """
    return int(version) if version.isascii() and version.isdigit() else 0


def _intern_owner(owner: Owner) -> Owner:
    return Owner(
        sys.intern(owner.api_version),
        sys.intern(owner.kind),
        sys.intern(owner.name),
        sys.intern(owner.uid),
        owner.controller,
    )


_LEVEL = 2
_WINDOW_BITS = 13  # 8 KiB: larger than most objects, and small enough to set up in microseconds
_MEMORY_LEVEL = 6
_WORTHWHILE = 200
"""Bytes below which packing gains nothing."""


class Packing:
    """Packs the documents of one kind; the first one becomes the dictionary."""

    def __init__(self) -> None:
        self._dictionary = b""

    def pack(self, document: bytes) -> bytes:
        """A JSON object, packed if that is worthwhile."""
        if len(document) < _WORTHWHILE:
            return document
        if not self._dictionary:
            self._dictionary = document[-(1 << _WINDOW_BITS) :]
        packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL, zdict=self._dictionary)
        return packer.compress(document) + packer.flush()

    def unpack(self, packed: bytes) -> bytes:
        """What was packed; a JSON object begins with a brace, which no packed one does."""
        if packed.startswith(b"{"):
            return packed
        return zlib.decompressobj(_WINDOW_BITS, zdict=self._dictionary).decompress(packed)
