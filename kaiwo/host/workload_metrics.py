"""Prometheus metrics about workloads and plugins."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from prometheus_client import Counter as CounterMetric
from prometheus_client import Histogram
from prometheus_client.core import GaugeMetricFamily

from kaiwo.api.crds import WORKLOADS
from kaiwo.engine.timestamps import parse_time
from kaiwo.workload.json_access import lenient_map

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import CollectorRegistry, Metric

    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.engine.store import Cache
    from kaiwo.plugin.lifecycle import Transition
    from kaiwo.plugin.registry import Plugins

_BUCKETS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)

_PENDING = {
    "quota": ("Queued", "Pending", "QuotaReserved", "NoQuota", "Inadmissible"),
    "preempted": ("Preempted",),
    "queue": ("QueueUnavailable", "QueuePreparing", "NotManagedByQueue"),
    "download": ("Downloading", "VolumePending"),
    "deletion": ("PreviousRunDeleting", "ChildDeleting", "Replacing"),
    "stopped": ("ScaledToZero", "Suspended"),
    "api": ("WriteRefused",),
    "starting": ("Adopting", "Creating", "Starting", "Admitted", "Waiting"),
}
_CLASSES = {reason: name for name, reasons in _PENDING.items() for reason in reasons}
_OTHER = "other"
_MOST_QUEUES = 200
"""Queues with figures of their own; those of all further ones are added up."""

_STATES = {"PENDING": "pending", "STARTING": "running", "RUNNING": "running", "READY": "running"}
_REACHED = {"STARTING": "admitted", "RUNNING": "running", "READY": "ready"}


class WorkloadMetrics:
    """Counts workloads at each scrape, and measures the time from their creation."""

    def __init__(self, registry: CollectorRegistry, cache: Cache, plugins: Plugins) -> None:
        self._cache = cache
        self._plugins = plugins
        self._waited = Histogram(
            "kaiwo_workload_seconds_from_creation",
            "Time from a workload's creation until it was first seen admitted, running or ready.",
            ["kind", "reached"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self._preemptions = CounterMetric(
            "kaiwo_preemptions",
            "Workloads that lost their quota while they ran, by queue.",
            ["kind", "queue"],
            registry=registry,
        )
        self._queues: set[str] = set()
        registry.register(self)

    def transition(self, transition: Transition) -> None:
        """Record the time from creation to one transition, and a preemption."""
        if transition.after == "PENDING" and transition.reason == "Preempted":
            found = self._cache.get(_resource(transition.kind), transition.namespace, transition.name)
            self._preemptions.labels(transition.kind, self._queue(found)).inc()
        reached = _REACHED.get(transition.after)
        if reached is None or transition.before not in {"", "PENDING", "STARTING"}:
            return
        entry = self._cache.get(_resource(transition.kind), transition.namespace, transition.name)
        created = parse_time(entry.created) if entry is not None else None
        if created is not None:
            seconds = (transition.at - created).total_seconds()
            self._waited.labels(transition.kind, reached).observe(max(0.0, seconds))

    def collect(self) -> Iterator[Metric]:
        """Report workloads by kind and status, and plugins by state; called at each scrape."""
        workloads = GaugeMetricFamily(
            "kaiwo_workloads", "Workloads by status; empty: not reconciled yet.", labels=["kind", "status"]
        )
        pending = GaugeMetricFamily(
            "kaiwo_workloads_pending",
            f"Workloads with status PENDING by class of their reason: {', '.join((*_PENDING, _OTHER))}.",
            labels=["kind", "reason_class"],
        )
        gpus = GaugeMetricFamily(
            "kaiwo_gpus",
            "GPUs of workloads by queue and state: pending or running.",
            labels=["queue", "state"],
        )
        used: Counter[tuple[str, str]] = Counter()
        for kind, resource in WORKLOADS.items():
            counts: Counter[str] = Counter()
            classes: Counter[str] = Counter()
            for entry in self._cache.list(resource):
                status = str(entry.part("status", "status") or "")
                counts[status] += 1
                if status == "PENDING":
                    classes[_CLASSES.get(str(entry.part("status", "reason")), _OTHER)] += 1
                state = _STATES.get(status)
                if state is not None and (number := _gpus(entry)):
                    used[self._queue(entry), state] += number
            for status, count in sorted(counts.items()):
                workloads.add_metric([kind, status], count)
            for name, count in sorted(classes.items()):
                pending.add_metric([kind, name], count)
        for labels, number in sorted(used.items()):
            gpus.add_metric(labels, number)
        plugins = GaugeMetricFamily("kaiwo_plugin", "1 for each plugin's state.", labels=["name", "state"])
        for plugin in self._plugins.states:
            plugins.add_metric([plugin.name, plugin.state], 1)
        yield workloads
        yield pending
        yield gpus
        yield plugins

    def _queue(self, entry: CachedObject | None) -> str:
        """The label for a workload's queue, empty without one."""
        name = str(_allocation(entry).get("queue") or "") if entry is not None else ""
        if name not in self._queues and len(self._queues) >= _MOST_QUEUES:
            return _OTHER
        self._queues.add(name)
        return name

    def describe(self) -> Iterator[Metric]:
        """Report nothing: names are fixed, and a description must not read the cache."""
        return iter(())


def _resource(kind: str) -> Resource:
    return WORKLOADS["KaiwoJob" if kind == "KaiwoJob" else "KaiwoService"]


def _allocation(entry: CachedObject) -> Object:
    return lenient_map(entry.part("status", "allocation"))


def _gpus(entry: CachedObject) -> int:
    """The GPUs of all pods of a workload."""
    allocation = _allocation(entry)
    pods, each = allocation.get("pods", allocation.get("replicas")), allocation.get("gpusPerReplica")
    return pods * each if isinstance(pods, int) and isinstance(each, int) else 0
