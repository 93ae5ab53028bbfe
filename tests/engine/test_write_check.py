"""The check that a write must pass, against a socket of the test."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from kaiwo.engine.client import Client
from kaiwo.engine.credentials import Connection
from kaiwo.engine.errors import NotLeading
from kaiwo.engine.leader_election import LeaderElector
from kaiwo.engine.manager import Manager
from kaiwo.engine.resource import CONFIG_MAP

_OBJECT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "team"}}


async def test_a_write_that_may_be_sent_is_sent_before_anything_else_runs() -> None:
    """A process that is frozen after the check has sent the request, or sends it within microseconds."""
    loop = asyncio.get_running_loop()
    received: asyncio.Future[bytes] = loop.create_future()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def receive() -> None:
            peer, _ = listener.accept()
            with peer, contextlib.suppress(BlockingIOError):
                peer.settimeout(0)
                received.set_result(peer.recv(1 << 16))
            if not received.done():
                received.set_result(b"")

        def may_write() -> bool:
            loop.call_soon(receive)
            return True

        async with Client(Connection(f"http://127.0.0.1:{listener.getsockname()[1]}")) as client:
            client.may_write = may_write
            request = asyncio.create_task(client.create(CONFIG_MAP, _OBJECT))
            found = await asyncio.wait_for(received, 60)
            request.cancel()
            await asyncio.gather(request, return_exceptions=True)
    assert found.startswith(b"POST ")
    assert found.endswith(b"}")


async def test_of_a_write_that_may_not_be_sent_no_byte_is() -> None:
    """Not even its head; the connection is closed, and the next request makes another one."""
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0)
        async with Client(Connection(f"http://127.0.0.1:{listener.getsockname()[1]}")) as client:
            client.may_write = lambda: False
            with pytest.raises(NotLeading, match="this process does not lead"):
                await client.create(CONFIG_MAP, _OBJECT)
            peer, _ = await asyncio.wait_for(loop.sock_accept(listener), 60)
            with peer:
                assert await asyncio.wait_for(loop.sock_recv(peer, 1 << 16), 60) == b""


async def test_the_kernel_gives_a_write_up_before_another_process_may_lead() -> None:
    """What a broken network holds up is not delivered once it works again."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with Client(Connection(f"http://127.0.0.1:{listener.getsockname()[1]}")) as client:
            elector = LeaderElector(client, "team", "lease", "me", duration=10, renew_deadline=7)
            Manager(
                client, field_manager="me", applied_annotation="me", component="me", leader_elector=elector
            )
            limits: list[int] = []

            def may_write() -> bool:
                session = client._transport._session
                assert session is not None
                assert session.connector is not None
                for protocol in session.connector._acquired:
                    assert protocol.transport is not None
                    connected = protocol.transport.get_extra_info("socket")
                    limits.append(connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))
                return False

            client.may_write = may_write
            with pytest.raises(NotLeading):
                await client.create(CONFIG_MAP, _OBJECT)
    assert limits == [3000]
