"""Tracking of 5,000 GPU pods with 40,000 samples by the plugin gpu_preemption, without an API server.

The plugin's own controller takes what a fake exporter in another thread answers, tracks 2,500 Jobs and writes
their GpuWorkloads. CPU is that of the process less the exporter's; the plugin's caches count as its memory.
"""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from bench.monitoring import AMD, GPUS, PODS, PODS_OF_ONE, Exporter, body, pod_name
from bench.report import Figure, Target
from bench.server import node
from kaiwo.api.crds import WORKLOADS
from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.engine.resource import JOB, NAMESPACE, NODE, POD
from kaiwo.engine.store import Cache
from kaiwo.engine.timestamps import format_time
from kaiwo.engine.wire import encode
from kaiwo.engine.writer import Writer
from kaiwo.host.ending.quota_reliefs import QuotaReliefs
from kaiwo.host.monitoring.endpoint import Endpoint
from kaiwo.plugin.controllers import ControllerHost
from kaiwo.plugin.loader import load
from kaiwo.plugin.selection import PluginSelection
from kaiwo.workload.model import Registry
from kaiwo.workload.monitoring.scrape import Scrape
from kaiwo_gpu_preemption.controller import KEY, GpuWorkloadController
from kaiwo_gpu_preemption.environment import ProcessSettings
from kaiwo_gpu_preemption.kinds import GPU_WORKLOAD

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object, Resource

_MIB = 1 << 20
_INTERVAL = 15.0
_SETTLING = 4  # scrapes until every GpuWorkload is written
_SCRAPES = 6
_NODES = PODS // 8


class _Cluster:
    """What the plugin needs of an operator, and an API server in a cache."""

    def __init__(self) -> None:
        self.cache = Cache()
        self.seconds = 0.0
        self.writes = self.reads = 0
        self.leading = True
        self.unreadable: dict[str, dict[Resource, str]] = {}
        client: Any = self
        self.client = client
        self.writer = Writer(client, self.cache, field_manager="kaiwo", applied_annotation="applied")
        self.event_recorder = SimpleNamespace(event=lambda *_: None)
        self._began = datetime.now(UTC)
        self._pods = self.cache
        self._versions = 0
        self._listener: Any = None
        for kind in (GPU_WORKLOAD, *WORKLOADS.values()):
            self.cache.register(kind).replace([], "1")
        self._fill(self.cache, NODE, [node(f"gpu-{number}") for number in range(_NODES)])
        opted_in = {"kaiwo.silogen.ai/gpu-preemption.enabled": "true"}
        self._fill(self.cache, NAMESPACE, [{"metadata": {"name": "team", "annotations": opted_in}}])
        manager: Any = self
        registry = Registry.of(load(PluginSelection(names=("batch_job", "gpu_amd"))))
        config = ResolvedConfig.defaults()
        host = ControllerHost(
            manager, registry.vendors, config=lambda: config, settings=lambda: None,
            on_config_change=lambda _: None, endings=SimpleNamespace(under_way={}), gpu_samples=self,
            quota=QuotaReliefs(manager, None, lambda _: True),
        )  # fmt: skip
        settings = ProcessSettings(enabled=True, endpoint="http://exporter", interval=_INTERVAL)
        self.tracking = GpuWorkloadController(host, settings, clock=lambda: self.seconds, now=self.now)
        self._fill(self._pods, POD, [_pod(number, self._began) for number in range(PODS)])

    def now(self) -> datetime:
        """The time."""
        return self._began + timedelta(seconds=self.seconds)

    def follow(self, what: Any, *rest: Any) -> float:
        """Take the plugin's cache of pods, and its listener of scrapes."""
        if callable(what):
            self._listener = what
        else:
            (self._pods,) = rest
        return _INTERVAL

    async def scrape(self, endpoint: Endpoint) -> None:
        """One scrape, and all that follows from it."""
        self._listener(Scrape(await endpoint.read(), self.seconds, self.now()))
        await self.tracking.reconcile(KEY)
        self.seconds += _INTERVAL

    async def get_metadata(self, kind: Resource, namespace: str, name: str) -> Object:
        """Metadata of a Job."""
        self.reads += 1
        metadata = {"namespace": namespace, "name": name, "uid": f"{kind.kind}-{name}"}
        return {"metadata": {**metadata, "resourceVersion": "1"}}

    async def create(self, _: Resource, obj: Object, **__: Any) -> Object:
        """Take a new object."""
        self.writes += 1
        made = {"uid": f"uid-{obj['metadata']['name']}", **obj["metadata"]}
        return {**obj, "metadata": {**made, "resourceVersion": self._version()}}

    async def merge_patch(
        self, kind: Resource, namespace: str | None, name: str, patch: Object, **_: Any
    ) -> Object:
        """Change an object."""
        self.writes += 1
        entry = self.cache.get(kind, namespace, name)
        if entry is None:
            raise KeyError(name)
        live = _patched(entry.full(), patch)
        live["metadata"]["resourceVersion"] = self._version()
        return live

    def _version(self) -> str:
        self._versions += 1
        return str(self._versions + 10)

    def _fill(self, cache: Cache, kind: Resource, objects: list[Object]) -> None:
        store = cache.store(kind) or cache.register(kind)
        head = {"resourceVersion": "1"}
        store.replace(
            [
                store.decode(
                    encode({**obj, "metadata": {"uid": obj["metadata"]["name"], **obj["metadata"], **head}})
                )
                for obj in objects
            ],
            "1",
        )


def _patched(obj: Object, patch: Object) -> Object:
    """An object after a merge patch."""
    found = dict(obj)
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = _patched(found.get(name) or {}, value) if isinstance(value, dict) else value
    return found


def _pod(number: int, began: datetime) -> Object:
    started = format_time(began - timedelta(hours=1))
    owner = f"job-{number // PODS_OF_ONE:05d}"
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": f"{JOB.kind}-{owner}"}
    amounts = {"amd.com/gpu": str(GPUS), "cpu": "32", "memory": "256Gi"}
    running = {"name": "workload", "state": {"running": {"startedAt": started}}}
    return {
        "metadata": {
            "namespace": "team", "name": pod_name(number),
            "ownerReferences": [{**reference, "controller": True}],
        },
        "spec": {
            "nodeName": f"gpu-{number // 8}",
            "containers": [{"name": "workload", "resources": {"limits": amounts, "requests": amounts}}],
        },
        "status": {"phase": "Running", "containerStatuses": [running]},
    }  # fmt: skip


async def _measure(*, traced: bool = False) -> tuple[list[float], int, float, float]:
    """CPU seconds of each scrape, writes and reads of the last ones, and MiB at their peak."""
    exporter = Exporter(body())
    gc.collect()
    if traced:
        tracemalloc.start()
    cluster = _Cluster()
    # A busy machine must not end a scrape: the endpoint may take longer than between two of them.
    endpoint = Endpoint(f"http://127.0.0.1:{exporter.port}/metrics", [AMD], 4 * _INTERVAL, cluster.now)
    for _ in range(_SETTLING):
        await cluster.scrape(endpoint)
    if len(list(cluster.cache.list(GPU_WORKLOAD))) != PODS // PODS_OF_ONE:
        raise RuntimeError("not all workloads are tracked")
    cluster.writes = cluster.reads = 0
    spent = []
    for _ in range(2 if traced else _SCRAPES):
        before, served = time.process_time(), exporter.cpu
        await cluster.scrape(endpoint)
        spent.append(time.process_time() - before - (exporter.cpu - served))
    peak = 0.0
    if traced:
        peak = tracemalloc.get_traced_memory()[1] / _MIB
        tracemalloc.stop()
    await endpoint.close()
    return spent, cluster.writes, cluster.reads / len(spent), peak


def run() -> list[Figure]:
    """The figures."""
    spent, written, read, _ = asyncio.run(_measure())
    peak = asyncio.run(_measure(traced=True))[3]
    what = f"idle GPUs of {PODS:,} pods, {PODS * GPUS:,} samples"
    return [
        Figure(f"{what}: CPU of a scrape", sorted(spent)[len(spent) // 2], "s", target=Target(1)),
        Figure(f"{what}: memory at its peak", peak, "MiB", target=Target(50)),
        Figure(f"{what}: writes when nothing changes", written, "", target=Target(0)),
        Figure(f"{what}: owners read a scrape", read, ""),
    ]
