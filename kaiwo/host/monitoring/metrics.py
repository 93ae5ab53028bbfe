"""Prometheus metrics about the scrapes of the metrics endpoint."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge, Histogram

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from kaiwo.workload.monitoring.samples import Samples

_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class MonitoringMetrics:
    """Counts scrapes and samples."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the metrics.

        Args:
            registry: where they are shown.
        """
        self._scrapes = Counter(
            "kaiwo_monitoring_scrapes",
            "Scrapes of the metrics endpoint by result: success or error.",
            ["result"],
            registry=registry,
        )
        self._seconds = Histogram(
            "kaiwo_monitoring_scrape_duration_seconds",
            "Time until the answer of the metrics endpoint was read.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self._samples = Gauge(
            "kaiwo_monitoring_samples",
            "Samples of pods' GPUs in the last scrape by kind: taken, absurd (no percentage), stale.",
            ["kind"],
            registry=registry,
        )
        self._last = Gauge(
            "kaiwo_monitoring_last_success_timestamp_seconds",
            "When the metrics endpoint was last read.",
            registry=registry,
        )

    def scraped(self, samples: Samples | None, seconds: float) -> None:
        """Count one scrape.

        Args:
            samples: of it, None where it failed.
            seconds: how long it took.
        """
        self._scrapes.labels("error" if samples is None else "success").inc()
        self._seconds.observe(seconds)
        if samples is None:
            return
        self._last.set(time.time())
        for kind, count in (("taken", samples.count), ("absurd", samples.absurd), ("stale", samples.stale)):
            self._samples.labels(kind).set(count)
