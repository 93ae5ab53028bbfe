"""Prometheus metrics about workloads, their GPUs, and plugins.

Counts follow the changes in the cache: a scrape reads sums, and decodes no object.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from kaiwo.api.crds import WORKLOADS as KINDS
from kaiwo.api.status_words import TERMINAL
from kaiwo.engine.timestamps import parse_time
from kaiwo.host.metrics import definitions as defined
from kaiwo.host.metrics.figures import UNIT, download_seconds, figures_of
from kaiwo.host.metrics.gpu_time import GpuTime
from kaiwo.host.metrics.reason_classes import OTHER, reason_class
from kaiwo.workload.ending.requeue import REASON as REQUEUED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client import CollectorRegistry, Metric
    from prometheus_client import Counter as PrometheusCounter

    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.store import Cache, CacheEvent
    from kaiwo.host.metrics.figures import Figures
    from kaiwo.host.metrics.gpu_time import GpuLabels, Owner
    from kaiwo.plugin.lifecycle import Transition
    from kaiwo.plugin.registry import Plugins

MOST_QUEUES = 200
"""Queues with figures of their own; those of all further ones are added up."""


class _Counted(NamedTuple):
    """A workload as it was counted: its figures, the labels of its count, and whose GPUs it counts as."""

    figures: Figures
    labels: tuple[str, str, str, str]
    owner: Owner | None


_STAGES = ("admitted", "running", "ready")
_RANKS = {"STARTING": 1, "RUNNING": 2, "READY": 3}
_STARTED = 2


class WorkloadMetrics:
    """Counts workloads as they change, and measures the time from their creation.

    Attributes:
        gpu_time: GPUs and GPU time by owner.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        cache: Cache,
        plugins: Plugins,
        *,
        leading: Callable[[], bool] = lambda: True,
        gpu_labels: GpuLabels = "queue",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Follow the workloads in a cache.

        Args:
            registry: of the operator.
            cache: the kinds of workloads are registered in it.
            plugins: whose states are shown.
            leading: whether this process leads; only then it measures what others would measure too.
            gpu_labels: what GPUs are told apart by.
            clock: monotonic seconds.
        """
        self._cache = cache
        self._plugins = plugins
        self._leading = leading
        self._started = defined.SINCE_CREATION.histogram(registry)
        self._downloads = defined.DOWNLOAD_SECONDS.histogram(registry)
        self._preemptions = defined.PREEMPTIONS.counter(registry)
        self._ended = defined.ENDED.counter(registry)
        self._shown_queues: Counter[str] = Counter()
        self._series: dict[str, set[tuple[PrometheusCounter, tuple[str, ...]]]] = {}  # of counters, by queue
        self._counted: dict[tuple[str, tuple[str, str]], _Counted] = {}
        self._reached: dict[tuple[str, tuple[str, str]], int] = {}
        self._counts: Counter[tuple[str, str, str, str]] = Counter()
        self.gpu_time = GpuTime(gpu_labels, clock)
        for resource in KINDS.values():
            cache.subscribe(resource, self._changed)
        registry.register(self)

    def _changed(self, event: CacheEvent) -> None:
        kind = event.resource.kind
        key = (kind, event.latest.key)
        before = self._counted.pop(key, None)
        if before is not None:
            self._uncount(before)
        if event.new is None:
            self._reached.pop(key, None)
            return
        after = figures_of(event.new)
        self._counted[key] = self._count(kind, after)
        if event.old is None:
            self._reach(key, _rank_at_first(event.new, after))
        elif before is not None:
            self._reach(key, _RANKS.get(before.figures.status, 0))
            if before.figures.reason_class == "download" and self._leading():
                seconds = download_seconds(event.old, event.new)
                if seconds is not None:
                    self._downloads.labels(kind).observe(seconds)

    def _count(self, kind: str, figures: Figures) -> _Counted:
        """Count a workload. A queue that only this one names must not take the place of another for good."""
        shown, queue = self._shown_queues, figures.queue
        if queue not in shown and len(shown) >= MOST_QUEUES:
            queue = OTHER
        labels = (kind, figures.status, figures.reason_class, queue)
        shown[queue] += 1
        self._counts[labels] += 1
        return _Counted(figures, labels, self.gpu_time.add(figures))

    def _uncount(self, counted: _Counted) -> None:
        queue = counted.labels[3]
        self._shown_queues[queue] -= 1
        if not self._shown_queues[queue]:
            del self._shown_queues[queue]
        self._counts[counted.labels] -= 1
        self.gpu_time.remove(counted.figures, counted.owner)

    def _reach(self, key: tuple[str, tuple[str, str]], rank: int) -> None:
        if rank > self._reached.get(key, 0):
            self._reached[key] = rank

    def transition(self, transition: Transition) -> None:
        """Count what one transition of the process that leads means."""
        key = (transition.kind, (transition.namespace, transition.name))
        counted = self._counted.get(key)
        queue = counted.figures.queue if counted is not None else ""
        if transition.after == "PENDING" and transition.reason in ("Preempted", REQUEUED):
            self._increase(self._preemptions, queue, transition.kind)
        if transition.after in TERMINAL and transition.before not in TERMINAL:
            self._increase(
                self._ended, queue, transition.kind, transition.after, reason_class(transition.reason)
            )
        rank, reached = _RANKS.get(transition.after, 0), self._reached.get(key, 0)
        if rank <= reached:
            return
        entry = self._cache.get(KINDS[transition.kind], *key[1])
        if entry is None:
            return  # its end came first: nobody would say when to forget it
        self._reached[key] = rank
        created = parse_time(entry.created)
        if created is None:
            return
        seconds = max(0.0, (transition.at - created).total_seconds())
        for stage in _STAGES[reached:rank]:
            self._started.labels(transition.kind, stage).observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """Report the sums, and plugins by state; called at each scrape."""
        workloads = defined.WORKLOADS.gauge_family()
        for labels, count in sorted(self._counts.items()):
            if count:
                workloads.add_metric(labels, count)
            else:
                del self._counts[labels]
        yield workloads
        yield from self._gpus()
        plugins = defined.PLUGIN.gauge_family()
        for plugin in self._plugins.states:
            plugins.add_metric([plugin.name, plugin.state], 1)
        yield plugins

    def _gpus(self) -> Iterator[Metric]:
        pending, reserved = defined.GPUS_PENDING.gauge_family(), defined.GPUS_RESERVED.gauge_family()
        used, idle = defined.GPUS_USED.gauge_family(), defined.GPUS_IDLE.gauge_family()
        times = [
            item.counter_family()
            for item in (defined.RESERVED_SECONDS, defined.USED_SECONDS, defined.IDLE_SECONDS)
        ]
        for owner, account in self.gpu_time.accounts():
            pending.add_metric(owner, account.pending)
            reserved.add_metric(owner, account.reserved / UNIT)
            used.add_metric(owner, account.used / UNIT)
            idle.add_metric(owner, account.idle / UNIT)
            if self.gpu_time.counting:
                for family, seconds in zip(times, account.seconds, strict=True):
                    family.add_metric(owner, seconds)
        yield from (pending, reserved, used, idle, *times)

    def describe(self) -> Iterator[Metric]:
        """Report nothing: names are fixed, and a description must not read the counts."""
        return iter(())

    def _increase(self, counter: PrometheusCounter, queue: str, *labels: str) -> None:
        """Add one to a counter whose last label is the queue."""
        if queue not in self._series and len(self._series) >= MOST_QUEUES and not self._forget_queue():
            counter.labels(*labels, OTHER).inc()
            return
        series = self._series[queue] = self._series.pop(queue, set())
        series.add((counter, (*labels, queue)))
        counter.labels(*labels, queue).inc()

    def _forget_queue(self) -> bool:
        """Drop the counters of the queue that no workload names and that was counted least recently."""
        unused = next((name for name in self._series if name not in self._shown_queues), None)
        if unused is None:
            return False
        for counter, labels in self._series.pop(unused):
            counter.remove(*labels)
        return True


def _rank_at_first(entry: CachedObject, figures: Figures) -> int:
    """What a workload had reached when this process saw it first."""
    if figures.status in TERMINAL:
        return max(_RANKS.values())
    rank = _RANKS.get(figures.status, 0)
    return max(rank, _STARTED) if entry.readable_part("status", "startTime") is not None else rank
