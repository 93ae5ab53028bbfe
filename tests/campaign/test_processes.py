"""Cases in processes of their own."""

from __future__ import annotations

import asyncio
import importlib
import os
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

from campaign import processes
from campaign.processes import Processes

if TYPE_CHECKING:
    from pathlib import Path

    from campaign.case import StandaloneCase

MODULE = """
import asyncio
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from campaign.case import StandaloneCase
from campaign.violation import NotRunError, ViolationError

NOTES = Path(__file__).with_suffix(".notes")
tempfile.tempdir = str(NOTES.parent)  # what a killed process leaves goes with the test


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


async def is_held_up(directory):
    try:
        NOTES.write_text(f"{os.getpid()} began")
        await asyncio.sleep(600)
    finally:
        await asyncio.shield(asyncio.to_thread(time.sleep, 600))


def runs_a_program(directory):
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        NOTES.write_text(f"{process.pid} began")


async def waits_for_a_program(directory):
    await asyncio.to_thread(runs_a_program, directory)


async def presses_ctrl_c(directory):
    process = await asyncio.create_subprocess_exec("sh", "-c", "kill -INT $$; sleep 5")
    if await process.wait() != -signal.SIGINT:
        raise ViolationError("O6", "the program went on")


def cases():
    for run in (
        fails, cannot, ends_the_process, waits, is_held_up, waits_for_a_program, presses_ctrl_c
    ):
        yield StandaloneCase("H", run.__name__, run)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module with cases, which their processes import as well."""
    name = f"cases_of_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", tempfile.tempdir)
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


async def test_a_program_of_a_case_can_be_interrupted(module: Any) -> None:
    """As by a user who presses Ctrl-C in it; the process of the case goes on."""
    result = await Processes(module.cases)(_case(module, "presses_ctrl_c"))
    assert (result.oracle, result.message) == ("", "")


async def _interrupted(module: Any, name: str) -> tuple[int, str]:
    """Interrupt a case once it has begun; the process that it noted, and its last word."""
    running = asyncio.create_task(Processes(module.cases)(_case(module, name)))
    while not (module.NOTES.exists() and module.NOTES.read_text().endswith("began")):
        await asyncio.sleep(0.05)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    pid, _, word = module.NOTES.read_text().partition(" ")
    return int(pid), word


async def test_an_interrupted_case_clears_up_before_its_process_ends(module: Any) -> None:
    """Its control plane and its operator go."""
    pid, word = await _interrupted(module, "waits")
    assert word == "cleared up"
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_case_that_cannot_clear_up_is_killed(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The campaign ends without it."""
    monkeypatch.setattr(processes, "_END", 1.0)
    pid, _ = await _interrupted(module, "is_held_up")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_an_interrupted_case_leaves_no_program(module: Any) -> None:
    """Also not one in a session of its own, for which a thread waits."""
    pid, _ = await _interrupted(module, "waits_for_a_program")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
