"""The cache: objects by kind and name, indexed by owner and labels.

Two sources feed a store: the reflector (lists and watch events) and the answers to own writes. Both carry a
resourceVersion, a number that grows with every change of a kind, so the newer one wins and a stale watch
event never undoes what this process has just written.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

from kaiwo.engine.cached_object import ObjectDecoder, Projection
from kaiwo.engine.resource import version_number
from kaiwo.engine.wire import encode

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import msgspec

    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.resource import Object, Resource


_log = logging.getLogger(__name__)
_NameKey = tuple[str, str]
_SELECTOR = re.compile(r"(?P<key>[\w./-]+)(?:=(?P<value>[\w.-]*))?")


@dataclass(frozen=True, slots=True)
class CacheEvent:
    """A change in the cache.

    Attributes:
        type: ADDED, MODIFIED or DELETED.
        resource: the kind.
        old: the object before, None for a new one.
        new: the object now, None for a deleted one.
        witnessed: False for a deletion that was only inferred: a new list lacks the object, or another
            object has its name.
        own: whether it came with the answer to a write of this process, and not from a list or a watch.
    """

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    resource: Resource
    old: CachedObject | None
    new: CachedObject | None
    witnessed: bool = True
    own: bool = False

    @property
    def latest(self) -> CachedObject:
        """The newest known state: of a deleted object, the last."""
        latest = self.new or self.old
        assert latest is not None  # noqa: S101 -- an event without any object is never made
        return latest


@dataclass(frozen=True, slots=True)
class Selector:
    """A label that must exist, or have one value. That is all that watches need.

    Attributes:
        text: as kubectl writes it; empty selects everything.
        key: the label, empty for everything.
        value: its value, None for any.
    """

    text: str = ""
    key: str = ""
    value: str | None = None

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """Read a selector such as ``team`` or ``team=a``.

        Raises:
            ValueError: the text is no such selector.
        """
        if not text:
            return cls()
        match = _SELECTOR.fullmatch(text)
        if match is None:
            raise ValueError(
                f'label selector "{text}": expected "team" or "team=a", for a label and its value'
            )
        return cls(text, match["key"], match["value"])

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels fulfil the requirement."""
        if not self.key:
            return True
        return self.key in labels if self.value is None else labels.get(self.key) == self.value


class Index:
    """Objects by a word: a uid or the value of a label.

    Most words name one object (a uid owns one Job), which is kept without a container; a word that names
    thousands costs constant time per change.
    """

    def __init__(self) -> None:
        self._found: dict[str, CachedObject | dict[int, CachedObject]] = {}

    def add(self, word: str, obj: CachedObject) -> None:
        """Add an object under a word."""
        known = self._found.get(word)
        if known is None:
            self._found[word] = obj
        elif isinstance(known, dict):
            known[id(obj)] = obj
        else:
            self._found[word] = {id(known): known, id(obj): obj}

    def remove(self, word: str, obj: CachedObject) -> None:
        """Remove an object from a word; nothing happens when it is not there."""
        known = self._found.get(word)
        if isinstance(known, dict):
            known.pop(id(obj), None)
            if not known:
                del self._found[word]
        elif known is obj:
            del self._found[word]

    def get(self, word: str) -> builtins.list[CachedObject]:
        """Objects under a word, in the order in which they came."""
        known = self._found.get(word)
        if known is None:
            return []
        return list(known.values()) if isinstance(known, dict) else [known]


class Store:
    """All known objects of one kind.

    Attributes:
        resource: the kind.
        projection: what is kept of each object.
        selector: which objects are watched at all.
        namespaces: the namespaces that are watched, empty for all. Each has lists and watches of its own.
        keeps: which objects of those that are watched are kept.
        unreadable: those of them of which nothing can be known now, because they may not be listed.
    """

    def __init__(
        self,
        resource: Resource,
        projection: Projection,
        namespaces: tuple[str, ...],
        selector: Selector,
        keeps: Callable[[CachedObject], bool] | None = None,
    ) -> None:
        self.resource = resource
        self.keeps = keeps
        self.projection = projection
        self.namespaces = namespaces
        self.selector = selector
        self.unreadable: set[str] = set()
        # By namespace; "" stands for all.
        self._listed: set[str] = set()
        self._versions: dict[str, int] = {}  # resourceVersion up to which watch events were seen
        self.handlers: list[Callable[[CacheEvent], None]] = []
        self._decode = ObjectDecoder(resource, projection).decode
        self._objects: dict[_NameKey, CachedObject] = {}
        self._owned = Index()
        self._labelled = {label: Index() for label in projection.labels}
        self._by_namespace: dict[str, dict[str, CachedObject]] | None = None  # made by the first question

    def __len__(self) -> int:
        """Number of objects."""
        return len(self._objects)

    def __iter__(self) -> Iterator[CachedObject]:
        """All objects as of now; the store may change meanwhile."""
        return iter(list(self._objects.values()))

    @property
    def synced(self) -> bool:
        """Whether a whole list has been taken in, of each namespace that can be read."""
        wanted = set(self.namespaces or ("",))
        return bool(self._listed) and wanted <= self._listed | self.unreadable

    @property
    def version(self) -> int:
        """The resourceVersion up to which everything was seen, where all namespaces are watched at once."""
        return self._versions.get("", 0)

    def get(self, namespace: str, name: str) -> CachedObject | None:
        """One object, None when there is none."""
        return self._objects.get((namespace, name))

    def in_namespace(self, namespace: str) -> builtins.list[CachedObject]:
        """All objects of one namespace."""
        if self._by_namespace is None:
            self._by_namespace = {}
            for obj in self._objects.values():
                self._by_namespace.setdefault(obj.namespace, {})[obj.name] = obj
        return list(self._by_namespace.get(namespace, {}).values())

    def owned_by(self, uid: str) -> builtins.list[CachedObject]:
        """Objects with an owner reference to that uid."""
        return self._owned.get(uid)

    def labelled(self, label: str, value: str) -> builtins.list[CachedObject]:
        """Objects with that label; the label must be declared in the projection."""
        index = self._labelled.get(label)
        if index is None:
            raise KeyError(f"{self.resource}: no index for label {label}; declare it in Projection.labels")
        return index.get(value)

    def decode(self, raw: bytes | msgspec.Raw) -> CachedObject:
        """A cached object from JSON; ValueError when it is no object with a name."""
        return self._decode(raw)

    def replace(self, objects: Iterable[CachedObject], version: str, namespace: str | None = None) -> None:
        """Take a whole list as the truth: what it does not name is gone, unless written after it.

        A list that is older than what was seen before means that the API server's data were restored
        from a backup: then the list alone counts.

        Args:
            objects: all of them.
            version: of the list.
            namespace: the namespace that was listed, None for all.
        """
        listed = {obj.key: obj for obj in objects if self.keeps is None or self.keeps(obj)}
        number = version_number(version)
        restored = number < self._versions.get(namespace or "", 0)
        self._versions[namespace or ""] = number
        self._listed.add(namespace or "")
        known = [obj for obj in self._objects.values() if not namespace or obj.namespace == namespace]
        for obj in known:
            if restored or (obj.key not in listed and obj.version <= number):
                self._remove(obj)
        for obj in listed.values():
            newer = self._objects.get(obj.key)
            if newer is not None and obj.version < newer.version <= number:
                self._remove(newer)  # restored too; what was written since hides it in the list's version
            self._put(obj)

    def observe(self, type_: str, obj: CachedObject) -> None:
        """Take a watch event; duplicates and stale ones change nothing."""
        if type_ == "DELETED":
            known = self._objects.get(obj.key)
            if known is not None and (known.uid == obj.uid or known.version <= obj.version):
                self._remove(known, obj)
        else:
            self._put(obj)
        self._advance(obj.namespace, obj.version)

    def progress(self, version: str, namespace: str | None = None) -> None:
        """Take note of a bookmark: all events of a namespace, or of all, have been seen up to a version."""
        self._advance(namespace or "", version_number(version))

    def _advance(self, namespace: str, version: int) -> None:
        scope = namespace if self.namespaces else ""
        self._versions[scope] = max(self._versions.get(scope, 0), version)

    def assume(self, answer: Object | bytes) -> CachedObject:
        """Take the answer to an own write, unless the watch is already past it or does not cover it.

        Returns:
            The answer.
        """
        as_json = answer if isinstance(answer, bytes) else encode(answer)
        obj = self._decode(as_json, sound=as_json is not answer)  # what is no JSON was decoded as a whole
        scope = obj.namespace if self.namespaces else ""
        newer = scope in self._listed and obj.version > self._versions[scope]
        if newer and self.selector.matches(obj.labels):
            self._put(obj, own=True)
        return obj

    def _put(self, obj: CachedObject, *, own: bool = False) -> None:
        key = obj.key
        old = self._objects.get(key)
        if self.keeps is not None and not self.keeps(obj):
            if old is not None and old.version < obj.version:
                self._remove(old)
            return
        if old is not None:
            if old.version >= obj.version > 0:
                return
            if old.uid != obj.uid:
                # Deleted and made again between two lists: who waits for the deletion must see it.
                self._remove(old)
                old = None
        self._objects[key] = obj
        self._index(old, obj)
        self._publish(CacheEvent("MODIFIED" if old else "ADDED", self.resource, old, obj, own=own))

    def _remove(self, known: CachedObject, last: CachedObject | None = None) -> None:
        del self._objects[known.key]
        self._index(known, None)
        self._publish(CacheEvent("DELETED", self.resource, last or known, None, witnessed=last is not None))

    def _publish(self, event: CacheEvent) -> None:
        for handler in self.handlers:
            try:
                handler(event)
            except Exception:  # noqa: BLE001 -- a subscriber's defect must not leave the store half updated
                _log.exception("a subscriber of %s failed at %s %r", self.resource, event.type, event.latest)

    def _index(self, old: CachedObject | None, new: CachedObject | None) -> None:
        self._index_namespace(old, new)
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

    def _index_namespace(self, old: CachedObject | None, new: CachedObject | None) -> None:
        if self._by_namespace is None:
            return
        if new is not None:
            self._by_namespace.setdefault(new.namespace, {})[new.name] = new
        elif old is not None:
            others = self._by_namespace.get(old.namespace, {})
            others.pop(old.name, None)
            if not others:
                self._by_namespace.pop(old.namespace, None)


class Cache:
    """The stores of all watched kinds.

    A kind that is not registered reads as empty and unsynced.
    """

    def __init__(self) -> None:
        self._stores: dict[Resource, Store] = {}

    def register(
        self,
        resource: Resource,
        projection: Projection | None = None,
        *,
        namespaces: tuple[str, ...] = (),
        label_selector: str | None = None,
        keeps: Callable[[CachedObject], bool] | None = None,
    ) -> Store:
        """Make room for a kind, or widen what is kept of it: several readers share one store.

        Args:
            resource: the kind.
            projection: what this reader needs; the store keeps what any of them needs.
            namespaces: the only namespaces of interest, empty for all.
            label_selector: which objects are of interest, None for all.
            keeps: which of these are kept, for what no selector of the API server can say; None for all. It
                counts for the first reader of a kind: others would miss objects, so who gives it has a cache
                of its own, see :meth:`kaiwo.engine.manager.Manager.follow`.

        Raises:
            ValueError: the kind is registered with other namespaces or another selector, or a selector that
                cannot be read, or a wider projection is registered after objects came in.
        """
        wanted = projection or Projection()
        store = self._stores.get(resource)
        if store is None:
            store = Store(resource, wanted, namespaces, Selector.parse(label_selector), keeps)
            self._stores[resource] = store
            return store
        if store.namespaces != namespaces or store.selector.text != (label_selector or ""):
            raise ValueError(
                f"{resource}: watched in {_places(store.namespaces)} with selector {store.selector.text!r}; "
                f"another reader wants {_places(namespaces)} and {label_selector!r}. Use the same for both."
            )
        wider = store.projection.union(wanted)
        if wider != store.projection:
            if len(store) or store.synced:
                raise ValueError(f"{resource}: register all readers before the first list is taken in")
            handlers = store.handlers
            store = self._stores[resource] = Store(resource, wider, namespaces, store.selector, store.keeps)
            store.handlers = handlers
        return store

    def store(self, resource: Resource) -> Store | None:
        """The store of a kind, None when it is not registered."""
        return self._stores.get(resource)

    def stores(self) -> tuple[Store, ...]:
        """All stores."""
        return tuple(self._stores.values())

    def subscribe(self, resource: Resource, handler: Callable[[CacheEvent], None]) -> None:
        """Call `handler` at each change of a registered kind, in order; it must return quickly."""
        self._stores[resource].handlers.append(handler)

    def synced(self, resource: Resource) -> bool:
        """Whether the kind has been listed wholly at least once, where it can be read."""
        store = self._stores.get(resource)
        return store is not None and store.synced

    def get(self, resource: Resource, namespace: str | None, name: str) -> CachedObject | None:
        """One object, None when there is none (or it is not known yet)."""
        store = self._stores.get(resource)
        return store.get(namespace or "", name) if store is not None else None

    def list(self, resource: Resource, namespace: str | None = None) -> Iterator[CachedObject]:
        """All objects of a kind, or those of one namespace."""
        store = self._stores.get(resource)
        if store is not None:
            yield from store if namespace is None else store.in_namespace(namespace)

    def owned_by(self, uid: str, resource: Resource | None = None) -> builtins.list[CachedObject]:
        """Objects with an owner reference to a uid, of one kind or of all."""
        if resource is not None:
            store = self._stores.get(resource)
            return store.owned_by(uid) if store is not None else []
        return [obj for store in self._stores.values() for obj in store.owned_by(uid)]

    def labelled(self, resource: Resource, label: str, value: str) -> builtins.list[CachedObject]:
        """Objects with a label; KeyError when the kind's projection declares no index for it."""
        store = self._stores.get(resource)
        return store.labelled(label, value) if store is not None else []

    def assume(self, resource: Resource, obj: Object | bytes) -> None:
        """Take in the answer to an own write at once, so that the next reconciliation reads it."""
        store = self._stores.get(resource)
        if store is not None:
            store.assume(obj)


def _places(namespaces: tuple[str, ...]) -> str:
    return f"namespaces {', '.join(namespaces)}" if namespaces else "all namespaces"
