"""Counts what the engine does, in Prometheus metrics."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Literal

from prometheus_client import CollectorRegistry

from kaiwo.engine import metric_definitions as defined

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from prometheus_client import Counter, Histogram, Metric

    from kaiwo.engine.workqueue import WorkQueue

_METHODS = {"create": "POST", "apply": "PATCH", "patch": "PATCH", "replace": "PUT", "delete": "DELETE"}
_NO_ANSWER = "<error>"
"""The code of a request without an answer, as in client-go."""

_MOST_WAITING = 1000


class Metrics:
    """The engine's Prometheus metrics, in one registry that others may add to.

    Attributes:
        prefix: first word of the names that are not client-go's or controller-runtime's.
        registry: where the metrics are registered; hand it to the /metrics endpoint.
    """

    def __init__(
        self, prefix: str = "kaiwo", registry: CollectorRegistry | None = None, *, host: str = ""
    ) -> None:
        """Create and register the metrics.

        Args:
            prefix: first word of the names that are not client-go's or controller-runtime's.
            registry: an own one by default, so that two engines in one process do not collide.
            host: the API server's host and port, for the label of requests.
        """
        self.prefix = prefix
        self.registry = own = registry or CollectorRegistry()
        self._host = host
        self._observations = _Observations(own)
        self._requests = defined.REQUESTS.counter(own)
        self._request_seconds = defined.REQUEST_SECONDS.histogram(own)
        self._reconciles = defined.RECONCILES.counter(own)
        self._reconcile_errors = defined.RECONCILE_ERRORS.counter(own)
        self._reconcile_timeouts = defined.RECONCILE_TIMEOUTS.counter(own)
        self._reconcile_seconds = defined.RECONCILE_SECONDS.histogram(own)
        self._workers = defined.WORKERS.gauge(own)
        self._active = defined.ACTIVE_WORKERS.gauge(own)
        self._queues = _QueueMetrics(own, self._observations)
        self._watch_restarts = defined.WATCH_RESTARTS.with_prefix(prefix).counter(own)
        self._cached = defined.CACHE_OBJECTS.with_prefix(prefix).gauge(own)
        self._events = defined.EVENTS.with_prefix(prefix).counter(own)
        self._undecodable = defined.UNDECODABLE_OBJECTS.with_prefix(prefix).counter(own)
        self._leader = defined.LEADER.gauge(own)
        self._lease_changes = defined.LEASE_CHANGES.with_prefix(prefix).counter(own)
        # Finding a child by labels costs more than counting; there are few label sets.
        self._request_children: dict[tuple[str, str, int], Counter] = {}
        self._verb_children: dict[str, Histogram] = {}
        self._reconcile_children: dict[tuple[str, str], tuple[Counter, Histogram]] = {}

    def request(self, verb: str, resource: str, code: int, seconds: float) -> None:
        """Count one request to the API server; code 0 when no answer came."""
        counter = self._request_children.get((verb, resource, code))
        if counter is None:
            method = _METHODS.get(verb, "GET")
            counter = self._requests.labels(
                str(code) if code else _NO_ANSWER, self._host, method, verb, resource
            )
            self._request_children[verb, resource, code] = counter
        self._observations.add(counter.inc, 1)
        if verb != "watch":
            histogram = self._verb_children.get(verb)
            if histogram is None:
                histogram = self._verb_children[verb] = self._request_seconds.labels(self._host, verb)
            self._observations.add(histogram.observe, seconds)

    def reconcile(
        self,
        controller: str,
        result: Literal["success", "requeue_after", "error", "timeout"],
        seconds: float,
    ) -> None:
        """Count one reconciliation."""
        children = self._reconcile_children.get((controller, result))
        if children is None:
            children = (
                self._reconciles.labels(controller, "error" if result == "timeout" else result),
                self._reconcile_seconds.labels(controller),
            )
            self._reconcile_children[controller, result] = children
        self._observations.add(children[0].inc, 1)
        self._observations.add(children[1].observe, seconds)
        if result in ("error", "timeout"):
            self._reconcile_errors.labels(controller).inc()
        if result == "timeout":
            self._reconcile_timeouts.labels(controller).inc()

    def watch_restart(self, resource: str, reason: Literal["closed", "gone", "lost", "error"]) -> None:
        """Count the end of a watch."""
        self._watch_restarts.labels(resource, reason).inc()

    def undecodable(self, resource: str) -> None:
        """Count an object that was passed over."""
        self._undecodable.labels(resource).inc()

    def event(self, result: Literal["sent", "merged", "dropped"]) -> None:
        """Count what became of a Kubernetes Event."""
        self._events.labels(result).inc()

    def leading(self, name: str, *, now: bool) -> None:
        """Show whether this process leads, and count the change."""
        self._leader.labels(name).set(1 if now else 0)
        self._lease_changes.labels(name, "acquired" if now else "ended").inc()

    def watch_controller(self, controller: str, queue: WorkQueue, workers: int) -> None:
        """Follow the work queue of a controller that starts.

        Args:
            controller: its name.
            queue: its queue, which is new at each start.
            workers: keys worked on at once.
        """
        self._workers.labels(controller).set(workers)
        self._active.labels(controller).set_function(lambda: queue.active)
        self._queues.follow(controller, queue)

    def watch_store(self, resource: str, size: Callable[[], float]) -> None:
        """Read a store's size whenever metrics are scraped."""
        self._cached.labels(resource).set_function(size)


class _Observations:
    """What is counted when somebody reads the metrics.

    A count after a pause, when the processor's caches are cold, takes twenty times as long as the next one.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        """Stand before all other metrics of a registry: they are read in the order of their registration."""
        self._waiting: deque[tuple[Callable[[float], object], float]] = deque()
        registry.register(self)

    def add(self, count: Callable[[float], object], value: float) -> None:
        """Count something later."""
        self._waiting.append((count, value))
        if len(self._waiting) >= _MOST_WAITING:
            self.collect()

    def collect(self) -> tuple[Metric, ...]:
        """Count what waits; for the registry, which asks before it reads the counts."""
        while self._waiting:
            count, value = self._waiting.popleft()
            count(value)
        return ()


class _QueueMetrics:
    """The metrics of work queues, as client-go names them; controller-runtime adds the label controller."""

    def __init__(self, registry: CollectorRegistry, observations: _Observations) -> None:
        self._observations = observations
        self._depth = defined.QUEUE_DEPTH.gauge(registry)
        self._unfinished = defined.QUEUE_UNFINISHED.gauge(registry)
        self._longest = defined.QUEUE_LONGEST.gauge(registry)
        self._adds = defined.QUEUE_ADDS.counter(registry)
        self._retries = defined.QUEUE_RETRIES.counter(registry)
        self._waited = defined.QUEUE_WAIT_SECONDS.histogram(registry)
        self._worked = defined.QUEUE_WORK_SECONDS.histogram(registry)

    def follow(self, name: str, queue: WorkQueue) -> None:
        labels = (name, name)
        times = _QueueTimes(
            self._observations,
            self._adds.labels(*labels),
            self._retries.labels(*labels),
            self._waited.labels(*labels),
            self._worked.labels(*labels),
        )
        queue.observer = times
        self._depth.labels(*labels).set_function(lambda: len(queue))
        self._unfinished.labels(*labels).set_function(lambda: sum(times.running()))
        self._longest.labels(*labels).set_function(lambda: max(times.running(), default=0.0))


class _QueueTimes:
    """Since when the keys of one queue wait or are worked on."""

    def __init__(
        self,
        observations: _Observations,
        adds: Counter,
        retries: Counter,
        waited: Histogram,
        worked: Histogram,
    ) -> None:
        self._observations = observations
        self._adds, self._retries, self._waited, self._worked = adds, retries, waited, worked
        self._added: dict[Hashable, float] = {}
        self._began: dict[Hashable, float] = {}

    def running(self) -> list[float]:
        """Seconds that each key which is worked on has taken."""
        now = time.monotonic()
        return [now - began for began in self._began.values()]

    def added(self, key: Hashable) -> None:
        """A key waits."""
        self._observations.add(self._adds.inc, 1)
        self._added.setdefault(key, time.monotonic())

    def taken(self, key: Hashable) -> None:
        """A worker has taken a key."""
        now = self._began[key] = time.monotonic()
        self._observations.add(self._waited.observe, now - self._added.pop(key, now))

    def finished(self, key: Hashable) -> None:
        """The work on a key has ended."""
        began = self._began.pop(key, None)
        if began is not None:
            self._observations.add(self._worked.observe, time.monotonic() - began)

    def retried(self) -> None:
        """A key is added again after a failure."""
        self._retries.inc()
