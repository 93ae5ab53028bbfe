"""Lifecycle functions of plugins are called with the settings in force, and break nothing."""

from __future__ import annotations

import asyncio
import sys
import types
from typing import TYPE_CHECKING

import pytest
from pydantic import BaseModel

from kaiwo.host.lifecycles import Lifecycles
from kaiwo.host.plugin_coroutines import PluginCoroutines
from kaiwo.host.plugin_timeout import TimeLimit
from kaiwo.plugin.lifecycle import Lifecycle

if TYPE_CHECKING:
    from collections.abc import Iterator

COROUTINES = PluginCoroutines(TimeLimit(1.0))


class Tracing(BaseModel):
    """Settings of a plugin."""

    endpoint: str = ""


class Plugin:
    """A plugin that records its calls.

    Attributes:
        calls: function and endpoint of each call.
        settings: its settings in force.
    """

    def __init__(self) -> None:
        self.calls: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self.settings = Tracing(endpoint="first")

    async def begin(self, settings: Tracing) -> None:
        """Record the start."""
        await self.calls.put(("start", settings.endpoint))

    async def change(self, settings: Tracing) -> None:
        """Record new settings; those with an empty endpoint are not accepted."""
        await self.calls.put(("changed", settings.endpoint))
        if not settings.endpoint:
            raise RuntimeError("no endpoint")

    async def end(self, settings: Tracing) -> None:
        """Record the end."""
        await self.calls.put(("stop", settings.endpoint))

    async def fail(self, settings: Tracing) -> None:
        """Raise."""
        raise RuntimeError(settings)

    async def called(self) -> tuple[str, str]:
        """The next call."""
        return await asyncio.wait_for(self.calls.get(), 5)


@pytest.fixture
def plugin() -> Iterator[Plugin]:
    """The plugin, with its functions in a module of that name."""
    made, module = Plugin(), types.ModuleType("tracing_plugin")
    for name in ("begin", "change", "end", "fail"):
        setattr(module, name, getattr(made, name))
    sys.modules["tracing_plugin"] = module
    yield made
    del sys.modules["tracing_plugin"]


CYCLES = (
    Lifecycle("fails", start="tracing_plugin:fail", stop="tracing_plugin:fail"),
    Lifecycle("none"),
    Lifecycle(
        "traces",
        start="tracing_plugin:begin",
        stop="tracing_plugin:end",
        settings_changed="tracing_plugin:change",
        settings=Tracing,
    ),
)


async def test_a_plugin_gets_its_settings_at_the_start_when_they_change_and_at_the_end(
    plugin: Plugin,
) -> None:
    """Each new value once; a change of anything else is no call, and a failing function ends nothing."""
    lifecycles = Lifecycles(CYCLES, lambda _: plugin.settings, COROUTINES)
    await lifecycles.start()
    assert await plugin.called() == ("start", "first")
    lifecycles.settings_changed()
    for endpoint in ("second", "", "third"):
        plugin.settings = Tracing(endpoint=endpoint)
        lifecycles.settings_changed()
        assert await plugin.called() == ("changed", endpoint)
    await lifecycles.stop()
    assert await plugin.called() == ("stop", "third")
    assert plugin.calls.empty()


async def test_settings_that_change_while_plugins_start_take_effect(plugin: Plugin) -> None:
    """The change is reported after the start, not before it."""
    lifecycles = Lifecycles(CYCLES, lambda _: plugin.settings, COROUTINES)
    starting = asyncio.create_task(lifecycles.start())
    await plugin.called()
    plugin.settings = Tracing(endpoint="second")
    lifecycles.settings_changed()
    await starting
    assert await plugin.called() == ("changed", "second")
    await lifecycles.close()


async def test_what_was_not_started_is_not_stopped(plugin: Plugin) -> None:
    """The operator ends before it could read KaiwoConfig."""
    await Lifecycles(CYCLES, lambda _: plugin.settings, COROUTINES).stop()
    assert plugin.calls.empty()
