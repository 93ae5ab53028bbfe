"""What the API server is known to hold: one compact entry per object, indexed by owner and labels.

Two sources feed a store: the reflector (lists and watch events) and the answers to own writes. Both carry a
resourceVersion, a number that grows with every change of a kind, so the newer one wins and a stale watch
event never undoes what this process has just written.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kaiwo.engine.cached_object import CachedObject, ObjectDecoder, Path, Projection, number
from kaiwo.engine.selector import Selector
from kaiwo.engine.wire import encode

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterable, Iterator

    import msgspec

    from kaiwo.engine.resource import Object, Resource


__all__ = ["Cache", "CacheEvent", "CachedObject", "Path", "Projection", "Store"]

_log = logging.getLogger(__name__)
_NameKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class CacheEvent:
    """A change in the cache.

    Attributes:
        type: ADDED, MODIFIED or DELETED.
        resource: the kind.
        old: the entry before, None for a new object.
        new: the entry now, None for a deleted object.
        witnessed: False for a deletion that was only inferred: a new list lacks the object, or another
            object has its name.
    """

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    resource: Resource
    old: CachedObject | None
    new: CachedObject | None
    witnessed: bool = True

    @property
    def latest(self) -> CachedObject:
        """The newest known state: of a deleted object, the last."""
        found = self.new or self.old
        assert found is not None  # noqa: S101 -- an event without any entry is never made
        return found


class Store:
    """All known objects of one kind.

    Attributes:
        resource: the kind.
        projection: what is kept of each object.
        selector: which objects are watched at all.
        namespace: the one namespace that is watched, None for all.
        synced: whether a whole list has been taken in.
        version: resourceVersion up to which watch events were seen.
    """

    def __init__(
        self, resource: Resource, projection: Projection, namespace: str | None, selector: Selector
    ) -> None:
        self.resource = resource
        self.projection = projection
        self.namespace = namespace
        self.selector = selector
        self.synced = False
        self.version = 0
        self.handlers: list[Callable[[CacheEvent], None]] = []
        self._decode = ObjectDecoder(resource, projection).decode
        self._entries: dict[_NameKey, CachedObject] = {}
        self._owned = Index()
        self._labelled = {label: Index() for label in projection.labels}

    def __len__(self) -> int:
        """Number of objects."""
        return len(self._entries)

    def __iter__(self) -> Iterator[CachedObject]:
        """All entries as of now; the store may change meanwhile."""
        return iter(list(self._entries.values()))

    def get(self, namespace: str, name: str) -> CachedObject | None:
        """One entry."""
        return self._entries.get((namespace, name))

    def owned_by(self, uid: str) -> builtins.list[CachedObject]:
        """Entries with an owner reference to that uid."""
        return self._owned.get(uid)

    def labelled(self, label: str, value: str) -> builtins.list[CachedObject]:
        """Entries with that label; the label must be declared in the projection."""
        index = self._labelled.get(label)
        if index is None:
            raise KeyError(f"{self.resource}: no index for label {label}; declare it in Projection.labels")
        return index.get(value)

    def decode(self, raw: bytes | msgspec.Raw) -> CachedObject:
        """An entry from JSON; ValueError when it is no object with a name."""
        return self._decode(raw)

    def replace(self, entries: Iterable[CachedObject], version: str) -> None:
        """Take a whole list as the truth: what it does not name is gone, unless written after it.

        A list that is older than what was seen before means that the API server's data were restored
        from a backup: then the list alone counts.
        """
        listed = {entry.key: entry for entry in entries}
        before, self.version = self.version, number(version)
        if self.version < before:
            for entry in list(self._entries.values()):
                self._remove(entry)
        gone = [
            entry
            for key, entry in self._entries.items()
            if key not in listed and entry.version <= self.version
        ]
        for entry in gone:
            self._remove(entry)
        for entry in listed.values():
            self._put(entry)
        self.synced = True

    def observe(self, type_: str, entry: CachedObject) -> None:
        """Take a watch event; duplicates and stale ones change nothing."""
        if type_ == "DELETED":
            known = self._entries.get(entry.key)
            if known is not None and (known.uid == entry.uid or known.version <= entry.version):
                self._remove(known, entry)
        else:
            self._put(entry)
        self.version = max(self.version, entry.version)

    def progress(self, version: str) -> None:
        """Take note of a bookmark: all events up to this version have been seen."""
        self.version = max(self.version, number(version))

    def assume(self, raw: bytes) -> None:
        """Take the answer to an own write, unless the watch is already past it or does not cover it."""
        entry = self._decode(raw)
        covered = self.namespace is None or self.namespace == entry.namespace
        if self.synced and covered and entry.version > self.version and self.selector.matches(entry.labels):
            self._put(entry)

    def _put(self, entry: CachedObject) -> None:
        key = entry.key
        old = self._entries.get(key)
        if old is not None:
            if old.version >= entry.version > 0:
                return
            if old.uid != entry.uid:
                # Deleted and made again between two looks: whoever waits for the deletion must see it.
                self._remove(old)
                old = None
        self._entries[key] = entry
        self._index(old, entry)
        self._tell(CacheEvent("MODIFIED" if old else "ADDED", self.resource, old, entry))

    def _remove(self, known: CachedObject, last: CachedObject | None = None) -> None:
        del self._entries[known.key]
        self._index(known, None)
        self._tell(CacheEvent("DELETED", self.resource, last or known, None, witnessed=last is not None))

    def _tell(self, event: CacheEvent) -> None:
        for handler in self.handlers:
            try:
                handler(event)
            except Exception:  # noqa: BLE001 -- a reader's defect must not leave the store half updated
                _log.exception("a reader of %s failed at %s of %r", self.resource, event.type, event.latest)

    def _index(self, old: CachedObject | None, new: CachedObject | None) -> None:
        if old is not None:
            for owner in old.owners:
                self._owned.remove(owner.uid, old)
        if new is not None:
            for owner in new.owners:
                self._owned.add(owner.uid, new)
        for label, index in self._labelled.items():
            before = old.labels.get(label) if old is not None else None
            after = new.labels.get(label) if new is not None else None
            if old is not None and before is not None:
                index.remove(before, old)
            if new is not None and after is not None:
                index.add(after, new)


class Cache:
    """The stores of all watched kinds.

    A kind that nobody registered reads as empty and unsynced.
    """

    def __init__(self) -> None:
        self._stores: dict[Resource, Store] = {}

    def register(
        self,
        resource: Resource,
        projection: Projection | None = None,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
    ) -> Store:
        """Make room for a kind, or widen what is kept of it: several readers share one store.

        Args:
            resource: the kind.
            projection: what this reader needs; the store keeps what any of them needs.
            namespace: the only namespace of interest, None for all.
            label_selector: which objects are of interest, None for all.

        Raises:
            ValueError: the kind is registered with another namespace or selector, or a selector that
                cannot be read, or a wider projection is asked for after objects came in.
        """
        asked = projection or Projection()
        store = self._stores.get(resource)
        if store is None:
            store = Store(resource, asked, namespace, Selector.parse(label_selector))
            self._stores[resource] = store
            return store
        if store.namespace != namespace or store.selector.text != (label_selector or ""):
            raise ValueError(
                f"{resource}: watched in namespace {store.namespace} with selector {store.selector.text!r}; "
                f"another reader asks for {namespace} and {label_selector!r}. Use the same for both."
            )
        wider = store.projection.union(asked)
        if wider != store.projection:
            if len(store) or store.synced:
                raise ValueError(f"{resource}: register all readers before the first list is taken in")
            handlers = store.handlers
            store = self._stores[resource] = Store(resource, wider, namespace, store.selector)
            store.handlers = handlers
        return store

    def store(self, resource: Resource) -> Store | None:
        """The store of a kind, None when nobody registered it."""
        return self._stores.get(resource)

    def stores(self) -> tuple[Store, ...]:
        """All stores."""
        return tuple(self._stores.values())

    def subscribe(self, resource: Resource, handler: Callable[[CacheEvent], None]) -> None:
        """Call `handler` at each change of a registered kind, in order; it must return quickly."""
        self._stores[resource].handlers.append(handler)

    def synced(self, resource: Resource) -> bool:
        """Whether the kind has been listed wholly at least once."""
        store = self._stores.get(resource)
        return store is not None and store.synced

    def get(self, resource: Resource, namespace: str | None, name: str) -> CachedObject | None:
        """One object, None when there is none (or it is not known yet)."""
        store = self._stores.get(resource)
        return store.get(namespace or "", name) if store is not None else None

    def list(self, resource: Resource, namespace: str | None = None) -> Iterator[CachedObject]:
        """All objects of a kind, or those of one namespace."""
        store = self._stores.get(resource)
        for entry in store or ():
            if namespace is None or entry.namespace == namespace:
                yield entry

    def owned_by(self, uid: str, resource: Resource | None = None) -> builtins.list[CachedObject]:
        """Objects with an owner reference to a uid, of one kind or of all."""
        if resource is not None:
            store = self._stores.get(resource)
            return store.owned_by(uid) if store is not None else []
        return [entry for store in self._stores.values() for entry in store.owned_by(uid)]

    def labelled(self, resource: Resource, label: str, value: str) -> builtins.list[CachedObject]:
        """Objects with a label; KeyError when the kind's projection declares no index for it."""
        store = self._stores.get(resource)
        return store.labelled(label, value) if store is not None else []

    def assume(self, resource: Resource, obj: Object) -> None:
        """Take in the answer to an own write at once, so that the next reconciliation reads it."""
        store = self._stores.get(resource)
        if store is not None:
            store.assume(encode(obj))


class Index:
    """Entries by a word.

    Most words name one entry (a uid owns one Job), which then costs nothing but its place; a word that names
    thousands costs constant time per change.
    """

    def __init__(self) -> None:
        self._found: dict[str, CachedObject | dict[int, CachedObject]] = {}

    def add(self, word: str, entry: CachedObject) -> None:
        """Add an entry under a word."""
        known = self._found.get(word)
        if known is None:
            self._found[word] = entry
        elif isinstance(known, dict):
            known[id(entry)] = entry
        else:
            self._found[word] = {id(known): known, id(entry): entry}

    def remove(self, word: str, entry: CachedObject) -> None:
        """Remove an entry from a word; nothing happens when it is not there."""
        known = self._found.get(word)
        if isinstance(known, dict):
            known.pop(id(entry), None)
            if not known:
                del self._found[word]
        elif known is entry:
            del self._found[word]

    def get(self, word: str) -> list[CachedObject]:
        """Entries under a word, in the order in which they came."""
        known = self._found.get(word)
        if known is None:
            return []
        return list(known.values()) if isinstance(known, dict) else [known]
