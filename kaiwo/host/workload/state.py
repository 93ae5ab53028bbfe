"""What the controller of one kind remembers of each workload between two looks; all of it may be lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object
    from kaiwo.engine.workqueue import Key
    from kaiwo.plugin.observation import Finding
    from kaiwo.workload.model import ApiRejection, DeletedChild

Fingerprint: TypeAlias = tuple[str, ...]

_FIRST_RETRY = 60.0  # seconds until a refused object is sent again though nothing changed
_LONGEST_RETRY = 600.0
_GONE_PODS = 4  # as many explanations as anybody reads
_ASK_PAUSE = 20.0  # seconds between two looks for events about one child


@dataclass(slots=True)
class ReconcileState:
    """Of one workload.

    Attributes:
        seen: versions of everything the last plan was made from; the same again needs no new plan.
        over: resourceVersion of the workload as it was told that it has ended, empty before: then nothing
            around it matters any more.
        due: monotonic time at which to plan again whatever is the same, None for never.
        lost: a child that is gone.
        gone_pods: failed pods that are gone, as they were; see :meth:`record_failed_pod`.
        rejection: the API server's last refusal.
        rejected_generation: generation of the workload that was refused.
        retry_at: monotonic time at which the refused object is sent again.
        retry_pause: the last pause, seconds.
        warning_event: what the newest warning about an object said.
        warning_event_uid: uid of that object.
        ask_at: monotonic time from which events about it may be read again.
    """

    seen: Fingerprint = ()
    over: str = ""
    due: float | None = None
    lost: DeletedChild | None = None
    gone_pods: tuple[Object, ...] = ()
    rejection: ApiRejection | None = None
    rejected_generation: int = 0
    retry_at: float = 0.0
    retry_pause: float = 0.0
    warning_event: Finding | None = None
    warning_event_uid: str = ""
    ask_at: float = 0.0

    def same(self, fingerprint: Fingerprint, clock: float) -> bool:
        """Whether nothing happened since the last plan."""
        return bool(self.seen) and self.seen == fingerprint and (self.due is None or clock < self.due)

    def refused(self, rejection: ApiRejection, generation: int, clock: float) -> None:
        """Note a refusal, and when to try again: later each time, sooner when the spec changes."""
        again = self.retry_pause and generation == self.rejected_generation
        self.retry_pause = min(2 * self.retry_pause, _LONGEST_RETRY) if again else _FIRST_RETRY
        self.rejection, self.rejected_generation = rejection, generation
        self.retry_at = clock + self.retry_pause

    def in_force(self, generation: int, clock: float) -> ApiRejection | None:
        """The refusal that still stands: same spec, and not yet time to try again."""
        if self.rejection is None or generation != self.rejected_generation or clock >= self.retry_at:
            return None
        return self.rejection

    def record_failed_pod(self, pod: Object) -> None:
        """Keep what a failed pod said that is gone before its owner drew a conclusion from it."""
        self.gone_pods = (*self.gone_pods, pod)[-_GONE_PODS:]

    def ended(self, version: str) -> None:
        """The workload has ended: forget what only its end had to be explained with."""
        self.over, self.lost, self.gone_pods = version, None, ()

    def wake_in(self, wanted: float | None, clock: float) -> float | None:
        """Seconds until the next look that no event asks for: the plan's wish, or the end of a refusal."""
        seconds = [] if wanted is None else [wanted]
        if self.rejection is not None:
            seconds.append(max(0.0, self.retry_at - clock))
        self.due = clock + min(seconds) if seconds else None
        return min(seconds) if seconds else None

    def may_ask(self, uid: str, clock: float) -> bool:
        """Whether events about the object are worth a request: they were not read a moment ago."""
        return uid != self.warning_event_uid or clock >= self.ask_at

    def heard(self, uid: str, warning_event: Finding | None, clock: float) -> None:
        """Note what was read."""
        self.warning_event_uid, self.warning_event = uid, warning_event
        self.ask_at = clock + _ASK_PAUSE

    def accepted(self) -> None:
        """Forget refusals: an object was taken, or the refused one is not wanted any more."""
        self.rejection, self.retry_pause = None, 0.0


class ReconcileStates:
    """Of all workloads of one kind."""

    def __init__(self) -> None:
        self._of: dict[Key, tuple[str, ReconcileState]] = {}
        self._keys: dict[str, Key] = {}
        self.waiting: set[Key] = set()
        """Workloads without a child that have not ended: a change in the cluster may concern them."""
        self.wakes = 0
        """How often those were woken so far."""

    def of(self, key: Key, uid: str) -> ReconcileState:
        """What is remembered of the workload with this uid; another one of the same name starts anew."""
        known = self._of.get(key)
        if known is None or known[0] != uid:
            if known is not None:
                self._keys.pop(known[0], None)
            known = (uid, ReconcileState())
            self._of[key] = known
            self._keys[uid] = key
        return known[1]

    def key_of(self, uid: str) -> Key | None:
        """The key of the workload with this uid, None if it was never looked at or is gone."""
        return self._keys.get(uid)

    def find(self, key: Key, uid: str) -> ReconcileState | None:
        """What is remembered, without beginning to remember."""
        known = self._of.get(key)
        return known[1] if known is not None and known[0] == uid else None

    def forget(self, key: Key) -> None:
        """The workload is gone."""
        known = self._of.pop(key, None)
        if known is not None:
            self._keys.pop(known[0], None)
        self.waiting.discard(key)

    def wake(self) -> set[Key]:
        """The keys that wait for something in the cluster; their next look plans anew."""
        self.wakes += 1
        for key in self.waiting:
            known = self._of.get(key)
            if known is not None:
                known[1].seen = ()
        return set(self.waiting)

    def waits(self, key: Key, memory: ReconcileState, *, since: int) -> bool:
        """Note that a look left the workload waiting.

        Args:
            key: of the workload.
            memory: of it.
            since: `wakes` before anything was read.

        Returns:
            Whether it must be looked at again: those that wait were woken meanwhile, and what this look read
            may be from before.
        """
        self.waiting.add(key)
        if self.wakes == since:
            return False
        memory.seen = ()
        return True
