"""The workload controllers: one per kind, each turning facts into a plan and the plan into writes.

Reads come from the cache and deciding is `plan`; what is here is the order of things: execute a plan's
writes, put the answers into the facts, plan again until nothing is left to write, then write the status.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kaiwo.api.crds import WORKLOADS
from kaiwo.api.errors import InvalidWorkload
from kaiwo.api.status import TERMINAL
from kaiwo.api.workload import Workload
from kaiwo.engine.controller import Controller, Watch
from kaiwo.engine.errors import Conflict
from kaiwo.engine.resource import POD
from kaiwo.engine.workqueue import Key
from kaiwo.host.workload import warning_events
from kaiwo.host.workload.download_progress import DownloadFollower
from kaiwo.host.workload.executor import PlanExecutor, StaleSnapshot, WriteRejected
from kaiwo.host.workload.state import ReconcileStates
from kaiwo.host.workload.watches import (
    POD_PROJECTION,
    child_kinds,
    on_child_deleted,
    on_pod_deleted,
    secondary_kinds,
    workload_watches,
)
from kaiwo.plugin.lifecycle import Transition
from kaiwo.workload.errors import PluginError
from kaiwo.workload.metadata import RUN_ID
from kaiwo.workload.plan import plan, plan_invalid
from kaiwo.workload.status import OWN_CONDITIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kaiwo.api.plugin_fields import WorkloadKind
    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.manager import Manager
    from kaiwo.engine.resource import Object
    from kaiwo.host.workload.snapshot import Snapshot, SnapshotReader
    from kaiwo.host.workload.state import Fingerprint, ReconcileState
    from kaiwo.plugin.backends import Backend
    from kaiwo.workload.model import Plan, Registry, Write

_log = logging.getLogger(__name__)

_ROUNDS = (
    8  # plans per look; every round but the last wrote something, more would be a plan that never settles
)
_STALE_RETRY = 2.0  # seconds, should the event that ends the staleness never come
_WAKE_DELAY = 0.1  # seconds in which changes of the cluster are gathered before waiting workloads are woken


class WorkloadReconciler:
    """All workloads of one kind.

    Attributes:
        controller: what the manager runs.
    """

    def __init__(
        self,
        kind: WorkloadKind,
        manager: Manager,
        reader: SnapshotReader,
        registry: Registry,
        *,
        tell: Callable[[Transition], None],
        workers: int = 16,
        namespace: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Put together.

        Args:
            kind: the kind.
            manager: reads and writes.
            reader: reads facts from the cache.
            registry: loaded declarations.
            tell: told about each status that was written.
            workers: workloads looked at at the same time.
            namespace: the only namespace to look after, None for all.
            clock: monotonic seconds.
        """
        self._kind: WorkloadKind = kind
        self._resource = WORKLOADS[kind]
        self._manager = manager
        self._reader = reader
        self._registry = registry
        self._tell = tell
        self._clock = clock
        self._states = ReconcileStates()
        self._executor = PlanExecutor(manager)
        self._downloads = DownloadFollower(manager.client, tell=self._further, active=lambda: manager.leading)
        self._children = tuple(child_kinds(kind, registry))
        self._beside = secondary_kinds(kind, registry)
        self._wake_planned = False
        for child in self._children:
            manager.watch(Watch(child, namespace=namespace))
            manager.cache.subscribe(
                child, lambda event: on_child_deleted(event, kind, self._states, manager.cache)
            )
        if kind == "KaiwoJob":  # what a service's pods died of is told while they are there, and has no end
            manager.watch(Watch(POD, projection=POD_PROJECTION, namespace=namespace, label_selector=RUN_ID))
            manager.cache.subscribe(POD, lambda event: on_pod_deleted(event, self._states, manager.cache))
        watches = workload_watches(kind, registry, self._states, manager.cache, namespace)
        self.controller = Controller(
            kind.lower(), watches, self.reconcile, workers=workers, initial=self._never_seen
        )

    def _never_seen(self) -> list[Key]:
        """Workloads that no operator has answered yet: they go first at the start."""
        return [
            Key(entry.namespace, entry.name)
            for entry in self._manager.cache.list(self._resource)
            if entry.part("status", "status") is None
        ]

    def _further(self, key: Key) -> None:
        """A download has come further."""
        self.controller.enqueue(key)

    async def close(self) -> None:
        """Stop to follow downloads."""
        await self._downloads.close()

    def requeue_waiting(self) -> None:
        """Something in the cluster changed: look again at what waits for such, and at nothing else."""
        if not self._wake_planned:
            self._wake_planned = True
            asyncio.get_running_loop().call_later(_WAKE_DELAY, self._wake)

    def _wake(self) -> None:
        self._wake_planned = False
        for key in self._states.wake():
            self.controller.enqueue(key)

    async def reconcile(self, key: Key) -> float | None:
        """Look at one workload."""
        entry = self._manager.cache.get(self._resource, key.namespace, key.name)
        if entry is None:
            self._states.forget(key)
            self._downloads.leave(key)
            return None
        memory = self._states.of(key, entry.uid)
        if memory.over == entry.resource_version:
            return None
        clock = self._clock()
        seen = self._fingerprint(entry)
        if memory.same(seen, clock):
            self._downloads.resume(key)
            return None if memory.due is None else memory.due - clock
        try:
            return await self._look(key, entry, memory, seen)
        except (StaleSnapshot, Conflict) as error:
            _log.debug("%s %s/%s: %s", self._kind, key.namespace, key.name, error)
            return _STALE_RETRY

    def _fingerprint(self, entry: CachedObject) -> Fingerprint:
        cache = self._manager.cache
        named = (*self._children, *self._beside)
        children = [cache.get(child, entry.namespace, entry.name) for child in named]
        around = [
            other
            for other in self._reader.around(entry.uid)
            if other.name != entry.name or other.resource not in self._children
        ]
        around += self._reader.places((*children, *around))
        progress = self._downloads.progress(Key(entry.namespace, entry.name))
        return (
            entry.resource_version,
            *(child.resource_version if child is not None else "" for child in children),
            *sorted(other.resource_version for other in around),
            progress.text if progress is not None else "",
        )

    async def _look(
        self, key: Key, entry: CachedObject, memory: ReconcileState, before: Fingerprint
    ) -> float | None:
        # What is read after this may be newer than what was planned from; then the next look is not skipped.
        wakes = self._states.wakes
        now, clock = datetime.now(UTC), self._clock()
        obj = entry.full()
        backend: Backend | None = None
        try:
            workload = Workload.from_object(obj)
        except InvalidWorkload as error:
            view = self._reader.look(entry, None)
            decided = plan_invalid(obj, error, self._reader.facts(view, key.namespace, None, now=now))
        else:
            backend = self._backend(workload)
            view = self._reader.look(entry, backend)
            if view.live is not None:
                memory.lost = None
            decided = await self._settle(workload, backend, view, memory, now)
        version = await self._write_statuses(entry, decided, now)
        for event in decided.events:
            self._manager.event_recorder.event(entry, event.type, event.reason, event.message)
        self._remember(memory, before, view, backend, version)
        self._downloads.follow(key, decided.follow, told="%" in str(entry.part("status", "message") or ""))
        status = decided.statuses[-1] if decided.statuses else entry.part("status") or {}
        ended = status.get("status") in TERMINAL
        if ended or _has_child(view, entry.uid):
            self._states.waiting.discard(key)
        elif self._states.waits(key, memory, since=wakes):
            self.controller.enqueue(key)
        if ended:
            memory.ended(version)
        return memory.wake_in(decided.requeue_after, clock)

    def _backend(self, workload: Workload) -> Backend | None:
        try:
            return self._reader.backend(workload)
        except PluginError:
            return None  # the plan meets the same and says so

    async def _settle(
        self,
        workload: Workload,
        backend: Backend | None,
        view: Snapshot,
        memory: ReconcileState,
        now: datetime,
    ) -> Plan:
        """Plan and write until a plan has nothing left to write."""
        sent: tuple[Write, ...] = ()
        for _ in range(_ROUNDS):
            rejection = memory.in_force(workload.generation, self._clock())
            facts = replace(
                self._reader.facts(view, workload.namespace, backend, now=now),
                lost=memory.lost,
                rejection=rejection,
                progress=self._downloads.progress(Key(workload.namespace, workload.name)),
                gone_pods=memory.gone_pods,
                warning_event=memory.warning_event,
                warning_event_uid=memory.warning_event_uid,
            )
            decided = plan(workload, self._registry, facts)
            about, maker = decided.needs_events, decided.pod_owner
            if not decided.writes and about and await self._ask(about, memory, maker):
                continue
            if not decided.writes:
                if rejection is None:
                    memory.accepted()  # whatever was refused is not wanted any more
                return decided
            if decided.writes == sent:
                # The API server took it and shows something else; sending it again would change nothing.
                _log.warning(
                    "%s %s/%s: the API server keeps another form of %s than was sent",
                    self._kind, workload.namespace, workload.name,
                    ", ".join(write.resource.kind for write in sent),
                )  # fmt: skip
                return decided
            try:
                done = await self._executor.run(
                    decided.writes, view, backend.child if backend else None, workload.name
                )
            except WriteRejected as error:
                memory.refused(error.rejection, workload.generation, self._clock())
                _log.warning(
                    "%s %s/%s: the API server refused %s: %s",
                    self._kind, workload.namespace, workload.name, error.rejection.resource.kind, error,
                )  # fmt: skip
                continue
            memory.accepted()
            sent = decided.writes
            if done:
                _log.info("%s %s/%s: %s", self._kind, workload.namespace, workload.name, ", ".join(done))
        raise RuntimeError(f"the plan does not settle, it still wants {decided.writes!r:.500}")

    async def _ask(self, obj: Object, memory: ReconcileState, maker: tuple[str, str] | None) -> bool:
        """Look for the newest complaint about an object; whether there is another one than was known."""
        uid, clock = str(obj["metadata"].get("uid") or ""), self._clock()
        if not memory.may_ask(uid, clock):
            return False
        before = memory.warning_event if memory.warning_event_uid == uid else None
        found = await warning_events.newest(self._manager.client, obj, maker)
        memory.heard(uid, found, clock)
        return found != before

    async def _write_statuses(self, entry: CachedObject, decided: Plan, now: datetime) -> str:
        """Write statuses in order; the workload's resourceVersion afterwards, as answered to the last one."""
        version = entry.resource_version
        for status in decided.statuses:
            if entry.resource_version != version:
                raise StaleSnapshot(f"{self._kind} {entry.name} changed between two statuses")
            before: Object = entry.part("status") or {}
            complete: Object = {**dict.fromkeys(before), **status}
            written = await self._manager.writer.patch_status(entry, complete, own_conditions=OWN_CONDITIONS)
            version = str(written.live["metadata"].get("resourceVersion") or "")
            self._passed(entry, before.get("status") or "", status, now)
            # Somebody may have written meanwhile: then the cache is ahead of this answer.
            known = self._manager.cache.get(self._resource, entry.namespace, entry.name)
            if known is None or known.uid != entry.uid:
                raise StaleSnapshot(f"{self._kind} {entry.name} is gone")
            entry = known
        return version

    def _passed(self, entry: CachedObject, before: str, status: Object, now: datetime) -> None:
        after, reason, message = (str(status.get(name) or "") for name in ("status", "reason", "message"))
        _log.info("%s %s/%s: %s %s: %s", self._kind, entry.namespace, entry.name, after, reason, message)
        if before != after:
            self._tell(
                Transition(
                    kind=self._kind, namespace=entry.namespace, name=entry.name, uid=entry.uid,
                    before=before, after=after, reason=reason, message=message, at=now,
                )
            )  # fmt: skip

    def _remember(
        self,
        memory: ReconcileState,
        before: Fingerprint,
        view: Snapshot,
        backend: Backend | None,
        version: str,
    ) -> None:
        """Note what was planned from, with the versions that own writes made."""
        versions: Sequence[str] = before[1 : 1 + len(self._children)]
        if backend is not None and view.live is not None and backend.child in self._children:
            at = self._children.index(backend.child)
            live = str(view.live["metadata"].get("resourceVersion") or "")
            versions = (*versions[:at], live, *versions[at + 1 :])
        memory.seen = (version, *versions, *before[1 + len(self._children) :])


def _has_child(view: Snapshot, uid: str) -> bool:
    """Whether the object under the child's name is the workload's own."""
    owners = view.live["metadata"].get("ownerReferences") or () if view.live is not None else ()
    return any(owner.get("controller") and owner.get("uid") == uid for owner in owners)
