"""From the cache to the facts that one plan may depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kaiwo.engine.resource import NAMESPACE, POD
from kaiwo.plugin.queues import QueueFacts
from kaiwo.workload import plugin_calls
from kaiwo.workload.backend_selection import select_backend
from kaiwo.workload.download.job import downloads
from kaiwo.workload.metadata import RUN_ID
from kaiwo.workload.model import AUXILIARIES, Facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pydantic import BaseModel

    from kaiwo.api.workload import Workload
    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.engine.store import Cache
    from kaiwo.host.cluster_facts import ClusterFacts
    from kaiwo.host.kaiwoconfig import LiveConfig
    from kaiwo.plugin.backends import Backend
    from kaiwo.plugin.queues import QueueSystem
    from kaiwo.workload.model import Registry


@dataclass(slots=True)
class Snapshot:
    """What one reconciliation works with; the answers to its own writes are put into it.

    Attributes:
        child: entry under the child's name, None when there is none.
        live: the same as an object, as answered last.
        auxiliaries: other live objects under wanted names.
        pods: entries of the run's pods.
        download_pods: entries of the pods of its download Job.
    """

    child: CachedObject | None
    live: Object | None
    auxiliaries: dict[tuple[Resource, str], Object]
    pods: list[CachedObject]
    download_pods: list[CachedObject] = field(default_factory=list)

    def put(self, resource: Resource, obj: Object, child: Resource | None, name: str) -> None:
        """Take in a live object that a write answered with."""
        written = obj["metadata"]["name"]
        if resource == child and written == name:
            self.live = obj
        else:
            self.auxiliaries[resource, written] = obj


class SnapshotReader:
    """Reads the facts of one workload from the cache; whatever is common to all is worked out elsewhere."""

    def __init__(
        self,
        cache: Cache,
        cluster: ClusterFacts,
        config: LiveConfig,
        registry: Registry,
        *,
        served: Callable[[Resource], bool],
        settings_of: Callable[[], Mapping[str, BaseModel]],
    ) -> None:
        """Put together.

        Args:
            cache: all watched kinds.
            cluster: nodes and priority classes.
            config: configuration in force.
            registry: loaded declarations.
            served: whether the cluster serves a kind.
            settings_of: plugin settings by name of backend or queue system.
        """
        self._cache = cache
        self._cluster = cluster
        self._config = config
        self._registry = registry
        self._served = served
        self._settings_of = settings_of

    def around(self, uid: str) -> list[CachedObject]:
        """Pods and volumes of one workload, and what downloads for it."""
        return [*self._cache.labelled(POD, RUN_ID, uid), *self._beside(uid)]

    def _beside(self, uid: str) -> list[CachedObject]:
        return [entry for kind in AUXILIARIES for entry in self._cache.owned_by(uid, kind)]

    def look(self, workload: CachedObject, backend: Backend | None) -> Snapshot:
        """The cluster around one workload."""
        namespace, name = workload.namespace, workload.name
        child = self._cache.get(backend.child, namespace, name) if backend is not None else None
        beside = [entry for entry in self._beside(workload.uid) if entry.name != name]
        for kind in backend.secondary if backend is not None else ():
            companion = self._cache.get(kind, namespace, name)
            if companion is not None:
                beside.append(companion)
        pods = self._cache.labelled(POD, RUN_ID, workload.uid)
        return Snapshot(
            child=child,
            live=child.full() if child is not None else None,
            auxiliaries={(entry.resource, entry.name): entry.full() for entry in beside},
            pods=[pod for pod in pods if not downloads(pod.labels)],
            download_pods=[pod for pod in pods if downloads(pod.labels)],
        )

    def facts(
        self,
        view: Snapshot,
        namespace: str,
        backend: Backend | None,
        *,
        now: datetime,
    ) -> Facts:
        """What the plan is given of the cluster and the configuration."""
        owners: dict[tuple[str, ...], str] = {}
        if view.child is not None and backend is not None:
            for path in backend.owned_paths:
                managers = view.child.managers(path)
                if managers:
                    owners[path] = managers[0]
        return Facts(
            now=now,
            config=self._config.current,
            nodes=self._cluster.nodes,
            priority_classes=self._cluster.priority_classes,
            storage_classes=self._cluster.storage_classes,
            served=self._served,
            live=view.live,
            pods=tuple(entry.full() for entry in view.pods),
            download_pods=tuple(entry.full() for entry in view.download_pods),
            auxiliaries=view.auxiliaries,
            queue_facts=self._queue_facts(namespace, view, now),
            owners=owners,
            settings=self._settings_of(),
        )

    def backend(self, workload: Workload) -> Backend | None:
        """The backend in charge of a workload, chosen from what its plan will be given.

        Raises:
            PluginFailure: a backend failed to say whether it serves the workload.
        """

        def manages(kind: Resource) -> bool:
            nothing = Snapshot(child=None, live=None, auxiliaries={}, pods=[])
            facts = self._queue_facts(workload.namespace, nothing, datetime.now(UTC))
            queue = self._registry.queue
            return queue is not None and facts is not None and plugin_calls.manages(queue, kind, facts)

        return select_backend(workload, self._registry, self._settings_of(), manages).backend

    def _queue_facts(self, namespace: str, view: Snapshot, now: datetime) -> QueueFacts | None:
        queue = self._registry.queue
        if queue is None:
            return None
        return QueueFacts(
            objects=QueueObjects(self._cache, queue, namespace, self.places((view.child, *view.pods))),
            default_queue=self._config.current.default_cluster_queue_name,
            settings=self._settings_of().get(queue.name),
            missing=frozenset(resource for resource in queue.reads if not self._served(resource)),
            pods=tuple(entry.full() for entry in view.pods),
            now=now,
        )

    def places(self, owners: Iterable[CachedObject | None]) -> list[CachedObject]:
        """The queue system's objects that belong to a child or its pods."""
        queue = self._registry.queue
        if queue is None or not queue.owned:
            return []
        uids = [entry.uid for entry in owners if entry is not None]
        return [
            entry for resource in queue.owned for uid in uids for entry in self._cache.owned_by(uid, resource)
        ]


class QueueObjects(Mapping["Resource", tuple["Object", ...]]):
    """What a queue system reads, decoded when it is asked for: most looks at a workload ask for little."""

    def __init__(
        self, cache: Cache, queue: QueueSystem, namespace: str, places: Sequence[CachedObject]
    ) -> None:
        """Prepare.

        Args:
            cache: all watched kinds.
            queue: whose reads they are.
            namespace: of the workload.
            places: objects of the kinds in ``owned``.
        """
        self._cache = cache
        self._queue = queue
        self._namespace = namespace
        self._places = places
        self._read: dict[Resource, tuple[Object, ...]] = {}

    def __getitem__(self, resource: Resource) -> tuple[Object, ...]:
        """The objects of a kind."""
        if resource not in self._queue.reads:
            raise KeyError(resource)
        if resource not in self._read:
            self._read[resource] = tuple(entry.full() for entry in self._entries(resource))
        return self._read[resource]

    def __iter__(self) -> Iterator[Resource]:
        """The kinds."""
        return iter(self._queue.reads)

    def __len__(self) -> int:
        """The number of kinds."""
        return len(self._queue.reads)

    def _entries(self, resource: Resource) -> Iterable[CachedObject]:
        if resource in self._queue.owned:
            return [entry for entry in self._places if entry.resource == resource]
        if resource == NAMESPACE:
            own = self._cache.get(NAMESPACE, None, self._namespace)
            return [own] if own is not None else []
        return self._cache.list(resource, self._namespace if resource.namespaced else None)
