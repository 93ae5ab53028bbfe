"""When a workload is reconciled again: whatever it waits for ends in a requeue."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import kaiwo_batch_job.plugin
from kaiwo.api.crds import KAIWO_CONFIG, KAIWO_JOB
from kaiwo.engine.controller import Watch
from kaiwo.engine.errors import ServerUnavailable
from kaiwo.engine.failing_writes import FailingWrites
from kaiwo.engine.resource import JOB, PRIORITY_CLASS, STORAGE_CLASS
from kaiwo.engine.store import Cache
from kaiwo.engine.transport import HttpRequest
from kaiwo.engine.turns import Turns
from kaiwo.engine.workqueue import Key
from kaiwo.engine.writer import Writer
from kaiwo.host.cluster_facts import ClusterFacts
from kaiwo.host.kaiwoconfig import LiveConfig
from kaiwo.host.workload.reconciler import WorkloadReconciler
from kaiwo.host.workload.snapshot import SnapshotReader
from kaiwo.testing import job, plugins
from kaiwo.workload.download.progress import Progress
from kaiwo.workload.model import Registry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.resource import Object, Resource

POST = HttpRequest("create", "jobs.batch", "POST", "/apis/batch/v1/namespaces/default/jobs", mutating=True)


class Server:
    """An API server whose webhook for Jobs may fail; a watch brings each change at once, but for statuses.

    Of these the answer comes first, and the same version by the watch is no change.
    """

    leading = True

    def __init__(self) -> None:
        self.unreadable: dict[str, dict[Resource, str]] = {}
        self.failing: dict[Resource, str] = {}
        self.shard: Any = None
        self.lines: asyncio.Queue[bytes] = asyncio.Queue()
        self.logs = 0
        self.cache = Cache()
        self.client: Any = self
        self.turns = Turns()
        self.writer = Writer(self.client, self.cache, field_manager="kaiwo", applied_annotation="applied")
        self.event_recorder = SimpleNamespace(event=lambda *_: None)
        self.failing_writes = FailingWrites(self.send)
        self.webhook_fails = False
        self.on_status: Callable[[], None] = lambda: None
        self.posts = 0
        self.reasons: list[str] = []
        self._version = 0

    async def send(self, _: HttpRequest) -> bytes:
        """No dry run is sent here."""
        raise NotImplementedError

    def on_unreadable_change(self, _: Any) -> None:
        """Everything may be listed."""

    def watch(self, watch: Watch) -> None:
        """Keep a kind in the cache."""
        self.cache.register(
            watch.resource, watch.projection, namespaces=watch.namespaces, label_selector=watch.label_selector
        )

    def webhook(self, *, fails: bool) -> None:
        """Let a write of somebody else meet the webhook."""
        self.webhook_fails = fails
        self.failing_writes.on_write(POST, self.refusal() if fails else None)

    @staticmethod
    def refusal() -> ServerUnavailable:
        """The answer while the webhook fails."""
        return ServerUnavailable(500, "InternalError", 'failed calling webhook "x.example": refused')

    def put(self, resource: Resource, obj: Object) -> Object:
        """Let an object be as given, and let the watch say so."""
        stored = self._stored(obj)
        store = self.cache.store(resource)
        assert store is not None
        store.observe("MODIFIED", store.decode(msgspec.json.encode(stored)))
        return stored

    def _stored(self, obj: Object) -> Object:
        self._version += 1
        return {**copy.deepcopy(obj), "metadata": {**obj["metadata"], "resourceVersion": str(self._version)}}

    def remove(self, resource: Resource, name: str) -> None:
        """Let an object be gone, and let the watch say so."""
        store = self.cache.store(resource)
        assert store is not None
        entry = store.get("default", name)
        assert entry is not None
        store.observe("DELETED", store.decode(msgspec.json.encode(self._stored(entry.full()))))

    async def log(self, *_: Any, **__: Any) -> AsyncIterator[bytes]:
        """Follow the log of a pod, which does not end."""
        self.logs += 1
        while True:
            yield await self.lines.get()

    async def create(self, resource: Resource, obj: Object, **_: Any) -> Object:
        """Answer a POST."""
        self.posts += 1
        if self.webhook_fails:
            error = self.refusal()
            self.failing_writes.on_write(POST, error)
            raise error
        identity = {"uid": f"uid-{resource.kind}", "creationTimestamp": "2026-01-02T03:04:06Z"}
        return self.put(resource, {**obj, "metadata": {**obj["metadata"], **identity}})

    async def patch_status(self, obj: CachedObject, status: Object, **_: Any) -> bytes:
        """Answer a PATCH of a status."""
        entry = self.cache.get(obj.resource, obj.namespace, obj.name)
        assert entry is not None
        live = entry.full()
        given = {name: value for name, value in {**live.get("status", {}), **status}.items() if value}
        self.reasons.append(given["reason"])
        self.on_status()
        return msgspec.json.encode(self._stored({**live, "status": given}))


@pytest.fixture
async def reconciler(server: Server) -> AsyncIterator[WorkloadReconciler]:
    """The reconciler of KaiwoJobs; its controller does not run yet."""
    engine: Any = server
    registry = Registry.of(plugins(kaiwo_batch_job.plugin))
    for resource in (PRIORITY_CLASS, STORAGE_CLASS, KAIWO_CONFIG):
        server.watch(Watch(resource))
    config = LiveConfig(server.cache, {}, "kaiwo")
    cluster = ClusterFacts(server.cache, registry.vendors, lambda: config.current)
    reader = SnapshotReader(server.cache, cluster, config, registry, served=lambda _: True, settings_of=dict)
    made = WorkloadReconciler("KaiwoJob", engine, reader, registry, on_transition=lambda _: None, workers=1)
    for watch in made.controller.watches:
        server.watch(watch)
        if watch.keys is not None:
            server.cache.subscribe(watch.resource, made.controller.handler(watch))
    for store in server.cache.stores():
        store.replace([], "0")
    server.failing_writes.on_change(made.controller.release)
    yield made
    await made.close()


@pytest.fixture
def server() -> Server:
    """An API server that works."""
    return Server()


@pytest.fixture
def served(server: Server) -> set[str]:
    """The namespaces that this process serves, one of several."""
    served = {"default"}
    server.shard = SimpleNamespace(serves=served.__contains__)
    return served


async def idle(reconciler: WorkloadReconciler) -> None:
    """Wait until nothing is to be reconciled now."""
    queue = reconciler.controller.queue
    async with asyncio.timeout(10):
        await asyncio.sleep(0)
        while len(queue) or queue.active:
            await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def term(reconciler: WorkloadReconciler, server: Server) -> AsyncIterator[None]:
    """A term of the Lease, in which the controller runs."""
    stop = asyncio.Event()
    running = asyncio.create_task(reconciler.controller.run(server.cache, stop))
    await asyncio.sleep(0)
    try:
        yield
    finally:
        stop.set()
        await running


async def refused(server: Server, reconciler: WorkloadReconciler) -> None:
    """Submit a workload whose Job the webhook refuses."""
    server.webhook_fails = True
    server.put(KAIWO_JOB, job(image="image:1", entrypoint="echo hello"))
    await idle(reconciler)
    assert (server.posts, server.reasons) == (1, ["WriteRefused"])


async def test_a_cause_that_comes_back_at_once_requeues_a_workload_when_it_really_ends(
    server: Server, reconciler: WorkloadReconciler
) -> None:
    """The webhook works for one write of somebody else, and fails again before the workload writes."""
    async with term(reconciler, server):
        await refused(server, reconciler)
        server.webhook(fails=False)
        server.webhook(fails=True)
        await idle(reconciler)
        server.webhook(fails=False)
        await idle(reconciler)
        assert server.cache.get(JOB, "default", "train") is not None


async def test_a_cause_that_ends_after_another_term_requeues_a_workload(
    server: Server, reconciler: WorkloadReconciler
) -> None:
    """The Lease is lost and held again while the webhook fails, as when the API server is restarted."""
    async with term(reconciler, server):
        await refused(server, reconciler)
    async with term(reconciler, server):
        await idle(reconciler)
        server.webhook(fails=False)
        await idle(reconciler)
    assert server.cache.get(JOB, "default", "train") is not None


async def test_a_name_that_becomes_free_while_the_conflict_is_reported_is_taken(
    server: Server, reconciler: WorkloadReconciler
) -> None:
    """Whose status does not say yet that it waits for the name does so all the same."""
    async with term(reconciler, server):
        server.put(JOB, {"metadata": {"name": "train", "namespace": "default", "uid": "uid-of-another"}})
        server.on_status = lambda: server.remove(JOB, "train") if len(server.reasons) == 1 else None
        server.put(KAIWO_JOB, job(image="image:1", entrypoint="echo hello"))
        await idle(reconciler)
        assert server.reasons[0] == "NameConflict"
        assert server.posts == 1


async def test_downloads_in_a_namespace_of_another_process_are_not_followed(
    server: Server, served: set[str], reconciler: WorkloadReconciler
) -> None:
    """The namespace is given up during a download, and nothing is kept once the workload is gone."""
    key, downloads = Key("default", "train"), reconciler._downloads
    server.put(KAIWO_JOB, job(image="image:1"))
    downloads.follow(key, "pod", reported=False)
    for done in (1, 2):
        server.lines.put_nowait(b'{"event": "progress", "bytesDone": %d, "bytesTotal": 9}' % done)
        for _ in range(5):
            await asyncio.sleep(0)
        served.clear()
    assert downloads.progress(key) == Progress(1, 9)
    downloads.resume(key)
    assert server.logs == 1
    served.add("default")
    downloads.resume(key)
    await asyncio.sleep(0)
    assert server.logs == 2
    served.clear()
    server.remove(KAIWO_JOB, "train")
    assert downloads.progress(key) is None


async def test_what_is_gone_while_another_process_leads_is_forgotten(
    server: Server, reconciler: WorkloadReconciler
) -> None:
    """Nobody reconciles it here any more, in this term or in a later one."""
    obj = job(image="image:1", entrypoint="echo hello")
    async with term(reconciler, server):
        server.put(KAIWO_JOB, obj)
        await idle(reconciler)
    assert reconciler._states._states
    server.leading = False
    server.remove(KAIWO_JOB, obj["metadata"]["name"])
    states = reconciler._states
    assert (states._states, states._keys, states._in_namespace, states.waiting) == ({}, {}, {}, set())
