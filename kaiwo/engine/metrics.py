"""Prometheus metrics of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

if TYPE_CHECKING:
    from collections.abc import Callable

_REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_RECONCILE_BUCKETS = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0)


class Metrics:
    """The engine's Prometheus metrics, in one registry that others may add to.

    Attributes:
        registry: where the metrics are registered; hand it to the /metrics endpoint.
    """

    def __init__(self, prefix: str = "kaiwo", registry: CollectorRegistry | None = None) -> None:
        """Create and register the metrics.

        Args:
            prefix: first word of each metric's name.
            registry: an own one by default, so that two engines in one process do not collide.
        """
        self.registry = registry or CollectorRegistry()
        self._requests = Counter(
            f"{prefix}_api_requests",
            "Requests to the API server; code 0: no answer.",
            ["verb", "resource", "code"],
            registry=self.registry,
        )
        self._request_seconds = Histogram(
            f"{prefix}_api_request_duration_seconds",
            "Time from sending a request to the end of its answer, without watches.",
            ["verb"],
            buckets=_REQUEST_BUCKETS,
            registry=self.registry,
        )
        self._reconciles = Counter(
            f"{prefix}_reconcile",
            "Reconciliations by result: ok, error, timeout.",
            ["controller", "result"],
            registry=self.registry,
        )
        self._reconcile_seconds = Histogram(
            f"{prefix}_reconcile_duration_seconds",
            "Time one reconciliation took.",
            ["controller"],
            buckets=_RECONCILE_BUCKETS,
            registry=self.registry,
        )
        self._queue_depth = Gauge(
            f"{prefix}_queue_depth", "Keys that wait for a worker.", ["controller"], registry=self.registry
        )
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
        self._leader = Gauge(f"{prefix}_leader", "1 while this process leads.", registry=self.registry)
        # Finding a child by labels costs more than counting; there are few label sets.
        self._request_children: dict[tuple[str, str, int], Counter] = {}
        self._verb_children: dict[str, Histogram] = {}
        self._reconcile_children: dict[tuple[str, str], tuple[Counter, Histogram]] = {}

    def request(self, verb: str, resource: str, code: int, seconds: float) -> None:
        """Count one request to the API server; code 0 when no answer came."""
        counter = self._request_children.get((verb, resource, code))
        if counter is None:
            counter = self._requests.labels(verb, resource, str(code))
            self._request_children[verb, resource, code] = counter
        counter.inc()
        if verb != "watch":
            histogram = self._verb_children.get(verb)
            if histogram is None:
                histogram = self._verb_children[verb] = self._request_seconds.labels(verb)
            histogram.observe(seconds)

    def reconcile(self, controller: str, result: Literal["ok", "error", "timeout"], seconds: float) -> None:
        """Count one reconciliation."""
        children = self._reconcile_children.get((controller, result))
        if children is None:
            children = (
                self._reconciles.labels(controller, result),
                self._reconcile_seconds.labels(controller),
            )
            self._reconcile_children[controller, result] = children
        children[0].inc()
        children[1].observe(seconds)

    def watch_restart(self, resource: str, reason: Literal["closed", "gone", "lost", "error"]) -> None:
        """Count the end of a watch."""
        self._watch_restarts.labels(resource, reason).inc()

    def undecodable(self, resource: str) -> None:
        """Count an object that was passed over."""
        self._undecodable.labels(resource).inc()

    def event(self, result: Literal["sent", "merged", "dropped"]) -> None:
        """Count what became of a Kubernetes Event."""
        self._events.labels(result).inc()

    def leading(self, *, now: bool) -> None:
        """Show whether this process leads."""
        self._leader.set(1 if now else 0)

    def watch_queue(self, controller: str, depth: Callable[[], float]) -> None:
        """Read a queue's depth whenever metrics are scraped."""
        self._queue_depth.labels(controller).set_function(depth)

    def watch_store(self, resource: str, size: Callable[[], float]) -> None:
        """Read a store's size whenever metrics are scraped."""
        self._cached.labels(resource).set_function(size)
