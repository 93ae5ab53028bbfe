"""Who owns a field, read from managedFields before they are dropped."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class _ManagedFields(msgspec.Struct, gc=False):
    manager: str = ""
    fields: dict[str, Any] | None = msgspec.field(name="fieldsV1", default=None)


_decode = msgspec.json.Decoder(list[_ManagedFields]).decode


def managers_of(
    raw: msgspec.Raw | bytes, paths: Iterable[tuple[str, ...]]
) -> Mapping[tuple[str, ...], tuple[str, ...]] | None:
    """For each path the names of the managers that own it or anything below; None when nobody does.

    Args:
        raw: JSON of ``metadata.managedFields``.
        paths: paths of keys, for example ``("spec", "replicas")``.
    """
    try:
        entries = _decode(raw)
    except msgspec.DecodeError:
        return None
    found: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
    for path in paths:
        names = tuple(sorted({sys.intern(e.manager) for e in entries if _owns(e.fields, path)}))
        if names:
            found.append((path, names))
    return _shared(tuple(found)) if found else None


def _owns(fields: dict[str, Any] | None, path: tuple[str, ...]) -> bool:
    node: Any = fields
    for key in path:
        if not isinstance(node, dict):
            return False
        node = node.get(f"f:{key}")
    return isinstance(node, dict)


@lru_cache(maxsize=1024)
def _shared(
    found: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...],
) -> Mapping[tuple[str, ...], tuple[str, ...]]:
    """One dict for all objects whose fields are owned alike: most are."""
    return dict(found)
