"""Listeners of plugins are told, and can delay or break nobody."""

from __future__ import annotations

import asyncio
import sys
import types
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from kaiwo.host.transitions import Listeners, run_lifecycles
from kaiwo.plugin.lifecycle import Lifecycle, Transition, TransitionListener

if TYPE_CHECKING:
    from collections.abc import Iterator

MOMENT = datetime(2026, 1, 2, tzinfo=UTC)


def transition(name: str) -> Transition:
    """From nothing to PENDING."""
    return Transition("KaiwoJob", "team", name, "uid", "", "PENDING", "Creating", "soon", MOMENT)


@pytest.fixture
def module() -> Iterator[types.ModuleType]:
    """A plugin's module with listeners."""
    made = types.ModuleType("listening_plugin")
    sys.modules["listening_plugin"] = made
    yield made
    del sys.modules["listening_plugin"]


async def test_a_broken_and_a_stuck_listener_do_not_keep_others_from_hearing(
    module: types.ModuleType,
) -> None:
    """Each has a queue of its own."""
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def good(transition: Transition) -> None:
        await heard.put(transition.name)

    async def broken(transition: Transition) -> None:
        raise RuntimeError(transition.name)

    async def stuck(_: Transition) -> None:
        await asyncio.Event().wait()

    module.good, module.broken, module.stuck = good, broken, stuck
    listeners = Listeners(
        TransitionListener(name, f"listening_plugin:{name}")
        for name in ("broken", "stuck", "good", "missing")
    )
    listeners.start()
    for name in ("a", "b"):
        listeners.notify(transition(name))
    assert [await asyncio.wait_for(heard.get(), 5) for _ in range(2)] == ["a", "b"]
    await listeners.close()


async def test_a_listener_that_is_too_slow_loses_the_oldest(module: types.ModuleType) -> None:
    """Memory stays bounded."""
    module.notify = None
    listeners = Listeners([TransitionListener("slow", "listening_plugin:notify")])
    for number in range(2000):
        listeners.notify(transition(str(number)))
    [queue] = listeners._queues.values()
    assert queue.qsize() == 1000
    assert queue.get_nowait().name == "1000"


async def test_lifecycles_start_with_their_settings_and_a_failing_one_is_survived(
    module: types.ModuleType,
) -> None:
    """The operator starts although a plugin's start function does not."""
    started: list[object] = []

    async def begin(settings: object) -> None:
        started.append(settings)

    async def fail(settings: object) -> None:
        raise RuntimeError(settings)

    module.begin, module.fail = begin, fail
    cycles = [
        Lifecycle("fails", start="listening_plugin:fail"),
        Lifecycle("none"),
        Lifecycle("begins", start="listening_plugin:begin"),
    ]
    await run_lifecycles(cycles, "start", lambda cycle: f"settings of {cycle.name}")
    assert started == ["settings of begins"]
