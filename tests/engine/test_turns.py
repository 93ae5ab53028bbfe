"""Long computations alternate with the event loop's other work, and namespaces with each other."""

from __future__ import annotations

import asyncio
import time

import pytest

from kaiwo.engine.turns import SLICE, Turns


def compute(seconds: float) -> None:
    """Hold up the event loop."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


async def work(turns: Turns, namespace: str, seconds: float, order: list[str]) -> None:
    """One computation."""
    async with turns.turn(namespace):
        order.append(namespace)
        compute(seconds)


async def test_the_event_loop_runs_between_two_long_computations() -> None:
    """Of sixteen workers that compute, none makes a watch wait for the fifteen others."""
    turns, order = Turns(), list[str]()
    longest, last = 0.0, time.monotonic()

    async def tick() -> None:
        nonlocal longest, last
        while True:
            await asyncio.sleep(0)
            now = time.monotonic()
            longest, last = max(longest, now - last), now

    ticking = asyncio.create_task(tick())
    await asyncio.gather(*(work(turns, "a", 0.05, order) for _ in range(16)))
    ticking.cancel()
    assert len(order) == 16
    assert 0.05 <= longest < 0.2


async def test_namespaces_take_turns() -> None:
    """The one computation of another namespace waits for one, not for all that came before it."""
    turns, order = Turns(), list[str]()
    many = [asyncio.create_task(work(turns, "a", 2 * SLICE, order)) for _ in range(16)]
    await asyncio.sleep(0)
    await work(turns, "b", 2 * SLICE, order)
    assert order.index("b") <= 2
    await asyncio.gather(*many)


async def test_short_computations_do_not_wait() -> None:
    """At rest a turn costs no pass of the event loop."""
    turns, order = Turns(), list[str]()
    passed = False

    def note() -> None:
        nonlocal passed
        passed = True

    asyncio.get_running_loop().call_soon(note)
    for _ in range(5):
        await work(turns, "a", 0.0, order)
    assert not passed


async def test_a_computation_that_fails_or_is_cancelled_passes_its_turn_on() -> None:
    """No error and no time limit leaves the others waiting for ever."""
    turns, order = Turns(), list[str]()

    async def fail() -> None:
        async with turns.turn("a"):
            compute(2 * SLICE)
            raise ZeroDivisionError

    failing = [asyncio.create_task(fail()) for _ in range(3)]
    waiting = [asyncio.create_task(work(turns, "b", 2 * SLICE, order)) for _ in range(4)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    waiting[1].cancel()
    async with asyncio.timeout(5):
        results = await asyncio.gather(*failing, return_exceptions=True)
        await asyncio.gather(*waiting[2:])
        await work(turns, "c", 0.0, order)
    assert all(isinstance(result, ZeroDivisionError) for result in results)
    assert order[-1] == "c"


@pytest.mark.parametrize("when", range(8))
async def test_a_turn_that_comes_to_a_cancelled_waiter_is_passed_on(when: int) -> None:
    """Whenever the cancellation meets it: before its turn, at that moment, or afterwards."""
    turns, order = Turns(), list[str]()
    first = asyncio.create_task(work(turns, "a", 2 * SLICE, order))
    second = asyncio.create_task(work(turns, "a", 2 * SLICE, order))
    for _ in range(when):
        await asyncio.sleep(0)
    second.cancel()
    async with asyncio.timeout(5):
        await asyncio.gather(first, second, return_exceptions=True)
        await work(turns, "b", 0.0, order)
    assert order[-1] == "b"
