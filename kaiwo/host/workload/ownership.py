"""Which objects belong to a workload. A label or an owner reference proves nothing: anybody may write one.

An object was made by Kaiwo when Kaiwo's field manager wrote the label that names the workload's uid. A pod
belongs to a child when that child controls it, or controls what controls it, in the same namespace.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from kaiwo.workload.labels import MANAGER, RECORD

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.resource import Owner, Resource
    from kaiwo.engine.store import Cache, CacheEvent
    from kaiwo.workload.model import Registry

_LONGEST_CHAIN = 4
"""Controllers above a pod: AppWrapper, RayService, RayCluster is the longest chain, with one to spare."""

_MOST_DELETED = 1024
"""Deleted controllers that are remembered: they are deleted before their pods. Of more, the oldest one of the
namespace with the most is forgotten, so that a namespace that deletes thousands harms itself only."""

_NONE: Mapping[str, Owner | None] = {}


def is_made_by_kaiwo(entry: CachedObject) -> bool:
    """Whether Kaiwo wrote the record on an object; its kind is watched with `RECORD` as an owned field."""
    return MANAGER in entry.managers(RECORD)


class PodOwners:
    """The controllers between pods and children.

    Attributes:
        kinds: kinds of objects that may control pods or other controllers.
    """

    def __init__(self, cache: Cache, registry: Registry) -> None:
        """Set up.

        Args:
            cache: all watched kinds.
            registry: loaded declarations: backends, with the kinds between their children and the pods.
        """
        self._cache = cache
        self._deleted: dict[str, OrderedDict[str, Owner | None]] = {}
        self.kinds: dict[str, list[Resource]] = {}
        for backend in registry.backends:
            if backend.built:
                for resource in (backend.child, *backend.secondary, *backend.pod_owners):
                    known = self.kinds.setdefault(resource.kind, [])
                    if resource not in known:
                        known.append(resource)

    def above(self, entry: CachedObject) -> Iterator[Owner]:
        """The controllers of an object, the nearest first, as far as they are known."""
        owner = entry.controller
        for _ in range(_LONGEST_CHAIN):
            if owner is None:
                return
            yield owner
            held = self._find(entry.namespace, owner)
            if held is not None:
                owner = held.controller
            else:
                owner = self._deleted.get(entry.namespace, _NONE).get(owner.uid)

    def root(self, pod: CachedObject) -> str:
        """The uid of the farthest known controller of a pod, empty without one."""
        uid = ""
        for owner in self.above(pod):
            uid = owner.uid
        return uid

    def belongs(self, pod: CachedObject, uids: Collection[str]) -> bool:
        """Whether one of the objects with these uids controls a pod, directly or not."""
        return any(owner.uid in uids for owner in self.above(pod))

    def on_deleted(self, event: CacheEvent) -> None:
        """Remember what controlled an object that is gone; its pods may still be there."""
        if event.new is not None:
            return
        gone = event.latest
        self._deleted.setdefault(gone.namespace, OrderedDict())[gone.uid] = gone.controller
        if sum(map(len, self._deleted.values())) > _MOST_DELETED:
            most = max(self._deleted, key=lambda namespace: len(self._deleted[namespace]))
            self._deleted[most].popitem(last=False)
            if not self._deleted[most]:
                del self._deleted[most]

    def _find(self, namespace: str, owner: Owner) -> CachedObject | None:
        for resource in self.kinds.get(owner.kind, ()):
            held = self._cache.get(resource, namespace, owner.name)
            if held is not None and held.uid == owner.uid:
                return held
        return None
