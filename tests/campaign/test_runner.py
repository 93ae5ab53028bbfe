"""Cases that need no namespace of the campaign's control plane."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from campaign.case import EVIDENCE, StandaloneCase
from campaign.runner import run_standalone
from campaign.violation import ViolationError

if TYPE_CHECKING:
    from pathlib import Path


async def test_the_logs_of_a_failed_case_are_kept(tmp_path: Path) -> None:
    """Under the name of the case; what else the case wrote goes."""

    async def fails(directory: Path) -> None:
        (directory / EVIDENCE).mkdir()
        (directory / EVIDENCE / "operator.log").write_text("why")
        (directory / "data").write_text("of the case")
        raise ViolationError("O1", "no child")

    (result,) = await run_standalone([StandaloneCase("H", "down", fails)], lambda _: None, evidence=tmp_path)
    assert result.oracle == "O1"
    assert _files(tmp_path) == ["H/down/operator.log"]


def _files(directory: Path) -> list[str]:
    return [path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()]


async def test_no_more_cases_run_at_the_same_time_than_are_allowed() -> None:
    """The machine runs a control plane for each."""
    running, most = 0, 0

    async def counts(directory: Path) -> None:
        nonlocal running, most
        del directory
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1

    cases = [StandaloneCase("H", str(number), counts) for number in range(7)]
    await run_standalone(cases, lambda _: None, at_once=3)
    assert most == 3
