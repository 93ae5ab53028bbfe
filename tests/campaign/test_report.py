"""The table of a campaign."""

from __future__ import annotations

from typing import TYPE_CHECKING

from campaign.case import Case, Result
from campaign.report import table

if TYPE_CHECKING:
    from campaign.arena import Arena


async def nothing(arena: Arena) -> None:
    """A case that does nothing."""
    del arena


def test_failures_are_counted_by_set_and_oracle() -> None:
    """One row for each set, and a line with the sum and the seed. What was not run counts apart."""
    results = [
        Result(Case("C", "one", nothing), 2.0),
        Result(Case("C", "two", nothing), 3.0, "O4", "differs"),
        Result(Case("F", "one", nothing), 1.0),
        Result(Case("F", "two", nothing), 0.0, message="needs root", run=False),
    ]
    lines = table(results, seed=7, seconds=4.0).splitlines()
    assert "| C | 2 | 0 | 1 | O4 1 | 5 |" in lines
    assert "| F | 1 | 1 | 0 |  | 1 |" in lines
    assert lines[-1] == "3 runs, 1 failures, seed 7, 4 s"
