"""A keyed work queue with client-go's semantics, priorities, and turns between namespaces."""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import Counter, deque
from typing import NamedTuple, Protocol

from kaiwo.engine.backoff import pause
from kaiwo.engine.lanes import Lanes

NORMAL = 0
"""Priority of what changes."""

LOW = -100
"""Priority of what was there when a controller started; controller-runtime's value."""


MOMENT = 0.25
"""Seconds between two moments at which keys with longer delays are due, so that several are reconciled
together: the first one after a pause takes several times as long as the next one."""


_STALE = 1024
"""Times without a key that the timeline may hold beside one for each delayed key. A time that was dropped or
replaced stays in it until it comes, which for a workload with a duration of days is days."""


def moment_from(time: float) -> float:
    """The first common moment that is not before a time of the event loop."""
    return math.ceil(time / MOMENT) * MOMENT


class Key(NamedTuple):
    """What a controller reconciles.

    Attributes:
        namespace: empty for cluster-scoped things; namespaces take turns.
        name: any further identification.
    """

    namespace: str
    name: str


class QueueObserver(Protocol):
    """What is called with the steps of keys through a queue."""

    def added(self, key: Key, /) -> None:
        """A key begins to wait for a worker."""

    def taken(self, key: Key, /) -> None:
        """A worker takes a key."""

    def finished(self, key: Key, /) -> None:
        """The work on a key ends."""

    def retried(self) -> None:
        """A key is added again after a failure."""


class _Delayed(NamedTuple):
    """When a key is due, and with which priority it is added then."""

    due: float
    priority: int


class WorkQueue:
    """Keys that wait to be reconciled.

    * A key waits at most once, however often it is added.
    * A key is never handed out twice at once: added while it is worked on, it waits again afterwards.
    * Keys of a higher priority come first. A key that is added again keeps the higher of its priorities.
    * Within one priority namespaces take turns, so that ten thousand keys of one do not hold up the one key
      of another. Of one namespace no more than a number of keys are worked on at once.
    * Delayed keys come when due; of several delays of one key the earliest counts.
    * Failures are counted per key, and each key backs off on its own.

    For one event loop; not safe for threads.

    Attributes:
        observer: called with each step of a key; None for no one.
    """

    def __init__(
        self, *, per_namespace: int | None = None, first_pause: float = 0.05, longest_pause: float = 120.0
    ) -> None:
        """Make an empty queue.

        Args:
            per_namespace: keys of one namespace that are worked on at once; None for any number.
            first_pause: seconds of back-off after the first failure of a key.
            longest_pause: the most; doubled pauses are cut to it. Jitter takes up to half of it, so a key
                that keeps failing comes at most once a minute.
        """
        self.observer: QueueObserver | None = None
        self._first_pause = first_pause
        self._longest_pause = longest_pause
        self._lanes: dict[int, Lanes[Key]] = {}
        self._per_namespace = per_namespace
        self._busy: Counter[str] = Counter()  # keys that are worked on
        self._full: set[str] = set()  # namespaces of which no more are
        self._waiting: dict[Key, int] = {}
        self._active: dict[Key, int] = {}
        self._again: dict[Key, int] = {}
        self._failures: dict[Key, int] = {}
        self._delayed: dict[Key, _Delayed] = {}
        self._timeline: list[tuple[float, Key]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._getters: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def __len__(self) -> int:
        """Keys that wait for a worker; not those that are delayed or worked on."""
        return len(self._waiting)

    @property
    def delayed(self) -> int:
        """Keys that wait for their time."""
        return len(self._delayed)

    @property
    def active(self) -> int:
        """Keys being worked on."""
        return len(self._active)

    def is_busy(self, namespace: str) -> bool:
        """Whether a key of a namespace is being worked on."""
        return namespace in self._busy

    def failures(self, key: Key) -> int:
        """Failures of a key since it was last forgotten."""
        return self._failures.get(key, 0)

    def add(self, key: Key, priority: int = NORMAL) -> None:
        """Reconcile a key as soon as its turn comes."""
        if self._closed:
            return
        if key in self._active:
            self._again[key] = max(priority, self._again.get(key, priority))
            return
        known = self._waiting.get(key)
        if known is None or known < priority:
            self._enqueue(key, priority)

    def add_after(self, key: Key, seconds: float, priority: int = NORMAL) -> None:
        """Reconcile a key after some time, unless an earlier time is set already.

        A delay of more than `MOMENT` ends at the next common moment after it.
        """
        if self._closed:
            return
        if seconds <= 0:
            self.add(key, priority)
            return
        due = asyncio.get_running_loop().time() + seconds
        if MOMENT < seconds < math.inf:
            due = moment_from(due)
        known = self._delayed.get(key)
        if known is not None:
            priority = max(priority, known.priority)
            if known.due <= due:
                self._delayed[key] = known._replace(priority=priority)
                return
        self._delayed[key] = _Delayed(due, priority)
        if len(self._timeline) > _STALE + 2 * len(self._delayed):
            self._timeline = [(delayed.due, key) for key, delayed in self._delayed.items()]
            heapq.heapify(self._timeline)
        else:
            heapq.heappush(self._timeline, (due, key))
        if self._timeline[0][1] == key:
            self._set_timer()

    def drop_delayed(self, key: Key) -> None:
        """Forget that a key was to be added later."""
        self._delayed.pop(key, None)

    def retry(self, key: Key) -> float:
        """Note a failure and reconcile again after the key's back-off; returns the seconds.

        A key that is being worked on keeps its priority.
        """
        count = self._failures[key] = self._failures.get(key, 0) + 1
        seconds = pause(self._first_pause, self._longest_pause, count)
        if self.observer is not None:
            self.observer.retried()
        self.add_after(key, seconds, self._active.get(key, NORMAL))
        return seconds

    def forget(self, key: Key) -> None:
        """Forget a key's failures."""
        self._failures.pop(key, None)

    async def get(self) -> Key | None:
        """The next key, which then counts as being worked on until `done`; None once the queue is shut."""
        while (key := self._take()) is None:
            if self._closed:
                return None
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except BaseException:
                # Pass on a notification that this getter can no longer use.
                if getter.done() and not getter.cancelled():
                    self._notify()
                elif getter in self._getters:
                    self._getters.remove(getter)
                raise
        return key

    def done(self, key: Key) -> None:
        """End the work on a key; if it was added meanwhile, it waits again."""
        if self._active.pop(key, None) is not None:
            self._release(key.namespace)
        if self.observer is not None:
            self.observer.finished(key)
        priority = self._again.pop(key, None)
        if priority is not None:
            self._enqueue(key, priority)

    def shut_down(self) -> None:
        """Hand out and accept no more keys; all getters get None."""
        self._closed = True
        self._lanes.clear()
        self._waiting.clear()
        self._again.clear()
        self._delayed.clear()
        self._timeline.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for getter in self._getters:
            if not getter.done():
                getter.set_result(None)
        self._getters.clear()

    def _enqueue(self, key: Key, priority: int) -> None:
        """Let a key wait; where it waits with a lower priority already, that place is skipped later."""
        if self._closed:
            return
        raised = key in self._waiting
        self._waiting[key] = priority
        lanes = self._lanes.get(priority)
        if lanes is None:
            lanes = self._lanes[priority] = Lanes()
        lanes.append(key.namespace, key)
        if not raised:
            if self.observer is not None:
                self.observer.added(key)
            self._notify()

    def _take(self) -> Key | None:
        """The next key whose namespace may have one more worked on, None when there is none."""
        for priority in sorted(self._lanes, reverse=True):
            lanes = self._lanes[priority]
            while (key := lanes.pop(self._full)) is not None:
                if self._waiting.get(key) == priority:
                    break
            if not lanes:
                del self._lanes[priority]
            if key is not None:
                del self._waiting[key]
                self._active[key] = priority
                self._occupy(key.namespace)
                if self.observer is not None:
                    self.observer.taken(key)
                return key
        return None

    def _occupy(self, namespace: str) -> None:
        self._busy[namespace] += 1
        if self._busy[namespace] == self._per_namespace:
            self._full.add(namespace)

    def _release(self, namespace: str) -> None:
        self._busy[namespace] -= 1
        if not self._busy[namespace]:
            del self._busy[namespace]
        if namespace in self._full:
            self._full.discard(namespace)
            self._notify()

    def _notify(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._timeline:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(self._timeline[0][0], self._add_due)

    def _add_due(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._timeline:
            due, key = self._timeline[0]
            delayed = self._delayed.get(key)
            if delayed is None or delayed.due != due:
                heapq.heappop(self._timeline)  # an earlier time replaced this one
                continue
            if due > now:
                break
            heapq.heappop(self._timeline)
            del self._delayed[key]
            self.add(key, delayed.priority)
        self._set_timer()
