"""Calls the transition listeners of plugins, apart from reconciliation."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from kaiwo.engine.lanes import Lanes
from kaiwo.engine.logging import SUBJECT, about

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pydantic import BaseModel

    from kaiwo.host.plugin_coroutines import PluginCoroutines
    from kaiwo.plugin.lifecycle import Transition, TransitionListener

_log = logging.getLogger(__name__)

_CAPACITY = 1000
"""Transitions that wait for one listener; of more, the oldest of the namespace with the most is left out."""


class _Waiting:
    """The transitions for one listener, in order within a namespace; namespaces take turns."""

    def __init__(self) -> None:
        self._lanes: Lanes[Transition] = Lanes()
        self._count = 0
        self._arrived = asyncio.Event()

    def put(self, transition: Transition) -> Transition | None:
        """Let a transition wait; returns one that does so no longer, None where there is room for all."""
        self._lanes.append(transition.namespace, transition)
        self._arrived.set()
        if self._count == _CAPACITY:
            return self._lanes.pop_crowd()
        self._count += 1
        return None

    async def get(self) -> Transition:
        """Take the next transition, and wait for one where there is none."""
        while (transition := self._lanes.pop()) is None:
            self._arrived.clear()
            await self._arrived.wait()
        self._count -= 1
        return transition


class Listeners:
    """One bounded queue and one task per listener, so that a slow or broken one delays nobody.

    Namespaces share a queue fairly: a storm of one costs no other one a transition.
    """

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
        self._waiting = {listener: _Waiting() for listener in listeners}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to call listeners."""
        self._tasks = [
            asyncio.create_task(self._serve(listener, waiting)) for listener, waiting in self._waiting.items()
        ]

    async def close(self) -> None:
        """Stop; queued transitions are dropped."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def notify(self, transition: Transition) -> None:
        """Queue a transition for every listener; returns at once."""
        for listener, waiting in self._waiting.items():
            if (left_out := waiting.put(transition)) is not None:
                _log.warning(
                    "transition listener %s is too slow; dropped the oldest transition of the namespace with "
                    "the most of them", listener.name,
                    extra=about(left_out.kind, left_out.namespace, left_out.name),
                )  # fmt: skip

    async def _serve(self, listener: TransitionListener, waiting: _Waiting) -> None:
        while True:
            transition = await waiting.get()
            SUBJECT.set((transition.kind, transition.namespace, transition.name))
            given = (self._settings_of(listener),) if listener.settings is not None else ()
            what = f"transition listener {listener.name}"
            await self._coroutines.call(listener.plugin, what, listener.notify, transition, *given)
