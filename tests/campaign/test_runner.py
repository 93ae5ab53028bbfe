"""Cases that need no namespace of the campaign's control plane."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest

from campaign.case import EVIDENCE, StandaloneCase
from campaign.judging import judged_in_folder
from campaign.runner import in_turn, run_standalone
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

    result = await judged_in_folder(StandaloneCase("H", "down", fails), tmp_path)
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


async def test_cases_without_a_control_plane_run_beside_those_with_one() -> None:
    """The former compute, and the latter wait."""
    running: set[str] = set()
    most: set[str] = set()

    async def notes(name: str, directory: Path) -> None:
        nonlocal most
        del directory
        running.add(name)
        most = max(most, set(running), key=len)
        await asyncio.sleep(0.01)
        running.discard(name)

    cases = [
        StandaloneCase(letter, str(number), partial(notes, f"{letter}{number}"), plane=letter == "H")
        for letter in "HM"
        for number in range(4)
    ]
    await run_standalone(cases, lambda _: None, at_once=1)
    assert sorted(name[0] for name in most) == ["H", "M"]


def test_cases_of_all_sets_take_turns() -> None:
    """A set of which most is waiting would leave the machine idle at the end."""
    assert in_turn(["a1", "a2", "a3", "a4", "b1", "b2"], lambda name: name[0]) == [
        "a1", "b1", "a2", "a3", "b2", "a4"
    ]  # fmt: skip


async def test_an_interrupted_run_waits_until_all_its_cases_have_cleared_up() -> None:
    """What they clear up is on a control plane that goes next."""
    began, cleared = 0, []

    async def clears_up(seconds: float, directory: Path) -> None:
        nonlocal began
        del directory
        began += 1
        try:
            await asyncio.sleep(600)
        finally:
            await asyncio.sleep(seconds)
            cleared.append(seconds)

    cases = [StandaloneCase("M", str(number), partial(clears_up, number / 10)) for number in range(3)]
    running = asyncio.create_task(run_standalone(cases, lambda _: None))
    while began < len(cases):
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert cleared == [0.0, 0.1, 0.2]
