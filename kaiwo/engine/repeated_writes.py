"""Objects that somebody else changes back after each write: they are written again, but ever more rarely.

Two controllers that want different values of one field would otherwise write in turn for as long as both run,
as fast as the API server lets them, and each write may start pods.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

MANY: Final = 10
"""Equal writes in a row that are sent at once: somebody may try several changes by hand."""

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 600.0
_HIGHEST_POWER: Final = 16
_FORGOTTEN_AFTER: Final = 2 * _LONGEST_PAUSE
"""Seconds without a write after which the next one is the first again."""

_MOST: Final = 100_000
"""Objects that are remembered, unless another number is given; ten thousand workloads have fewer. With a
lower one, objects that are changed back in turn would be forgotten before their turn, and written at full
speed."""


@dataclass(frozen=True, slots=True)
class _Write:
    what: str
    count: int
    at: float


class RepeatedWrites:
    """The last write of each object, and how often in a row it was the same."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: float = _MOST) -> None:
        """Nothing is known yet.

        Args:
            clock: monotonic seconds.
            most: objects that are remembered; beyond these the one that was written the longest ago is
                forgotten. Infinity for a caller that forgets each object that is gone.
        """
        self._clock = clock
        self._most = most
        # The one that was written the longest ago first; taking the first of a plain dict takes ever longer.
        self._last: OrderedDict[Hashable, _Write] = OrderedDict()

    def __len__(self) -> int:
        """Objects that are remembered."""
        return len(self._last)

    def pause(self, key: Hashable, what: str) -> float:
        """Seconds until an object may be written; 0 for at once.

        Args:
            key: of the object.
            what: a hash of what is to be written.
        """
        last = self._last.get(key)
        if last is None or last.what != what or last.count < MANY:
            return 0.0
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(last.count - MANY, _HIGHEST_POWER))
        return max(0.0, last.at + pause - self._clock())

    def record(self, key: Hashable, what: str) -> int:
        """Record a write; how often in a row it was the same.

        Args:
            key: of the object.
            what: a hash of what was written.
        """
        now, last = self._clock(), self._last.pop(key, None)
        again = last is not None and last.what == what and now - last.at < _FORGOTTEN_AFTER
        count = last.count + 1 if last is not None and again else 1
        self._last[key] = _Write(what, count, now)
        if len(self._last) > self._most:
            self._last.popitem(last=False)
        self._forget_old(now)
        return count

    def forget(self, key: Hashable) -> None:
        """Forget an object that is gone."""
        self._last.pop(key, None)

    def _forget_old(self, now: float) -> None:
        """Forget the objects whose next write is the first again."""
        while now - next(iter(self._last.values())).at >= _FORGOTTEN_AFTER:
            self._last.popitem(last=False)
