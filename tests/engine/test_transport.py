"""Retries against a server whose answers are chosen."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from kaiwo.engine.client import Client
from kaiwo.engine.credentials import Connection
from kaiwo.engine.errors import ConnectionBroken, Forbidden, ServerUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp.typedefs import Handler


class Tokens:
    """Counts how often other credentials are wanted."""

    def __init__(self) -> None:
        self.refreshed = 0

    async def headers(self, *, refresh: bool) -> dict[str, str]:
        """A token."""
        self.refreshed += refresh
        return {"Authorization": f"Bearer {self.refreshed}"}


@asynccontextmanager
async def served(answer: Handler) -> AsyncIterator[str]:
    """The URL of a server that answers so."""
    application = web.Application()
    application.router.add_get("/version", answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def answering(*codes: int, tokens: Tokens) -> AsyncIterator[Client]:
    """A client of a server that answers with these codes in turn."""
    left = iter(codes)

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({}, status=next(left))

    async with served(answer) as url:
        async with Client(Connection(url, authenticator=tokens)) as client:
            yield client
        assert next(left, None) is None, "all answers were needed"


@pytest.mark.parametrize("codes", [(503, 503, 503, 401, 200), (401, 503, 503, 503, 200)])
async def test_other_credentials_are_tried_once_at_any_attempt(codes: tuple[int, ...]) -> None:
    """A token that expires while the API server is overloaded is renewed, and that is no attempt."""
    tokens = Tokens()
    async with answering(*codes, tokens=tokens) as client:
        assert await client.get_json("/version") == {}
    assert tokens.refreshed == 1


async def test_an_api_server_that_refuses_new_credentials_too_is_an_error() -> None:
    """Three 503 and two 401 end in Forbidden."""
    tokens = Tokens()
    async with answering(503, 503, 503, 401, 401, tokens=tokens) as client:
        with pytest.raises(Forbidden) as caught:
            await client.get_json("/version")
    assert caught.value.status == 401
    assert tokens.refreshed == 1


async def test_attempts_end() -> None:
    """An API server that stays unavailable is an error after four attempts."""
    async with answering(503, 503, 503, 503, tokens=Tokens()) as client:
        with pytest.raises(ServerUnavailable):
            await client.get_json("/version")


@asynccontextmanager
async def silent(*, timeout: float) -> AsyncIterator[tuple[Client, asyncio.Event]]:
    """A client of a server that begins each answer and never ends it, and whether one has begun."""
    began, end = asyncio.Event(), asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"{")
        began.set()
        await end.wait()
        return response

    async with served(answer) as url:
        try:
            async with Client(Connection(url, authenticator=Tokens()), timeout=timeout) as client:
                yield client, began
        finally:
            end.set()


async def test_an_answer_that_does_not_end_is_timed_out_and_its_task_goes_on() -> None:
    """A proxy that stops in the middle of an answer is an error of the connection, each time."""
    async with silent(timeout=0.1) as (client, _):
        with pytest.raises(ConnectionBroken, match="timed out"):
            await client.get_json("/version")
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


async def test_a_request_that_somebody_cancels_is_not_timed_out() -> None:
    """A worker that is cancelled at the end of the process ends, and sends nothing again."""
    async with silent(timeout=30.0) as (client, began):
        request = asyncio.create_task(client.get_json("/version"))
        await began.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request


async def test_a_proxy_that_refuses_is_named_without_its_password() -> None:
    """The error of aiohttp has the whole URL of the proxy, and this text comes into logs."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        proxy = f"http://ada:s3cret@127.0.0.1:{port}"
        async with Client(Connection("https://cluster.example:6443", proxy=proxy)) as client:
            with pytest.raises(ConnectionBroken, match=f"407.*127.0.0.1:{port}") as caught:
                await client.get_json("/version")
    assert "s3cret" not in str(caught.value)
