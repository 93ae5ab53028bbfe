"""A keyed work queue: the semantics of client-go's workqueue, and turns between namespaces."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from typing import NamedTuple

from kaiwo.engine.backoff import pause


class Key(NamedTuple):
    """What a controller reconciles.

    Attributes:
        namespace: empty for cluster-scoped things; also the lane whose turn it is.
        name: any further identification.
    """

    namespace: str
    name: str


class WorkQueue:
    """Keys to look at.

    * A key waits at most once, however often it is added.
    * A key is never handed out twice at once: added while it is worked on, it waits again afterwards.
    * Namespaces take turns, so that ten thousand keys of one do not hold up the one key of another.
    * Delayed keys come when due; of several delays of one key the earliest counts.
    * Failures are counted per key, and each key backs off on its own.

    For one event loop; not safe for threads.
    """

    def __init__(self, *, first_pause: float = 0.05, longest_pause: float = 60.0) -> None:
        """An empty queue.

        Args:
            first_pause: seconds of back-off after the first failure of a key.
            longest_pause: the most; doubled pauses are cut to it.
        """
        self._first_pause = first_pause
        self._longest_pause = longest_pause
        self._lanes: dict[str, deque[Key]] = {}
        self._turns: deque[str] = deque()
        self._waiting: set[Key] = set()
        self._active: set[Key] = set()
        self._again: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._due: dict[Key, float] = {}
        self._timeline: list[tuple[float, Key]] = []
        self._alarm: asyncio.TimerHandle | None = None
        self._getters: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def __len__(self) -> int:
        """Keys that wait for a worker (delayed ones and those being worked on apart)."""
        return len(self._waiting) + len(self._again)

    @property
    def delayed(self) -> int:
        """Keys that wait for their time."""
        return len(self._due)

    @property
    def active(self) -> int:
        """Keys being worked on."""
        return len(self._active)

    def failures(self, key: Key) -> int:
        """Failures of a key since it was last forgotten."""
        return self._failures.get(key, 0)

    def add(self, key: Key) -> None:
        """Look at a key as soon as its turn comes."""
        if self._closed:
            return
        if key in self._active:
            self._again.add(key)
        elif key not in self._waiting:
            self._enqueue(key)

    def add_after(self, key: Key, seconds: float) -> None:
        """Look at a key after some time, unless an earlier time is set already."""
        if self._closed:
            return
        if seconds <= 0:
            self.add(key)
            return
        when = asyncio.get_running_loop().time() + seconds
        known = self._due.get(key)
        if known is not None and known <= when:
            return
        self._due[key] = when
        heapq.heappush(self._timeline, (when, key))
        if self._timeline[0][1] == key:
            self._set_alarm()

    def retry(self, key: Key) -> float:
        """Note a failure and look again after the key's back-off; returns the seconds."""
        count = self._failures[key] = self._failures.get(key, 0) + 1
        seconds = pause(self._first_pause, self._longest_pause, count)
        self.add_after(key, seconds)
        return seconds

    def forget(self, key: Key) -> None:
        """Forget a key's failures."""
        self._failures.pop(key, None)

    async def get(self) -> Key | None:
        """The next key, which then counts as being worked on until `done`; None once the queue is shut."""
        while not self._turns:
            if self._closed:
                return None
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except BaseException:
                # Pass on a wake-up that this getter can no longer use.
                if getter.done() and not getter.cancelled():
                    self._wake()
                elif getter in self._getters:
                    self._getters.remove(getter)
                raise
        return self._take()

    def done(self, key: Key) -> None:
        """A key is no longer worked on; if it was added meanwhile, it waits again."""
        self._active.discard(key)
        if key in self._again:
            self._again.discard(key)
            self._enqueue(key)

    def shut_down(self) -> None:
        """Hand out and accept no more keys; all getters get None."""
        self._closed = True
        self._lanes.clear()
        self._turns.clear()
        self._waiting.clear()
        self._again.clear()
        self._due.clear()
        self._timeline.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        for getter in self._getters:
            if not getter.done():
                getter.set_result(None)
        self._getters.clear()

    def _enqueue(self, key: Key) -> None:
        if self._closed:
            return
        self._waiting.add(key)
        lane = self._lanes.get(key.namespace)
        if lane is None:
            self._lanes[key.namespace] = deque((key,))
            self._turns.append(key.namespace)
        else:
            lane.append(key)
        self._wake()

    def _take(self) -> Key:
        namespace = self._turns.popleft()
        lane = self._lanes[namespace]
        key = lane.popleft()
        if lane:
            self._turns.append(namespace)
        else:
            del self._lanes[namespace]
        self._waiting.discard(key)
        self._active.add(key)
        return key

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._timeline:
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_at(self._timeline[0][0], self._ring)

    def _ring(self) -> None:
        self._alarm = None
        now = asyncio.get_running_loop().time()
        while self._timeline:
            when, key = self._timeline[0]
            if self._due.get(key) != when:
                heapq.heappop(self._timeline)  # an earlier time replaced this one
                continue
            if when > now:
                break
            heapq.heappop(self._timeline)
            del self._due[key]
            self.add(key)
        self._set_alarm()
