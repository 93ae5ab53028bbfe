"""Executes the writes of one plan and puts the answers where the next plan sees them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kaiwo.engine.errors import ApiError
from kaiwo.engine.timestamps import format_time
from kaiwo.workload.model import ApiRejection, Apply, Create, Patch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.manager import Manager
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.engine.writer import Outcome
    from kaiwo.host.workload.snapshot import Snapshot
    from kaiwo.workload.model import Delete, Write

_REFUSALS = frozenset({400, 403, 404, 413, 422})
"""Answers that say: this object, as it is, is not taken. Sending it again at once gives the same answer.
404 is the answer for a kind that is not served."""

_GONE = 404


_UNTYPED = "failed to create typed patch object"
"""How a server-side apply says, with status 500, that a field is unknown, of a wrong type or given twice."""


def _refusal(write: Write, error: ApiError) -> ApiRejection | None:
    if error.status in _REFUSALS:
        return ApiRejection(write.resource, error.status, error.reason, error.stable_message)
    if _UNTYPED in error.message:
        return ApiRejection(write.resource, 422, "Invalid", error.message)
    return None


class StaleSnapshot(Exception):
    """What was to be changed is not there any more as it was; an event will tell what is."""


class WriteRejected(Exception):
    """The API server does not take an object.

    Attributes:
        rejection: the answer, in the API server's words.
    """

    def __init__(self, rejection: ApiRejection) -> None:
        super().__init__(rejection.message)
        self.rejection = rejection


class PlanExecutor:
    """Writes for the workloads of one manager."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager

    async def run(
        self, writes: Iterable[Write], view: Snapshot, child: Resource | None, name: str
    ) -> list[str]:
        """Execute writes in order.

        Args:
            writes: of one plan.
            view: takes in what the API server answers, conflicting objects of others included.
            child: kind of the workload's child.
            name: the workload's name, and so the child's.

        Returns:
            What was done, in words, for the log; nothing for what needed no request.

        Raises:
            Refused: the API server does not take an object; what comes after it was not sent.
            Stale: the cache was behind.
            ApiError: any other answer.
        """
        done: list[str] = []
        for write in writes:
            try:
                said = await self._one(write, view, child, name)
            except ApiError as error:
                if error.status == _GONE and not isinstance(write, Create | Apply):
                    raise StaleSnapshot(f"{write.resource.kind} {write.name} is gone already") from error
                if refusal := _refusal(write, error):
                    raise WriteRejected(refusal) from error
                raise
            if said:
                done.append(said)
        return done

    async def _one(self, write: Write, view: Snapshot, child: Resource | None, name: str) -> str:
        writer = self._manager.writer
        if isinstance(write, Create | Apply):
            outcome: Outcome
            if isinstance(write, Create):
                outcome, verb = await writer.create_once(write.resource, write.obj), "created"
            else:
                outcome, verb = await writer.apply(write.resource, write.obj), "applied"
            view.put(write.resource, outcome.live, child, name)
            changed = getattr(outcome, "changed", False)
            return f"{verb} {write.resource.kind} {write.obj['metadata']['name']}" if changed else ""
        if isinstance(write, Patch):
            written = await writer.patch(self._entry(write), write.body)
            view.put(write.resource, written.live, child, name)
            return f"patched {write.resource.kind} {write.name}" if written.changed else ""
        await writer.delete(self._entry(write), propagation=write.propagation)
        going = self._going(write)
        view.put(write.resource, going, child, name)
        return f"deleted {write.resource.kind} {write.name}"

    def _entry(self, write: Patch | Delete) -> CachedObject:
        entry = self._manager.cache.get(write.resource, write.namespace, write.name)
        if entry is None or entry.uid != write.uid:
            raise StaleSnapshot(f"{write.resource.kind} {write.name} changed meanwhile")
        return entry

    def _going(self, write: Delete) -> Object:
        """The deleted object as it is until a watch event says that it is gone."""
        entry = self._manager.cache.get(write.resource, write.namespace, write.name)
        if entry is None:
            raise StaleSnapshot(f"{write.resource.kind} {write.name} is gone already")
        obj = entry.full()
        obj["metadata"].setdefault("deletionTimestamp", format_time(datetime.now(UTC)))
        return obj
