"""One order for members of several lists."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class NotMergeableError(Exception):
    """The renderings of two choices have the same things in different orders."""


def order(sequences: Sequence[Sequence[str]]) -> list[str]:
    """One order of all members in which every sequence is in its own order.

    Raises:
        NotMergeableError: there is none.
    """
    after: dict[str, set[str]] = {}
    for sequence in sequences:
        for one in sequence:
            after.setdefault(one, set())
        for one, following in pairwise(sequence):
            after[following].add(one)
    found: list[str] = []
    while after:
        free = next((one for one, before in after.items() if not before & after.keys()), None)
        if free is None:
            raise NotMergeableError(f"no order of {', '.join(after)} fits all choices")
        found.append(free)
        del after[free]
    return found
