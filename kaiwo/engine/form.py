"""How the objects of one kind are read from JSON, and kept.

Of a new object only the metadata is read. Most versions of an object are followed by the next one before
anybody asks for more, and the JSON of these is never looked at. What is asked for is freed of managedFields
and of what the projection leaves out, once; what has not changed for a while is packed.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from kaiwo.engine.entry import Entry, Owner
from kaiwo.engine.managed import managers_of
from kaiwo.engine.packing import Packing
from kaiwo.engine.prune import prune, tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.engine.entry import Path, Projection
    from kaiwo.engine.resource import Resource

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


class Form:
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
        self._recent: deque[weakref.ref[Entry]] = deque()

    def decode(self, raw: bytes | msgspec.Raw) -> Entry:
        """An entry from JSON; ValueError when it is no object with a name."""
        try:
            meta = _decode_head(raw).metadata
        except msgspec.DecodeError as error:
            raise ValueError(f"{self._resource}: not an object with metadata and a name: {error}") from error
        entry = Entry()
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
