"""Statuses that somebody else replaces after each write: they are written again, but ever more rarely.

Two installations that watch one object and see different things would otherwise replace each other's status
as fast as the API server answers, for as long as both run. What they write may differ each time, by a time or
a measured value, so equal contents do not show it. What shows it is a status that is not as it was left.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from kaiwo.engine.repeated_writes import RepeatedWrites

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, KeysView

    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.engine.store import Cache, CacheEvent

_canonical: Final = msgspec.json.Encoder(order="deterministic").encode
_REPLACED: Final = "replaced"


@dataclass(slots=True)
class _Kind:
    """The statuses of one kind.

    Attributes:
        fields: those of the status that this process writes.
        types: of conditions that this process writes.
        last: hashes of these as this process left them, by uid.
    """

    fields: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    last: dict[str, int] = field(default_factory=dict)


class WrittenStatuses:
    """Tells when a status may be written.

    A status that nobody has replaced since the last write of this process is written at once, however often
    it changes. So are the first few that were replaced; then pauses grow, whatever is to be written.

    One number is kept for each object whose status was written, for as long as the object is in the cache.
    """

    def __init__(self, cache: Cache, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing is written yet.

        Args:
            cache: has the objects.
            clock: monotonic seconds.
        """
        self._cache = cache
        self._kinds: dict[Resource, _Kind] = {}
        self._replaced = RepeatedWrites(clock, most=math.inf)

    def is_replaced(self, obj: CachedObject, status: Object) -> bool:
        """Whether the status of an object is not as this process left it.

        Args:
            obj: the object as it is.
            status: its status.
        """
        kind = self._kinds.get(obj.resource)
        last = kind.last.get(obj.uid) if kind is not None else None
        return kind is not None and last is not None and last != _hash(status, kind)

    def pause(self, obj: CachedObject) -> float:
        """Seconds until a status that was replaced may be written; 0 for at once."""
        return self._replaced.pause(obj.uid, _REPLACED)

    def written(
        self, obj: CachedObject, fields: Collection[str], types: Collection[str], *, replaced: bool
    ) -> int:
        """Take note of a write.

        Args:
            obj: the object as it is now.
            fields: of the status that were written.
            types: of the conditions that are this process' own.
            replaced: whether the write took the place of what somebody else had written.

        Returns:
            How many writes in a row did that; 0 where this one did not.
        """
        live = self._cache.get(obj.resource, obj.namespace, obj.name)
        if live is None or live.uid != obj.uid:
            return 0  # gone meanwhile: nobody would say when to forget it
        kind = self._kinds.get(obj.resource)
        if kind is None:
            kind = self._kinds[obj.resource] = _Kind()
            self._cache.subscribe(obj.resource, self._on_event)
        if not (kind.fields.issuperset(fields) and kind.types.issuperset(types)):
            # Hashes of fewer fields cannot be compared with hashes of more.
            kind.fields, kind.types = kind.fields.union(fields), kind.types.union(types)
            kind.last.clear()
        kind.last[obj.uid] = _hash(obj.readable_part("status") or {}, kind)
        return self._replaced.record(obj.uid, _REPLACED) if replaced else 0

    def agreed(self, obj: CachedObject, status: Object, fields: KeysView[str]) -> None:
        """Take note of a status that is as this process wants it, whoever wrote it.

        Args:
            obj: the object as it is.
            status: its status.
            fields: of the status that were compared. Where this process writes others, it cannot be said.
        """
        kind = self._kinds.get(obj.resource)
        if kind is not None and obj.uid in kind.last and fields >= kind.fields & status.keys():
            kind.last[obj.uid] = _hash(status, kind)

    def _on_event(self, event: CacheEvent) -> None:
        if event.new is None:
            uid = event.latest.uid
            self._kinds[event.resource].last.pop(uid, None)
            self._replaced.forget(uid)


def _hash(status: Object, kind: _Kind) -> int:
    """A hash of what this process says in a status: without the conditions of others, and without times."""
    own: Object = {name: status[name] for name in kind.fields & status.keys()}
    if "conditions" in own:
        own["conditions"] = [
            {key: value for key, value in condition.items() if key != "lastTransitionTime"}
            for condition in own["conditions"] or ()
            if condition.get("type") in kind.types
        ]
    return hash(_canonical(own))
