"""CPU of a scrape of /metrics over many workloads, and of what keeps its counts.

The floor of a scrape is the same registry over no workloads.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import prometheus_client

from bench.report import Figure, Target
from bench.subject import PLUGINS
from kaiwo.api.crds import WORKLOADS
from kaiwo.engine.cached_object import CachedObject
from kaiwo.engine.metrics import Metrics
from kaiwo.engine.store import Cache
from kaiwo.engine.wire import encode
from kaiwo.host.metrics.process import describe_process
from kaiwo.host.metrics.workloads import WorkloadMetrics
from kaiwo.plugin.loader import load
from kaiwo.plugin.selection import PluginSelection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo.engine.store import CacheEvent

_QUEUES: Final = 50
_USERS: Final = 400
_SCRAPES: Final = 20
_TIME: Final = "2026-01-01T11:00:00Z"
_STATUSES: Final = (
    ("PENDING", "Pending"), ("PENDING", "Downloading"), ("STARTING", "Admitted"), ("RUNNING", "Running"),
    ("COMPLETE", "Completed"), ("FAILED", "OOMKilled"),
)  # fmt: skip


def run(count: int) -> list[Figure]:
    """A scrape, and one change of a workload."""
    floor, _ = _scraped(0)
    scrape, change = _scraped(count)
    what = f"CPU of a scrape of /metrics, {count:,} workloads"
    return [
        Figure(what, scrape * 1000, "ms", floor * 1000, Target(50)),
        Figure("CPU that metrics take of a change of a workload", change * 1e6, "µs"),
    ]


def _scraped(count: int) -> tuple[float, float]:
    """Seconds of CPU of a scrape, and of the change of one workload.

    Raises:
        RuntimeError: a scrape decoded an object.
    """
    cache = Cache()
    for kind in WORKLOADS.values():
        cache.register(kind)
    metrics = Metrics()
    describe_process(metrics.registry)
    spent = _Spent()
    plugins = load(PluginSelection(names=PLUGINS))
    counted = WorkloadMetrics(metrics.registry, cache, plugins, gpu_labels="user")
    counted.gpu_time.begin(None)
    store = cache.store(WORKLOADS["KaiwoJob"])
    assert store is not None  # noqa: S101  registered above
    store.handlers[:] = [spent.timed(handler) for handler in store.handlers]
    for obj in _workloads(count):
        store.observe("ADDED", store.decode(encode(obj)))
    decoded = _count_decoding()
    began = time.process_time()
    for _ in range(_SCRAPES):
        prometheus_client.generate_latest(metrics.registry)
    scrape = (time.process_time() - began) / _SCRAPES
    if decoded():
        raise RuntimeError(f"scrapes decoded {decoded()} times a part of an object")
    return scrape, spent.seconds / max(count, 1)


class _Spent:
    """CPU time spent in a handler."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, handler: Any) -> Any:
        """The handler, measured."""

        def call(event: CacheEvent) -> None:
            began = time.process_time()
            handler(event)
            self.seconds += time.process_time() - began

        return call


def _count_decoding() -> Any:
    """Count from now on how often an object is decoded; returns a function that returns the number."""
    found = [0]
    part, clean = CachedObject.part, CachedObject.clean

    def counted_part(self: CachedObject, *path: str, **shape: Any) -> Any:
        found[0] += 1
        return part(self, *path, **shape)

    def counted_clean(self: CachedObject) -> bytes:
        found[0] += 1
        return clean(self)

    CachedObject.part = counted_part  # type: ignore[method-assign]  # the two ways to the JSON
    CachedObject.clean = counted_clean  # type: ignore[method-assign]
    return lambda: found[0]


def _workloads(count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        status, reason = _STATUSES[number % len(_STATUSES)]
        queue, user = f"queue-{number % _QUEUES}", f"user-{number % _USERS}"
        conditions = [
            {"type": kind, "status": "True", "reason": kind, "message": "x" * 60, "lastTransitionTime": _TIME}
            for kind in ("Schedulable", "Admitted", "StorageReady", "SpecApplied")
        ]
        yield {
            "apiVersion": "kaiwo.silogen.ai/v1alpha1",
            "kind": "KaiwoJob",
            "metadata": {
                "name": f"job-{number}", "namespace": "team", "uid": f"run-{number}",
                "resourceVersion": str(number + 1), "creationTimestamp": _TIME,
            },
            "spec": {"user": user, "gpus": 8, "env": [{"name": "V", "value": "x" * 800}]},
            "status": {
                "status": status, "reason": reason, "startTime": _TIME, "conditions": conditions,
                "utilization": {"percent": number % 100},
                "allocation": {"gpus": 8, "replicas": 1, "gpusPerReplica": 8, "queue": queue},
            },
        }  # fmt: skip
