"""Lists of objects that follow the cluster: one list and one watch for each kind, mended after failures."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kaiwo.engine.cached_object import Projection
from kaiwo.engine.reflector import Reflector
from kaiwo.engine.store import Selector, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Resource
    from kaiwo.engine.store import CacheEvent

QUIET = 0.1
"""Seconds in which changes are collected and reported together."""


class LiveList:
    """All objects of some kinds, as of now.

    A kind that may not be read, or is not served, is tried again until it is; the others are read meanwhile.

    Attributes:
        stores: the objects, by kind.
    """

    def __init__(
        self,
        api: Client,
        kinds: Sequence[Resource],
        namespace: str | None,
        on_change: Callable[[list[CacheEvent]], None],
    ) -> None:
        """Prepare; nothing is read yet.

        Args:
            api: the client.
            kinds: what is listed.
            namespace: None for all.
            on_change: called with the changes of a moment, in their order.
        """
        chosen = (namespace,) if namespace else ()
        self.stores = {kind: Store(kind, Projection(), chosen, Selector()) for kind in kinds}
        self._reflectors = [Reflector(api, store, namespace) for store in self.stores.values()]
        self._on_change = on_change
        self._changes: list[CacheEvent] = []
        self._reporting: asyncio.TimerHandle | None = None
        for store in self.stores.values():
            store.handlers.append(self._changed)

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        await asyncio.gather(*(reflector.run() for reflector in self._reflectors))

    def __iter__(self) -> Iterator[CachedObject]:
        """All objects."""
        for store in self.stores.values():
            yield from store

    def loaded(self) -> bool:
        """Whether every kind was listed, or an answer says why it cannot be."""
        return all(r.settled.is_set() or _denied(r) for r in self._reflectors)

    def problems(self) -> list[str]:
        """Why objects may be missing or outdated; empty while all is as in the cluster."""
        return list(dict.fromkeys(text for r in self._reflectors if (text := _problem(r))))

    def _changed(self, event: CacheEvent) -> None:
        self._changes.append(event)
        if self._reporting is None:
            self._reporting = asyncio.get_running_loop().call_later(QUIET, self._report)

    def _report(self) -> None:
        self._reporting = None
        changes, self._changes = self._changes, []
        self._on_change(changes)


def _denied(reflector: Reflector) -> bool:
    return bool(reflector.denied) or reflector.problem.startswith("Forbidden")


def _problem(reflector: Reflector) -> str:
    resource = reflector.store.resource
    if _denied(reflector):
        return f"not allowed to list {resource}"
    if not reflector.served:
        return f"{resource} is not served by the cluster"
    if reflector.problem.startswith("ConnectionBroken"):
        return "no answer from the API server, trying again"
    return reflector.problem if reflector.settled.is_set() else ""
