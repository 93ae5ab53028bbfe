"""Calls the transition listeners of plugins, apart from reconciliation."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from kaiwo.engine.logging import SUBJECT, about

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pydantic import BaseModel

    from kaiwo.host.plugin_coroutines import PluginCoroutines
    from kaiwo.plugin.lifecycle import Transition, TransitionListener

_log = logging.getLogger(__name__)

_CAPACITY = (
    1000  # transitions queued for one listener; a slow one loses its oldest, and no other listener does
)


class Listeners:
    """One bounded queue and one task per listener, so that a slow or broken one delays nobody."""

    def __init__(
        self,
        listeners: Iterable[TransitionListener],
        settings_of: Callable[[TransitionListener], BaseModel | None],
        coroutines: PluginCoroutines,
    ) -> None:
        """Prepare.

        Args:
            listeners: of the loaded plugins.
            settings_of: settings of a listener's plugin at that moment.
            coroutines: calls them.
        """
        self._coroutines = coroutines
        self._settings_of = settings_of
        self._queues: dict[TransitionListener, asyncio.Queue[Transition]] = {
            listener: asyncio.Queue(_CAPACITY) for listener in listeners
        }
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to call listeners."""
        self._tasks = [
            asyncio.create_task(self._serve(listener, queue)) for listener, queue in self._queues.items()
        ]

    async def close(self) -> None:
        """Stop; queued transitions are dropped."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def notify(self, transition: Transition) -> None:
        """Queue a transition for every listener; returns at once."""
        for listener, queue in self._queues.items():
            if queue.full():
                oldest = queue.get_nowait()
                _log.warning(
                    "transition listener %s is too slow; dropped its oldest transition", listener.name,
                    extra=about(oldest.kind, oldest.namespace, oldest.name),
                )  # fmt: skip
            queue.put_nowait(transition)

    async def _serve(self, listener: TransitionListener, queue: asyncio.Queue[Transition]) -> None:
        while True:
            transition = await queue.get()
            SUBJECT.set((transition.kind, transition.namespace, transition.name))
            given = (self._settings_of(listener),) if listener.settings is not None else ()
            what = f"transition listener {listener.name}"
            await self._coroutines.call(listener.plugin, what, listener.notify, transition, *given)
