"""Pauses that grow while something keeps failing."""

from __future__ import annotations

import random

_HIGHEST_POWER = 30
"""2**30 times any first pause is above any cap; more would only overflow."""


def pause(first: float, cap: float, failures: int) -> float:
    """Seconds before the next try: doubling from `first` up to `cap`, then jittered by up to half downwards.

    Args:
        first: seconds after the first failure.
        cap: the most.
        failures: failures so far, at least 1.
    """
    longest = min(cap, first * 2.0 ** min(failures - 1, _HIGHEST_POWER))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 -- jitter needs no secrecy


class Backoff:
    """Counts failures of one thing."""

    def __init__(self, first: float, cap: float) -> None:
        self._first = first
        self._cap = cap
        self._failures = 0

    def next(self) -> float:
        """Note a failure; seconds to wait now."""
        self._failures += 1
        return pause(self._first, self._cap, self._failures)

    def reset(self) -> None:
        """It works again."""
        self._failures = 0
