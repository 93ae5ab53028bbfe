"""Reads what one plan may depend on from the cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from kaiwo.engine.resource import JOB, NAMESPACE, POD
from kaiwo.host.workload.namespace_defaults import NamespaceDefaultsReader
from kaiwo.host.workload.ownership import PodOwners, is_made_by_kaiwo
from kaiwo.plugin.namespace_defaults import NO_DEFAULTS
from kaiwo.plugin.queues import QueueFacts
from kaiwo.workload import plugin_calls
from kaiwo.workload.backend_selection import BACKEND, select_backend
from kaiwo.workload.download.job import downloads
from kaiwo.workload.field_owners import field_owners
from kaiwo.workload.labels import ADOPTED, ADOPTION_MANAGER, OWNERS, RUN_ID
from kaiwo.workload.metadata import is_ours
from kaiwo.workload.model import AUXILIARIES, Facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from pydantic import BaseModel

    from kaiwo.api.workload import Workload
    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.engine.store import Cache
    from kaiwo.host.cluster_facts import ClusterFacts
    from kaiwo.host.ending.beneficiaries import Beneficiaries
    from kaiwo.host.kaiwoconfig import LiveConfig
    from kaiwo.host.monitoring.uses import GpuUses
    from kaiwo.plugin.backends import Backend
    from kaiwo.plugin.queues import QueueSystem
    from kaiwo.workload.backend_selection import BackendChoice
    from kaiwo.workload.download.progress import Progress
    from kaiwo.workload.model import Registry


_REMEMBERED = 1000  # owners of queue objects that were named in a message


class Fingerprint(NamedTuple):
    """The versions of everything that a plan is made from; the same again needs no new plan.

    Attributes:
        workload: resourceVersion of the workload.
        named: by kind those of the objects named like the workload.
        others: those of its pods, volumes and downloads, and of their queue objects.
        progress: what is known of a running download.
        monitoring: changes with what monitoring says.
        defaults: changes with the defaults of the namespace.
        beneficiary: whether the workload that it was preempted for still waits.
    """

    workload: str
    named: Mapping[Resource, str]
    others: tuple[str, ...]
    progress: str
    monitoring: int = 0
    defaults: str = ""
    beneficiary: str | None = None


@dataclass(slots=True)
class Snapshot:
    """One workload and what one reconciliation knows about it.

    Attributes:
        workload: the workload.
        choice: its backend.
        facts: what its plan may depend on; the answers to its own writes are put into them.
    """

    workload: Workload
    choice: BackendChoice
    facts: Facts

    @property
    def has_child(self) -> bool:
        """Whether there is a child, and it is the workload's own."""
        return self.facts.live is not None and is_ours(self.facts.live, self.workload, self.facts.made)

    def put(self, resource: Resource, obj: Object, *, made: bool = False) -> None:
        """Put the answer to a write into the facts.

        Args:
            resource: its kind.
            obj: the object as it is now.
            made: whether the answer shows that Kaiwo made the object; somebody else's may have had the name.
        """
        name, backend = obj["metadata"]["name"], self.choice.backend
        if made:
            self.facts = replace(self.facts, made=self.facts.made | {obj["metadata"].get("uid")})
        if backend is not None and resource == backend.child and name == self.workload.name:
            self.facts = replace(self.facts, live=obj)
        else:
            auxiliaries = {**self.facts.auxiliaries, (resource, name): obj}
            self.facts = replace(self.facts, auxiliaries=auxiliaries)

    def fingerprint(self, before: Fingerprint, version: str) -> Fingerprint:
        """The fingerprint with the versions that the own writes made.

        Args:
            before: taken before this snapshot was read.
            version: resourceVersion of the workload after its status was written.
        """
        backend, live, named = self.choice.backend, self.facts.live, before.named
        if backend is not None and live is not None and backend.child in named:
            named = {**named, backend.child: str(live["metadata"].get("resourceVersion") or "")}
        return before._replace(workload=version, named=named)


class SnapshotReader:
    """Reads snapshots of single workloads from the cache.

    Attributes:
        pod_owners: the controllers between pods and children.
    """

    def __init__(
        self,
        cache: Cache,
        cluster: ClusterFacts,
        config: LiveConfig,
        registry: Registry,
        *,
        served: Callable[[Resource], bool],
        settings_of: Callable[[], Mapping[str, BaseModel]],
        uses: GpuUses | None = None,
        beneficiaries: Beneficiaries | None = None,
    ) -> None:
        """Set up.

        Args:
            cache: all watched kinds; those of defaults for namespaces are watched before.
            cluster: nodes and priority classes.
            config: configuration in force.
            registry: loaded declarations.
            served: whether the cluster serves a kind.
            settings_of: validated settings by name of the plugin.
            uses: what monitoring knows, None where it is off.
            beneficiaries: the workloads that others were requeued for, None where nobody is.
        """
        self._uses = uses
        self._beneficiaries = beneficiaries
        self._cache = cache
        self._cluster = cluster
        self._config = config
        self._registry = registry
        self._served = served
        self._settings_of = settings_of
        self._queue_owners: dict[str, str] = {}
        declared = registry.namespace_defaults
        self._defaults = NamespaceDefaultsReader(cache, declared) if declared else None
        self.pod_owners = PodOwners(cache, registry)

    def fingerprint(
        self, entry: CachedObject, kinds: Iterable[Resource], progress: Progress | None
    ) -> Fingerprint:
        """The fingerprint of a workload.

        Args:
            entry: the workload.
            kinds: kinds of objects named like it: children and secondary resources.
            progress: of its running download.
        """
        found = {kind: self._cache.get(kind, entry.namespace, entry.name) for kind in kinds}
        pods = self._pods(entry)
        owned = [
            other for other in self._owned(entry) if other.name != entry.name or other.resource not in found
        ]
        others = [*pods, *owned, *self._queue_objects((*found.values(), *pods, *owned))]
        versions = [other.resource_version for other in others]
        # A pod counts once all controllers above it are known, without a change of its own.
        versions += [self.pod_owners.root(pod) for pod in pods]
        return Fingerprint(
            entry.resource_version,
            {kind: child.resource_version if child is not None else "" for kind, child in found.items()},
            tuple(sorted(versions)),
            progress.text if progress is not None else "",
            self._uses.revision(entry.uid) if self._uses is not None else 0,
            self._defaults.revision(entry.namespace) if self._defaults is not None else "",
            self._beneficiaries.progress(entry.uid) if self._beneficiaries is not None else None,
        )

    def read(
        self,
        entry: CachedObject,
        workload: Workload,
        now: datetime,
        unreadable: Mapping[Resource, str] = MappingProxyType({}),
        failing: Mapping[Resource, str] = MappingProxyType({}),
    ) -> Snapshot:
        """Select the backend of a workload and read what its plan may depend on.

        Args:
            entry: the workload as it is cached.
            workload: the same, decoded.
            now: the time of this reconciliation, UTC.
            unreadable: the kinds that may not be listed, each with the API server's words.
            failing: the kinds whose list fails, each with why.
        """
        settings = self._settings_of()
        queue = self._registry.queue

        def manages(kind: Resource) -> bool:
            facts = self._queue_facts(workload.namespace, (), (), settings, now)
            return queue is not None and facts is not None and plugin_calls.manages(queue, kind, facts)

        choice = select_backend(workload, self._registry, settings, manages)
        if first := self._unreported_child(workload, choice.backend):
            choice = select_backend(first, self._registry, settings, manages)
        backend = choice.backend
        child = None
        named: list[CachedObject | None] = []
        owners: dict[tuple[str, ...], str] = {}
        if backend is not None:
            child = self._cache.get(backend.child, entry.namespace, entry.name)
            named = [self._cache.get(kind, entry.namespace, entry.name) for kind in backend.secondary]
            if child is not None and backend.owned_paths:
                owners = field_owners(backend.owned_paths, child.managers, child.part)
        auxiliaries = [other for other in self._owned(entry) if other.name != entry.name]
        auxiliaries += [other for other in named if other is not None]
        present = auxiliaries if child is None else [child, *auxiliaries]
        made = frozenset(other.uid for other in present if is_made_by_kaiwo(other))
        if child is not None and entry.labels.get(ADOPTED) == child.uid:
            # An adopted one is the workload's if Kaiwo made the workload its owner.
            made |= {child.uid} if ADOPTION_MANAGER in child.managers(OWNERS) else set()
        pods: list[CachedObject] = []
        download_pods: list[CachedObject] = []
        children = {workload.status.child_uid or "", *(made & {child.uid} if child is not None else ())}
        downloading = [other for other in auxiliaries if other.resource == JOB and other.uid in made]
        jobs = {other.uid for other in downloading}
        for pod in self._pods(entry):
            into, uids = (download_pods, jobs) if downloads(pod.labels) else (pods, children)
            if self.pod_owners.belongs(pod, uids):
                into.append(pod)
        live_pods = tuple(pod.full() for pod in pods)
        facts = Facts(
            now=now,
            config=self._config.current,
            nodes=self._cluster.nodes,
            priority_classes=self._cluster.priority_classes,
            storage_classes=self._cluster.storage_classes,
            served=self._served,
            unreadable=unreadable,
            failing=failing,
            live=child.full() if child is not None else None,
            made=made,
            pods=live_pods,
            download_pods=tuple(pod.full() for pod in download_pods),
            auxiliaries={(other.resource, other.name): other.full() for other in auxiliaries},
            queue_facts=self._queue_facts(workload.namespace, (child, *pods), live_pods, settings, now),
            download_queue_facts=self._queue_facts(workload.namespace, downloading, (), settings, now)
            if downloading and child is None
            else None,
            missing_queue=self._config.missing_queue,
            owners=owners,
            settings=settings,
            monitoring=self._uses.facts(entry.uid) if self._uses is not None else None,
            namespace_defaults=self._defaults.values(entry.namespace) if self._defaults else NO_DEFAULTS,
            beneficiary=self._beneficiaries.progress(entry.uid) if self._beneficiaries is not None else None,
        )
        return Snapshot(workload, choice, facts)

    def facts_for_new(self, namespace: str, now: datetime) -> Facts:
        """What is known about a workload that does not exist yet.

        Args:
            namespace: of the workload.
            now: the time, UTC.
        """
        settings = self._settings_of()
        return Facts(
            now=now,
            config=self._config.current,
            nodes=self._cluster.nodes,
            priority_classes=self._cluster.priority_classes,
            storage_classes=self._cluster.storage_classes,
            served=self._served,
            queue_facts=self._queue_facts(namespace, (), (), settings, now),
            missing_queue=self._config.missing_queue,
            settings=settings,
            namespace_defaults=self._defaults.values(namespace) if self._defaults else NO_DEFAULTS,
        )

    def _unreported_child(self, workload: Workload, backend: Backend | None) -> Workload | None:
        """The workload with the child in its status that another backend made before the status was written.

        The operator may have stopped between the two, and the spec or a setting may select another backend
        since. None when there is no such child.
        """
        if workload.status.child_uid:
            return None
        for other in self._registry.backends:
            if other.kind != workload.kind or not other.built:
                continue
            if backend is not None and other.child == backend.child:
                continue
            child = self._cache.get(other.child, workload.namespace, workload.name)
            if child is None or child.controller is None or child.controller.uid != workload.uid:
                continue
            if is_made_by_kaiwo(child):
                recorded = {"child_uid": child.uid, "allocation": {BACKEND: other.name}}
                return replace(workload, status=workload.status.model_copy(update=recorded))
        return None

    def _pods(self, workload: CachedObject) -> list[CachedObject]:
        """The pods of the workload's namespace that have its label."""
        found = self._cache.labelled(POD, RUN_ID, workload.uid)
        return [pod for pod in found if pod.namespace == workload.namespace]

    def _owned(self, workload: CachedObject) -> list[CachedObject]:
        """The objects of the workload's namespace whose owner references name it."""
        return [
            entry
            for kind in AUXILIARIES
            for entry in self._cache.owned_by(workload.uid, kind)
            if entry.namespace == workload.namespace
        ]

    def _queue_facts(
        self,
        namespace: str,
        owners: Iterable[CachedObject | None],
        pods: tuple[Object, ...],
        settings: Mapping[str, BaseModel],
        now: datetime,
    ) -> QueueFacts | None:
        queue = self._registry.queue
        if queue is None:
            return None
        return QueueFacts(
            objects=QueueObjects(self._cache, queue, namespace, self._queue_objects(owners)),
            default_queue=self._config.current.default_cluster_queue_name,
            settings=settings.get(queue.plugin),
            missing=frozenset(resource for resource in queue.reads if not self._served(resource)),
            pods=pods,
            now=now,
            owner_of=self._owner_of_queue_object,
        )

    def _owner_of_queue_object(self, uid: str) -> str:
        """Kind, namespace and name of what a queue object belongs to; remembered when both are gone."""
        queue = self._registry.queue
        if uid not in self._queue_owners and queue is not None:
            found = next(
                (e for kind in queue.owned for e in self._cache.list(kind) if e.uid == uid and e.owners), None
            )
            if found is None:
                return ""
            owner = found.controller or found.owners[0]
            if len(self._queue_owners) >= _REMEMBERED:
                self._queue_owners.pop(next(iter(self._queue_owners)))
            self._queue_owners[uid] = f"{owner.kind} {found.namespace}/{owner.name}"
        return self._queue_owners.get(uid, "")

    def _queue_objects(self, owners: Iterable[CachedObject | None]) -> list[CachedObject]:
        """The queue system's objects that belong to a child or its pods."""
        queue = self._registry.queue
        if queue is None or not queue.owned:
            return []
        return [
            entry
            for resource in queue.owned
            for owner in owners
            if owner is not None
            for entry in self._cache.owned_by(owner.uid, resource)
            if entry.namespace == owner.namespace
        ]


class QueueObjects(Mapping["Resource", tuple["Object", ...]]):
    """What a queue system reads, decoded on access: most reconciliations need little of it."""

    def __init__(
        self, cache: Cache, queue: QueueSystem, namespace: str, owned: Sequence[CachedObject]
    ) -> None:
        """Set up.

        Args:
            cache: all watched kinds.
            queue: whose reads they are.
            namespace: of the workload.
            owned: objects of the kinds in ``owned``.
        """
        self._cache = cache
        self._queue = queue
        self._namespace = namespace
        self._owned = owned
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
            return [entry for entry in self._owned if entry.resource == resource]
        if resource == NAMESPACE:
            own = self._cache.get(NAMESPACE, None, self._namespace)
            return [own] if own is not None else []
        return self._cache.list(resource, self._namespace if resource.namespaced else None)
