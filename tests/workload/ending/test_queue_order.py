"""Whom a queue serves first with what becomes free."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from kaiwo.plugin.queue_relief import QueueRelief
from kaiwo.testing.builders import NOW
from kaiwo.workload.ending.queue_order import served_before

if TYPE_CHECKING:
    from collections.abc import Mapping

ENDED = frozenset({"idle"})


def relief(
    minutes: int = 0, priority: int = 0, *, queue: str = "q", gives: str = "ended", strict: bool = False
) -> QueueRelief:
    """One that is queued for some minutes; ``gives`` says when it gets its quota: always, ended or never."""

    def place(ended: frozenset[str]) -> Mapping[str, str] | None:
        return {} if gives == "always" or (gives == "ended" and ended) else None

    queued = NOW - timedelta(minutes=minutes)
    return QueueRelief(queue, frozenset({"q", "lender"}), ENDED, place, priority, queued, strict)


@pytest.mark.parametrize(
    ("rival", "first"),
    [
        (relief(5), True),
        (relief(1), False),
        (relief(1, priority=1), True),
        (relief(5, priority=-1), False),
        (relief(5, queue="lender"), True),
        (relief(5, queue="elsewhere"), False),
        (relief(5, gives="never"), False),
        (relief(5, gives="always"), False),
    ],
)
def test_what_becomes_free_goes_to_the_first_that_it_is_enough_for(rival: QueueRelief, first: bool) -> None:
    """By priority, then by time, among all queues that share quota."""
    assert served_before(relief(3), {"rival": rival}, ENDED) == ("rival" if first else "")


def test_a_strict_queue_stops_at_the_first_that_gets_nothing() -> None:
    """Ending somebody for one behind it would give nothing to anybody; another queue does not stop."""
    mine = relief(3, strict=True)
    assert served_before(mine, {"large": relief(5, gives="never")}, ENDED) == "large"
    assert served_before(mine, {"large": relief(5, gives="never", queue="lender")}, ENDED) == ""


def test_nobody_is_before_the_only_one() -> None:
    """Nor is one that was queued at the same moment."""
    assert served_before(relief(3), {}, ENDED) == ""
    assert served_before(relief(3), {"twin": relief(3)}, ENDED) == ""
