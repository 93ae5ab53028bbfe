"""The adoption controllers: labelled objects of users get a workload, and a workload ends with its object.

Level-triggered, from the cache: what happened while no operator ran is caught up with at the start. A cache
may be behind, so nothing is deleted or owned before the API server was asked once more.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kaiwo.api.crds import WORKLOADS
from kaiwo.engine.cached_object import Projection
from kaiwo.engine.controller import Controller, Watch
from kaiwo.engine.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound, UndecodableObject
from kaiwo.engine.workqueue import Key
from kaiwo.workload.adoption import (
    Adopter,
    AdoptionCandidate,
    NotAdopted,
    decide,
    is_managed,
    is_proven,
    owner_patch,
    workloads_for,
)
from kaiwo.workload.labels import ADOPTED, ADOPTION_MANAGER, OWNERS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.errors import ApiError
    from kaiwo.engine.manager import Manager
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.engine.store import CacheEvent
    from kaiwo.plugin.backends import Backend
    from kaiwo.workload.model import Registry

_log = logging.getLogger(__name__)

WORKERS = 4
"""Names of one namespace that are looked after at once; each takes two or three requests, once."""

STALE_RETRY = 2.0
"""Seconds, should the event that ends a staleness never come."""

CONFLICT_RETRY = 0.5
"""Seconds until a new version of an object has come that changed while it was adopted."""

REFUSED_RETRY = 300.0
"""Seconds until a refused workload is sent again: a policy may change without an event."""


def adoption_controllers(
    manager: Manager, registry: Registry, *, namespaces: tuple[str, ...], excluded: Collection[str]
) -> list[Controller]:
    """The controllers of all backends that adopt objects; none without one, and so no watch.

    Args:
        manager: reads and writes.
        registry: loaded declarations.
        namespaces: the only namespaces to watch, empty for all.
        excluded: namespaces in which nothing is adopted.
    """
    return [
        AdoptionController(manager, backend, registry, namespaces=namespaces, excluded=excluded).controller
        for backend in registry.backends
        if backend.built and backend.adoption is not None
    ]


class AdoptionController:
    """Adopts the objects of one backend's child kind.

    Attributes:
        controller: what the manager runs.
    """

    def __init__(
        self,
        manager: Manager,
        backend: Backend,
        registry: Registry,
        *,
        namespaces: tuple[str, ...],
        excluded: Collection[str],
    ) -> None:
        """Set up; see :func:`adoption_controllers`."""
        self._manager = manager
        self._backend = backend
        self._workloads = WORKLOADS[backend.kind]
        self._queue_label = registry.queue.queue_label if registry.queue is not None else ""
        self._excluded = frozenset(excluded)
        self._reported: dict[Key, tuple[str, NotAdopted]] = {}
        watches = [
            # The backend watches all objects of the kind anyway; one without the label costs a lookup.
            Watch(backend.child, self._of_object, Projection(owned_fields=(OWNERS,)), namespaces=namespaces),
            Watch(self._workloads, self._of_workload, namespaces=namespaces),
        ]
        self.controller = Controller(
            f"adoption of {backend.name}", watches, self.reconcile, workers=WORKERS, kind=backend.child.kind
        )

    def _of_object(self, event: CacheEvent) -> Iterable[Key]:
        old, new, entry = event.old, event.new, event.latest
        if entry.namespace in self._excluded:
            return ()
        if old is not None and new is not None and old.uid == new.uid:
            if (old.labels, old.owners, old.deleted) == (new.labels, new.owners, new.deleted):
                return ()
            asks = is_managed(old.labels) or is_managed(new.labels)
        else:
            asks = is_managed(entry.labels)
        if asks or self._is_adopted(entry):
            return (Key(entry.namespace, entry.name),)
        return ()

    def _is_adopted(self, entry: CachedObject) -> bool:
        """Whether a workload was made for an object, also where the object has lost its label."""
        owner = entry.controller
        if owner is None or owner.kind != self._workloads.kind:
            return False
        workload = self._manager.cache.get(self._workloads, entry.namespace, owner.name)
        return workload is not None and workload.labels.get(ADOPTED) == entry.uid

    def _of_workload(self, event: CacheEvent) -> Iterable[Key]:
        entry = event.latest
        if entry.namespace in self._excluded:
            return ()
        if ADOPTED not in entry.labels:
            if event.new is not None:
                return ()
            # The name is free now for an object that waits for it.
            waiting = self._manager.cache.get(self._backend.child, entry.namespace, entry.name)
            return (Key(entry.namespace, entry.name),) if waiting and is_managed(waiting.labels) else ()
        old, new = event.old, event.new
        if old is not None and new is not None and (old.labels, old.deleted) == (new.labels, new.deleted):
            return ()
        return (Key(entry.namespace, entry.name),)

    async def reconcile(self, key: Key) -> float | None:
        """Look after one name.

        Returns:
            Seconds after which to do it again without an event, None for never.
        """
        for denied in (self._manager.unreadable.get(where, {}) for where in ("", key.namespace)):
            if self._backend.child in denied or self._workloads in denied:
                return STALE_RETRY  # nothing is known of what cannot be listed
        entry = self._manager.cache.get(self._backend.child, key.namespace, key.name)
        found = self._manager.cache.get(self._workloads, key.namespace, key.name)
        step = decide(
            AdoptionCandidate.of(entry) if entry is not None else None,
            Adopter.of(found) if found is not None else None,
            self._backend,
        )
        if isinstance(step, NotAdopted):
            self._report(key, entry, step)
            return None
        try:
            if step == "create" and entry is not None:
                return await self._adopt(key, entry)
            if step == "own" and entry is not None:
                return await self._own(key, entry)
            if step == "delete" and found is not None:
                return await self._delete(found)
        except Conflict as error:
            _log.debug("%s %s/%s: %s", self._backend.child.kind, *key, error)
            return CONFLICT_RETRY
        self._reported.pop(key, None)
        return None

    def _report(self, key: Key, entry: CachedObject | None, why: NotAdopted) -> None:
        """Say once why an object is left alone."""
        if entry is None or self._reported.get(key) == (entry.uid, why):
            return
        self._reported[key] = (entry.uid, why)
        _log.warning("%s %s/%s: %s", entry.resource.kind, *key, why.message)
        self._manager.event_recorder.event(entry, "Warning", why.reason, why.message)

    async def _adopt(self, key: Key, entry: CachedObject) -> float | None:
        """Create the workload, with less in it where the API server refuses more, and make it the owner."""
        client = self._manager.client
        refused: ApiError | None = None
        for workload in workloads_for(entry.readable(), self._backend, self._queue_label, entry.undecodable):
            try:
                live = await client.create(self._workloads, workload, field_manager=ADOPTION_MANAGER)
            except AlreadyExists:
                # Another answer was lost, or somebody was faster; the cache will say whose it is.
                return await self._own(key, entry)
            except (Forbidden, Invalid) as error:
                if error.write_cause is not None:
                    raise  # no workload at all can be created; the manager says when this is over
                refused = error
                continue
            self._manager.cache.assume(self._workloads, live)
            _log.info("%s %s/%s: adopted by %s", entry.resource.kind, *key, self._workloads.kind)
            self._manager.event_recorder.event(
                entry, "Normal", "Adopted", f"{self._workloads.kind} {entry.name} was created for it"
            )
            await self._set_owner(key, entry, live)
            return None
        kind, child = self._workloads.kind, entry.resource.kind
        text = (
            f"{child} {entry.name} is not adopted: the API server refused {kind} {entry.name}: {refused}. "
            f"The {child} is left as it is; it is tried again every {REFUSED_RETRY:.0f} s"
        )
        self._report(key, entry, NotAdopted("AdoptionRefused", text))
        return REFUSED_RETRY

    async def _own(self, key: Key, entry: CachedObject) -> float | None:
        """Make the live workload of an object's name its owner, if Kaiwo made it for this object."""
        workload = await self._get(self._workloads, key)
        if workload is None:
            return STALE_RETRY
        self._manager.cache.assume(self._workloads, workload)
        if is_proven(workload, entry.uid):
            await self._set_owner(key, entry, workload)
            return None
        if (workload["metadata"].get("labels") or {}).get(ADOPTED) != entry.uid:
            return STALE_RETRY  # it was made for something else, and will be in the cache then
        kind, child = self._workloads.kind, entry.resource.kind
        text = (
            f"{child} {entry.name} is not adopted: {kind} {entry.name} has label {ADOPTED}, but Kaiwo did "
            f"not create it. The {child} runs as before. Delete the {kind}"
        )
        self._report(key, entry, NotAdopted("NameConflict", text))
        return None

    async def _set_owner(self, key: Key, entry: CachedObject, workload: Object) -> None:
        """One patch of exactly the version that was decided on; a newer one is decided on again."""
        live: Object | bytes
        try:
            live = await self._manager.client.merge_patch(
                entry.resource,
                entry.namespace,
                entry.name,
                owner_patch(entry.readable(), workload),
                uid=entry.uid,
                resource_version=entry.resource_version,
                field_manager=ADOPTION_MANAGER,
            )
        except UndecodableObject as error:  # it is written; the object is as large as it was before
            live = error.raw
        self._manager.cache.assume(entry.resource, live)
        self._reported.pop(key, None)

    async def _delete(self, found: CachedObject) -> float | None:
        """Delete a workload whose object is gone, if Kaiwo made it for that object."""
        key, adopted = Key(*found.key), found.labels[ADOPTED]
        workload = await self._get(self._workloads, key)
        if workload is None or workload["metadata"]["uid"] != found.uid or not is_proven(workload, adopted):
            return None  # the status of a forged one says that nothing was adopted for it
        live = await self._get(self._backend.child, key)
        if live is not None:
            step = decide(AdoptionCandidate.of_live(live), Adopter(found.uid, adopted), self._backend)
            if step != "delete":
                return STALE_RETRY
        await self._manager.writer.delete(found)
        _log.info("%s %s/%s: deleted with its %s", self._workloads.kind, *key, self._backend.child.kind)
        return None

    async def _get(self, resource: Resource, key: Key) -> Object | None:
        """An object as the API server has it, None when there is none."""
        try:
            return await self._manager.client.get(resource, key.namespace, key.name)
        except NotFound:
            return None
        except UndecodableObject as error:
            return error.readable
