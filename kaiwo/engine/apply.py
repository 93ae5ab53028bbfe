"""The one way of writing: create once, apply, patch named keys, patch status, delete."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeAlias

from kaiwo.engine.cache import Cache, Entry
from kaiwo.engine.client import Client, Propagation
from kaiwo.engine.resource import Object, Resource


@dataclass(frozen=True, slots=True)
class Written:
    """The object now has the wanted content. `changed` is False when nothing had to be sent."""

    live: Object
    changed: bool = True


@dataclass(frozen=True, slots=True)
class NameConflict:
    """An object of the wanted name is somebody else's; it was not touched.

    owner: ownerReference of its controller as JSON, or None."""

    live: Object
    owner: Object | None
    deleting: bool


Outcome: TypeAlias = Written | NameConflict


class Writer:
    """Writes for one field manager. `applied_annotation` carries the hash of the rendered object."""

    def __init__(self, client: Client, cache: Cache, *, field_manager: str, applied_annotation: str) -> None: ...

    async def create_once(self, resource: Resource, obj: Object) -> Outcome:
        """POST. If the name is taken: ours when its controller owner has the same uid as ours."""
        ...

    async def apply(self, resource: Resource, obj: Object, *, live: Entry | None = None) -> Outcome:
        """Server-side apply of the whole object; skipped when nothing would change."""
        ...

    async def patch(self, entry: Entry, patch: Object, *, guard: bool = False) -> Written:
        """Merge patch of named keys with uid precondition (guard: resourceVersion too). Nothing sent if already so."""
        ...

    async def patch_status(self, entry: Entry, status: Object, *, own_conditions: Collection[str] = ()) -> Written:
        """One status patch with resourceVersion; conditions of other types are kept as they are."""
        ...

    async def delete(self, entry: Entry, *, propagation: Propagation = "Background") -> None:
        """Delete exactly this object (uid precondition); already gone or replaced is fine."""
        ...
