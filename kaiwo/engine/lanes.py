"""Items that wait, first in, first out within a namespace; namespaces take turns."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Container

T = TypeVar("T")


class Lanes(Generic[T]):
    """One queue for each namespace that has items."""

    def __init__(self) -> None:
        self._lanes: dict[str, deque[T]] = {}
        self._turns: deque[str] = deque()

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self._turns)

    def append(self, namespace: str, item: T) -> None:
        """Let an item of a namespace wait."""
        lane = self._lanes.get(namespace)
        if lane is None:
            self._lanes[namespace] = deque((item,))
            self._turns.append(namespace)
        else:
            lane.append(item)

    def pop_crowd(self) -> T | None:
        """The first item of the namespace with the most of them; None when nothing waits."""
        namespace = max(self._lanes, key=lambda name: len(self._lanes[name]), default=None)
        if namespace is None:
            return None
        lane = self._lanes[namespace]
        item = lane.popleft()
        if not lane:
            del self._lanes[namespace]
            self._turns.remove(namespace)
        return item

    def pop(self, held: Container[str] = ()) -> T | None:
        """The first item of the namespace whose turn it is; None when there is none.

        Args:
            held: namespaces that are passed over; they keep their place.
        """
        namespace = next((name for name in self._turns if name not in held), None)
        if namespace is None:
            return None
        self._turns.remove(namespace)
        lane = self._lanes[namespace]
        item = lane.popleft()
        if lane:
            self._turns.append(namespace)
        else:
            del self._lanes[namespace]
        return item
