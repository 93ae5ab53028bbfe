"""A manager against a real API server."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING

import pytest

from kaiwo.engine.client import Client
from kaiwo.engine.controller import Controller, Watch
from kaiwo.engine.credentials import load
from kaiwo.engine.errors import EngineError, NotFound, NotLeading
from kaiwo.engine.leader_election import LeaderElector
from kaiwo.engine.manager import Manager
from kaiwo.engine.metrics import Metrics
from kaiwo.engine.resource import CONFIG_MAP, LEASE, Resource
from kaiwo.engine.workqueue import Key

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from kaiwo.engine.credentials import Connection
    from kaiwo.engine.resource import Object
    from kaiwo.engine.store import CacheEvent
    from kaiwo.testing.fault_proxy import FaultProxy

pytestmark = pytest.mark.cluster

NOWHERE = Resource("nobody.example", "v1", "Nothing", "nothings")


class Clock:
    """A clock that can be moved on, as if the process had been frozen."""

    def __init__(self) -> None:
        self.skipped = 0.0

    def __call__(self) -> float:
        """Seconds."""
        return asyncio.get_running_loop().time() + self.skipped


class Process:
    """An operator that keeps a copy ``NAME-copy`` beside each ConfigMap labelled ``copy=yes``."""

    def __init__(self, connection: Connection, namespace: str, name: str, *, lease: bool = True) -> None:
        self.name = name
        self.namespace = namespace
        self.stop = asyncio.Event()
        self.clock = Clock()
        self.reconciled: list[str] = []
        self.metrics = Metrics()
        self.client = Client(connection, metrics=self.metrics, timeout=5.0)
        held = (
            LeaderElector(
                self.client,
                namespace,
                "operator",
                name,
                duration=2.0,
                renew_deadline=1.4,
                retry_period=0.2,
                clock=self.clock,
            )
            if lease
            else None
        )
        self.manager = Manager(
            self.client,
            field_manager="copier",
            applied_annotation="example.com/applied",
            component="copier",
            leader_elector=held,
            metrics=self.metrics,
            grace=2.0,
        )
        watches = [
            Watch(CONFIG_MAP, _originals, namespaces=(namespace,), label_selector="copy"),
            Watch(NOWHERE, _originals),
        ]
        self.manager.add(Controller("copier", watches, self._reconcile, workers=2))

    async def _reconcile(self, key: Key) -> None:
        self.reconciled.append(key.name)
        original = self.manager.cache.get(CONFIG_MAP, key.namespace, key.name)
        if original is None:
            return
        copy = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": f"{key.name}-copy",
                "namespace": key.namespace,
                "labels": {"copy": "made"},
                "ownerReferences": [
                    {
                        "apiVersion": "v1",
                        "kind": "ConfigMap",
                        "name": original.name,
                        "uid": original.uid,
                        "controller": True,
                    }
                ],
            },
            "data": original.part("data") or {},
        }
        await self.manager.writer.apply(CONFIG_MAP, copy)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Process]:
        """Run; ends with an orderly stop."""
        task = asyncio.create_task(self.manager.run(self.stop))
        try:
            yield self
        finally:
            self.stop.set()
            try:
                await asyncio.wait_for(task, 15)
            finally:
                await self.client.close()


def _originals(event: CacheEvent) -> list[Key]:
    entry = event.latest
    name = entry.name.removesuffix("-copy")
    return [Key(entry.namespace, name)] if entry.resource == CONFIG_MAP else []


async def eventually(done: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait for something that has no event of its own."""
    async with asyncio.timeout(seconds):
        while not done():
            await asyncio.sleep(0.05)


async def data_of(client: Client, namespace: str, name: str) -> object:
    """Data of a ConfigMap, None when there is none."""
    try:
        return (await client.get(CONFIG_MAP, namespace, name)).get("data")
    except NotFound:
        return None


async def wait_for_data(client: Client, namespace: str, name: str, expected: object) -> None:
    """Wait until a ConfigMap has this data."""
    async with asyncio.timeout(20):
        while await data_of(client, namespace, name) != expected:
            await asyncio.sleep(0.05)


@pytest.fixture
def original(config_map: Callable[..., Object]) -> Callable[..., Object]:
    """A ConfigMap to be copied."""
    return lambda name, data: config_map(name, data, labels={"copy": "yes"})


async def test_the_world_is_brought_to_what_is_wanted_and_then_left_alone(
    client: Client, proxy: FaultProxy, namespace: str, original: Callable[..., Object]
) -> None:
    """Copies follow originals, a deleted copy comes back, and at rest nothing is written."""
    await client.create(CONFIG_MAP, original("before", {"x": "1"}))
    async with Process(proxy.connection, namespace, "a").running() as process:
        await wait_for_data(client, namespace, "before-copy", {"x": "1"})
        await client.create(CONFIG_MAP, original("after", {"x": "2"}))
        await wait_for_data(client, namespace, "after-copy", {"x": "2"})
        await client.delete(CONFIG_MAP, namespace, "after-copy")
        await wait_for_data(client, namespace, "after-copy", {"x": "2"})
        ready, states = process.manager.health.ready()
        assert ready
        assert states["cache configmaps"] == "ok"
        assert states["cache nothings.nobody.example"] == "not served by the API server"
        before = len(proxy.writes())
        await asyncio.sleep(1.5)
        assert len(proxy.writes()) == before == 3
    lease = await client.get(LEASE, namespace, "operator")
    assert not lease["spec"].get("holderIdentity")


async def test_a_restart_writes_nothing(
    client: Client, proxy: FaultProxy, namespace: str, original: Callable[..., Object]
) -> None:
    """A new process reconciles everything and finds it done."""
    for number in range(20):
        await client.create(CONFIG_MAP, original(f"n{number}", {"x": "1"}))
    async with Process(proxy.connection, namespace, "a").running():
        await wait_for_data(client, namespace, "n19-copy", {"x": "1"})
        await eventually(lambda: len(proxy.writes()) == 20)
    async with Process(proxy.connection, namespace, "b").running() as process:
        await eventually(lambda: len(set(process.reconciled)) == 20)
        await asyncio.sleep(0.3)
    assert len(proxy.writes()) == 20


async def test_of_two_operators_one_writes_and_the_other_takes_over(
    connection: Connection, client: Client, namespace: str, original: Callable[..., Object]
) -> None:
    """A clean stop hands over at once; the standby is warm."""
    async with contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(Process(connection, namespace, "a").running())
        await eventually(lambda: first.manager.leading)
        second = await stack.enter_async_context(Process(connection, namespace, "b").running())
        await client.create(CONFIG_MAP, original("one", {"x": "1"}))
        await wait_for_data(client, namespace, "one-copy", {"x": "1"})
        assert not second.manager.leading
        assert second.reconciled == []
        with pytest.raises(NotLeading):
            await second.client.delete(CONFIG_MAP, namespace, "one")
        first.stop.set()
        await eventually(lambda: second.manager.leading, 5)
        await client.create(CONFIG_MAP, original("two", {"x": "2"}))
        await wait_for_data(client, namespace, "two-copy", {"x": "2"})
        assert not first.manager.leading


async def test_a_frozen_and_thawed_operator_writes_nothing(
    connection: Connection,
    client: Client,
    proxy: FaultProxy,
    namespace: str,
    original: Callable[..., Object],
) -> None:
    """The lease has passed to another one meanwhile: writes are held back, then the process stands by."""
    async with contextlib.AsyncExitStack() as stack:
        frozen = await stack.enter_async_context(Process(proxy.connection, namespace, "a").running())
        await eventually(lambda: frozen.manager.leading)
        await stack.enter_async_context(Process(connection, namespace, "b").running())
        # Frozen: its time goes on, its requests do not come through.
        proxy.reset(path="/leases/", times=None)
        proxy.stall_stream(times=None)
        frozen.clock.skipped += 3600
        before = len(proxy.writes())
        with pytest.raises(NotLeading):
            await frozen.client.apply(CONFIG_MAP, original("mine", {"x": "1"}), field_manager="a")
        await eventually(lambda: not frozen.manager.leading)
        await client.create(CONFIG_MAP, original("one", {"x": "1"}))
        await wait_for_data(client, namespace, "one-copy", {"x": "1"})
        proxy.clear()
        await asyncio.sleep(0.5)
        assert not frozen.manager.leading
        assert len(proxy.writes()) == before


async def test_an_api_server_that_goes_away_and_comes_back_is_caught_up_with(
    client: Client, proxy: FaultProxy, namespace: str, original: Callable[..., Object]
) -> None:
    """Connections cut, every answer an error for a while: afterwards all is as it should be."""
    async with Process(proxy.connection, namespace, "a", lease=False).running():
        await client.create(CONFIG_MAP, original("one", {"x": "1"}))
        await wait_for_data(client, namespace, "one-copy", {"x": "1"})
        proxy.answer(503, times=None)
        await proxy.cut_watches()
        await client.create(CONFIG_MAP, original("two", {"x": "2"}))
        await client.merge_patch(CONFIG_MAP, namespace, "one", {"data": {"x": "3"}})
        await asyncio.sleep(1)
        proxy.clear()
        await wait_for_data(client, namespace, "one-copy", {"x": "3"})
        await wait_for_data(client, namespace, "two-copy", {"x": "2"})


async def test_an_api_server_that_is_restarted_under_load_is_caught_up_with() -> None:
    """Killed and started again while objects are made: every copy is there in the end, once."""
    from kaiwo_sandbox.sandbox import Sandbox

    sandbox = await asyncio.to_thread(Sandbox.up, f"engine-{os.getpid()}", nodes="none", owned=True)
    try:
        connection = load(sandbox.kubeconfig)
        async with Client(connection) as client, Process(connection, "default", "a").running() as process:
            await eventually(lambda: process.manager.leading)

            async def make() -> None:
                for number in range(60):
                    obj = {
                        "apiVersion": "v1",
                        "kind": "ConfigMap",
                        "metadata": {"name": f"n{number}", "namespace": "default", "labels": {"copy": "yes"}},
                        "data": {"x": str(number)},
                    }
                    while True:
                        try:
                            await client.apply(CONFIG_MAP, obj, field_manager="load")
                            break
                        except EngineError:
                            await asyncio.sleep(0.2)
                    await asyncio.sleep(0.05)

            load_task = asyncio.create_task(make())
            await asyncio.sleep(0.5)
            await asyncio.to_thread(sandbox.restart_api_server)
            await load_task
            for number in range(60):
                await wait_for_data(client, "default", f"n{number}-copy", {"x": str(number)})
    finally:
        await asyncio.to_thread(sandbox.down)
