"""The fault proxy: a test of a fault fails when the fault never took place."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import socket
from contextlib import closing
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web

from kaiwo.engine.credentials import Connection
from kaiwo.testing.fault_proxy import FaultProxy

NOBODY = Connection("http://127.0.0.1:9")


async def request(proxy: FaultProxy, method: str = "GET") -> None:
    """One request through the proxy; nobody answers behind it."""
    async with aiohttp.ClientSession() as session:
        with contextlib.suppress(aiohttp.ClientConnectionError):
            await session.request(method, f"{proxy.url}/api/v1/configmaps")


@pytest.mark.parametrize(("times", "came"), [(1, 0), (3, 2), (None, 0)])
async def test_a_fault_that_never_took_place_fails_the_test(times: int | None, came: int) -> None:
    """The message has the fault, and how often it was to strike."""

    async def test() -> None:
        async with FaultProxy(NOBODY) as proxy:
            proxy.answer(500, method="GET", path="/configmaps$", times=times)
            for _ in range(came):
                await request(proxy)
            proxy.clear()

    with pytest.raises(AssertionError) as caught:
        await test()
    wanted = times or "at least 1"
    assert str(caught.value) == (
        f"faults that did not take place: answer GET /configmaps$: struck {came} of {wanted}"
    )


@pytest.mark.parametrize("times", [1, 2, None])
async def test_a_fault_that_took_place_is_fine(times: int | None) -> None:
    """As often as defined, or at least once where no number was."""
    async with FaultProxy(NOBODY) as proxy:
        fault = proxy.answer(500, method="GET", times=times)
        for _ in range(times or 3):
            await request(proxy)
        await fault.wait()
        assert fault.struck == (times or 3)


async def test_a_fault_that_is_waited_for_in_vain_is_named() -> None:
    """The wait ends with what was awaited."""
    fault = FaultProxy(NOBODY).hang(method="PATCH")
    with pytest.raises(AssertionError, match=r"^hang PATCH: struck 0 of 1 within 0\.1 s$"):
        await fault.wait(0.1)


async def test_a_crash_that_never_came_fails_the_test() -> None:
    """Fewer writes than were to pass are no crash."""

    async def test() -> None:
        async with FaultProxy(NOBODY) as proxy:
            proxy.crash_after(2, path="/configmaps")
            await request(proxy, "POST")

    words = "faults that did not take place: crash after 2 writes /configmaps: 1 came"
    with pytest.raises(AssertionError, match=f"^{words}$"):
        await test()


async def test_the_failure_of_the_test_itself_is_not_hidden() -> None:
    """What the block raised comes out, not the faults that were still to come."""

    async def test() -> None:
        async with FaultProxy(NOBODY) as proxy:
            proxy.reset()
            raise KeyError("own")

    with pytest.raises(KeyError, match="own"):
        await test()


async def test_watches_that_do_not_exist_cannot_be_cut() -> None:
    """Otherwise a test of cut watches would pass before the first watch is open."""
    async with FaultProxy(NOBODY) as proxy:
        with pytest.raises(AssertionError, match=r"no watch was opened within 0\.1 s"):
            await proxy.cut_watches(0.1)


EVENTS: Final = [
    {"type": "ADDED", "object": {"kind": "Job", "metadata": {"name": name, "resourceVersion": version}}}
    for name, version in (("a", "1"), ("b", "2"), ("c", "3"))
]


class OneServer:
    """An API server with one list, and one watch that ends after three events."""

    async def __aenter__(self) -> Connection:
        """Listen."""
        application = web.Application()
        application.router.add_get("/jobs", self._answer)
        self._runner = web.AppRunner(application)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        return Connection(f"http://{host}:{port}")

    async def __aexit__(self, *exc: object) -> None:
        """End."""
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        if "watch" not in request.query:
            return web.json_response({"items": ["a", "b", "c"]})
        return web.Response(body=b"".join(json.dumps(event).encode() + b"\n" for event in EVENTS))


async def watched(proxy: FaultProxy) -> list[str]:
    """Type and name, or version of a bookmark, of each event of the watch."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{proxy.url}/jobs", params={"watch": "true"}) as answer,
    ):
        events = [json.loads(line) for line in (await answer.read()).splitlines()]
    found = [(event["type"], event["object"]["metadata"]) for event in events]
    return [f"{kind} {metadata.get('name', metadata['resourceVersion'])}" for kind, metadata in found]


async def test_two_events_change_places() -> None:
    """The one that the fault is about comes after its successor."""
    async with OneServer() as server, FaultProxy(server) as proxy:
        proxy.reorder_event("ADDED", name="a")
        assert await watched(proxy) == ["ADDED b", "ADDED a", "ADDED c"]


async def test_a_watch_has_nothing_but_bookmarks_any_more() -> None:
    """They have the versions of the events in whose places they are."""
    async with OneServer() as server, FaultProxy(server) as proxy:
        proxy.blind_stream("ADDED", name="b")
        assert await watched(proxy) == ["ADDED a", "BOOKMARK 2", "BOOKMARK 3"]


async def test_an_answer_ends_in_its_middle() -> None:
    """Its length announces more, so that a client can notice."""
    async with OneServer() as server, FaultProxy(server) as proxy, aiohttp.ClientSession() as session:
        proxy.cut_answer(method="GET", path="/jobs$")
        async with session.get(f"{proxy.url}/jobs") as answer:
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.read()


async def test_a_silent_stream_ends_with_its_client() -> None:
    """A node would keep the log of a container open for each client that has gone."""
    left = asyncio.Event()

    async def follow(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"line 1\n")
        try:
            await asyncio.Event().wait()
        finally:
            left.set()
        return response

    application = web.Application()
    application.router.add_get("/log", follow)
    runner = web.AppRunner(application, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    async with FaultProxy(Connection(f"http://{host}:{port}")) as proxy:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{proxy.url}/log", params={"follow": "true"}) as answer,
        ):
            assert await answer.content.readline() == b"line 1\n"
            assert not left.is_set()
        await asyncio.wait_for(left.wait(), 30)
    await runner.cleanup()


class Client:
    """A client of the proxy with a plain socket that outlives the proxy."""

    def __init__(self) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.setblocking(False)  # noqa: FBT003

    async def send(self, proxy: FaultProxy, content: bytes) -> None:
        """Connect, and send something."""
        loop = asyncio.get_running_loop()
        url = urlsplit(proxy.url)
        await loop.sock_connect(self.socket, (url.hostname, url.port))
        await loop.sock_sendall(self.socket, content)


async def _unread(client: Client) -> None:
    """Request 64 MB, read nothing, and close the proxy."""
    application = web.Application()
    application.router.add_get("/jobs", _large)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    async with FaultProxy(Connection(f"http://{host}:{port}")) as proxy:
        await client.send(proxy, b"GET /jobs HTTP/1.1\r\nHost: a\r\n\r\n")
        while not proxy.records:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
    await runner.cleanup()


async def _large(_: web.Request) -> web.Response:
    return web.Response(body=bytes(64 << 20))


async def _late(client: Client, steps: int) -> None:
    """Connect while the proxy is being closed, after some steps of the event loop."""

    async def connect() -> None:
        for _ in range(steps):
            await asyncio.sleep(0)
        await client.send(proxy, b"GET ")

    async with FaultProxy(NOBODY) as proxy:
        connecting = asyncio.create_task(connect())
    with contextlib.suppress(ConnectionError):
        await connecting


@pytest.mark.parametrize("scenario", [_unread, *(partial(_late, steps=steps) for steps in range(8))])
def test_no_connection_outlives_the_proxy(scenario: Any) -> None:
    """Not one whose client reads nothing, and not one that comes while the proxy is being closed."""
    client = Client()
    with closing(client.socket):
        asyncio.run(scenario(client))
        gc.collect()
