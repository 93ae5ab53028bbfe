"""Kinds that the API server begins to serve while the operator runs."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.engine import reflector
from kaiwo.engine.client import Client
from kaiwo.engine.controller import Watch
from kaiwo.engine.credentials import Connection
from kaiwo.engine.errors import NotFound
from kaiwo.engine.manager import Manager
from kaiwo.engine.resource import Resource
from kaiwo.engine.wire import Page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

FIRST = Resource("widgets.example", "v1", "First", "firsts", namespaced=False)
SECOND = Resource("widgets.example", "v1", "Second", "seconds", namespaced=False)
FOREIGN = Resource("other.example", "v1", "Foreign", "foreigns", namespaced=False)
ALL = (FIRST, SECOND, FOREIGN)


class Served(Client):
    """A client of an API server that serves some kinds, without objects."""

    def __init__(self) -> None:
        super().__init__(Connection("http://127.0.0.1:9"))
        self.kinds: set[Resource] = set()
        self.lists: list[Resource] = []

    async def pages(self, resource: Resource, *_: Any, **__: Any) -> AsyncIterator[Page]:  # type: ignore[override]
        """List."""
        self.lists.append(resource)
        if resource not in self.kinds:
            raise NotFound(404, "NotFound", "the server could not find the requested resource")
        yield Page((), "1", "")

    async def watch(self, *_: Any, **__: Any) -> AsyncIterator[Any]:  # type: ignore[override]
        """Watch; nothing changes."""
        await asyncio.Event().wait()
        yield


class Changes:
    """The kinds that a manager reports, in their order."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._changes: asyncio.Queue[Resource] = asyncio.Queue()
        manager.on_served_change(self._changes.put_nowait)

    def ask(self, kind: Resource) -> None:
        """Have a kind listed now, as after its pause."""
        self._manager._reflectors[kind].expect()

    async def next(self) -> tuple[Resource, bool]:
        """The next kind, and whether it is served."""
        async with asyncio.timeout(20):
            kind = await self._changes.get()
        return kind, self._manager.is_served(kind)


@asynccontextmanager
async def running(client: Served) -> AsyncIterator[Changes]:
    """A manager that watches all kinds; what it reports of them."""
    async with client:
        manager = Manager(client, field_manager="test", applied_annotation="applied", component="test")
        for kind in ALL:
            manager.watch(Watch(kind))
        changes, stop = Changes(manager), asyncio.Event()
        task = asyncio.create_task(manager.run(stop))
        try:
            yield changes
        finally:
            stop.set()
            await task


@pytest.fixture(autouse=True)
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kinds that are not served are not asked for again by themselves."""
    monkeypatch.setattr(reflector, "UNSERVED_RETRY", (3600.0, 3600.0))


async def test_a_kind_that_is_not_served_is_reported() -> None:
    """Each kind once, and only those that are missing."""
    client = Served()
    client.kinds = {SECOND}
    async with running(client) as changes:
        reported = [await changes.next(), await changes.next()]
    assert sorted(reported, key=lambda item: item[0].plural) == [(FIRST, False), (FOREIGN, False)]


async def test_kinds_of_a_group_are_listed_as_soon_as_one_is_served() -> None:
    """The definitions of a group are installed one by one; another group is not asked for more often."""
    client = Served()
    async with running(client) as changes:
        assert {(await changes.next())[0] for _ in ALL} == set(ALL)
        client.kinds = {FIRST, SECOND, FOREIGN}
        changes.ask(FIRST)
        assert [await changes.next(), await changes.next()] == [(FIRST, True), (SECOND, True)]
    assert client.lists.count(FOREIGN) == 1
