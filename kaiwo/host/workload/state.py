"""State that the controller of one kind keeps between reconciliations; losing it is safe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaiwo.engine.backoff import pause

if TYPE_CHECKING:
    from kaiwo.engine.errors import WriteCause
    from kaiwo.engine.resource import Object
    from kaiwo.engine.workqueue import Key
    from kaiwo.host.workload.snapshot import Fingerprint
    from kaiwo.plugin.observation import Finding
    from kaiwo.workload.model import ApiRejection, DeletedChild

_FIRST_RETRY = 60.0  # seconds until a rejected object is sent again though nothing changed
_LONGEST_RETRY = 600.0
_STALE_RETRY = (2.0, 120.0)
"""First and longest pause in seconds after a conflict, should the event that ends it never come."""

_GONE_PODS = 4  # as many causes as anybody reads
_EVENTS_INTERVAL = 20.0  # seconds between two reads of the events about one object


@dataclass(slots=True)
class ReconcileState:
    """State kept between reconciliations of one workload.

    Attributes:
        seen: fingerprint of the last plan; None to plan again whatever is the same.
        ended_version: resourceVersion of the workload whose status says that it has ended, empty before:
            then nothing around it matters any more.
        due: monotonic time at which to plan again whatever is the same, None for never.
        missing_child: a child that is gone.
        gone_pods: failed pods that are gone, as they were; see :meth:`record_failed_pod`.
        rejection: the API server's last rejection.
        rejected_generation: generation of the workload whose object was rejected.
        write_cause: the cause of the rejection, where all writes like it fail.
        retry_at: monotonic time at which the rejected object is sent again.
        retry_pause: the last pause, seconds.
        warning_event: the newest Warning event about an object.
        warning_event_uid: uid of that object.
        read_events_at: monotonic time from which the events about it may be read again.
        conflicts: plans in a row that conflicted with what others wrote.
        outdated_version: resourceVersion of the workload that the API server no longer has; empty for none.
        outdated_until: monotonic time at which to ask for a later version. Nothing is planned from that one.
    """

    seen: Fingerprint | None = None
    ended_version: str = ""
    due: float | None = None
    missing_child: DeletedChild | None = None
    gone_pods: tuple[Object, ...] = ()
    rejection: ApiRejection | None = None
    rejected_generation: int = 0
    write_cause: WriteCause | None = None
    retry_at: float = 0.0
    retry_pause: float = 0.0
    warning_event: Finding | None = None
    warning_event_uid: str = ""
    read_events_at: float = 0.0
    conflicts: int = 0
    outdated_version: str = ""
    outdated_until: float = 0.0

    def is_current(self, fingerprint: Fingerprint, clock: float) -> bool:
        """Whether nothing happened since the last plan, and none is due."""
        return self.seen == fingerprint and (self.due is None or clock < self.due)

    def record_conflict(self) -> float:
        """Record a conflict with what others wrote; seconds until to try again without an event."""
        self.conflicts += 1
        return pause(*_STALE_RETRY, self.conflicts)

    def record_outdated(self, version: str, clock: float) -> float:
        """Record that the API server no longer has a version of the workload; seconds until to ask again.

        Of a workload that is gone the operator may not know it yet. Each plan would create its objects, each
        of which is deleted at once for want of an owner, and the deletion would lead to the next plan.
        """
        seconds = self.record_conflict()
        self.outdated_version, self.outdated_until = version, clock + seconds
        return seconds

    def outdated_for(self, clock: float) -> float:
        """Seconds until to ask for a version of the workload that is not outdated."""
        return max(0.0, self.outdated_until - clock)

    def record_rejection(
        self,
        rejection: ApiRejection,
        generation: int,
        clock: float,
        cause: WriteCause | None = None,
        retry_after: float | None = None,
    ) -> None:
        """Record a rejection, and when to try again: later each time, at once when the spec changes.

        Args:
            rejection: the rejection.
            generation: of the workload.
            clock: monotonic seconds.
            cause: why, where all writes like it fail.
            retry_after: seconds until to try again; None to wait longer each time.
        """
        self.write_cause = cause
        again = self.retry_pause and generation == self.rejected_generation
        longer = min(max(2 * self.retry_pause, _FIRST_RETRY), _LONGEST_RETRY) if again else _FIRST_RETRY
        self.retry_pause = longer if retry_after is None else retry_after
        self.rejection, self.rejected_generation = rejection, generation
        self.retry_at = clock + self.retry_pause

    def rejection_in_force(self, generation: int, clock: float) -> ApiRejection | None:
        """The rejection that still holds: same spec, and not yet time to try again."""
        if self.rejection is None or generation != self.rejected_generation or clock >= self.retry_at:
            return None
        return self.rejection

    def end_cause(self) -> None:
        """Send the rejected object again now: what stopped all writes like it has ended."""
        self.write_cause, self.retry_at, self.seen = None, 0.0, None

    def clear_rejection(self) -> None:
        """Forget the rejection: an object was accepted, or the rejected one is not wanted any more."""
        self.rejection, self.write_cause, self.retry_pause = None, None, 0.0

    def record_failed_pod(self, pod: Object) -> None:
        """Keep a failed pod that is gone before its owner set a condition that depends on it."""
        self.gone_pods = (*self.gone_pods, pod)[-_GONE_PODS:]

    def may_read_events(self, uid: str, clock: float) -> bool:
        """Whether the events about an object may be read: they were not read a moment ago."""
        return uid != self.warning_event_uid or clock >= self.read_events_at

    def record_event(self, uid: str, warning_event: Finding | None, clock: float) -> bool:
        """Record the newest Warning event about an object; whether it is another one than before."""
        before = self.warning_event if self.warning_event_uid == uid else None
        self.warning_event_uid, self.warning_event = uid, warning_event
        self.read_events_at = clock + _EVENTS_INTERVAL
        return warning_event != before

    def end(self, version: str) -> None:
        """Record the end of the workload, and drop what only its end is explained with."""
        self.ended_version, self.missing_child, self.gone_pods = version, None, ()

    def requeue_after(self, planned: float | None, clock: float) -> float | None:
        """Seconds until the next reconciliation without an event: as planned, or to send again."""
        seconds = [] if planned is None else [planned]
        if self.rejection is not None:
            seconds.append(max(0.0, self.retry_at - clock))
        self.due = clock + min(seconds) if seconds else None
        return min(seconds) if seconds else None


class ReconcileStates:
    """The states of all workloads of one kind.

    Attributes:
        waiting: workloads that have not ended and have no child, or whose queue takes nothing: a change in
            the cluster may concern them.
        requeues: how often those were requeued so far.
    """

    def __init__(self) -> None:
        self._states: dict[Key, tuple[str, ReconcileState]] = {}
        self._keys: dict[str, Key] = {}
        self._in_namespace: dict[str, set[Key]] = {}
        self.waiting: set[Key] = set()
        self.requeues = 0

    def of(self, key: Key, uid: str) -> ReconcileState:
        """The state of the workload with this uid; another one of the same name gets a new state."""
        known = self._states.get(key)
        if known is None or known[0] != uid:
            if known is not None:
                self._keys.pop(known[0], None)
            known = (uid, ReconcileState())
            self._states[key] = known
            self._in_namespace.setdefault(key.namespace, set()).add(key)
            self._keys[uid] = key
        return known[1]

    def key_of(self, uid: str) -> Key | None:
        """The key of the workload with this uid, None if it was never reconciled or is gone."""
        return self._keys.get(uid)

    def has_ended(self, key: Key) -> bool:
        """Whether the workload had ended when it was last reconciled: changes around it mean nothing."""
        known = self._states.get(key)
        return known is not None and bool(known[1].ended_version)

    def find(self, key: Key, uid: str) -> ReconcileState | None:
        """The state of a workload if there is one already."""
        known = self._states.get(key)
        return known[1] if known is not None and known[0] == uid else None

    def forget(self, key: Key) -> None:
        """Drop the state of a workload that is gone."""
        known = self._states.pop(key, None)
        if known is not None:
            self._keys.pop(known[0], None)
            others = self._in_namespace[key.namespace]
            others.discard(key)
            if not others:
                del self._in_namespace[key.namespace]
        self.waiting.discard(key)

    def active_in(self, namespace: str) -> list[Key]:
        """The keys of a namespace whose workloads have not ended."""
        found = self._in_namespace.get(namespace, ())
        return [key for key in found if not self._states[key][1].ended_version]

    def requeue_waiting(self) -> set[Key]:
        """The keys that wait for something in the cluster; their next reconciliation plans again."""
        self.requeues += 1
        for key in self.waiting:
            known = self._states.get(key)
            if known is not None:
                known[1].seen = None
        return set(self.waiting)

    def set_waiting(self, key: Key, state: ReconcileState, *, waits: bool, since: int) -> bool:
        """Record whether a workload waits for something in the cluster after a reconciliation.

        Args:
            key: of the workload.
            state: of it.
            waits: whether it waits.
            since: `requeues` before anything was read.

        Returns:
            Whether it must be reconciled again: those that wait were requeued meanwhile, and what was read
            may be older.
        """
        if not waits:
            self.waiting.discard(key)
            return False
        self.waiting.add(key)
        if self.requeues == since:
            return False
        state.seen = None
        return True
