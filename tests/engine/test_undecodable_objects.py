"""One object that cannot be decoded harms no other: lists and watches as an API server sends them."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from kaiwo.engine.client import Client
from kaiwo.engine.credentials import static
from kaiwo.engine.errors import ConnectionBroken, UndecodableObject
from kaiwo.engine.manager import Manager
from kaiwo.engine.reflector import OUTDATED_AFTER, Reflector
from kaiwo.engine.resource import Resource
from kaiwo.engine.store import Cache
from kaiwo.engine.writer import Writer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kaiwo.engine.metrics import Metrics
    from kaiwo.engine.store import Store

KIND = Resource("kaiwo.example", "v1", "Widget", "widgets")
PATH = "/apis/kaiwo.example/v1/widgets"


def widget(name: str, version: int, *, levels: int = 1, status: bytes = b'"READY"') -> bytes:
    """A Widget whose `spec.job` and managedFields are nested that deep, as the API server sends it."""
    job = b'{"a":' * levels + b"1" + b"}" * levels
    fields = b'{"f:a":' * levels + b"{}" + b"}" * levels
    return b"".join(
        (
            b'{"apiVersion":"kaiwo.example/v1","kind":"Widget","metadata":{"name":"%b"' % name.encode(),
            b',"namespace":"team","uid":"%b","resourceVersion":"%d"' % (name.encode(), version),
            b',"labels":{"run":"1"},"managedFields":[{"manager":"u","fieldsV1":{"f:job":%b}}]}' % fields,
            b',"spec":{"user":"someone","job":%b},"status":{"status":%b}}' % (job, status),
        )
    )


def listed(*objects: bytes) -> bytes:
    """A list."""
    return b'{"metadata":{"resourceVersion":"10"},"items":[%b]}' % b",".join(objects)


class ApiServer:
    """Answers with the bytes that a test has chosen.

    Attributes:
        list: the answer to a list, None for an error.
        events: lines of the watch that is open.
        answer: the answer to anything else.
    """

    def __init__(self) -> None:
        self.list: bytes | None = listed()
        self.events: asyncio.Queue[bytes] = asyncio.Queue()
        self.answer = b"{}"
        self.lists = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One request."""
        if request.path != PATH:
            return web.Response(body=self.answer, content_type="application/json")
        if "watch" in request.query:
            response = web.StreamResponse()
            await response.prepare(request)
            while True:
                await response.write(await self.events.get() + b"\n")
        self.lists += 1
        if self.list is None:
            return web.json_response({"kind": "Status", "reason": "Forbidden"}, status=403)
        return web.Response(body=self.list, content_type="application/json")

    def send(self, type_: str, obj: bytes) -> None:
        """Send a watch event."""
        self.events.put_nowait(b'{"type":"%b","object":%b}' % (type_.encode(), obj))


@pytest.fixture
async def server() -> ApiServer:
    """What the client talks to."""
    return ApiServer()


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[Client]:
    """A client of that server."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    async with Client(static(f"http://127.0.0.1:{runner.addresses[0][1]}")) as client:
        yield client
    await runner.cleanup()


@asynccontextmanager
async def reflecting(
    client: Client, metrics: Metrics | None = None
) -> AsyncIterator[tuple[Reflector, Store]]:
    """A reflector that runs."""
    store = Cache().register(KIND)
    reflector = Reflector(client, store, metrics=metrics)
    task = asyncio.create_task(reflector.run())
    try:
        yield reflector, store
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def has(store: Store, **versions: int) -> None:
    """Wait until the store holds exactly these objects in these versions."""
    async with asyncio.timeout(10):
        while {obj.name: obj.version for obj in store} != versions:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("levels", [150, 1200, 9000])
async def test_a_deep_object_in_a_list_hides_no_other(
    server: ApiServer, client: Client, metrics: Metrics, caplog: pytest.LogCaptureFixture, levels: int
) -> None:
    """All objects are in the store, the deep one with its metadata and status; it is reported once."""
    server.list = listed(widget("a", 1), widget("deep", 2, levels=levels), widget("z", 3))
    with caplog.at_level(logging.WARNING):
        async with reflecting(client, metrics) as (reflector, store):
            await has(store, a=1, deep=2, z=3)
            assert reflector.problem == ""
            assert reflector.synced()
            server.send("MODIFIED", widget("deep", 11, levels=levels))
            server.send("ADDED", widget("new", 12))
            await has(store, a=1, deep=11, z=3, new=12)
            deep = store.get("team", "deep")
    assert server.lists == 1
    reports = [record.getMessage() for record in caplog.records]
    assert reports == ["Widget team/deep passed over: spec.job is nested more than 100 levels deep"]
    counted = metrics.registry.get_sample_value
    assert counted("kaiwo_undecodable_objects_total", {"resource": "widgets.kaiwo.example"}) == 1
    assert deep is not None
    assert deep.undecodable == "spec.job is nested more than 100 levels deep"
    assert (deep.uid, deep.labels, deep.part("status", "status")) == ("deep", {"run": "1"}, "READY")
    assert "managedFields" not in deep.readable()["metadata"]
    assert "spec" not in deep.readable()
    with pytest.raises(UndecodableObject, match=r"Widget team/deep: spec\.job is nested more"):
        deep.full()
    with pytest.raises(UndecodableObject):
        deep.part("spec", "user")


async def test_a_deep_object_in_a_watch_ends_no_watch(server: ApiServer, client: Client) -> None:
    """It comes, is mended and goes; what comes after it is seen."""
    async with reflecting(client) as (_, store):
        server.send("ADDED", widget("deep", 11, levels=1200))
        server.send("ADDED", widget("after", 12))
        await has(store, deep=11, after=12)
        server.send("MODIFIED", widget("deep", 13))
        await has(store, deep=13, after=12)
        mended = store.get("team", "deep")
        assert mended is not None
        assert mended.undecodable == ""
        assert mended.full()["spec"] == {"user": "someone", "job": {"a": 1}}
        server.send("MODIFIED", widget("deep", 14, levels=1200))
        server.send("DELETED", widget("deep", 15, levels=1200))
        await has(store, after=12)
    assert server.lists == 1


async def test_an_object_of_the_greatest_depth_is_decoded(server: ApiServer, client: Client) -> None:
    """98 levels below `spec.job` are 100 in all."""
    server.list = listed(widget("a", 1, levels=98))
    async with reflecting(client) as (_, store):
        await has(store, a=1)
        obj = store.get("team", "a")
    assert obj is not None
    assert obj.undecodable == ""
    assert obj.full()["spec"]["user"] == "someone"


async def test_a_list_for_plugins_and_commands_leaves_a_deep_object_out(
    server: ApiServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """Who lists objects gets all others; who wants that object gets an error that names the field."""
    server.list = listed(widget("a", 1), widget("deep", 2, levels=1200))
    server.answer = widget("deep", 2, levels=1200)
    assert [obj["metadata"]["name"] async for obj in client.list(KIND)] == ["a"]
    assert "team/deep: spec.job is nested more than 100 levels deep" in caplog.text
    with pytest.raises(UndecodableObject, match=r"team/deep: spec\.job is nested") as caught:
        await client.get(KIND, "team", "deep")
    assert caught.value.readable["status"] == {"status": "READY"}


async def test_the_status_of_a_deep_object_can_be_written(server: ApiServer, client: Client) -> None:
    """Its answer is as deep as the object: the write counts, the cache has it, and it is not repeated."""
    cache = Cache()
    store = cache.register(KIND)
    store.replace([store.decode(widget("deep", 2, levels=1200))], "2")
    writer = Writer(client, cache, field_manager="me", applied_annotation="applied")
    deep = cache.get(KIND, "team", "deep")
    assert deep is not None
    server.answer = widget("deep", 3, levels=1200, status=b'"FAILED"')
    written = await writer.patch_status(deep, {"status": "FAILED"})
    assert written.changed
    assert written.live.resource_version == "3"
    deep = cache.get(KIND, "team", "deep")
    assert deep is not None
    assert (deep.version, deep.part("status", "status")) == (3, "FAILED")
    assert deep.undecodable
    assert not (await writer.patch_status(deep, {"status": "FAILED"})).changed


@pytest.mark.parametrize("body", [b"", b"[]", b'{"items":[' + b"[" * 1200, b'{"a":' * 1200])
async def test_a_garbled_list_is_an_error_of_the_connection(
    server: ApiServer, client: Client, body: bytes
) -> None:
    """Bytes that no API server sends, however deep, are a failed list and nothing else."""
    server.list = body
    with pytest.raises(ConnectionBroken, match="not a list"):
        _ = [page async for page in client.pages(KIND)]


async def test_an_operator_is_not_ready_while_a_kind_cannot_be_listed(
    server: ApiServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not before the first list, and not when lists fail for longer than a restart of an API server takes."""
    server.list = None
    manager = Manager(client, field_manager="me", applied_annotation="applied", component="test")
    manager.cache.register(KIND)
    stop = asyncio.Event()
    running = asyncio.create_task(manager.run(stop))

    async def becomes(*, ready: bool) -> None:
        async with asyncio.timeout(10):
            while manager.health.ready()[0] is not ready or not server.lists:
                await asyncio.sleep(0.01)

    await becomes(ready=False)
    server.list = listed(widget("a", 1))
    await becomes(ready=True)
    server.list = None
    server.events.put_nowait(b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}')
    lists = server.lists
    async with asyncio.timeout(10):
        while server.lists == lists:
            await asyncio.sleep(0.01)
    assert manager.health.ready()[0]
    monkeypatch.setattr("kaiwo.engine.reflector.OUTDATED_AFTER", 0.0)
    assert OUTDATED_AFTER > 0
    await becomes(ready=False)
    async with asyncio.timeout(10):  # the list that was asked for may not be answered yet
        while "Forbidden" not in manager.health.ready()[1]["cache widgets.kaiwo.example"]:
            await asyncio.sleep(0.01)
    stop.set()
    await running
