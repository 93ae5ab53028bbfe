"""The table of a campaign."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from campaign.case import Case, Result
from campaign.report import command, table

if TYPE_CHECKING:
    from campaign.arena import Arena


async def nothing(arena: Arena) -> None:
    """A case that does nothing."""
    del arena


def test_failures_are_counted_by_set_and_oracle() -> None:
    """One row for each set, with its times, and a line with the sum. What was not run counts apart."""
    results = [
        Result(Case("C", "one", nothing), 2.0, began=110.0, ended=112.0),
        Result(Case("C", "two", nothing), 3.0, "O4", "differs", began=111.0, ended=174.0),
        Result(Case("F", "one", nothing), 1.0, began=101.0, ended=102.0),
        Result(Case("F", "two", nothing), 0.0, message="needs root", run=False, began=103.0, ended=103.0),
    ]
    lines = table(results, seed=7, began=100.0, seconds=75.0).splitlines()
    assert "| C | 2 | 0 | 1 | O4 1 | 5 | 10 | 74 |" in lines
    assert "| F | 1 | 1 | 0 |  | 1 | 1 | 3 |" in lines
    assert lines[-1] == "3 runs, 1 failures, seed 7, 75 s"


def _options(**given: Any) -> argparse.Namespace:
    defaults = {"seed": 1, "scenario": [], "rest": 60.0, "minutes": 10.0, "objects": 300, "earlier": ""}
    return argparse.Namespace(**{**defaults, **given})


def test_a_failed_case_can_be_run_again_as_it_is_printed() -> None:
    """The seed and the scenarios decide what a case of that name does."""
    options = _options(seed=3, scenario=["job-plain", "job-queue"])
    assert command("D/job-plain-007", options) == (
        "python -m campaign --only D/job-plain-007 --seed 3 --scenario job-plain --scenario job-queue"
    )


def test_the_name_of_a_case_is_one_word_for_the_shell() -> None:
    """Whatever is in it."""
    assert command("B/serve plain*", _options()) == "python -m campaign --only 'B/serve plain*'"
