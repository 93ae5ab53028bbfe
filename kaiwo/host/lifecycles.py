"""Calls the lifecycle functions of plugins: at the start, when their settings change, at the end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pydantic import BaseModel

    from kaiwo.host.plugin_coroutines import PluginCoroutines
    from kaiwo.plugin.lifecycle import Lifecycle


class Lifecycles:
    """All lifecycles. A function that fails or takes too long is logged, and the others are called."""

    def __init__(
        self,
        lifecycles: Iterable[Lifecycle],
        settings_of: Callable[[Lifecycle], BaseModel | None],
        coroutines: PluginCoroutines,
    ) -> None:
        """Prepare.

        Args:
            lifecycles: of the loaded plugins.
            settings_of: settings of a lifecycle's plugin at that moment.
            coroutines: calls the functions.
        """
        self._coroutines = coroutines
        self._lifecycles = tuple(lifecycles)
        self._settings_of = settings_of
        self._given: dict[Lifecycle, BaseModel | None] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Call the ``start`` functions, one after the other; from then on settings are followed."""
        for lifecycle in self._lifecycles:
            self._given[lifecycle] = self._settings_of(lifecycle)
            await self._call(lifecycle, "start", lifecycle.start)
        if any(lifecycle.settings_changed for lifecycle in self._lifecycles):
            self._changed.set()
            self._task = asyncio.create_task(self._follow(), name="plugin settings")

    def settings_changed(self) -> None:
        """Call ``settings_changed`` where the settings differ from those given last; returns at once."""
        self._changed.set()

    async def stop(self) -> None:
        """Call the ``stop`` functions of what was started."""
        await self.close()
        for lifecycle in self._given:
            self._given[lifecycle] = self._settings_of(lifecycle)
            await self._call(lifecycle, "stop", lifecycle.stop)

    async def close(self) -> None:
        """Stop following settings."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            for lifecycle, given in self._given.items():
                settings = self._settings_of(lifecycle)
                if settings != given:
                    self._given[lifecycle] = settings
                    await self._call(lifecycle, "settings_changed", lifecycle.settings_changed)

    async def _call(self, lifecycle: Lifecycle, what: str, target: str | None) -> None:
        if target is not None:
            words = f"{what} of plugin lifecycle {lifecycle.name}"
            await self._coroutines.call(lifecycle.plugin, words, target, self._given[lifecycle])
