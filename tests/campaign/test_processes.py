"""Cases in processes of their own."""

from __future__ import annotations

import asyncio
import importlib
import os
from typing import TYPE_CHECKING, Any

import pytest

from campaign.processes import Processes

if TYPE_CHECKING:
    from pathlib import Path

    from campaign.case import StandaloneCase

MODULE = """
import asyncio
import os
from pathlib import Path

from campaign.case import StandaloneCase
from campaign.violation import NotRunError, ViolationError

NOTES = Path(__file__).with_suffix(".notes")


async def fails(directory):
    (directory / "evidence").mkdir()
    (directory / "evidence" / "operator.log").write_text("why")
    raise ViolationError("O1", "no child")


async def cannot(directory):
    raise NotRunError("needs root")


async def ends_the_process(directory):
    os._exit(7)


async def waits(directory):
    try:
        NOTES.write_text(f"{os.getpid()} began")
        await asyncio.sleep(600)
    finally:
        NOTES.write_text(f"{os.getpid()} cleared up")


def cases():
    for run in (fails, cannot, ends_the_process, waits):
        yield StandaloneCase("H", run.__name__, run)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module with cases, which their processes import as well."""
    name = f"cases_of_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    return importlib.import_module(name)


def _case(module: Any, name: str) -> StandaloneCase:
    (found,) = (case for case in module.cases() if case.name == name)
    return found  # type: ignore[no-any-return]


async def test_what_a_case_found_reaches_the_campaign(module: Any, tmp_path: Path) -> None:
    """With its oracle, its message and its logs."""
    result = await Processes(module.cases, tmp_path / "kept")(_case(module, "fails"))
    assert (result.oracle, result.message, result.run) == ("O1", "no child", True)
    assert (tmp_path / "kept" / "H" / "fails" / "operator.log").read_text() == "why"
    assert result.ended >= result.began > 0


async def test_a_case_that_the_machine_does_not_allow_is_not_run(module: Any) -> None:
    """It has not failed."""
    result = await Processes(module.cases)(_case(module, "cannot"))
    assert (result.oracle, result.message, result.run) == ("", "needs root", False)


async def test_a_case_whose_process_ends_has_failed(module: Any) -> None:
    """The campaign goes on with the others."""
    result = await Processes(module.cases)(_case(module, "ends_the_process"))
    assert (result.oracle, result.message) == ("error", "its process ended with 7")


async def test_an_interrupted_case_clears_up_before_its_process_ends(module: Any) -> None:
    """Its control plane and its operator go."""
    running = asyncio.create_task(Processes(module.cases)(_case(module, "waits")))
    while not (module.NOTES.exists() and module.NOTES.read_text().endswith("began")):
        await asyncio.sleep(0.05)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    pid, _, word = module.NOTES.read_text().partition(" ")
    assert word == "cleared up"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)
