"""Commands and ports over WebSockets, from a server that does as it likes."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import WSMsgType, web

from kaiwo.engine.channels import ChannelSocket
from kaiwo.engine.client import Client
from kaiwo.engine.credentials import static
from kaiwo.engine.errors import ApiError, ConnectionBroken, Forbidden, StreamFailed
from kaiwo.engine.exec_session import STDERR, STDOUT, ExecSession, exit_code
from kaiwo.engine.streaming import open_exec, open_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
SUCCESS = b'\x03{"status":"Success"}'
FAILURE = (
    b'\x03{"status":"Failure","reason":"NonZeroExitCode","message":"command terminated",'
    b'"details":{"causes":[{"reason":"ExitCode","message":"42"}]}}'
)


@asynccontextmanager
async def serving(
    use: Callable[[web.WebSocketResponse], Awaitable[None]],
    *,
    protocols: tuple[str, ...] = (V5, V4),
    refusals: tuple[tuple[int, str], ...] = (),
    asked: list[Any] | None = None,
) -> AsyncIterator[Client]:
    """A client of a server that upgrades each connection, after some refusals, and hands it to a function."""
    left = list(refusals)

    async def answer(request: web.Request) -> web.StreamResponse:
        if asked is not None:
            asked.append(request)
        if left:
            status, message = left.pop(0)
            return web.json_response({"kind": "Status", "code": status, "message": message}, status=status)
        socket = web.WebSocketResponse(protocols=protocols, autoping=False)
        await socket.prepare(request)
        await use(socket)
        return socket

    application = web.Application()
    application.router.add_get("/api/v1/namespaces/team/pods/pod/{what}", answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        async with Client(static(f"http://127.0.0.1:{runner.addresses[0][1]}", token="secret")) as client:
            yield client
    finally:
        await runner.cleanup()


def saying(*messages: bytes) -> Callable[[web.WebSocketResponse], Awaitable[None]]:
    """Send messages and close."""

    async def use(socket: web.WebSocketResponse) -> None:
        for message in messages:
            await socket.send_bytes(message)
        await socket.close()

    return use


async def run(client: Client) -> tuple[int | None, bytes, bytes]:
    """Run a command: exit code, output, standard error."""
    session = await open_exec(client, "team", "pod", ["train", "--lr", "3"], container="main", stdin=True)
    output = {STDOUT: b"", STDERR: b""}
    try:
        while (piece := await session.read()) is not None:
            output[piece[0]] += piece[1]
    finally:
        await session.close()
    return session.exit_code, output[STDOUT], output[STDERR]


@pytest.mark.parametrize("protocols", [(V5, V4), (V4,), ()])
async def test_output_and_exit_code_come_whatever_the_protocol(protocols: tuple[str, ...]) -> None:
    """Old servers know v4 only; a message without data is passed over."""
    asked: list[Any] = []
    use = saying(b"\x01", b"\x01out", b"\x02err", b"\x01more", FAILURE)
    async with serving(use, protocols=protocols, asked=asked) as client:
        assert await run(client) == (42, b"outmore", b"err")
    assert asked[0].query.getall("command") == ["train", "--lr", "3"]
    assert asked[0].headers["Authorization"] == "Bearer secret"


async def test_the_end_of_input_is_said_where_the_protocol_can() -> None:
    """v5 closes the channel; with v4 the caller learns that it cannot."""
    got: list[bytes] = []

    async def use(socket: web.WebSocketResponse) -> None:
        async for message in socket:
            if message.type == WSMsgType.BINARY:
                got.append(message.data)
                if message.data[0] in (255, 9):
                    break
        await socket.send_bytes(SUCCESS)

    for protocol, can in ((V5, True), (V4, False)):
        got.clear()
        async with serving(use, protocols=(protocol,)) as client:
            session = await open_exec(client, "team", "pod", ["cat"], container="main", stdin=True)
            await session.write(b"x" * 70_000)
            assert await session.end_stdin() is can
            if not can:
                await session._channels.send(9, b"end")
            assert await session.read() is None
            await session.close()
        assert b"".join(each[1:] for each in got if each[0] == 0) == b"x" * 70_000
        assert max(map(len, got)) <= (32 << 10) + 1
        assert (b"\xff\x00" in got) is can


@pytest.mark.parametrize("count", range(4))
async def test_a_connection_that_ends_before_the_exit_code_is_broken(count: int) -> None:
    """An output that is cut off never looks like a success."""
    messages = (b"\x01one", b"\x01two", b"\x02three")[:count]
    async with serving(saying(*messages)) as client:
        with pytest.raises(ConnectionBroken, match="before the command ended"):
            await run(client)


async def test_a_connection_that_is_reset_is_broken() -> None:
    """In the middle of a message, too."""

    async def use(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(b"\x01one")
        transport = socket._req.transport  # type: ignore[union-attr]
        assert transport is not None
        transport.write(b"\x82\x7e\xff")
        await asyncio.sleep(0.05)
        transport.abort()

    async with serving(use) as client:
        with pytest.raises(ConnectionBroken):
            await run(client)


async def test_a_rejected_upgrade_has_the_servers_words() -> None:
    """403, 404 and 400 are read with their body, which says what is missing."""
    for status, message in (
        (403, 'cannot create resource "pods/exec"'),
        (404, 'pods "pod" not found'),
        (400, "container main is not valid for pod pod"),
        (500, "error dialing backend: connection refused"),
    ):
        async with serving(saying(SUCCESS), refusals=((status, message),)) as client:
            with pytest.raises(ApiError, match=message) as caught:
                await run(client)
            assert caught.value.status == status


async def test_credentials_that_expired_are_renewed_once() -> None:
    """After a 401 the next try has fresh ones; a second 401 is an error."""
    async with serving(saying(SUCCESS), refusals=((401, "expired"),)) as client:
        assert (await run(client))[0] == 0
    async with serving(saying(SUCCESS), refusals=((401, "expired"),) * 2) as client:
        with pytest.raises(Forbidden, match="expired"):
            await run(client)


def test_what_is_no_status_is_an_error() -> None:
    """Neither garbage nor a failure without an exit code is a success."""
    with pytest.raises(ConnectionBroken):
        exit_code(b"oops")
    with pytest.raises(ApiError, match="no such file"):
        exit_code(b'{"status":"Failure","reason":"InternalError","code":500,"message":"no such file"}')


async def test_a_slow_reader_holds_the_server_up() -> None:
    """Memory is bounded: what is not read stays at the other side."""
    sent = 0

    async def use(socket: web.WebSocketResponse) -> None:
        nonlocal sent
        for _ in range(2000):
            await socket.send_bytes(b"\x01" + b"x" * 32_768)
            sent += 32_768
        await socket.send_bytes(SUCCESS)

    async with serving(use) as client:
        session = await open_exec(client, "team", "pod", ["yes"], container="main")
        assert await session.read() is not None
        await asyncio.sleep(0.5)
        assert sent < 32_768 * 1000
        while await session.read() is not None:
            pass
        assert (session.exit_code, sent) == (0, 32_768 * 2000)
        await session.close()


async def _channels(client: Client) -> ChannelSocket:
    path = "/api/v1/namespaces/team/pods/pod/exec"
    return ChannelSocket(await client.websocket("pods/exec", path, (V5,)), "exec", ping_seconds=0.05)


async def test_a_peer_that_answers_no_ping_is_given_up() -> None:
    """A laptop that slept learns that its connection is gone."""

    async def use(_: web.WebSocketResponse) -> None:
        await asyncio.sleep(5)

    async with asyncio.timeout(4), serving(use) as client:
        session = ExecSession(await _channels(client))
        with pytest.raises(ConnectionBroken):
            await session.read()
        await session.close()


async def test_a_peer_that_reads_no_input_is_not_given_up() -> None:
    """A command that leaves its input unread answers no ping, and goes on."""

    async def use(socket: web.WebSocketResponse) -> None:
        await asyncio.sleep(0.6)
        await socket.send_bytes(SUCCESS)

    async with serving(use) as client:
        session = ExecSession(await _channels(client))
        await session.write(b"unread")
        assert await session.read() is None
        await session.close()


async def test_a_port_carries_bytes_and_its_end() -> None:
    """The number of the port comes first, in both channels, whole or in pieces."""
    asked: list[Any] = []
    use = saying(b"\x00\x50", b"\x00\x00one", b"\x01\x50\x00", b"\x00two")
    async with serving(use, protocols=(V4,), asked=asked) as client:
        session = await open_port(client, "team", "pod", 80)
        assert [await session.read(), await session.read(), await session.read()] == [b"one", b"two", None]
        await session.close()
    assert asked[0].query["ports"] == "80"


async def test_a_port_that_cannot_be_reached_fails_with_the_reason() -> None:
    """The kubelet's words."""
    use = saying(b"\x00\x50\x00", b"\x01\x50\x00", b"\x01dial tcp: connection refused")
    async with serving(use, protocols=(V4,)) as client:
        session = await open_port(client, "team", "pod", 80)
        with pytest.raises(StreamFailed, match="connection refused"):
            await session.read()
        await session.close()
