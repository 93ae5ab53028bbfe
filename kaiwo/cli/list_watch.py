"""Reading lists of objects, and waiting with a watch until one of them changes."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.cli.kit import Cluster
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object, Resource

_BURST = 0.3
"""Seconds in which further changes are taken together with the first one."""


class ListWatch:
    """Lists of some kinds, with one watch for each of them while nothing changes.

    Args:
        cluster: where the objects are.
        kinds: what is listed, in the cluster's scope.
    """

    def __init__(self, cluster: Cluster, kinds: Sequence[Resource]) -> None:
        self._cluster = cluster
        self._kinds = kinds
        self._watches: list[asyncio.Task[None]] = []

    def read(self, *, watch: bool = False) -> list[Object]:
        """All objects of all kinds.

        Args:
            watch: be ready for `changed`.

        Raises:
            Failure: the cluster does not serve a kind.
        """
        return self._cluster.run(lambda client: self._read(client, watch=watch))

    def changed(self, seconds: float) -> bool:
        """Wait for a change since `read`; False when the time is over."""
        return self._cluster.run(lambda _: self._changed(seconds))

    def close(self) -> None:
        """End the watches."""
        self._cluster.run(lambda _: self._close())

    async def _read(self, client: Client, *, watch: bool) -> list[Object]:
        from kaiwo.cli.workload_lookup import not_installed
        from kaiwo.engine.errors import NotFound
        from kaiwo.engine.wire import decode_object

        await self._close()
        found: list[Object] = []
        versions: list[str] = []
        for kind in self._kinds:
            version = ""
            try:
                async for page in client.pages(kind, self._cluster.scope):
                    version = page.resource_version
                    for raw in page.items:
                        obj = decode_object(raw, f"list {kind}")
                        obj.setdefault("apiVersion", kind.api_version)
                        obj.setdefault("kind", kind.kind)
                        found.append(obj)
            except NotFound as error:
                raise not_installed(kind) from error
            versions.append(version)
        if watch:
            self._watches = [
                asyncio.ensure_future(self._next_event(client, kind, version))
                for kind, version in zip(self._kinds, versions, strict=True)
            ]
        return found

    async def _next_event(self, client: Client, kind: Resource, version: str) -> None:
        """Return at the first change, or when the API server closes the watch."""
        events = client.watch(kind, self._cluster.scope, resource_version=version)
        async with aclosing(events):
            async for event, _ in events:
                if event != "BOOKMARK":
                    return

    async def _changed(self, seconds: float) -> bool:
        done, _ = await asyncio.wait(self._watches, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if done:
            # A watch that cannot be opened fails at once, and must not turn into a busy loop.
            failed = any(task.exception() is not None for task in done)
            await asyncio.sleep(seconds if failed else _BURST)
        return bool(done)

    async def _close(self) -> None:
        for task in self._watches:
            task.cancel()
        for task in self._watches:
            with suppress(asyncio.CancelledError, Exception):
                await task
        self._watches = []
