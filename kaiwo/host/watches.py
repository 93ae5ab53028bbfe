"""Which kinds a workload controller reads, and whom a change of each concerns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.status import TERMINAL
from kaiwo.api.workload import API_VERSION
from kaiwo.engine.controller import Watch
from kaiwo.engine.entry import Projection
from kaiwo.engine.queue import Key
from kaiwo.engine.resource import (
    CONFIG_MAP,
    JOB,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    PRIORITY_CLASS,
    STORAGE_CLASS,
)
from kaiwo.host import lulls
from kaiwo.host.cluster import NODE_PROJECTION, PRIORITY_CLASS_PROJECTION, STORAGE_CLASS_PROJECTION
from kaiwo.host.kinds import KAIWO_CONFIG, WORKLOADS
from kaiwo.workload import podtruth
from kaiwo.workload.download import state as download
from kaiwo.workload.download.job import downloads
from kaiwo.workload.labels import RUN_ID
from kaiwo.workload.model import Tombstone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kaiwo.api.field import WorkloadKind
    from kaiwo.engine.cache import Cache, Event
    from kaiwo.engine.entry import Entry
    from kaiwo.engine.resource import Resource
    from kaiwo.host.memory import Memories
    from kaiwo.plugin.queues import QueueSystem
    from kaiwo.workload.model import Registry

POD_PROJECTION = Projection(
    keep=(
        ("status",),
        ("spec", "nodeName"),
        ("spec", "schedulerName"),
        ("spec", "schedulingGates"),
        ("spec", "restartPolicy"),
        ("spec", "containers", "*", "name"),
        ("spec", "initContainers", "*", "name"),
        ("spec", "volumes"),
    ),
    labels=(RUN_ID,),
)
"""What deciding code may read of a pod."""


def workload_watches(
    kind: WorkloadKind, registry: Registry, memories: Memories, cache: Cache, namespace: str | None
) -> list[Watch]:
    """The watches of one kind's controller.

    Args:
        kind: the kind.
        registry: loaded declarations: back ends (their children) and the queue system (its reads).
        memories: which workload a uid belongs to, and which ones wait.
        cache: where the owner of a queue system's object is looked up.
        namespace: the only namespace of interest, None for all.
    """
    own = WORKLOADS[kind]
    children = child_kinds(kind, registry)

    def of_itself(event: Event) -> Iterable[Key]:
        return (Key(event.entry.namespace, event.entry.name),)

    def of_child(event: Event) -> Iterable[Key]:
        entry = event.entry
        named = Key(entry.namespace, entry.name)
        owner = _owning_workload(entry, kind)
        if owner is None:
            # Somebody else's object: it matters to a workload that waits for the name.
            return (named,) if named in memories.waiting else ()
        return (owner, named) if named in memories.waiting else (owner,)

    def of_run(event: Event) -> Iterable[Key]:
        uid = event.entry.labels.get(RUN_ID)
        key = memories.key_of(uid) if uid else None
        return (key,) if key is not None else ()

    def of_owner(event: Event) -> Iterable[Key]:
        owner = _owning_workload(event.entry, kind)
        return (owner,) if owner is not None else ()

    beside = companion_kinds(kind, registry)

    def of_companion(event: Event) -> Iterable[Key]:
        return dict.fromkeys((*of_child(event), *of_run(event)))

    watches = [Watch(own, of_itself, namespace=namespace, lull=lulls.of_itself)]
    for child, paths in children.items():
        owned = Projection(owned_fields=tuple(dict.fromkeys(paths)))
        keys = of_companion if child in beside else of_child
        watches.append(Watch(child, keys, owned, namespace=namespace, lull=_lull(child, kind, registry)))
    watches += [
        Watch(companion, of_companion, namespace=namespace, lull=lulls.together)
        for companion in beside
        if companion not in children
    ]
    watches.append(
        Watch(POD, of_run, POD_PROJECTION, namespace=namespace, label_selector=RUN_ID, lull=lulls.of_pod)
    )
    watches.append(Watch(PERSISTENT_VOLUME_CLAIM, of_owner, namespace=namespace, label_selector=RUN_ID))
    watches += [
        Watch(resource, of_owner, namespace=namespace, label_selector=selector)
        for resource, selector in _downloading(registry)
        if resource not in children
    ]
    # Nothing is decided before these are known; changes of theirs wake only what waits.
    watches += [
        Watch(NODE, projection=NODE_PROJECTION),
        Watch(PRIORITY_CLASS, projection=PRIORITY_CLASS_PROJECTION),
        Watch(STORAGE_CLASS, projection=STORAGE_CLASS_PROJECTION),
        Watch(KAIWO_CONFIG),
    ]
    if registry.queue is not None:
        watches += _queue_watches(
            registry.queue, kind, memories, children=children, cache=cache, namespace=namespace
        )
    return watches


def child_kinds(kind: WorkloadKind, registry: Registry) -> dict[Resource, tuple[tuple[str, ...], ...]]:
    """Kinds of the children of one kind's workloads, each with the paths whose owners matter."""
    children: dict[Resource, tuple[tuple[str, ...], ...]] = {}
    for backend in registry.built(kind):
        children[backend.child] = (*children.get(backend.child, ()), *backend.owned_paths)
    return children


def _lull(child: Resource, kind: WorkloadKind, registry: Registry) -> Callable[[Event], float]:
    """How long the look at a change of a child may wait, as far as its back ends tell what is urgent."""
    makers = [backend for backend in registry.built(kind) if backend.child == child]
    if not all(backend.urgent for backend in makers):
        return lulls.together
    urgent = {name for backend in makers for name in backend.urgent}
    if not all(backend.reads for backend in makers):
        return lulls.of_child(urgent, ())
    downloaded = download.READS if child == JOB else ()
    return lulls.of_child(urgent, {*downloaded, *(name for backend in makers for name in backend.reads)})


def _downloading(registry: Registry) -> tuple[tuple[Resource, str | None], ...]:
    """Kinds of what downloads before workloads start, each with the selector; none without a source.

    Jobs are watched without one, because a back end of Jobs watches them so.
    """
    if not any(source.downloader for source in registry.sources):
        return ()
    return ((CONFIG_MAP, RUN_ID), (JOB, None))


def companion_kinds(kind: WorkloadKind, registry: Registry) -> tuple[Resource, ...]:
    """Kinds of what stands beside the children of one kind's workloads."""
    return tuple(
        dict.fromkeys(companion for backend in registry.built(kind) for companion in backend.companions)
    )


def _queue_watches(
    queue: QueueSystem,
    kind: WorkloadKind,
    memories: Memories,
    *,
    children: Iterable[Resource],
    cache: Cache,
    namespace: str | None,
) -> list[Watch]:
    def of_place(event: Event) -> Iterable[Key]:
        """The workload whose child or pod has that place in the queue."""
        entry = event.entry
        for owner in entry.owners:
            if owner.kind == POD.kind:
                pod = cache.get(POD, entry.namespace, owner.name)
                key = memories.key_of(pod.labels.get(RUN_ID, "")) if pod is not None else None
                if key is not None:
                    return (key,)
            for child in children:
                held = cache.get(child, entry.namespace, owner.name)
                if held is not None and held.uid == owner.uid:
                    found = _owning_workload(held, kind)
                    return (found,) if found is not None else ()
        return ()

    def of_queue(event: Event) -> Iterable[Key]:
        """A queue itself concerns all that wait, unless only its status changed."""
        return memories.wake() if _says_more(event) else ()

    return [
        Watch(
            resource,
            of_place if resource in queue.owned else of_queue,
            queue.projections.get(resource, Projection()),
            namespace=namespace if resource.namespaced else None,
            lull=lulls.of_place(queue.urgent) if resource in queue.owned else None,
        )
        for resource in queue.reads
    ]


def _says_more(event: Event) -> bool:
    """Whether more than a status changed; kinds without generations are told by their labels."""
    old, new = event.old, event.new
    if old is None or new is None or old.deleted != new.deleted or old.labels != new.labels:
        return True
    return bool(new.generation) and old.generation != new.generation


def bury(event: Event, kind: WorkloadKind, memories: Memories, cache: Cache) -> None:
    """Remember a child that vanished, for as long as its workload has not ended.

    Whether its deletion was seen decides between making it again and giving the run up as lost. A standby
    process sees it too, so that it knows when it takes over.
    """
    key = _owning_workload(event.entry, kind)
    owner = event.entry.controller
    if event.new is not None or key is None or owner is None or event.entry.name != key.name:
        return  # what is not named like its workload is not its child: a download Job
    if not _goes_on(kind, key, owner.uid, cache):
        return
    seen = event.witnessed or event.entry.deleted is not None
    memories.of(key, owner.uid).lost = Tombstone(event.entry.full(), deletion_seen=seen)


def bury_pod(event: Event, memories: Memories, cache: Cache) -> None:
    """Remember a failed pod of a KaiwoJob that vanished, for as long as the workload has not ended.

    A Job's verdict can come after the pod that explains it is gone, and then says only that it failed.
    """
    uid = event.entry.labels.get(RUN_ID)
    key = memories.key_of(uid) if uid and event.new is None else None
    if key is None or uid is None or downloads(event.entry.labels):
        return
    if not _goes_on("KaiwoJob", key, uid, cache):
        return
    pod = event.entry.full()
    if podtruth.failure([pod]) is not None:
        memories.of(key, uid).mourn(pod)


def _goes_on(kind: WorkloadKind, key: Key, uid: str, cache: Cache) -> bool:
    """Whether the workload with this uid is there and has not ended."""
    workload = cache.get(WORKLOADS[kind], key.namespace, key.name)
    return workload is not None and workload.uid == uid and workload.part("status", "status") not in TERMINAL


def _owning_workload(entry: Entry, kind: WorkloadKind) -> Key | None:
    owner = entry.controller
    if owner is None or owner.kind != kind or owner.api_version != API_VERSION:
        return None
    return Key(entry.namespace, owner.name)
