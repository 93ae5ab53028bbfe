"""Which transitions a sink reports, and how many."""

from __future__ import annotations

from collections import deque
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
        self._sent: deque[float] = deque()

    def take(self, now: float, per_hour: int) -> bool:
        """Whether a message may be sent now; one that may not is counted as left out.

        Args:
            now: monotonic seconds.
            per_hour: messages within an hour at most.
        """
        while self._sent and self._sent[0] <= now - _HOUR:
            self._sent.popleft()
        if len(self._sent) >= per_hour:
            self.left_out += 1
            return False
        self._sent.append(now)
        return True
