"""How long a reflector pauses after failures; whole lists are expensive."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.engine.errors import Forbidden
from kaiwo.engine.reflector import SOON, Reflector
from kaiwo.engine.resource import CONFIG_MAP
from kaiwo.engine.store import Cache
from kaiwo.engine.wire import Page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NO_RIGHT = Forbidden(403, "Forbidden", 'configmaps is forbidden: User "x" cannot do that')


class Rights:
    """An API server that lets everybody list, or nobody, and nobody watch."""

    def __init__(self, *, to_list: bool) -> None:
        self.to_list = to_list
        self.lists = 0

    async def pages(self, *_: Any, **__: Any) -> AsyncIterator[Page]:
        """List."""
        self.lists += 1
        if not self.to_list:
            raise NO_RIGHT
        yield Page((), str(self.lists), "")

    async def watch(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """Watch."""
        raise NO_RIGHT
        yield


async def pauses(rights: Rights, monkeypatch: pytest.MonkeyPatch, failures: int = 20) -> list[float]:
    """The pauses after that many failures in a row."""
    found: list[float] = []

    async def sleep(seconds: float) -> None:
        found.append(seconds)
        if len(found) == failures:
            raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "sleep", sleep)
    store = Cache().register(CONFIG_MAP)
    with pytest.raises(asyncio.CancelledError):
        await Reflector(rights, store).run()  # type: ignore[arg-type]  # what it uses of a client
    assert rights.lists == failures
    return found


async def test_who_may_list_and_not_watch_lists_ever_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each try is a whole list then."""
    assert min((await pauses(Rights(to_list=True), monkeypatch))[-5:]) > SOON


async def test_who_may_not_list_learns_soon_that_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a try only checks a right."""
    assert max(await pauses(Rights(to_list=False), monkeypatch)) <= SOON
