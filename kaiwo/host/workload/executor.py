"""Carries out a plan: its writes, with the answers put into the snapshot, then its statuses and events."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kaiwo.api.status import STATUS_FIELDS
from kaiwo.engine.errors import ApiError, ChangedBack, Conflict, NotFound
from kaiwo.engine.timestamps import format_time
from kaiwo.host.workload.ownership import is_made_by_kaiwo
from kaiwo.plugin.lifecycle import Transition
from kaiwo.workload.model import ApiRejection, Apply, Create, Patch
from kaiwo.workload.plans.blocked import CHANGED_BACK
from kaiwo.workload.status import OWN_CONDITIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kaiwo.api.plugin_fields import WorkloadKind
    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.errors import WriteCause
    from kaiwo.engine.manager import Manager
    from kaiwo.engine.resource import Object
    from kaiwo.engine.writer import StatusWritten
    from kaiwo.host.workload.snapshot import Snapshot
    from kaiwo.workload.model import Delete, Plan, Write

_REJECTIONS = frozenset({400, 403, 404, 413, 422})
"""Status codes of answers that reject the object as it is: sent again at once it is rejected again.
404 is the answer for a kind that is not served."""

_CONFLICT = 409

LARGE = 1 << 16
"""Bytes of an object of which each write costs the API server so much that only a few are sent at once."""

LARGE_WRITES = 2
"""Statuses of large objects that are written at once."""

_log = logging.getLogger(__name__)

_UNTYPED = "failed to create typed patch object"
"""How a server-side apply, with status 500, rejects a field that is unknown, mistyped or duplicate."""


def _rejection(write: Write, error: ApiError) -> ApiRejection | None:
    if _UNTYPED in error.message:
        return ApiRejection(write.resource, 422, "Invalid", error.message)
    if error.status in _REJECTIONS or error.write_cause is not None:
        return ApiRejection(write.resource, error.status, error.reason, error.stable_message)
    return None


class StaleSnapshot(Exception):
    """The object to write to has changed or is gone; a watch event will bring the current one."""


class OutdatedWorkload(StaleSnapshot):
    """The API server has another version of the workload than the cache, or none any more.

    Attributes:
        version: the resourceVersion that is not the latest one.
    """

    def __init__(self, text: str, version: str) -> None:
        super().__init__(text)
        self.version = version


class WriteRejected(Exception):
    """An object is not written: the API server rejected it, or somebody undid the last writes of it.

    Attributes:
        rejection: the answer.
        cause: the cause of it, where all writes like this one fail.
        retry_after: seconds until it may be sent again; None where nobody knows.
    """

    def __init__(
        self, rejection: ApiRejection, cause: WriteCause | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(rejection.message)
        self.rejection = rejection
        self.cause = cause
        self.retry_after = retry_after


class PlanExecutor:
    """Carries out the plans of one kind's workloads."""

    def __init__(
        self, manager: Manager, kind: WorkloadKind, on_transition: Callable[[Transition], None]
    ) -> None:
        """Set up.

        Args:
            manager: sends.
            kind: kind of the workloads.
            on_transition: called with each status change that was written.
        """
        self._manager = manager
        self._kind = kind
        self._on_transition = on_transition
        self._large = asyncio.Semaphore(LARGE_WRITES)

    async def run(self, writes: Iterable[Write], snapshot: Snapshot) -> list[str]:
        """Execute writes in order.

        Args:
            writes: of one plan.
            snapshot: the answers are put into it, conflicting objects of others included.

        Returns:
            What was done, for the log; nothing for what needed no request.

        Raises:
            WriteRejected: the API server rejects an object, or somebody undid the last writes of it; what
                comes after it was not sent.
            StaleSnapshot: the cache was behind.
            ApiError: any other answer.
        """
        done: list[str] = []
        for write in writes:
            try:
                action = await self._execute(write, snapshot)
            except ApiError as error:
                if isinstance(error, NotFound) and not isinstance(write, Create | Apply):
                    raise StaleSnapshot(f"{write.resource.kind} {write.name} is gone already") from error
                if rejection := _rejection(write, error):
                    raise WriteRejected(rejection, error.write_cause) from error
                raise
            except ChangedBack as error:
                rejection = ApiRejection(write.resource, _CONFLICT, CHANGED_BACK, str(error))
                raise WriteRejected(rejection, retry_after=error.retry_after) from error
            if action:
                done.append(action)
        return done

    async def _execute(self, write: Write, snapshot: Snapshot) -> str:
        writer = self._manager.writer
        if isinstance(write, Create | Apply):
            if isinstance(write, Create):
                answer, verb = await writer.create_once(write.resource, write.obj), "created"
            else:
                answer, verb = await writer.apply(write.resource, write.obj), "applied"
            changed = getattr(answer, "changed", False)
            metadata = write.obj["metadata"]
            known = self._manager.cache.get(write.resource, metadata.get("namespace"), metadata["name"])
            made = changed or (known is not None and is_made_by_kaiwo(known))
            snapshot.put(write.resource, answer.live, made=made)
            return f"{verb} {write.resource.kind} {metadata['name']}" if changed else ""
        entry = self._manager.cache.get(write.resource, write.namespace, write.name)
        if entry is None or entry.uid != write.uid:
            raise StaleSnapshot(f"{write.resource.kind} {write.name} changed meanwhile")
        if isinstance(write, Patch):
            written = await writer.patch(entry, write.body)
            snapshot.put(write.resource, written.live)
            return f"patched {write.resource.kind} {write.name}" if written.changed else ""
        await writer.delete(entry, propagation=write.propagation)
        snapshot.put(write.resource, self._deleting(write))
        return f"deleted {write.resource.kind} {write.name}"

    def _deleting(self, write: Delete) -> Object:
        """The deleted object as it is until a watch event says that it is gone."""
        entry = self._manager.cache.get(write.resource, write.namespace, write.name)
        if entry is None:
            raise StaleSnapshot(f"{write.resource.kind} {write.name} is gone already")
        obj = entry.full()
        obj["metadata"].setdefault("deletionTimestamp", format_time(datetime.now(UTC)))
        return obj

    async def report(self, entry: CachedObject, plan: Plan, now: datetime) -> str:
        """Write the statuses of a plan in order and record its events.

        Args:
            entry: the workload as it was when the plan was made.
            plan: what to report.
            now: the time of this reconciliation, UTC.

        Returns:
            The workload's resourceVersion afterwards, from the last answer.

        Raises:
            OutdatedWorkload: the workload had changed or was gone when a status came.
            StaleSnapshot: likewise, after a status was written.
            ChangedBack: somebody else, as a second operator, replaces the status each time.
        """
        if not plan.statuses or entry.size <= LARGE:
            return await self._report(entry, plan, now)
        # The API server checks the whole object each time; all workers' at once leave it no time for others.
        async with self._large:
            return await self._report(entry, plan, now)

    async def _report(self, entry: CachedObject, plan: Plan, now: datetime) -> str:
        version = entry.resource_version
        latest = entry
        for status in plan.statuses:
            if latest.resource_version != version:
                raise StaleSnapshot(f"{self._kind} {entry.name} changed between two statuses")
            before: Object = latest.part("status") or {}
            # A field that this version does not know belongs to a later one, which may lead again soon.
            complete: Object = {**dict.fromkeys(before.keys() & STATUS_FIELDS), **status}
            written = await self._patch(latest, complete)
            version = written.live.resource_version
            self._report_transition(entry, before.get("status") or "", status, now)
            # Somebody may have written meanwhile: then the cache is ahead of this answer.
            known = self._manager.cache.get(entry.resource, entry.namespace, entry.name)
            if known is None or known.uid != entry.uid:
                raise StaleSnapshot(f"{self._kind} {entry.name} is gone")
            latest = known
        for event in plan.events:
            self._manager.event_recorder.event(entry, event.type, event.reason, event.message)
        return version

    async def _patch(self, entry: CachedObject, status: Object) -> StatusWritten:
        try:
            return await self._manager.writer.patch_status(entry, status, own_conditions=OWN_CONDITIONS)
        except Conflict as error:
            raise OutdatedWorkload(str(error), entry.resource_version) from error
        except NotFound as error:
            if error.details.get("name") != entry.name:
                raise  # the kind is not served at the moment
            raise OutdatedWorkload(str(error), entry.resource_version) from error

    def _report_transition(self, entry: CachedObject, before: str, status: Object, now: datetime) -> None:
        after, reason, message = (str(status.get(name) or "") for name in ("status", "reason", "message"))
        _log.info("%s %s/%s: %s %s: %s", self._kind, entry.namespace, entry.name, after, reason, message)
        if before != after:
            self._on_transition(
                Transition(
                    kind=self._kind, namespace=entry.namespace, name=entry.name, uid=entry.uid,
                    before=before, after=after, reason=reason, message=message, at=now,
                    user=str(entry.readable_part("spec", "user") or ""),
                )
            )  # fmt: skip
