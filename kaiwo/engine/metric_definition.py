"""What a Prometheus metric is called, measures and is shown as; documentation and dashboards follow it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Self

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_TOTAL = "_total"


@dataclass(frozen=True, slots=True)
class Panel:
    """How a metric is drawn on the dashboard.

    Attributes:
        title: of the panel.
        by: labels that are told apart; the series are added up over the others.
        over_pods: ``sum`` for what each process counts of its own work; ``max`` for what every process shows
            of the same cluster, so that a replica which stands by does not count twice.
    """

    title: str
    by: tuple[str, ...] = ()
    over_pods: Literal["sum", "max"] = "sum"


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """One metric.

    Attributes:
        name: as it is queried, a counter's with ``_total``; a histogram's without ``_bucket``.
        type: Prometheus' type.
        section: heading of the documentation, and row of the dashboard.
        text: the help text: one sentence, the values of labels included.
        labels: label names.
        panel: how it is drawn, None for not at all.
        buckets: upper bounds of a histogram's buckets.
        prefixed: whether the name lacks its first word, which the program gives.
    """

    name: str
    type: Literal["gauge", "counter", "histogram"]
    section: str
    text: str
    labels: tuple[str, ...] = ()
    panel: Panel | None = None
    buckets: tuple[float, ...] = ()
    prefixed: bool = False

    def with_prefix(self, prefix: str) -> Self:
        """The definition with its whole name.

        Args:
            prefix: first word of names that lack one.
        """
        return replace(self, name=f"{prefix}_{self.name}", prefixed=False) if self.prefixed else self

    def gauge(self, registry: CollectorRegistry) -> Gauge:
        """Register the metric as a gauge."""
        return Gauge(self.name, self.text, self.labels, registry=registry)

    def counter(self, registry: CollectorRegistry) -> Counter:
        """Register the metric as a counter."""
        return Counter(self.name, self.text, self.labels, registry=registry)

    def histogram(self, registry: CollectorRegistry) -> Histogram:
        """Register the metric as a histogram."""
        return Histogram(self.name, self.text, self.labels, buckets=self.buckets, registry=registry)

    def gauge_family(self) -> GaugeMetricFamily:
        """A gauge without samples, for what is read at each scrape."""
        return GaugeMetricFamily(self.name, self.text, labels=self.labels)

    def counter_family(self) -> CounterMetricFamily:
        """A counter without samples, for what is read at each scrape."""
        return CounterMetricFamily(self.name.removesuffix(_TOTAL), self.text, labels=self.labels)
