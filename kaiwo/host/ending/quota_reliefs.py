"""What the queue system says of workloads that wait for quota, for every rule that ends others for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kaiwo.engine.errors import NotFound
from kaiwo.plugin.queue_relief import ReliefFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.manager import Manager
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.engine.store import Cache
    from kaiwo.plugin.queue_relief import QueueRelief, QuotaWait, ReliefRequest
    from kaiwo.plugin.queues import QueueSystem


def all_known(manager: Manager, kinds: Collection[Resource]) -> bool:
    """Whether all objects of some kinds are in the cache: nobody is ended on half of the facts."""
    hidden = {kind for unreadable in manager.unreadable.values() for kind in unreadable}
    return hidden.isdisjoint(kinds) and all(manager.cache.synced(kind) for kind in kinds)


class QuotaReliefs:
    """Asks the queue system in force, with the objects of the cache.

    Attributes:
        kinds: kinds of the objects that wait for quota or hold it; none where the queue system cannot tell.
    """

    def __init__(
        self, manager: Manager, queue: QueueSystem | None, served: Callable[[Resource], bool]
    ) -> None:
        """Set up; what the queue system reads must be watched already.

        Args:
            manager: its cache and its client are read.
            queue: the queue system in force.
            served: whether the cluster serves a kind.
        """
        self._manager = manager
        self._queue = queue
        self._served = served
        self.kinds: tuple[Resource, ...] = queue.owned if queue is not None else ()

    @property
    def synced(self) -> bool:
        """Whether all that the queue system reads is in the cache."""
        reads = self._queue.reads if self._queue is not None else ()
        return all_known(self._manager, [kind for kind in reads if self._served(kind)])

    def waiting(self, entry: CachedObject) -> QuotaWait | None:
        """What an object of `kinds` waits for; None for one that has its quota, or where nobody can tell."""
        if self._queue is None or self._queue.waiting is None or entry.undecodable:
            return None
        return self._queue.waiting(entry.full())

    def objects(self, namespace: str, owners: Iterable[str]) -> list[CachedObject]:
        """The objects of `kinds` in a namespace that belong to owners with these uids."""
        found = {
            entry.uid: entry
            for kind in self.kinds
            for uid in owners
            for entry in self._manager.cache.owned_by(uid, kind)
            if entry.namespace == namespace
        }
        return list(found.values())

    def reliefs(
        self, waiting: Mapping[str, ReliefRequest], held: Mapping[str, Iterable[CachedObject]]
    ) -> Mapping[str, QueueRelief]:
        """What ending others gives to those that wait, by uid; nothing where the queue system cannot tell.

        Args:
            waiting: those that wait, by uid.
            held: the objects of those that may be ended, by uid.
        """
        queue = self._queue
        if queue is None or queue.relief is None:
            return {}
        others = [kind for kind in (*queue.reads, *queue.flavor_reads) if kind not in queue.owned]
        objects = {uid: tuple(entry.full() for entry in entries) for uid, entries in held.items()}
        return queue.relief(ReliefFacts(waiting, objects, _Decoded(self._manager.cache, others)))

    async def unchanged(self, entries: Iterable[CachedObject]) -> bool:
        """Whether the API server has no newer state of any of these objects.

        Raises:
            EngineError: that cannot be known now.
        """
        for entry in entries:
            try:
                live = await self._manager.client.get(entry.resource, entry.namespace, entry.name)
            except NotFound:
                return False
            metadata: Mapping[str, str] = live["metadata"]
            if (metadata["uid"], metadata["resourceVersion"]) != (entry.uid, entry.resource_version):
                return False
        return True


class _Decoded(Mapping["Resource", "tuple[Object, ...]"]):
    """Objects of kinds, decoded when they are read."""

    def __init__(self, cache: Cache, kinds: Iterable[Resource]) -> None:
        self._cache = cache
        self._kinds = tuple(dict.fromkeys(kind for kind in kinds if cache.store(kind) is not None))
        self._read: dict[Resource, tuple[Object, ...]] = {}

    def __getitem__(self, kind: Resource) -> tuple[Object, ...]:
        """The objects of a kind."""
        if kind not in self._kinds:
            raise KeyError(kind)
        if kind not in self._read:
            self._read[kind] = tuple(entry.full() for entry in self._cache.list(kind))
        return self._read[kind]

    def __iter__(self) -> Iterator[Resource]:
        """The kinds."""
        return iter(self._kinds)

    def __len__(self) -> int:
        """The number of kinds."""
        return len(self._kinds)
