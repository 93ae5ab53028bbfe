"""The workload controllers, one per kind: snapshot, plan, writes, status.

Everything is read from the cache and decided by the pure `plan`. A reconciliation plans and writes until
nothing is left to write, then it writes the status.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kaiwo.api.crds import WORKLOADS
from kaiwo.api.status_words import TERMINAL
from kaiwo.api.workload import Workload
from kaiwo.engine.controller import Controller
from kaiwo.engine.errors import ChangedBack, Conflict, EngineError, NotFound
from kaiwo.engine.resource import POD
from kaiwo.engine.workqueue import Key
from kaiwo.host.workload import warning_events
from kaiwo.host.workload.download_progress import DownloadFollower
from kaiwo.host.workload.executor import OutdatedWorkload, PlanExecutor, StaleSnapshot, WriteRejected
from kaiwo.host.workload.state import ReconcileStates
from kaiwo.host.workload.watches import (
    child_kinds,
    on_child_deleted,
    on_pod_deleted,
    pod_owner_kinds,
    secondary_kinds,
    workload_watches,
)
from kaiwo.workload.download.state import is_in_progress
from kaiwo.workload.plan import plan

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from kaiwo.api.plugin_fields import WorkloadKind
    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.manager import Manager
    from kaiwo.engine.store import CacheEvent
    from kaiwo.host.workload.snapshot import Fingerprint, Snapshot, SnapshotReader
    from kaiwo.host.workload.state import ReconcileState
    from kaiwo.plugin.lifecycle import Transition
    from kaiwo.workload.model import Plan, Registry, Write

_log = logging.getLogger(__name__)

_ROUNDS = 8  # plans per reconciliation; every one but the last wrote something
_REQUEUE_DELAY = 0.1  # seconds in which changes of the cluster are gathered before the requeue


class WorkloadReconciler:
    """Reconciles all workloads of one kind.

    Attributes:
        kind: kind of the workloads.
        controller: what the manager runs.
    """

    def __init__(
        self,
        kind: WorkloadKind,
        manager: Manager,
        reader: SnapshotReader,
        registry: Registry,
        *,
        on_transition: Callable[[Transition], None],
        planning: Callable[[Key], AbstractContextManager[object]] = nullcontext,
        workers: int,
        namespaces: tuple[str, ...] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set up.

        Args:
            kind: the kind.
            manager: reads and writes.
            reader: reads snapshots from the cache.
            registry: loaded declarations.
            on_transition: called with each status change that was written.
            planning: entered around each computation for a workload; it limits the time.
            workers: workloads reconciled at the same time.
            namespaces: the only namespaces to watch, empty for all.
            clock: monotonic seconds.
        """
        self.kind: WorkloadKind = kind
        self._resource = WORKLOADS[kind]
        self._manager = manager
        self._reader = reader
        self._registry = registry
        self._clock = clock
        self._planning = planning
        self._states = ReconcileStates()
        self._executor = PlanExecutor(manager, kind, on_transition)
        owners = reader.pod_owners
        watches = workload_watches(
            kind, registry, self._states, manager.cache, pod_owners=owners, namespaces=namespaces
        )
        self.controller = Controller(
            kind.lower(),
            watches,
            self.reconcile,
            workers=workers,
            initial=self._without_status,
            kind=kind,
        )
        self._watched = frozenset(watch.resource for watch in watches)
        manager.on_unreadable_change(self.requeue_all)
        self._downloads = DownloadFollower(
            manager.client,
            on_progress=self.controller.enqueue,
            active=lambda key: manager.leading and self._serves(key.namespace),
        )
        children = child_kinds(kind, registry)
        self._kinds = tuple(dict.fromkeys((*children, *secondary_kinds(kind, registry))))
        self._requeue_planned = False
        for watch in watches:
            manager.watch(watch)  # before anybody subscribes to it
        manager.cache.subscribe(self._resource, self._forget_gone)
        for child in children:
            manager.cache.subscribe(
                child, lambda event: on_child_deleted(event, kind, self._states, manager.cache)
            )
        for resource in (*secondary_kinds(kind, registry), *pod_owner_kinds(kind, registry)):
            manager.cache.subscribe(resource, owners.on_deleted)
        if kind == "KaiwoJob":  # a service does not end, so its status needs no pods that are gone
            manager.cache.subscribe(
                POD, lambda event: on_pod_deleted(event, self._states, manager.cache, owners)
            )

    def _serves(self, namespace: str) -> bool:
        """Whether the workloads of a namespace are reconciled in this process, while it leads."""
        shard = self._manager.shard
        return shard is None or shard.serves(namespace)

    def _forget_gone(self, event: CacheEvent) -> None:
        """Forget a workload that is gone, where another process reconciles it: here nobody else would."""
        entry = event.latest
        if event.new is None and not (self._manager.leading and self._serves(entry.namespace)):
            key = Key(entry.namespace, entry.name)
            self._states.forget(key)
            self._downloads.forget(key)

    def _without_status(self) -> list[Key]:
        """Workloads without a status: they go first at the start."""
        return [
            Key(entry.namespace, entry.name)
            for entry in self._manager.cache.list(self._resource)
            if entry.part("status", "status") is None
        ]

    async def close(self) -> None:
        """Stop following downloads."""
        await self._downloads.close()

    def requeue_waiting(self) -> None:
        """Reconcile the workloads that wait for a change in the cluster, a moment after the first change."""
        if not self._requeue_planned:
            self._requeue_planned = True
            asyncio.get_running_loop().call_later(_REQUEUE_DELAY, self._requeue)

    def requeue_all(self, namespace: str = "") -> None:
        """Reconcile all workloads, whatever is known of them.

        Args:
            namespace: of the workloads, empty for all.
        """
        for entry in self._manager.cache.list(self._resource, namespace or None):
            key = Key(entry.namespace, entry.name)
            state = self._states.find(key, entry.uid)
            if state is not None:
                state.seen = None
            self.controller.enqueue(key)

    def _requeue(self) -> None:
        self._requeue_planned = False
        for key in self._states.requeue_waiting():
            self.controller.enqueue(key)

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one workload.

        Returns:
            Seconds after which to reconcile it again without an event, None for never.
        """
        # What was to be reconciled later is read now; what is due by time is returned.
        self.controller.queue.drop_delayed(key)
        entry = self._manager.cache.get(self._resource, key.namespace, key.name)
        if entry is None:
            self._states.forget(key)
            self._downloads.forget(key)
            return None
        state, clock = self._states.of(key, entry.uid), self._clock()
        if state.ended_version == entry.resource_version:
            return None
        if entry.resource_version == state.outdated_version:
            return state.outdated_for(clock) or await self._read_again(entry, state)
        if state.write_cause is not None:
            if state.write_cause in self._manager.client.failing_writes:
                # Where it ended and came back, or another process led for a while, nobody holds the key now.
                self.controller.hold(key, state.write_cause)
            else:
                state.end_cause()
        before = self._reader.fingerprint(entry, self._kinds, self._downloads.progress(key))
        if not state.is_current(before, clock):
            try:
                return await self._reconcile(key, entry, state, before)
            except (StaleSnapshot, Conflict) as error:
                _log.debug("%s %s/%s: %s", self.kind, key.namespace, key.name, error)
                if isinstance(error, OutdatedWorkload):
                    return state.record_outdated(error.version, self._clock())
                return state.record_conflict()
        self._downloads.resume(key)
        return None if state.due is None else state.due - clock

    async def _read_again(self, entry: CachedObject, state: ReconcileState) -> float:
        """Read a workload whose latest change the watch has not brought; seconds until to reconcile it.

        Each plan from the old version could write. Objects of a workload that is gone are deleted at once.
        """
        try:
            live = await self._manager.client.get(self._resource, entry.namespace, entry.name)
        except NotFound:
            return state.record_outdated(entry.resource_version, self._clock())
        state.outdated_version = ""
        # What is assumed here counts as this key's own write, and changes around it were not looked at.
        self._manager.cache.assume(self._resource, live)
        return 0.0

    async def _reconcile(
        self, key: Key, entry: CachedObject, state: ReconcileState, before: Fingerprint
    ) -> float | None:
        # What is read after this may be newer than what was planned from; then the next one is not skipped.
        since, clock, now = self._states.requeues, self._clock(), datetime.now(UTC)
        denied = self._manager.unreadable
        unreadable = {
            kind: words
            for place in ("", key.namespace)
            for kind, words in denied.get(place, {}).items()
            if kind in self._watched
        }
        failing = {kind: why for kind, why in self._manager.failing.items() if kind in self._watched}
        async with self._manager.turns.turn(key.namespace):
            with self._planning(key):
                workload = Workload.from_live(entry.readable(), entry.undecodable)
                snapshot = self._reader.read(entry, workload, now, unreadable, failing)
        decided = await self._plan_and_write(key, snapshot, state)
        try:
            version = await self._executor.report(entry, decided, now)
        except ChangedBack as error:
            # What is due by time does not wait for the status.
            due = (error.retry_after, decided.requeue_after)
            return min(seconds for seconds in due if seconds is not None)
        except EngineError as error:
            if error.write_cause is not None:
                state.end_cause()  # a rejection that could not be reported may be over before it can
            raise
        state.seen, state.conflicts = snapshot.fingerprint(before, version), 0
        reported = bool(decided.follow) and is_in_progress(workload)
        self._downloads.follow(key, decided.follow, reported=reported)
        status = decided.statuses[-1] if decided.statuses else entry.part("status") or {}
        ended = status.get("status") in TERMINAL
        queue = self._registry.queue
        by_queue = queue is not None and status.get("reason") in queue.queue_reasons
        waits = not ended and (bool(unreadable or failing) or not snapshot.has_child or by_queue)
        begins = waits and not snapshot.has_child and key not in self._states.waiting
        if self._states.set_waiting(key, state, waits=waits, since=since) or (
            begins and self._is_behind(entry, state)
        ):
            self.controller.enqueue(key)
        if ended:
            state.end(version)
        else:
            state.ended_version = ""  # somebody may have reset the status
        return state.requeue_after(decided.requeue_after, clock)

    def _is_behind(self, entry: CachedObject, state: ReconcileState) -> bool:
        """Whether an object named like a workload came or went since its plan.

        What others make concerns a workload from the moment at which it is known to wait for the name.
        """
        named = self._reader.fingerprint(entry, self._kinds, None).named
        return state.seen is not None and state.seen.named != named

    async def _plan_and_write(self, key: Key, snapshot: Snapshot, state: ReconcileState) -> Plan:
        """Plan and write until a plan has nothing left to write."""
        workload = snapshot.workload
        sent: tuple[Write, ...] = ()
        if snapshot.facts.live is not None:
            state.missing_child = None
        for _ in range(_ROUNDS):
            rejection = state.rejection_in_force(workload.generation, self._clock())
            facts = replace(
                snapshot.facts,
                missing_child=state.missing_child,
                rejection=rejection,
                progress=self._downloads.progress(key),
                gone_pods=state.gone_pods,
                warning_event=state.warning_event,
                warning_event_uid=state.warning_event_uid,
            )
            async with self._manager.turns.turn(key.namespace):
                with self._planning(key):
                    decided = plan(workload, self._registry, facts, snapshot.choice)
            if not decided.writes and await self._read_events(decided, state):
                continue
            if not decided.writes:
                if rejection is None:
                    state.clear_rejection()  # what was rejected is not wanted any more
                return decided
            if decided.writes == sent:
                # The API server accepted it and stores something else; sending it again changes nothing.
                _log.warning(
                    "%s %s/%s: the API server stores another form of %s than was sent",
                    self.kind, key.namespace, key.name,
                    ", ".join(write.resource.kind for write in sent),
                )  # fmt: skip
                return decided
            try:
                done = await self._executor.run(decided.writes, snapshot)
            except WriteRejected as error:
                self._record_rejection(key, workload, state, error)
                continue
            state.clear_rejection()
            sent = decided.writes
            if done:
                _log.info("%s %s/%s: %s", self.kind, key.namespace, key.name, ", ".join(done))
        raise RuntimeError(f"the plan still has writes after {_ROUNDS} rounds: {decided.writes!r:.500}")

    def _record_rejection(
        self, key: Key, workload: Workload, state: ReconcileState, error: WriteRejected
    ) -> None:
        state.record_rejection(
            error.rejection, workload.generation, self._clock(), error.cause, error.retry_after
        )
        if error.cause is not None:
            self.controller.hold(key, error.cause)
        if error.retry_after is None:
            _log.warning(
                "%s %s/%s: the API server rejected %s: %s",
                self.kind, key.namespace, key.name, error.rejection.resource.kind, error,
            )  # fmt: skip

    async def _read_events(self, decided: Plan, state: ReconcileState) -> bool:
        """Read the newest Warning event that a plan needs; whether it is another one than was known."""
        outcome, clock = decided.outcome, self._clock()
        if outcome is None or outcome.needs_events is None:
            return False
        uid = str(outcome.needs_events["metadata"].get("uid") or "")
        if not state.may_read_events(uid, clock):
            return False
        found = await warning_events.newest(self._manager.client, outcome.needs_events, outcome.pod_owner)
        return state.record_event(uid, found, clock)
