"""The one place where workloads are ended early: one decision at a time, recorded before anything is done.

A rule hands over a decision. It is written into the status of each victim, on exactly the version that the
rule decided from: a workload that ended, was edited or is ended by another rule meanwhile is left alone. From
then on the plan of the victim carries it out, in this process or the next one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import uuid4

from kaiwo.api.crds import WORKLOADS
from kaiwo.api.status_words import TERMINAL
from kaiwo.engine.errors import ApiError, ChangedBack, EngineError, NotFound
from kaiwo.engine.timestamps import parse_time
from kaiwo.plugin.lifecycle import Transition
from kaiwo.workload.ending.decision import EndingAnswer, ForeignVictim
from kaiwo.workload.ending.record import FIELD, EndingRecord, ending_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.api.plugin_fields import WorkloadKind
    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.manager import Manager
    from kaiwo.engine.resource import Object
    from kaiwo.engine.store import CacheEvent
    from kaiwo.workload.ending.decision import EndingDecision, EndingVictim

    Found = tuple[EndingVictim, CachedObject]

_log = logging.getLogger(__name__)

STUCK_SECONDS = 600.0
"""How long a decision that is not carried out, because a pod does not end, keeps others from being taken."""

SETTLE_SECONDS = 30.0
"""How long after the end of its victims a decision keeps others from being taken: a queue and a scheduler
need a moment to give what is free now to the workload that it was for."""

CLOCKS_APART = 60.0
"""Seconds by which the clock of this process and the API server's may differ for a decision."""

_UNAUTHENTICATED, _TOO_MANY, _CLIENT_ERRORS = 401, 429, range(400, 500)
_MAX_EVENT = 1000


def _apart(seconds: float | None) -> str:
    return "not comparable" if seconds is None else f"{seconds:.0f} s apart"


def _left_alone(victim: EndingVictim | ForeignVictim, why: str) -> EndingAnswer:
    return EndingAnswer(refused=f"{victim} {why}", refused_uids=(victim.uid,))


def _is_about_victim(error: EngineError) -> bool:
    """Whether an error is about one victim: it is left alone, and the rule may choose others.

    A webhook, a policy, or a schema that its object does not fulfil any more may keep one from being written.
    """
    if not isinstance(error, ApiError):
        return isinstance(error, ChangedBack)
    return error.status in _CLIENT_ERRORS and error.status not in (_UNAUTHENTICATED, _TOO_MANY)


def _first_refused(victim: EndingVictim | ForeignVictim, error: EngineError) -> EndingAnswer:
    """The answer where nobody is ended yet and one cannot be: without it the others may not be enough.

    Raises:
        EngineError: the error is not about this victim.
    """
    if not _is_about_victim(error):
        raise error
    return _left_alone(victim, f"is left alone: {error}")


class Endings:
    """Takes decisions of rules to end workloads.

    Attributes:
        under_way: the decisions that are being carried out, or were a moment ago, by uid of the victim.
    """

    def __init__(
        self,
        manager: Manager,
        on_transition: Callable[[Transition], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Set up; workloads must be watched already.

        Args:
            manager: reads and writes.
            on_transition: called with each status change that was written.
            clock: monotonic seconds.
            now: the time, UTC.
        """
        self._manager = manager
        self._on_transition = on_transition
        self._clock = clock
        self._now = now
        self._turn = asyncio.Lock()
        self._known: dict[str, tuple[EndingRecord, float]] = {}
        for resource in WORKLOADS.values():
            manager.cache.subscribe(resource, self._on_event)

    @property
    def under_way(self) -> dict[str, EndingRecord]:
        """Decisions that are being carried out or were a moment ago, by uid of the victim."""
        clock = self._clock()
        self._known = {uid: known for uid, known in self._known.items() if clock < known[1]}
        return {uid: record for uid, (record, _) in self._known.items()}

    async def decide(self, decision: EndingDecision) -> EndingAnswer:
        """Record a decision in the status of its victims, which ends them.

        Raises:
            EngineError: the API server cannot be written to; nothing is ended then.
        """
        async with self._turn:
            if refused := self._refusal(decision):
                return EndingAnswer(refused=refused)
            found: list[Found] = []
            foreign: list[ForeignVictim] = []
            for victim in decision.victims:
                if isinstance(victim, ForeignVictim):
                    foreign.append(victim)
                    continue
                entry = self._find(victim)
                if entry is None:
                    # Those that are left may not be enough: the rule decides again from what is true now.
                    return _left_alone(victim, "has changed, has ended or is being ended")
                found.append((victim, entry))
            for victim, entry in found:
                if refused := await self._stale(entry):
                    return _left_alone(victim, refused)
            for other in foreign:
                if refused := await self._foreign_refusal(other):
                    return _left_alone(other, refused)
            if refused := self._clocks_refusal():
                return EndingAnswer(refused=f"{decision.victims[0]} {refused}")
            return await self._record(decision, found, foreign)

    def resume(self, record: EndingRecord) -> None:
        """Take note of a decision about a foreign workload that an earlier process did not finish."""
        passed = (self._now() - record.decided_at).total_seconds()
        left = min(max(STUCK_SECONDS - passed, 0.0), STUCK_SECONDS)
        self._known.setdefault(record.workload_uid, (record, self._clock() + left))

    def settle(self, uid: str) -> None:
        """Take note that a foreign workload has ended: its decision holds up others a moment longer."""
        known = self._known.get(uid)
        if known is not None:
            self._known[uid] = (known[0], self._clock() + SETTLE_SECONDS)

    async def _foreign_refusal(self, victim: ForeignVictim) -> str:
        """Why a foreign victim is left alone, empty to end it."""
        if victim.uid in self.under_way:
            return "is being ended"
        return await victim.refusal()

    async def _record(
        self, decision: EndingDecision, found: list[Found], foreign: list[ForeignVictim]
    ) -> EndingAnswer:
        shared = uuid4().hex[:12]
        ended: list[EndingVictim | ForeignVictim] = []
        refused = ""
        about: list[str] = []
        for other in foreign:
            record = decision.record(other, "", shared)
            try:
                kept = await other.keep(record)
            except EngineError as error:
                if not ended:
                    return _first_refused(other, error)
                refused = f"{other}: {error}"
                about.append(other.uid)
                continue
            if kept:
                _log.warning("%s: %s (rule %s)", other, ending_text(record), record.rule)
                self._known[other.uid] = (record, self._clock() + STUCK_SECONDS)
                ended.append(other)
            else:
                refused = f"{other}: the decision cannot be kept"
        for victim, entry in found:
            before = EndingRecord.read(entry.readable_part("status", FIELD))
            record = decision.record(victim, entry.readable_part("status", "childUID") or "", shared)
            record = record.after(before)
            try:
                written = await self._write(victim.kind, entry, record)
            except EngineError as error:
                if not ended:
                    return _first_refused(victim, error)
                refused = f"{victim}: {error}"
                about.append(victim.uid)
                continue
            if written:
                ended.append(victim)
            else:
                refused = (
                    f"{victim}: the CRD of {victim.kind} has no status.{FIELD}, so the decision cannot be "
                    "kept. Update the CRDs (kaiwo manifests crds)"
                )
        if refused:
            _log.warning("not ended by rule %s: %s", decision.rule, refused)
        return EndingAnswer(tuple(ended), refused, tuple(about))

    async def _write(self, kind: WorkloadKind, entry: CachedObject, record: EndingRecord) -> bool:
        """Write a decision; whether the API server keeps it."""
        message = ending_text(record)
        status: Object = {
            "status": "TERMINATING",
            "reason": record.reason,
            "message": message,
            FIELD: record.document(),
        }
        before = entry.readable_part("status", "status") or ""
        written = await self._manager.writer.patch_status(entry, status)
        kept = EndingRecord.read(written.live.readable_part("status", FIELD))
        if kept is None or kept.decision != record.decision:
            return False
        _log.warning("%s %s/%s: %s (rule %s)", kind, entry.namespace, entry.name, message, record.rule)
        self._manager.event_recorder.event(entry, "Warning", "WorkloadTerminating", message[:_MAX_EVENT])
        self._on_transition(
            Transition(
                kind=kind, namespace=entry.namespace, name=entry.name, uid=entry.uid,
                before=before, after="TERMINATING", reason=record.reason, message=message,
                at=record.decided_at, user=str(entry.readable_part("spec", "user") or ""),
            )
        )  # fmt: skip
        return True

    def _refusal(self, decision: EndingDecision) -> str:
        """Why no decision is taken now, empty when one may be."""
        if not self._manager.leading:
            return "this process does not lead"
        if decision.beneficiary is None:
            return ""
        for record in self.under_way.values():
            if record.beneficiary is not None:
                return f"a decision for {record.beneficiary} is still being carried out"
        return ""

    def _find(self, victim: EndingVictim) -> CachedObject | None:
        """A victim as it was when the rule decided, None when it has changed since or has ended."""
        entry = self._manager.cache.get(WORKLOADS[victim.kind], victim.namespace, victim.name)
        if entry is None or entry.uid != victim.uid or entry.deleted is not None:
            return None
        if victim.resource_version not in ("", entry.resource_version):
            return None
        word = entry.readable_part("status", "status") or ""
        return None if word in TERMINAL or word == "TERMINATING" else entry

    async def _stale(self, entry: CachedObject) -> str:
        """Why a victim must not be ended on what is known, empty where the API server says the same now."""
        try:
            live = await self._manager.client.get(entry.resource, entry.namespace, entry.name)
        except NotFound:
            return "is gone"
        metadata = live["metadata"]
        if (metadata["uid"], metadata["resourceVersion"]) != (entry.uid, entry.resource_version):
            return "has changed"
        return ""

    def _clocks_refusal(self) -> str:
        """Why nothing can be decided by this clock, empty where the API server's agrees.

        Ending cannot be undone, and durations and times of evidence are worthless while the clock of this
        process is another one than the API server's.
        """
        theirs = self._manager.client.server_time()
        apart = abs((self._now() - theirs).total_seconds()) if theirs is not None else None
        if apart is None or apart > CLOCKS_APART:
            return f"is left alone: the clocks of this process and the API server are {_apart(apart)}"
        return ""

    def _on_event(self, event: CacheEvent) -> None:
        """Keep the decisions that are being carried out: a handful, whatever the number of workloads."""
        entry = event.new
        record = EndingRecord.read(entry.readable_part("status", FIELD)) if entry is not None else None
        if entry is None or record is None or record.workload_uid != entry.uid:
            self._known.pop(event.latest.uid, None)
            return
        word, since, longest = entry.readable_part("status", "status"), record.requeued_at, SETTLE_SECONDS
        if word == "TERMINATING":
            since, longest = record.decided_at, STUCK_SECONDS
        elif word == "TERMINATED":
            since = parse_time(entry.readable_part("status", "completionTime"))
        elif since is None:  # it ended by itself
            self._known.pop(entry.uid, None)
            return
        passed = (self._now() - since).total_seconds() if since is not None else 0.0
        left = min(max(longest - passed, 0.0), longest)
        known = self._known.get(entry.uid)
        if left <= 0.0:
            self._known.pop(entry.uid, None)
        elif known is None or known[0] != record or word != "TERMINATING":
            self._known[entry.uid] = (record, self._clock() + left)
