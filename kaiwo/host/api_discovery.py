"""Discovers which of the kinds that backends need are served by the API server."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from kaiwo.engine.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Resource

_log = logging.getLogger(__name__)

_SOON = 10.0  # seconds between requests while a kind is missing, and after a watch saw one come or go
_LATER = 300.0  # seconds otherwise: a kind that nobody watches is hardly ever removed


class ServedKinds:
    """Polls whether kinds are served; until the first answer they count as served."""

    def __init__(self, client: Client, needed: Iterable[Resource]) -> None:
        self._client = client
        self._needed = frozenset(needed)
        self._missing: frozenset[Resource] = frozenset()
        self._listeners: list[Callable[[], None]] = []
        self._asked = asyncio.Event()

    def __call__(self, resource: Resource) -> bool:
        """Whether the kind is served."""
        return resource not in self._missing

    def on_change(self, listener: Callable[[], None]) -> None:
        """Register a callback for changes of the served kinds."""
        self._listeners.append(listener)

    def ask(self) -> None:
        """Poll at once: a watch saw that a kind came or went."""
        self._asked.set()

    async def run(self) -> None:
        """Poll until cancelled."""
        asked = False
        while self._needed:
            self._asked.clear()
            try:
                missing = self._needed - await self._client.served(self._needed)
            except EngineError as error:
                _log.warning("cannot read which kinds the API server serves: %s", error)
            else:
                if missing != self._missing:
                    names = ", ".join(sorted(map(str, missing)))
                    _log.info("kinds that are needed and not served: %s", names or "none")
                    self._missing = missing
                    for listener in self._listeners:
                        listener()
            # Discovery may be behind the watches, so it is asked twice.
            pause = _SOON if self._missing or asked else _LATER
            asked = False
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    asked = await self._asked.wait()
