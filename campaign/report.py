"""The table of a campaign, and how a case is run again."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from campaign.case import Result

_AGAIN: Final = {"seed": 1, "scenario": [], "rest": 60.0, "minutes": 10.0, "objects": 300, "earlier": ""}
"""Options that a case depends on, with their defaults."""


def table(results: Sequence[Result], seed: int, began: float, seconds: float) -> str:
    """Runs, failures and times by set, as Markdown.

    Args:
        results: of all cases.
        seed: of the campaign.
        began: when it began, by the clock of the results.
        seconds: that it took.
    """
    lines = [
        "| set | runs | not run | failures | oracles | seconds of cases | began at | ended at |",
        "|--|--|--|--|--|--|--|--|",
    ]
    for letter in sorted({result.case.set for result in results}):
        of_set = [result for result in results if result.case.set == letter]
        failed = Counter(result.oracle for result in of_set if result.oracle)
        oracles = ", ".join(f"{oracle} {count}" for oracle, count in sorted(failed.items()))
        left_out = sum(not result.run for result in of_set)
        spent = sum(result.seconds for result in of_set)
        runs = len(of_set) - left_out
        first, last = (end(of_set) - began for end in (_first, _last))
        times = (f"{time:.0f}" for time in (spent, first, last))
        cells = (letter, runs, left_out, failed.total(), oracles, *times)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    total = sum(bool(result.oracle) for result in results)
    runs = sum(result.run for result in results)
    lines.append(f"\n{runs} runs, {total} failures, seed {seed}, {seconds:.0f} s")
    return "\n".join(lines)


def _first(results: Sequence[Result]) -> float:
    return min(result.began for result in results)


def _last(results: Sequence[Result]) -> float:
    return max(result.ended for result in results)


def command(case: str, options: argparse.Namespace) -> str:
    """The command line that runs one case again.

    Args:
        case: as the command line takes it.
        options: of the campaign.
    """
    words = ["python", "-m", "campaign", "--only", case]
    for name, default in _AGAIN.items():
        given = getattr(options, name)
        if given != default:
            for value in given if isinstance(given, list) else [given]:
                words += [f"--{name}", str(value)]
    return shlex.join(words)
