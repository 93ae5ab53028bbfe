"""Prometheus metrics of the engine.

Where the meaning is the same, names and labels are those of client-go and controller-runtime, so that their
dashboards fit.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from kaiwo.engine.workqueue import WorkQueue

_REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_RECONCILE_BUCKETS = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0)
_QUEUE_BUCKETS = (0.0001, 0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0)
_METHODS = {"create": "POST", "apply": "PATCH", "patch": "PATCH", "replace": "PUT", "delete": "DELETE"}
_NO_ANSWER = "<error>"
"""The code of a request without an answer, as in client-go."""


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
        self.registry = registry or CollectorRegistry()
        self._host = host
        self._requests = Counter(
            "rest_client_requests",
            "Requests to the API server; code <error>: no answer.",
            ["code", "host", "method", "verb", "resource"],
            registry=self.registry,
        )
        self._request_seconds = Histogram(
            "rest_client_request_duration_seconds",
            "Time from sending a request to the end of its answer, without watches.",
            ["host", "verb"],
            buckets=_REQUEST_BUCKETS,
            registry=self.registry,
        )
        self._reconciles = Counter(
            "controller_runtime_reconcile",
            "Reconciliations by result: success, requeue_after, error.",
            ["controller", "result"],
            registry=self.registry,
        )
        self._reconcile_errors = Counter(
            "controller_runtime_reconcile_errors",
            "Reconciliations that failed.",
            ["controller"],
            registry=self.registry,
        )
        self._reconcile_timeouts = Counter(
            "controller_runtime_reconcile_timeouts",
            "Reconciliations that were cancelled because they took too long; they count as errors too.",
            ["controller"],
            registry=self.registry,
        )
        self._reconcile_seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "Time one reconciliation took.",
            ["controller"],
            buckets=_RECONCILE_BUCKETS,
            registry=self.registry,
        )
        self._workers = Gauge(
            "controller_runtime_max_concurrent_reconciles",
            "Reconciliations that may run at the same time.",
            ["controller"],
            registry=self.registry,
        )
        self._active = Gauge(
            "controller_runtime_active_workers",
            "Reconciliations that run now.",
            ["controller"],
            registry=self.registry,
        )
        self._queues = _QueueMetrics(self.registry)
        self._watch_restarts = Counter(
            f"{prefix}_watch_restarts",
            "Watches that ended, by reason: closed (renewed), gone, lost, error.",
            ["resource", "reason"],
            registry=self.registry,
        )
        self._cached = Gauge(
            f"{prefix}_cache_objects", "Objects in the cache.", ["resource"], registry=self.registry
        )
        self._events = Counter(
            f"{prefix}_events",
            "Kubernetes Events: sent, merged, dropped.",
            ["result"],
            registry=self.registry,
        )
        self._undecodable = Counter(
            f"{prefix}_undecodable_objects",
            "Objects from lists and watches that were passed over: too deep, too large, or no object.",
            ["resource"],
            registry=self.registry,
        )
        self._leader = Gauge(
            "leader_election_master_status",
            "1 while this process leads, 0 while it stands by.",
            ["name"],
            registry=self.registry,
        )
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
        counter.inc()
        if verb != "watch":
            histogram = self._verb_children.get(verb)
            if histogram is None:
                histogram = self._verb_children[verb] = self._request_seconds.labels(self._host, verb)
            histogram.observe(seconds)

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
        children[0].inc()
        children[1].observe(seconds)
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
        """Show whether this process leads."""
        self._leader.labels(name).set(1 if now else 0)

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


class _QueueMetrics:
    """The metrics of work queues, as client-go names them; controller-runtime adds the label controller."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ["name", "controller"]
        self._depth = Gauge("workqueue_depth", "Keys that wait for a worker.", labels, registry=registry)
        self._unfinished = Gauge(
            "workqueue_unfinished_work_seconds",
            "Seconds that the keys which are worked on have taken so far, all together.",
            labels,
            registry=registry,
        )
        self._longest = Gauge(
            "workqueue_longest_running_processor_seconds",
            "Seconds that the longest running reconciliation has taken so far.",
            labels,
            registry=registry,
        )
        self._adds = Counter("workqueue_adds", "Keys that were added.", labels, registry=registry)
        self._retries = Counter(
            "workqueue_retries", "Keys that were added again after a failure.", labels, registry=registry
        )
        self._waited = Histogram(
            "workqueue_queue_duration_seconds",
            "Time a key waited for a worker.",
            labels,
            buckets=_QUEUE_BUCKETS,
            registry=registry,
        )
        self._worked = Histogram(
            "workqueue_work_duration_seconds",
            "Time a worker took for a key.",
            labels,
            buckets=_QUEUE_BUCKETS,
            registry=registry,
        )

    def follow(self, name: str, queue: WorkQueue) -> None:
        labels = (name, name)
        times = _QueueTimes(
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

    def __init__(self, adds: Counter, retries: Counter, waited: Histogram, worked: Histogram) -> None:
        self._adds, self._retries, self._waited, self._worked = adds, retries, waited, worked
        self._added: dict[Hashable, float] = {}
        self._began: dict[Hashable, float] = {}

    def running(self) -> list[float]:
        """Seconds that each key which is worked on has taken."""
        now = time.monotonic()
        return [now - began for began in self._began.values()]

    def added(self, key: Hashable) -> None:
        """A key waits."""
        self._adds.inc()
        self._added.setdefault(key, time.monotonic())

    def taken(self, key: Hashable) -> None:
        """A worker has taken a key."""
        now = self._began[key] = time.monotonic()
        self._waited.observe(now - self._added.pop(key, now))

    def finished(self, key: Hashable) -> None:
        """The work on a key has ended."""
        began = self._began.pop(key, None)
        if began is not None:
            self._worked.observe(time.monotonic() - began)

    def retried(self) -> None:
        """A key is added again after a failure."""
        self._retries.inc()
