"""Runs a case in a process of its own, so that its computing does not hold up other cases.

A fault proxy that has to wait makes an operator look slow, and its Lease run out.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from campaign.case import Result
from campaign.judging import judged_in_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from multiprocessing.connection import Connection

    from campaign.case import StandaloneCase

_END: Final = 60.0
"""Seconds that a case has to clear up when the campaign is interrupted."""

_context = multiprocessing.get_context("forkserver")


@dataclass(frozen=True, slots=True)
class Processes:
    """Where cases run: each in a process that is forked from one with all modules.

    Attributes:
        cases: all cases; called in each process, which runs the one of the given name.
        evidence: where the logs of failed cases are kept.
    """

    cases: Callable[[], Iterable[StandaloneCase]]
    evidence: Path | None = None

    async def __call__(self, case: StandaloneCase) -> Result:
        """Run one case; its process is ended when this is cancelled."""
        receiving, sending = _context.Pipe(duplex=False)
        process = _context.Process(
            target=_run, args=(self.cases, str(case), self.evidence, sending), name=str(case)
        )
        loop = asyncio.get_running_loop()
        _context.set_forkserver_preload(["campaign.sets"])
        began = time.monotonic()
        process.start()
        sending.close()
        readable = loop.create_future()
        loop.add_reader(receiving.fileno(), _note, readable)
        try:
            await readable
            try:
                result = Result(case, **receiving.recv())
            except EOFError:
                result = None
            await asyncio.to_thread(process.join, _END)
            if result is not None:
                return result
            message = f"its process ended with {process.exitcode}"
            return Result(case, 0.0, "error", message, began=began, ended=time.monotonic())
        finally:
            loop.remove_reader(receiving.fileno())
            receiving.close()
            await _end(process)


def _note(readable: asyncio.Future[None]) -> None:
    if not readable.done():
        readable.set_result(None)


async def _end(process: Any) -> None:
    """Have a process that was interrupted clear up; kill it if it does not, or if this is interrupted too."""
    try:
        if process.is_alive():
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
            await asyncio.to_thread(process.join, _END)
    finally:
        if process.is_alive():
            process.kill()
        process.join()
        process.close()


def _run(
    cases: Callable[[], Iterable[StandaloneCase]], name: str, evidence: Path | None, sending: Connection
) -> None:
    (case,) = (each for each in cases() if str(each) == name)
    # The campaign ends its processes itself. Ctrl-C reaches all of them. A handler that does nothing, since
    # the programs of a case would inherit that the signal is ignored, and some cases press Ctrl-C in one.
    signal.signal(signal.SIGINT, lambda *_: None)

    async def main() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None  # noqa: S101  this is one
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
        parent = multiprocessing.parent_process()
        if parent is not None:  # a campaign that is killed cannot end its processes
            loop.add_reader(parent.sentinel, task.cancel)
        try:
            result = await judged_in_folder(case, evidence)
        finally:
            _kill_programs()  # or a thread would wait for what an interrupted case has started
        with suppress(BrokenPipeError):  # the campaign has ended meanwhile
            sending.send(
                {
                    "seconds": result.seconds, "oracle": result.oracle, "message": result.message,
                    "run": result.run, "began": result.began, "ended": result.ended,
                }
            )  # fmt: skip

    with suppress(asyncio.CancelledError):
        asyncio.run(main())


def _kill_programs() -> None:
    """Kill what this process has started and not ended."""
    for children in Path("/proc/self/task").glob("*/children"):
        for pid in children.read_text(encoding="ascii").split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
