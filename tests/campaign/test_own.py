"""A control plane of one case's own."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from campaign import own

if TYPE_CHECKING:
    from pathlib import Path


class _SlowSandbox:
    """A control plane that starts when it is allowed to."""

    def __init__(self) -> None:
        self.asked, self.may_start, self.is_down = threading.Event(), threading.Event(), False

    def up(self, *_: object, **__: object) -> _SlowSandbox:
        self.asked.set()
        assert self.may_start.wait(30)
        return self

    def down(self) -> None:
        self.is_down = True


async def test_a_case_whose_time_runs_out_during_the_start_leaves_no_control_plane(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The programs of a control plane would share the cores with all cases that come later."""
    sandbox = _SlowSandbox()
    monkeypatch.setattr(own, "Sandbox", sandbox)

    async def case() -> None:
        async with own.own_control_plane(tmp_path):
            pytest.fail("the case ran")

    running = asyncio.create_task(case())
    await asyncio.to_thread(sandbox.asked.wait)
    running.cancel()
    await asyncio.sleep(0)
    sandbox.may_start.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert sandbox.is_down
