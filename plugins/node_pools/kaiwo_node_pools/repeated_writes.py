"""Nodes whose labels or taint somebody else takes back: they are written again, but ever more rarely."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaiwo.plugin.kit.kinds import Object

MANY = 3
"""Equal writes in a row without a pause: a kubelet that registers anew takes labels back, too."""

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 300.0
_FORGOTTEN_AFTER = 2 * _LONGEST_PAUSE
"""Seconds without a write after which the next one is the first again."""


@dataclass(slots=True)
class _Written:
    what: Object
    count: int
    at: float


class RepeatedWrites:
    """The last write of each node, and how often it was the same."""

    def __init__(self) -> None:
        self._written: dict[str, _Written] = {}

    def pause(self, node: str, what: Object, now: float) -> float:
        """Seconds until a node may be written; 0 for at once.

        Args:
            node: its name.
            what: the patch.
            now: monotonic time.
        """
        last = self._written.get(node)
        if last is None or last.what != what or last.count < MANY:
            return 0.0
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(last.count - MANY, 16))
        return max(0.0, last.at + pause - now)

    def record(self, node: str, what: Object, now: float) -> int:
        """Record a write.

        Args:
            node: name of the node.
            what: the patch.
            now: monotonic time.

        Returns:
            How many times in a row it was the same.
        """
        last = self._written.get(node)
        again = last is not None and last.what == what and now - last.at < _FORGOTTEN_AFTER
        count = last.count + 1 if last is not None and again else 1
        self._written[node] = _Written(what, count, now)
        return count

    def forget(self, node: str) -> None:
        """Forget a node that is gone."""
        self._written.pop(node, None)
