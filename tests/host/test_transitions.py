"""Listeners of plugins are told, and can delay or break nobody."""

from __future__ import annotations

import asyncio
import sys
import types
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from pydantic import BaseModel

from kaiwo.host.plugin_coroutines import PluginCoroutines
from kaiwo.host.plugin_timeout import TimeLimit
from kaiwo.host.transitions import Listeners
from kaiwo.plugin.lifecycle import Transition, TransitionListener

if TYPE_CHECKING:
    from collections.abc import Iterator

MOMENT = datetime(2026, 1, 2, tzinfo=UTC)
COROUTINES = PluginCoroutines(TimeLimit(1.0))


class Webhook(BaseModel):
    """Settings of a plugin."""

    url: str = ""


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
    declared = [
        TransitionListener(name, f"listening_plugin:{name}")
        for name in ("broken", "stuck", "good", "missing")
    ]
    listeners = Listeners(declared, lambda _: None, COROUTINES)
    listeners.start()
    for name in ("a", "b"):
        listeners.notify(transition(name))
    assert [await asyncio.wait_for(heard.get(), 5) for _ in range(2)] == ["a", "b"]
    await listeners.close()


async def test_a_listener_that_is_too_slow_loses_the_oldest(module: types.ModuleType) -> None:
    """Memory stays bounded."""
    module.notify = None
    declared = [TransitionListener("slow", "listening_plugin:notify")]
    listeners = Listeners(declared, lambda _: None, COROUTINES)
    for number in range(2000):
        listeners.notify(transition(str(number)))
    [queue] = listeners._queues.values()
    assert queue.qsize() == 1000
    assert queue.get_nowait().name == "1000"


async def test_a_listener_with_settings_gets_those_of_the_moment(module: types.ModuleType) -> None:
    """An edit of KaiwoConfig counts from the next transition on; without a model there is no argument."""
    heard: asyncio.Queue[tuple[str, Webhook | None]] = asyncio.Queue()

    async def configured(transition: Transition, settings: Webhook) -> None:
        await heard.put((transition.name, settings))

    async def plain(transition: Transition) -> None:
        await heard.put((transition.name, None))

    module.configured, module.plain = configured, plain
    current = {"configured": Webhook(url="https://a")}
    listeners = Listeners(
        [
            TransitionListener("configured", "listening_plugin:configured", settings=Webhook),
            TransitionListener("plain", "listening_plugin:plain"),
        ],
        lambda listener: current[listener.name],
        COROUTINES,
    )
    listeners.start()
    for name in ("a", "b"):
        current["configured"] = Webhook(url=f"https://{name}")
        listeners.notify(transition(name))
        got = [await asyncio.wait_for(heard.get(), 5) for _ in range(2)]
        assert sorted(got, key=str) == sorted([(name, current["configured"]), (name, None)], key=str)
    await listeners.close()
