"""Monitoring of 5,000 GPU pods with 40,000 samples, without an API server.

A fake exporter in another thread answers; the operator's own monitor reads it, judges 2,500 workloads, and
would requeue those whose status has to be written. CPU is that of the process less the exporter's.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import tracemalloc
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry

from bench.report import Figure, Target
from kaiwo.api.crds import WORKLOADS
from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.engine.resource import POD
from kaiwo.engine.store import Cache
from kaiwo.engine.timestamps import format_time
from kaiwo.engine.turns import Turns
from kaiwo.engine.wire import encode
from kaiwo.host.monitoring.endpoint import Endpoint
from kaiwo.host.monitoring.metrics import MonitoringMetrics
from kaiwo.host.monitoring.monitor import Monitor
from kaiwo.host.monitoring.service import POD_PROJECTION
from kaiwo.host.monitoring.uses import GpuUses
from kaiwo.plugin.vendors import Utilization

if TYPE_CHECKING:
    from kaiwo.engine.workqueue import Key

PODS, GPUS, PODS_OF_ONE = 5000, 8, 2
_SCRAPES = 6
_MIB = 1 << 20
_PIECE = 1 << 16
_INTERVAL = 30.0

AMD = Utilization("gpu_gfx_activity", gpu_labels=("gpu_id", "gpu_partition_id", "gpu_uuid"))

_LINE = (
    'gpu_gfx_activity{{card_model="102-G30211-0C",cluster_name="",container="workload",driver_version="6.10.5",'
    'gpu_compute_partition_type="spx",gpu_id="{gpu}",gpu_partition_id="0",'
    'gpu_uuid="72ff740f-0000-1000-804c-{number:012d}",hostname="node-{node:04d}",job_id="",namespace="team",'
    'pod="{pod}",serial_number="PCB05{number:08d}",card_vendor="Advanced Micro Devices Inc."}} {value}\n'
)
"""As AMD's exporter writes it: about 370 bytes."""


class _Manager:
    """What the monitor needs of a manager."""

    def __init__(self) -> None:
        self.cache = Cache()
        self.turns = Turns()
        self.leading = True


class _Owners:
    """Every pod is its workload's own."""

    def belongs(self, pod: object, uids: object) -> bool:
        """Yes."""
        return bool(pod and uids)


def pod_name(number: int) -> str:
    """The name of a pod; two belong to one job."""
    return f"job-{number // PODS_OF_ONE:05d}-{number % PODS_OF_ONE}-abcde"


def _fill(cache: Cache, now: datetime) -> None:
    """Put workloads and their pods into the cache."""
    created = format_time(now - timedelta(hours=1))
    jobs = cache.register(WORKLOADS["KaiwoJob"])
    cache.register(WORKLOADS["KaiwoService"]).replace([], "1")
    pods = cache.register(POD, POD_PROJECTION, label_selector="kaiwo.silogen.ai/run-id")
    head: dict[str, Any] = {"namespace": "team", "resourceVersion": "1"}
    allocation = {"pods": PODS_OF_ONE, "replicas": PODS_OF_ONE, "gpusPerReplica": GPUS}
    condition = {
        "type": "ResourceUnderutilization", "status": "False", "reason": "GpuUtilizationNormal",
        "message": "its GPUs are used 1 % or more", "lastTransitionTime": created,
    }  # fmt: skip
    utilization = {
        "gpus": PODS_OF_ONE * GPUS, "percent": 50, "mostGpusUsed": PODS_OF_ONE * GPUS,
        "observedSince": created,
    }  # fmt: skip
    status = {
        "status": "RUNNING", "childUID": "c", "allocation": allocation,
        "conditions": [condition], "utilization": utilization,
    }  # fmt: skip
    jobs.replace(
        [
            jobs.decode(
                encode({"metadata": {**head, "name": f"job-{n:05d}", "uid": f"uid-{n}"}, "status": status})
            )
            for n in range(PODS // PODS_OF_ONE)
        ],
        "1",
    )
    running = {"name": "workload", "state": {"running": {"startedAt": created}}}
    spec = {"containers": [{"name": "workload", "resources": {"limits": {"amd.com/gpu": str(GPUS)}}}]}
    pods.replace(
        [
            pods.decode(
                encode(
                    {
                        "metadata": {
                            **head, "name": pod_name(n), "uid": f"pod-{n}",
                            "labels": {"kaiwo.silogen.ai/run-id": f"uid-{n // PODS_OF_ONE}"},
                        },
                        "spec": spec,
                        "status": {"phase": "Running", "containerStatuses": [running]},
                    }
                )
            )
            for n in range(PODS)
        ],
        "1",
    )  # fmt: skip


def body() -> bytes:
    """What the exporter answers."""
    lines = [
        _LINE.format(gpu=gpu, number=n * GPUS + gpu, node=n // 8, pod=pod_name(n), value=45 + gpu)
        for n in range(PODS)
        for gpu in range(GPUS)
    ]
    return "".join(lines).encode()


class Exporter:
    """A server of its own thread that sends prepared bytes."""

    def __init__(self, body: bytes) -> None:
        self.cpu = 0.0
        self._body = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close\r\n"
        self._body += b"Content-Length: %d\r\n\r\n" % len(body) + body
        self._ready = threading.Event()
        self.port = 0
        threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True).start()
        self._ready.wait()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await server.serve_forever()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for at in range(0, len(self._body), _PIECE):
            writer.write(self._body[at : at + _PIECE])
            await writer.drain()
        writer.close()
        self.cpu = time.thread_time()


async def _measure() -> tuple[float, int]:
    """CPU seconds of a scrape, and statuses to write after six of them."""
    spent, written = await _scrape(_SCRAPES)
    return sorted(spent)[len(spent) // 2], written


async def _memory() -> float:
    """MiB at the peak of three scrapes, beyond what the cache has; tracing makes them slow."""
    await _scrape(3, traced=True)
    peak = tracemalloc.get_traced_memory()[1] / _MIB
    tracemalloc.stop()
    return peak


async def _scrape(count: int, *, traced: bool = False) -> tuple[list[float], int]:
    manager, requeued = _Manager(), []
    _fill(manager.cache, datetime.now(UTC))
    exporter = Exporter(body())
    seconds = 0.0
    uses = GpuUses(_INTERVAL, clock=lambda: seconds)
    endpoint = Endpoint(f"http://127.0.0.1:{exporter.port}/metrics", [AMD], _INTERVAL, uses.now)

    def requeue(key: Key) -> None:
        requeued.append(key)

    monitor = Monitor(
        manager, endpoint, uses,  # type: ignore[arg-type]  # as much of one as it needs
        config=ResolvedConfig.defaults, pod_owners=_Owners(),  # type: ignore[arg-type]  # likewise
        gpu_keys=("amd.com/gpu",), endings=None,  # type: ignore[arg-type]  # nothing is ended
        requeue={"KaiwoJob": requeue, "KaiwoService": requeue}, interval=_INTERVAL, unled=lambda: 0.0,
        metrics=MonitoringMetrics(CollectorRegistry()), on_change=lambda: None,
    )  # fmt: skip
    spent = []
    gc.collect()
    if traced:
        tracemalloc.start()
    for _ in range(count):
        before, served = time.process_time(), exporter.cpu
        await monitor.scrape()
        spent.append(time.process_time() - before - (exporter.cpu - served))
        seconds += _INTERVAL
    await endpoint.close()
    return spent, len(requeued)


def run() -> list[Figure]:
    """The figures."""
    cpu, written = asyncio.run(_measure())
    peak = asyncio.run(_memory())
    what = f"monitoring of {PODS:,} pods, {PODS * GPUS:,} samples"
    return [
        Figure(f"{what}: CPU of a scrape", cpu, "s", target=Target(1)),
        Figure(f"{what}: memory of a scrape at its peak", peak, "MiB", target=Target(50)),
        Figure(f"{what}: writes when nothing changes", written, "", target=Target(0)),
    ]
