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


def transition(name: str, namespace: str = "team") -> Transition:
    """From nothing to PENDING."""
    return Transition("KaiwoJob", namespace, name, "uid", "", "PENDING", "Creating", "soon", MOMENT)


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


@pytest.fixture
def heard(module: types.ModuleType) -> list[tuple[str, str]]:
    """What the listener ``notify`` of the module has heard: namespaces and names."""
    names: list[tuple[str, str]] = []

    async def notify(transition: Transition) -> None:
        names.append((transition.namespace, transition.name))

    module.notify = notify
    return names


async def serve(listeners: Listeners, heard: list[tuple[str, str]], count: int) -> None:
    """Let listeners hear what waits for them."""
    listeners.start()
    async with asyncio.timeout(10):
        while len(heard) < count:
            await asyncio.sleep(0)
    await asyncio.sleep(0)
    await listeners.close()
    assert len(heard) == count


async def test_a_listener_that_is_too_slow_loses_the_oldest(heard: list[tuple[str, str]]) -> None:
    """Memory stays bounded."""
    listeners = Listeners([TransitionListener("slow", "listening_plugin:notify")], lambda _: None, COROUTINES)
    for number in range(2000):
        listeners.notify(transition(str(number)))
    await serve(listeners, heard, 1000)
    assert heard == [("team", str(number)) for number in range(1000, 2000)]


async def test_a_storm_of_one_namespace_costs_no_other_one_a_transition(
    heard: list[tuple[str, str]], caplog: pytest.LogCaptureFixture
) -> None:
    """Neither those that came before it nor those after it, and none of them waits behind the storm."""
    listeners = Listeners([TransitionListener("slow", "listening_plugin:notify")], lambda _: None, COROUTINES)
    for name in ("a", "b"):
        listeners.notify(transition(name, "before"))
    for number in range(5000):
        listeners.notify(transition(str(number), "storm"))
    listeners.notify(transition("c", "after"))
    await serve(listeners, heard, 1000)
    assert heard[:5] == [
        ("before", "a"), ("storm", "4003"), ("after", "c"), ("before", "b"), ("storm", "4004"),
    ]  # fmt: skip
    assert heard[-1] == ("storm", "4999")
    assert caplog.text.count("dropped the oldest transition") == 4003


async def test_of_many_namespaces_with_one_transition_each_the_oldest_goes(
    heard: list[tuple[str, str]],
) -> None:
    """Whoever may make namespaces leaves the room of one transition to each of those that wait."""
    listeners = Listeners([TransitionListener("slow", "listening_plugin:notify")], lambda _: None, COROUTINES)
    for number in range(1500):
        listeners.notify(transition("one", f"namespace-{number}"))
    await serve(listeners, heard, 1000)
    assert heard[0] == ("namespace-500", "one")


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
