"""Prometheus metrics about workloads and plugins."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from prometheus_client import Histogram
from prometheus_client.core import GaugeMetricFamily

from kaiwo.api.crds import WORKLOADS
from kaiwo.engine.timestamps import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import CollectorRegistry, Metric

    from kaiwo.engine.store import Cache
    from kaiwo.plugin.lifecycle import Transition
    from kaiwo.plugin.registry import Plugins

_BUCKETS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)

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
        registry.register(self)

    def transition(self, transition: Transition) -> None:
        """Record the time from creation to one transition."""
        reached = _REACHED.get(transition.after)
        if reached is None or transition.before not in {"", "PENDING", "STARTING"}:
            return
        kind = WORKLOADS["KaiwoJob" if transition.kind == "KaiwoJob" else "KaiwoService"]
        entry = self._cache.get(kind, transition.namespace, transition.name)
        created = parse_time(entry.created) if entry is not None else None
        if created is not None:
            seconds = (transition.at - created).total_seconds()
            self._waited.labels(transition.kind, reached).observe(max(0.0, seconds))

    def collect(self) -> Iterator[Metric]:
        """Report workloads by kind and status, and plugins by state; called at each scrape."""
        workloads = GaugeMetricFamily(
            "kaiwo_workloads", "Workloads by status; empty: not reconciled yet.", labels=["kind", "status"]
        )
        for kind, resource in WORKLOADS.items():
            counts = Counter(str(e.part("status", "status") or "") for e in self._cache.list(resource))
            for status, count in sorted(counts.items()):
                workloads.add_metric([kind, status], count)
        plugins = GaugeMetricFamily("kaiwo_plugin", "1 for each plugin's state.", labels=["name", "state"])
        for state in self._plugins.states:
            plugins.add_metric([state.name, state.state], 1)
        yield workloads
        yield plugins

    def describe(self) -> Iterator[Metric]:
        """Report nothing: names are fixed, and a description must not read the cache."""
        return iter(())
