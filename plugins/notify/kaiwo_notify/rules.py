"""Which transitions a sink reports, and how many."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kaiwo.plugin.lifecycle import Transition
    from kaiwo_notify.settings import Rules

_HOUR: Final = 3600.0


def is_reported(rules: Rules, transition: Transition) -> bool:
    """Whether a transition fits all rules of a sink."""
    return all(
        not wanted or value in wanted
        for wanted, value in (
            (rules.statuses, transition.after),
            (rules.users, transition.user),
            (rules.namespaces, transition.namespace),
            (rules.reasons, transition.reason),
        )
    )


class RateLimit:
    """Messages within the last hour, and how many were left out since the last one.

    Attributes:
        left_out: messages that were left out since the last one that was sent.
    """

    def __init__(self) -> None:
        """Nothing was sent yet."""
        self.left_out = 0
        self._sent: deque[tuple[float, str]] = deque()
        self._by_namespace: Counter[str] = Counter()

    def take(self, now: float, per_hour: int, namespace: str, *, alone: bool = False) -> bool:
        """Whether a message may be sent now; one that may not is counted as left out.

        A namespace gets no more messages than are left for the others: one with thousands of workloads that
        fail must not silence them.

        Args:
            now: monotonic seconds.
            per_hour: messages within an hour at most.
            namespace: of the workload.
            alone: whether only one namespace is reported, which may have all messages then.
        """
        while self._sent and self._sent[0][0] <= now - _HOUR:
            gone = self._sent.popleft()[1]
            self._by_namespace[gone] -= 1
            if not self._by_namespace[gone]:
                del self._by_namespace[gone]
        left = per_hour - len(self._sent)
        if left <= (0 if alone else self._by_namespace[namespace]):
            self.left_out += 1
            return False
        self._sent.append((now, namespace))
        self._by_namespace[namespace] += 1
        return True
