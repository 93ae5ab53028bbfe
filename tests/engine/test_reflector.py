"""The reflector: whatever the API server and the network do, the cache ends up equal."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from kaiwo.engine import reflector as module
from kaiwo.engine.reflector import Reflector
from kaiwo.engine.resource import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, Resource
from kaiwo.engine.store import Cache

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from kaiwo.engine.client import Client
    from kaiwo.engine.metrics import Metrics
    from kaiwo.engine.resource import Object
    from kaiwo.engine.store import CacheEvent, Store
    from kaiwo.testing.fault_proxy import FaultProxy

pytestmark = pytest.mark.cluster

MINE = "engine=test"
PATH = "/configmaps$"


class Watched:
    """A store that is fed, and a way to wait for what it should hold."""

    def __init__(self, store: Store, reflector: Reflector) -> None:
        self.store = store
        self.reflector = reflector
        self.events: list[CacheEvent] = []
        self._changed = asyncio.Event()
        store.handlers.append(self._note)

    def _note(self, event: CacheEvent) -> None:
        self.events.append(event)
        self._changed.set()

    async def holds(self, *names: str) -> None:
        """Wait until the store holds exactly these names."""
        async with asyncio.timeout(20):
            while {entry.name for entry in self.store} != set(names):
                self._changed.clear()
                await self._changed.wait()


@contextlib.asynccontextmanager
async def watching(
    client: Client, namespace: str, metrics: Metrics | None = None, *, stall: float = 60.0
) -> AsyncIterator[Watched]:
    """Reflect the labelled ConfigMaps of a namespace."""
    store = Cache().register(CONFIG_MAP, namespaces=(namespace,), label_selector=MINE)
    reflector = Reflector(client, store, namespace, metrics=metrics, stall=stall)
    watched = Watched(store, reflector)
    task = asyncio.create_task(reflector.run())
    try:
        async with asyncio.timeout(20):
            await reflector.settled.wait()
        yield watched
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def mine(config_map: Callable[..., Object]) -> Callable[[str], Object]:
    """A ConfigMap that the reflector watches."""
    return lambda name: config_map(name, labels={"engine": "test"})


async def test_changes_arrive(client: Client, namespace: str, mine: Callable[[str], Object]) -> None:
    """What was there is listed, what comes and goes is seen, what is not selected is not."""
    await client.create(CONFIG_MAP, mine("before"))
    async with watching(client, namespace) as watched:
        await watched.holds("before")
        await client.create(CONFIG_MAP, mine("after"))
        await watched.holds("before", "after")
        await client.delete(CONFIG_MAP, namespace, "before")
        await watched.holds("after")
        assert watched.reflector.problem == ""


async def test_a_delete_that_was_never_reported_is_found(
    client: Client, through: Client, proxy: FaultProxy, namespace: str, mine: Callable[[str], Object]
) -> None:
    """An event gets lost, later the watch expires: the new list is compared, the delete is found."""
    await client.create(CONFIG_MAP, mine("a"))
    async with watching(through, namespace) as watched:
        dropped = proxy.drop_event("DELETED", name="a")
        await client.delete(CONFIG_MAP, namespace, "a")
        await dropped.wait()
        assert [entry.name for entry in watched.store] == ["a"]
        proxy.expire_stream("ADDED", name="b")
        await client.create(CONFIG_MAP, mine("b"))
        await watched.holds("b")
        assert {(e.type, e.latest.name) for e in watched.events[1:]} == {("DELETED", "a"), ("ADDED", "b")}
        assert len(watched.events) == 3


@pytest.mark.parametrize("fault", ["truncate_stream", "stall_stream", "expire_stream"])
async def test_a_broken_stream_loses_nothing(
    client: Client,
    through: Client,
    proxy: FaultProxy,
    metrics: Metrics,
    namespace: str,
    mine: Callable[[str], Object],
    fault: str,
) -> None:
    """Cut in the middle of an event, silent for ever, expired: what happened meanwhile is seen."""
    async with watching(through, namespace, metrics, stall=1.0) as watched:
        getattr(proxy, fault)(name="a", path=PATH)
        await client.create(CONFIG_MAP, mine("a"))
        await client.create(CONFIG_MAP, mine("b"))
        await watched.holds("a", "b")
    restarts = [
        sample.value
        for metric in metrics.registry.collect()
        for sample in metric.samples
        if sample.name == "kaiwo_watch_restarts_total"
    ]
    assert sum(restarts) >= 1


async def test_a_repeated_event_causes_no_reconciliation(
    client: Client, through: Client, proxy: FaultProxy, namespace: str, mine: Callable[[str], Object]
) -> None:
    """Duplicates end in the cache."""
    async with watching(through, namespace) as watched:
        repeated = [proxy.duplicate_event("ADDED", name=name, path=PATH) for name in "ab"]
        await client.create(CONFIG_MAP, mine("a"))
        await client.create(CONFIG_MAP, mine("b"))
        for fault in repeated:
            await fault.wait()
        await watched.holds("a", "b")
        await client.create(CONFIG_MAP, mine("c"))
        await watched.holds("a", "b", "c")  # comes after the repetitions
        assert [event.type for event in watched.events] == ["ADDED"] * 3


@pytest.mark.parametrize("status", [410, 429, 500, 503, 403])
async def test_no_answer_ends_the_reflector(
    client: Client,
    through: Client,
    proxy: FaultProxy,
    namespace: str,
    mine: Callable[[str], Object],
    status: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After several errors of the list and of the watch, the reflector continues and catches up."""
    monkeypatch.setattr(module, "RETRY", (0.05, 0.2))
    proxy.answer(status, method="GET", path=PATH, times=3)
    refused = proxy.answer(status, method="WATCH", path=PATH, times=3)
    async with watching(through, namespace) as watched:
        await refused.wait()
        await client.create(CONFIG_MAP, mine("a"))
        await watched.holds("a")


async def test_a_list_that_expires_between_two_pages_is_begun_again(
    client: Client,
    through: Client,
    proxy: FaultProxy,
    namespace: str,
    mine: Callable[[str], Object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """410 on a later page: no half list is ever taken for the truth."""
    monkeypatch.setattr("kaiwo.engine.reader.PAGE", 2)
    for name in "abcde":
        await client.create(CONFIG_MAP, mine(name))
    proxy.answer(410, method="GET", path=PATH, after=1)
    async with watching(through, namespace) as watched:
        await watched.holds(*"abcde")
        assert [event.type for event in watched.events] == ["ADDED"] * 5


async def test_connections_that_are_cut_lose_nothing(
    client: Client, through: Client, proxy: FaultProxy, namespace: str, mine: Callable[[str], Object]
) -> None:
    """As when an API server restarts."""
    async with watching(through, namespace) as watched:
        for number in range(3):
            await client.create(CONFIG_MAP, mine(f"n{number}"))
            await proxy.cut_watches()
        await watched.holds("n0", "n1", "n2")


async def test_a_kind_that_appears_later_is_picked_up(
    client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CRD that is not installed is reported, blocks nothing, and is found once it is installed."""
    monkeypatch.setattr(module, "UNSERVED_RETRY", (0.1, 0.3))
    group = f"{namespace}.example"
    kind = Resource(group, "v1", "Widget", "widgets")
    cache = Cache()
    reflector = Reflector(client, cache.register(kind))
    task = asyncio.create_task(reflector.run())
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                    },
                }
            ],
        },
    }
    try:
        await asyncio.wait_for(reflector.settled.wait(), 20)
        assert reflector.problem == "not served by the API server"
        assert not cache.synced(kind)
        await client.create(CUSTOM_RESOURCE_DEFINITION, crd)
        async with asyncio.timeout(30):
            # The API server answers the first watch of a new kind with 429 while it fills its own cache.
            while not cache.synced(kind) or reflector.problem:
                await asyncio.sleep(0.1)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.delete(CUSTOM_RESOURCE_DEFINITION, None, f"widgets.{group}")
