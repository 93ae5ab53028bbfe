"""Prometheus metrics about the scrapes of the metrics endpoint."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kaiwo.host.metrics.definitions import LAST_SCRAPE, SAMPLES, SCRAPE_SECONDS, SCRAPES

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from kaiwo.workload.monitoring.samples import Samples


class MonitoringMetrics:
    """Counts scrapes and samples."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the metrics.

        Args:
            registry: where they are shown.
        """
        self._scrapes = SCRAPES.counter(registry)
        self._seconds = SCRAPE_SECONDS.histogram(registry)
        self._samples = SAMPLES.gauge(registry)
        self._last = LAST_SCRAPE.gauge(registry)

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
