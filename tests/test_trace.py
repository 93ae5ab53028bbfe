"""One KaiwoJob's way through the code: from its watch event to the POST of its Job, and on to COMPLETE.

Run with ``-s`` to see the functions it passes; docs/architecture.md explains them.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import kaiwo_batch_job.plugin
import kaiwo_gpu_amd.plugin
from kaiwo.api.crds import KAIWO_CONFIG, WORKLOADS
from kaiwo.engine.controller import Watch
from kaiwo.engine.resource import JOB, NODE, POD, PRIORITY_CLASS, STORAGE_CLASS
from kaiwo.engine.store import Cache
from kaiwo.engine.turns import Turns
from kaiwo.engine.writer import Writer
from kaiwo.host.cluster_facts import ClusterFacts
from kaiwo.host.kaiwoconfig import LiveConfig
from kaiwo.host.workload.reconciler import WorkloadReconciler
from kaiwo.host.workload.snapshot import SnapshotReader
from kaiwo.testing import job, node, plugins, render
from kaiwo.workload.model import Registry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.resource import Object, Resource

ROOT = f"{Path(__file__).resolve().parents[1]}/"
KAIWO_JOB = WORKLOADS["KaiwoJob"]

PLUGINS = plugins(kaiwo_batch_job.plugin, kaiwo_gpu_amd.plugin)
NODE_1 = node("gpu-1", gpus={"amd.com/gpu": 8})

MOST_STEPS = 50
MOST_FILES = 32
"""Limits of what a reader passes from the key to the POST."""


class Trace:
    """Records the steps of a way through ``kaiwo/``.

    A step is a public function that is entered from another file. Private functions and properties are no
    steps, nor is what a plugin calls while it renders or observes.
    """

    def __init__(self) -> None:
        self.steps: list[tuple[str, str]] = []

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Record while this lasts."""
        sys.setprofile(self._called)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        file = _file(frame)
        name = frame.f_code.co_name
        if event != "call" or not file.startswith("kaiwo/") or name.startswith(("<", "_")):
            return
        callers = [caller for caller in _callers(frame) if not caller.f_code.co_name.startswith("<")]
        if any(_file(caller).startswith("plugins/") for caller in callers) or _is_property(frame):
            return
        if not callers or _file(callers[0]) != file:
            self.steps.append((file, frame.f_code.co_qualname))

    def between(self, first: str, last: str) -> list[tuple[str, str]]:
        """Distinct steps from the first call of one function to that of another, in order."""
        names = [name for _, name in self.steps]
        begin = names.index(first)
        return list(dict.fromkeys(self.steps[begin : names.index(last, begin) + 1]))


def _file(frame: FrameType) -> str:
    """A frame's file below the root of the project, empty for any other."""
    name = frame.f_code.co_filename
    return name[len(ROOT) :] if name.startswith(ROOT) and "/.venv/" not in name else ""


def _callers(frame: FrameType) -> Iterator[FrameType]:
    """The frames of the project that called a frame, the nearest first."""
    caller = frame.f_back
    while caller is not None:
        if _file(caller):
            yield caller
        caller = caller.f_back


def _is_property(frame: FrameType) -> bool:
    owner, _, name = frame.f_code.co_qualname.rpartition(".")
    found = frame.f_globals.get(owner)
    return found is not None and isinstance(inspect.getattr_static(found, name, None), property)


class MemoryApi:
    """Takes writes as the API server would, and hands them on to the cache as its watch would."""

    leading = True

    def __init__(self) -> None:
        self.unreadable: dict[str, dict[Resource, str]] = {}
        self.failing: dict[Resource, str] = {}
        self.on_unreadable_change = lambda _: None
        self.cache = Cache()
        self.client: Any = self
        self.turns = Turns()
        self.shard = None
        self.writer = Writer(
            self.client, self.cache, field_manager="kaiwo", applied_annotation="kaiwo.silogen.ai/applied"
        )
        self.event_recorder = SimpleNamespace(event=lambda _, __, reason, ___: self.events.append(reason))
        self.events: list[str] = []
        self.requests: list[str] = []
        self.statuses: list[str] = []
        self.changed = asyncio.Condition()
        self._version = 0

    def watch(self, watch: Watch) -> None:
        """Keep a kind in the cache."""
        self.cache.register(
            watch.resource, watch.projection, namespaces=watch.namespaces, label_selector=watch.label_selector
        )

    def put(self, resource: Resource, obj: Object, type_: str = "MODIFIED") -> Object:
        """Let an object be as given, and let the watch say so."""
        self._version += 1
        metadata = {**obj["metadata"], "resourceVersion": str(self._version)}
        stored = {**copy.deepcopy(obj), "metadata": metadata}
        store = self.cache.store(resource)
        assert store is not None
        store.observe(type_, store.decode(msgspec.json.encode(stored)))
        return stored

    def live(self, resource: Resource, name: str = "train") -> Object:
        """The object as it is now."""
        entry = self.cache.get(resource, "default", name)
        assert entry is not None
        return entry.full()

    async def create(self, resource: Resource, obj: Object, **_: Any) -> Object:
        """Answer a POST."""
        self.requests.append(f"POST {resource.kind}")
        identity = {"uid": f"uid-{resource.kind}", "creationTimestamp": "2026-01-02T03:04:06Z"}
        return self.put(resource, {**obj, "metadata": {**obj["metadata"], **identity}}, "ADDED")

    async def patch_status(self, obj: CachedObject, status: Object, **_: Any) -> bytes:
        """Answer a PATCH of a status."""
        self.requests.append(f"PATCH {obj.resource.kind}")
        live = self.live(obj.resource, obj.name)
        status = {**live.get("status", {}), **status}
        self.statuses.append(status["status"])
        async with self.changed:
            self.changed.notify_all()
        given = {k: v for k, v in status.items() if v is not None}
        return msgspec.json.encode(self.put(obj.resource, {**live, "status": given}))


@pytest.fixture
def api() -> MemoryApi:
    """An API server with one node."""
    return MemoryApi()


@pytest.fixture
def reconciler(api: MemoryApi) -> WorkloadReconciler:
    """The operator's reconciler of KaiwoJobs with a batch backend and one GPU vendor."""
    engine: Any = api
    registry = Registry.of(PLUGINS)
    for resource in (NODE, PRIORITY_CLASS, STORAGE_CLASS, KAIWO_CONFIG):
        api.watch(Watch(resource))
    config = LiveConfig(api.cache, {}, "kaiwo")
    cluster = ClusterFacts(api.cache, registry.vendors, lambda: config.current)
    reader = SnapshotReader(api.cache, cluster, config, registry, served=lambda _: True, settings_of=dict)
    reconciler = WorkloadReconciler(
        "KaiwoJob", engine, reader, registry, on_transition=lambda _: None, workers=1
    )
    for watch in reconciler.controller.watches:
        api.watch(watch)
        if watch.keys is not None:
            api.cache.subscribe(watch.resource, reconciler.controller.handler(watch))
    api.put(NODE, NODE_1, "ADDED")
    assert cluster.nodes
    return reconciler


async def reached(api: MemoryApi, status: str) -> None:
    """Wait until a status was written."""
    async with asyncio.timeout(10), api.changed:
        await api.changed.wait_for(lambda: status in api.statuses)


async def test_a_job_passes_few_functions_from_its_watch_event_to_complete(
    api: MemoryApi, reconciler: WorkloadReconciler
) -> None:
    """One POST and one status write per state, and a way that a newcomer can follow with the finger."""
    trace, stop = Trace(), asyncio.Event()
    render(job("warm-up", gpus=1), PLUGINS, nodes=[NODE_1])  # what is imported and cached once is no step
    running = asyncio.create_task(reconciler.controller.run(api.cache, stop))
    await asyncio.sleep(0)
    submitted = job(image="image:1", entrypoint="echo hello", gpus=2)
    with trace.recorded():
        api.put(KAIWO_JOB, submitted, "ADDED")
        await reached(api, "STARTING")
        to_post = trace.between("WorkloadReconciler.reconcile", "Writer.create_once")
        child = api.live(JOB)
        begun = {"active": 1, "startTime": "2026-01-02T03:04:07Z"}
        api.put(JOB, {**child, "status": begun})
        api.put(POD, _pod(child, {"running": {"startedAt": "2026-01-02T03:04:08Z"}}), "ADDED")
        await reached(api, "RUNNING")
        complete = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-02T03:05:00Z"}
        api.put(JOB, {**child, "status": {**begun, "conditions": [complete]}})
        await reached(api, "COMPLETE")
    stop.set()
    await running
    await reconciler.close()
    show("from the key to the POST", to_post)
    show("from the watch event to COMPLETE", list(dict.fromkeys(trace.steps)))
    assert api.requests == ["POST Job", *["PATCH KaiwoJob"] * 3]
    assert api.statuses == ["STARTING", "RUNNING", "COMPLETE"]
    assert api.events == ["WorkloadStarting", "WorkloadRunning", "WorkloadComplete"]
    assert len(to_post) <= MOST_STEPS
    assert len({file for file, _ in to_post}) <= MOST_FILES


def show(title: str, steps: list[tuple[str, str]]) -> None:
    """Print steps."""
    print(f"{title}: {len(steps)} functions in {len({file for file, _ in steps})} files")  # noqa: T201
    for file, name in steps:
        print(f"  {file}: {name}")  # noqa: T201


def _pod(child: Object, state: Object) -> Object:
    owner = {"kind": "Job", "name": "train", "controller": True, "uid": child["metadata"]["uid"]}
    metadata = child["spec"]["template"]["metadata"]
    return {
        "metadata": {
            **metadata,
            "name": "train-abc",
            "namespace": "default",
            "uid": "uid-pod",
            "creationTimestamp": "2026-01-02T03:04:07Z",
            "ownerReferences": [owner],
        },
        "status": {"phase": "Running", "containerStatuses": [{"name": "workload", "state": state}]},
    }
