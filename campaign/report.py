"""The table of a campaign."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from campaign.case import Result


def table(results: Sequence[Result], seed: int, seconds: float) -> str:
    """Runs and failures by set, as Markdown.

    Args:
        results: of all cases.
        seed: of the campaign.
        seconds: that it took.
    """
    lines = ["| set | runs | not run | failures | oracles | seconds |", "|--|--|--|--|--|--|"]
    for letter in sorted({result.case.set for result in results}):
        of_set = [result for result in results if result.case.set == letter]
        failed = Counter(result.oracle for result in of_set if result.oracle)
        oracles = ", ".join(f"{oracle} {count}" for oracle, count in sorted(failed.items()))
        left_out = sum(not result.run for result in of_set)
        spent = sum(result.seconds for result in of_set)
        runs = len(of_set) - left_out
        lines.append(f"| {letter} | {runs} | {left_out} | {failed.total()} | {oracles} | {spent:.0f} |")
    total = sum(bool(result.oracle) for result in results)
    runs = sum(result.run for result in results)
    lines.append(f"\n{runs} runs, {total} failures, seed {seed}, {seconds:.0f} s")
    return "\n".join(lines)
