"""One timer limits the work of several tasks, each from its own beginning."""

from __future__ import annotations

import asyncio

import pytest

from kaiwo.engine.time_limits import TimeLimits


async def work(limits: TimeLimits, seconds: float) -> bool:
    """Work for some time; whether the limit ended it."""
    expired = False
    limits.begin()
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        expired = limits.end()
        if not expired:
            raise
    else:
        expired = limits.end()
    return expired


async def test_work_that_takes_too_long_is_cancelled_and_its_task_goes_on() -> None:
    """The worker that did it takes the next key."""

    async def worker() -> list[bool]:
        return [await work(limits, 30), await work(limits, 0), await work(limits, 30)]

    limits = TimeLimits(0.05)
    task = asyncio.create_task(worker())
    assert await asyncio.wait_for(task, 10) == [True, False, True]
    assert not task.cancelling()


async def test_each_work_has_the_whole_time_whatever_began_before_it() -> None:
    """The timer of the first one does not end the second one."""
    limits = TimeLimits(0.4)
    first = asyncio.create_task(work(limits, 30))
    await asyncio.sleep(0.2)
    loop = asyncio.get_running_loop()
    began = loop.time()
    second = asyncio.create_task(work(limits, 30))
    assert await first
    assert not second.done()
    assert await second
    assert loop.time() - began > 0.35


async def test_a_task_that_somebody_else_cancels_is_not_over_its_limit() -> None:
    """A worker that is cancelled at the end of the process does not report a timeout."""
    limits = TimeLimits(30)
    task = asyncio.create_task(work(limits, 30))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
