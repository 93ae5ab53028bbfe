"""Runs one case and says what became of it."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from campaign.case import EVIDENCE, Result, StandaloneCase
from campaign.violation import NotRunError, ViolationError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from campaign.case import Case

_LONGEST: Final = 600.0
"""Seconds after which a case has failed. Most of them go to waiting until an operator may start."""


async def judged(case: Case | StandaloneCase, run: Awaitable[None]) -> Result:
    """Wait for a case; what it raises is part of the result.

    Args:
        case: which.
        run: what it does.
    """
    began = time.monotonic()
    oracle = message = ""
    done = True
    longest = case.seconds if isinstance(case, StandaloneCase) else _LONGEST
    try:
        async with asyncio.timeout(longest):
            await run
    except ViolationError as error:
        oracle, message = error.oracle, str(error)
    except NotRunError as error:
        done, message = False, str(error)
    except TimeoutError:
        oracle, message = "O6", f"did not end within {longest:g} s"
    except Exception as error:  # noqa: BLE001  a case that fails must not end the others
        oracle, message = "error", f"{type(error).__name__}: {error}"
    ended = time.monotonic()
    return Result(case, ended - began, oracle, message, done, began, ended)


async def judged_in_folder(case: StandaloneCase, evidence: Path | None = None) -> Result:
    """Run a case in an empty folder, which goes afterwards.

    Args:
        case: which.
        evidence: where the logs of a failed case are kept, in ``SET/CASE``; None keeps none.
    """

    async def run() -> None:
        with tempfile.TemporaryDirectory(prefix="kaiwo-campaign-") as name:
            directory = Path(name)
            try:
                await case.run(directory)
            finally:
                if evidence is not None and (directory / EVIDENCE).exists():
                    shutil.copytree(directory / EVIDENCE, evidence / str(case), dirs_exist_ok=True)

    return await judged(case, run())
