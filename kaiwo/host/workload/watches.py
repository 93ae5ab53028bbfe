"""Which kinds a workload controller reads, and whom a change of each concerns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kaiwo.api.crds import KAIWO_CONFIG, WORKLOADS
from kaiwo.api.kaiwoconfig import GROUP as CONFIG_GROUP
from kaiwo.api.status_words import TERMINAL
from kaiwo.api.workload import API_VERSION, GROUP
from kaiwo.engine.cached_object import Projection
from kaiwo.engine.controller import Watch
from kaiwo.engine.resource import (
    CONFIG_MAP,
    JOB,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    PRIORITY_CLASS,
    STORAGE_CLASS,
)
from kaiwo.engine.workqueue import Key
from kaiwo.host.cluster_facts import NODE_PROJECTION, PRIORITY_CLASS_PROJECTION, STORAGE_CLASS_PROJECTION
from kaiwo.host.workload import event_delays
from kaiwo.host.workload.namespace_defaults import changes_defaults
from kaiwo.host.workload.ownership import is_made_by_kaiwo
from kaiwo.workload.download import state as download
from kaiwo.workload.download.job import downloads
from kaiwo.workload.json_access import lenient_map, lenient_maps
from kaiwo.workload.labels import RECORD, RUN_ID
from kaiwo.workload.model import DeletedChild
from kaiwo.workload.observe.pod_failure import failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kaiwo.api.plugin_fields import WorkloadKind
    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.resource import Resource
    from kaiwo.engine.store import Cache, CacheEvent
    from kaiwo.host.workload.ownership import PodOwners
    from kaiwo.host.workload.state import ReconcileStates
    from kaiwo.plugin.backends import Backend
    from kaiwo.plugin.queues import QueueSystem
    from kaiwo.workload.model import Registry

POD_PROJECTION = Projection(
    keep=(
        ("status",),
        ("spec", "nodeName"),
        ("spec", "schedulerName"),
        ("spec", "schedulingGates"),
        ("spec", "restartPolicy"),
        ("spec", "readinessGates"),
        ("spec", "tolerations"),
        ("spec", "containers", "*", "name"),
        ("spec", "containers", "*", "resources", "requests"),
        ("spec", "containers", "*", "resources", "limits", "memory"),
        ("spec", "initContainers", "*", "name"),
        ("spec", "initContainers", "*", "restartPolicy"),
        ("spec", "initContainers", "*", "resources", "requests"),
        ("spec", "initContainers", "*", "resources", "limits", "memory"),
        ("spec", "volumes"),
    ),
    labels=(RUN_ID,),
)
"""What deciding code may read of a pod."""


_OWNER_PROJECTION = Projection(keep=(("metadata",),))
"""What may be read of a controller between a child and its pods."""

_MADE = Projection(owned_fields=(RECORD,))
"""What must be kept of an object to tell whether Kaiwo made it."""


_KUBERNETES = ".k8s.io"
"""How API groups of Kubernetes end; those of its subprojects end with ``.x-k8s.io``."""

_OWN = (GROUP, CONFIG_GROUP)


def workload_watches(
    kind: WorkloadKind,
    registry: Registry,
    states: ReconcileStates,
    cache: Cache,
    *,
    pod_owners: PodOwners,
    namespaces: tuple[str, ...],
) -> list[Watch]:
    """The watches of one kind's controller.

    Args:
        kind: the kind.
        registry: loaded declarations: backends (their children) and the queue system (its reads).
        states: which workload a uid belongs to, and which ones wait.
        cache: has the owners of the queue system's objects.
        pod_owners: the controllers between pods and children.
        namespaces: the only namespaces of interest, empty for all.
    """
    own = WORKLOADS[kind]
    children = child_kinds(kind, registry)

    def of_itself(event: CacheEvent) -> Iterable[Key]:
        return (Key(event.latest.namespace, event.latest.name),)

    def of_child(event: CacheEvent) -> Iterable[Key]:
        entry = event.latest
        named = Key(entry.namespace, entry.name)
        owner = _owning_workload(entry, kind)
        if owner is None:
            # Somebody else's object: it matters to a workload that waits for the name.
            return (named,) if named in states.waiting else ()
        return (owner, named) if named in states.waiting else (owner,)

    def of_run(event: CacheEvent) -> Iterable[Key]:
        key = _labelled(event.latest, states)
        return (key,) if key is not None else ()

    def of_owner(event: CacheEvent) -> Iterable[Key]:
        owner = _owning_workload(event.latest, kind)
        return (owner,) if owner is not None else ()

    def of_child_or_pod_owner(event: CacheEvent) -> Iterable[Key]:
        return dict.fromkeys((*of_child(event), *_above(event, kind, pod_owners)))

    secondary = secondary_kinds(kind, registry)

    def of_secondary(event: CacheEvent) -> Iterable[Key]:
        return dict.fromkeys((*of_child(event), *of_run(event)))

    # A reconciliation plans again from the answers to its own writes, until nothing is left to write.
    watches = [Watch(own, of_itself, namespaces=namespaces, delay=event_delays.of_workload, own_writes=False)]
    for child, paths in children.items():
        owned = Projection(owned_fields=tuple(dict.fromkeys((RECORD, *paths))))
        keys = of_secondary if child in secondary else of_child_or_pod_owner
        delay = _event_delay(child, kind, registry, cache)
        watches.append(Watch(child, keys, owned, namespaces=namespaces, delay=delay, own_writes=False))
    watches += [
        Watch(resource, of_secondary, _MADE, namespaces=namespaces, delay=event_delays.of_any)
        for resource in secondary
        if resource not in children
    ]
    watches += _pod_owner_watches(kind, registry, pod_owners, namespaces)
    watches.append(
        Watch(
            POD,
            of_run,
            POD_PROJECTION,
            namespaces=namespaces,
            label_selector=RUN_ID,
            delay=event_delays.of_pod,
        )
    )
    watches.append(
        Watch(PERSISTENT_VOLUME_CLAIM, of_owner, _MADE, namespaces=namespaces, label_selector=RUN_ID)
    )
    watches += [
        Watch(resource, of_owner, _MADE, namespaces=namespaces, label_selector=selector)
        for resource, selector in _downloading(registry)
        if resource not in children
    ]
    # Nothing is decided before these are known; their changes requeue only what waits.
    watches += [
        *([Watch(NODE, projection=NODE_PROJECTION)] if registry.vendors else []),
        Watch(PRIORITY_CLASS, projection=PRIORITY_CLASS_PROJECTION),
        Watch(STORAGE_CLASS, projection=STORAGE_CLASS_PROJECTION),
        Watch(KAIWO_CONFIG),
    ]
    watches += [
        Watch(
            kind,
            lambda event: states.active_in(event.latest.namespace) if changes_defaults(event) else (),
            namespaces=namespaces,
        )
        for kind in dict.fromkeys(declared.kind for declared in registry.namespace_defaults)
    ]
    if registry.queue is not None:
        watches += _queue_watches(
            registry.queue,
            kind,
            states,
            children=dict.fromkeys((*children, *(resource for resource, _ in _downloading(registry)))),
            cache=cache,
            namespaces=namespaces,
        )
    # A kind that cannot be listed stops the workloads that need it, and their status says so.
    return [
        replace(
            watch,
            required=watch.resource == own,
            optional=is_of_another_controller(watch.resource),
            keys=_unless_ended(watch, own, states),
        )
        for watch in watches
    ]


def is_of_another_controller(kind: Resource) -> bool:
    """Whether a kind is neither Kubernetes' own nor Kaiwo's: what converts its objects may fail."""
    return "." in kind.group and not kind.group.endswith(_KUBERNETES) and kind.group not in _OWN


def _unless_ended(
    watch: Watch, own: Resource, states: ReconcileStates
) -> Callable[[CacheEvent], Iterable[Key]] | None:
    """The keys of a watch without workloads that have ended, which only a change of their own concerns."""
    keys = watch.keys
    if keys is None or watch.resource == own:
        return keys
    return lambda event: [key for key in keys(event) if not states.has_ended(key)]


def child_kinds(kind: WorkloadKind, registry: Registry) -> dict[Resource, tuple[tuple[str, ...], ...]]:
    """Kinds of the children of one kind's workloads, each with the paths whose owners matter."""
    children: dict[Resource, tuple[tuple[str, ...], ...]] = {}
    for backend in registry.built(kind):
        children[backend.child] = (*children.get(backend.child, ()), *backend.owned_paths)
    return children


def _event_delay(
    child: Resource, kind: WorkloadKind, registry: Registry, cache: Cache
) -> Callable[[CacheEvent], float]:
    """The event delay of a kind of children, from what its backends declare as urgent."""
    backends = [backend for backend in registry.built(kind) if backend.child == child]
    if not all(backend.urgent for backend in backends):
        return event_delays.of_any
    urgent = {name for backend in backends for name in backend.urgent}

    def has_pods(entry: CachedObject) -> bool:
        return entry.controller is not None and bool(cache.labelled(POD, RUN_ID, entry.controller.uid))

    return event_delays.of_child(urgent, _status_reads(child, backends), has_pods)


def _status_reads(child: Resource, backends: Sequence[Backend]) -> event_delays.StatusReads:
    """What the backends of a kind of children, and downloads, read of its status."""
    if not all(backend.reads for backend in backends):
        return event_delays.StatusReads()
    fields = {name for backend in backends for name in backend.reads}
    conditions = {name for backend in backends for name in backend.reads_conditions}
    if not all(backend.reads_conditions for backend in backends):
        conditions = set()
    elif child == JOB:
        conditions |= set(download.READS_CONDITIONS)
    return event_delays.StatusReads(
        frozenset(fields | set(download.READS) if child == JOB else fields),
        frozenset(conditions),
        frozenset(name for backend in backends for name in backend.reads_without_pods),
    )


def _downloading(registry: Registry) -> tuple[tuple[Resource, str | None], ...]:
    """Kinds of what downloads before workloads start, each with the selector; none without a source.

    Jobs are watched without one, because a backend of Jobs watches them so.
    """
    if not any(source.downloader for source in registry.sources):
        return ()
    return ((CONFIG_MAP, RUN_ID), (JOB, None))


def secondary_kinds(kind: WorkloadKind, registry: Registry) -> tuple[Resource, ...]:
    """Kinds of the secondary resources of one kind's workloads."""
    return tuple(
        dict.fromkeys(resource for backend in registry.built(kind) for resource in backend.secondary)
    )


def _above(event: CacheEvent, kind: WorkloadKind, pod_owners: PodOwners) -> list[Key]:
    """The workload above an object, as far as what controls it is known."""
    return [
        Key(event.latest.namespace, owner.name)
        for owner in pod_owners.above(event.latest)
        if (owner.kind, owner.api_version) == (kind, API_VERSION)
    ]


def _pod_owner_watches(
    kind: WorkloadKind, registry: Registry, pod_owners: PodOwners, namespaces: tuple[str, ...]
) -> list[Watch]:
    """The watches of controllers between children and pods, but for kinds that are watched as a whole."""
    known = {*child_kinds(kind, registry), *secondary_kinds(kind, registry)}
    return [
        Watch(
            resource,
            lambda event: _above(event, kind, pod_owners),
            _OWNER_PROJECTION,
            namespaces=namespaces,
            label_selector=None if resource == JOB else RUN_ID,
            delay=event_delays.of_new,
        )
        for resource in pod_owner_kinds(kind, registry)
        if resource not in known
    ]


def pod_owner_kinds(kind: WorkloadKind, registry: Registry) -> tuple[Resource, ...]:
    """Kinds of the controllers between the children of one kind's workloads and their pods."""
    return tuple(
        dict.fromkeys(resource for backend in registry.built(kind) for resource in backend.pod_owners)
    )


def _queue_watches(
    queue: QueueSystem,
    kind: WorkloadKind,
    states: ReconcileStates,
    *,
    children: Iterable[Resource],
    cache: Cache,
    namespaces: tuple[str, ...],
) -> list[Watch]:
    def of_queue_object(event: CacheEvent) -> Iterable[Key]:
        """The workload whose child, download Job or pod the queue object belongs to."""
        entry = event.latest
        for owner in entry.owners:
            if owner.kind == POD.kind:
                pod = cache.get(POD, entry.namespace, owner.name)
                key = _labelled(pod, states) if pod is not None else None
                if key is not None:
                    return (key,)
            for child in children:
                held = cache.get(child, entry.namespace, owner.name)
                if held is not None and held.uid == owner.uid:
                    found = _owning_workload(held, kind)
                    return (found,) if found is not None else ()
        return ()

    def of_queue(event: CacheEvent) -> Iterable[Key]:
        """All workloads that wait, unless no more than counts in the status of the queue changed."""
        changed = _is_more_than_status(event) or _conditions(event.old) != _conditions(event.new)
        return states.requeue_waiting() if changed else ()

    return [
        Watch(
            resource,
            of_queue_object if resource in queue.owned else of_queue,
            queue.projections.get(resource, Projection()),
            namespaces=namespaces if resource.namespaced else (),
            delay=event_delays.of_queue_object(queue.urgent) if resource in queue.owned else None,
        )
        for resource in queue.reads
    ]


def _is_more_than_status(event: CacheEvent) -> bool:
    """Whether more than a status changed; of kinds without generations the labels count."""
    old, new = event.old, event.new
    if old is None or new is None or old.deleted != new.deleted or old.labels != new.labels:
        return True
    return bool(new.generation) and old.generation != new.generation


def _conditions(entry: CachedObject | None) -> list[tuple[object, ...]]:
    """Type, status and reason of the conditions of an object; their messages may have counts."""
    status = lenient_map(entry.part("status")) if entry is not None else {}
    return [
        tuple(item.get(name) for name in ("type", "status", "reason"))
        for item in lenient_maps(status.get("conditions"))
    ]


def on_child_deleted(event: CacheEvent, kind: WorkloadKind, states: ReconcileStates, cache: Cache) -> None:
    """Record a child that is gone, until its workload has ended.

    Whether its deletion was seen decides between creating it again and the end of the run. A standby process
    records it as well, for the moment when it takes over.
    """
    key = _owning_workload(event.latest, kind)
    owner = event.latest.controller
    if event.new is not None or key is None or owner is None or event.latest.name != key.name:
        return  # what is not named like its workload is not its child: a download Job
    workload = _active(kind, key, owner.uid, cache)
    if workload is None or not (
        _recorded_child(workload) == event.latest.uid or is_made_by_kaiwo(event.latest)
    ):
        return
    seen = event.witnessed or event.latest.deleted is not None
    states.of(key, owner.uid).missing_child = DeletedChild(event.latest.full(), deletion_seen=seen)


def on_pod_deleted(event: CacheEvent, states: ReconcileStates, cache: Cache, pod_owners: PodOwners) -> None:
    """Record a failed pod of a KaiwoJob that is gone, until the workload has ended.

    A Job may get its condition after the pod with the cause is gone; the condition itself has no cause.
    """
    key = _labelled(event.latest, states) if event.new is None else None
    if key is None or downloads(event.latest.labels):
        return
    uid = event.latest.labels[RUN_ID]
    workload = _active("KaiwoJob", key, uid, cache)
    if workload is None or not pod_owners.belongs(event.latest, {_recorded_child(workload)}):
        return
    pod = event.latest.full()
    if failure([pod]) is not None:
        states.of(key, uid).record_failed_pod(pod)


def _active(kind: WorkloadKind, key: Key, uid: str, cache: Cache) -> CachedObject | None:
    """The workload with this uid, None when it is gone or has ended."""
    workload = cache.get(WORKLOADS[kind], key.namespace, key.name)
    if workload is None or workload.uid != uid or workload.part("status", "status") in TERMINAL:
        return None
    return workload


def _recorded_child(workload: CachedObject) -> str:
    """The uid of the child by the status of a workload, empty without one."""
    return workload.part("status", "childUID") or ""


def _labelled(entry: CachedObject, states: ReconcileStates) -> Key | None:
    """The workload of the same namespace that the label of an object names."""
    uid = entry.labels.get(RUN_ID)
    key = states.key_of(uid) if uid else None
    return key if key is not None and key.namespace == entry.namespace else None


def _owning_workload(entry: CachedObject, kind: WorkloadKind) -> Key | None:
    owner = entry.controller
    if owner is None or owner.kind != kind or owner.api_version != API_VERSION:
        return None
    return Key(entry.namespace, owner.name)
