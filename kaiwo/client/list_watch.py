"""Reading lists of objects, and waiting with a watch until one of them changes."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object, Resource

_BURST = 0.3
"""Seconds in which further changes are taken together with the first one."""

_REOPEN = 2.0
"""Seconds at most before a watch that cannot be opened is tried again."""


class ListScope(NamedTuple):
    """What is listed and watched.

    Attributes:
        kind: the kind.
        namespace: None for all.
        name: of the only object, None for all.
        labels: a label selector, None for all.
    """

    kind: Resource
    namespace: str | None = None
    name: str | None = None
    labels: str | None = None


class ListWatch:
    """Lists of objects, with one watch for each of them while nothing changes.

    Args:
        api: where the objects are.
        scopes: what is listed.
    """

    def __init__(self, api: Client, scopes: Sequence[ListScope]) -> None:
        self._api = api
        self._scopes = scopes
        self._watches: list[asyncio.Task[None]] = []

    async def read(self, *, watch: bool = False) -> list[Object]:
        """All objects of all scopes.

        Args:
            watch: be ready for `changed`.

        Raises:
            NotInstalled: the cluster does not serve a kind.
        """
        from kaiwo.client.lookup import not_installed
        from kaiwo.engine.errors import NotFound
        from kaiwo.engine.wire import decode_object

        await self.close()
        found: list[Object] = []
        versions: list[str] = []
        for scope in self._scopes:
            version = ""
            try:
                async for page in self._api.pages(
                    scope.kind, scope.namespace, label_selector=scope.labels, field_selector=_selector(scope)
                ):
                    version = page.resource_version
                    for raw in page.items:
                        obj = decode_object(raw, f"list {scope.kind}")
                        obj.setdefault("apiVersion", scope.kind.api_version)
                        obj.setdefault("kind", scope.kind.kind)
                        found.append(obj)
            except NotFound as error:
                raise not_installed(scope.kind) from error
            versions.append(version)
        if watch:
            self._watches = [
                asyncio.ensure_future(self._next_event(scope, version))
                for scope, version in zip(self._scopes, versions, strict=True)
            ]
        return found

    async def changed(self, seconds: float) -> bool:
        """Wait for a change since `read`; False when the time is over."""
        done, _ = await asyncio.wait(self._watches, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if done:
            # A watch that cannot be opened fails at once, and must not turn into a busy loop.
            failed = any(task.exception() is not None for task in done)
            await asyncio.sleep(min(seconds, _REOPEN if failed else _BURST))
        return bool(done)

    async def close(self) -> None:
        """End the watches."""
        for task in self._watches:
            task.cancel()
        for task in self._watches:
            with suppress(asyncio.CancelledError, Exception):
                await task
        self._watches = []

    async def _next_event(self, scope: ListScope, version: str) -> None:
        """Return at the first change, or when the API server closes the watch."""
        events = self._api.watch(
            scope.kind,
            scope.namespace,
            resource_version=version,
            label_selector=scope.labels,
            field_selector=_selector(scope),
        )
        async with aclosing(events):
            async for event, _ in events:
                if event != "BOOKMARK":
                    return


def is_transient(error: Exception) -> bool:
    """Whether the same request may succeed a moment later."""
    from kaiwo.engine.errors import ConnectionBroken, Gone, ServerUnavailable, TooManyRequests

    return isinstance(error, ConnectionBroken | Gone | ServerUnavailable | TooManyRequests | TimeoutError)


def _selector(scope: ListScope) -> str | None:
    return f"metadata.name={scope.name}" if scope.name else None
