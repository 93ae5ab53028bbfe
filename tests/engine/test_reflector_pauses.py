"""How long a reflector pauses after failures; whole lists are expensive."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.engine.errors import ConnectionBroken, Forbidden, ServerUnavailable
from kaiwo.engine.kind_reflectors import KindReflectors
from kaiwo.engine.metrics import Metrics
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


class Failing(Rights):
    """An API server whose lists fail."""

    def __init__(self, error: Exception) -> None:
        super().__init__(to_list=True)
        self.error: Exception | None = error

    async def pages(self, *_: Any, **__: Any) -> AsyncIterator[Page]:
        """List."""
        self.lists += 1
        if self.error is not None:
            raise self.error
        yield Page((), str(self.lists), "")


@pytest.mark.parametrize(
    ("error", "given_up"),
    [
        (ServerUnavailable(500, "", "conversion webhook failed"), True),
        (ConnectionBroken("connection refused"), False),
    ],
)
async def test_nobody_waits_for_ever_for_a_list_that_the_api_server_answers_with_errors(
    error: Exception, given_up: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Kind, error and where to look are logged; of one that does not answer at all nothing is concluded."""
    changes: list[str] = []
    server: Any = Failing(error)
    store = Cache().register(CONFIG_MAP)
    kinds = KindReflectors(server, store, metrics=Metrics(), stall=1.0, on_denied=changes.append)
    running = asyncio.create_task(kinds.run())
    while server.lists < 2:
        await asyncio.sleep(0.01)
    assert kinds.give_up() == given_up
    assert kinds.failing == ("ServerUnavailable: conversion webhook failed" if given_up else "")
    assert kinds.state() == (False, f"{type(error).__name__}: {error}")
    said = "configmaps cannot be listed: ServerUnavailable: conversion webhook failed. Only what needs it"
    assert (said in caplog.text) == given_up
    assert len(changes) == given_up
    if given_up:
        await asyncio.wait_for(kinds.known(required=False), 1)
    server.error = None
    while not store.synced:
        await asyncio.sleep(0.01)
    running.cancel()
    assert kinds.failing == ""
    assert len(changes) == 2 * given_up
