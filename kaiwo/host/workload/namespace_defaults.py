"""The defaults of each namespace, read from the cache once per change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.namespace_defaults import NO_DEFAULTS, precedence
from kaiwo.workload.namespace_defaults import combined, read_defaults

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.store import Cache, CacheEvent
    from kaiwo.plugin.namespace_defaults import DefaultValues, NamespaceDefaults


def changes_defaults(event: CacheEvent) -> bool:
    """Whether more than the status of an object with defaults changed."""
    old, new = event.old, event.new
    if old is None or new is None or (old.uid, old.deleted) != (new.uid, new.deleted):
        return True
    return not new.generation or old.generation != new.generation


def object_in_use(entries: Iterable[CachedObject]) -> CachedObject | None:
    """The object that counts among those of one kind in one namespace; None without any."""
    present = (entry for entry in entries if entry.deleted is None)
    return min(present, key=lambda entry: precedence(entry.name, entry.created), default=None)


class NamespaceDefaultsReader:
    """Reads defaults when a workload needs them, and remembers them until an object of the namespace changes.

    So a namespace with many objects costs its own workloads, and nobody else.
    """

    def __init__(self, cache: Cache, declared: tuple[NamespaceDefaults, ...]) -> None:
        """Subscribe to the cache.

        Args:
            cache: holds the kinds; the caller watches them.
            declared: what plugins declare; their code may raise.
        """
        self._cache = cache
        self._declared = declared
        self._known: dict[str, tuple[str, DefaultValues]] = {}
        for kind in dict.fromkeys(item.kind for item in declared):
            cache.subscribe(kind, self._changed)

    def values(self, namespace: str) -> DefaultValues:
        """The defaults of a namespace."""
        return self._read(namespace)[1] if self._declared else NO_DEFAULTS

    def revision(self, namespace: str) -> str:
        """A text that changes with the objects that count in a namespace; empty without any."""
        return self._read(namespace)[0] if self._declared else ""

    def _changed(self, event: CacheEvent) -> None:
        if changes_defaults(event):
            self._known.pop(event.latest.namespace, None)

    def _read(self, namespace: str) -> tuple[str, DefaultValues]:
        known = self._known.get(namespace)
        if known is None:
            found = [
                (declared, entry)
                for declared in self._declared
                if (entry := object_in_use(self._cache.list(declared.kind, namespace))) is not None
            ]
            if not found:
                return "", NO_DEFAULTS
            revision = " ".join(f"{e.uid}.{e.generation or e.resource_version}" for _, e in found)
            values = combined([read_defaults(declared, entry.readable()) for declared, entry in found])
            known = self._known[namespace] = (revision, values)
        return known
