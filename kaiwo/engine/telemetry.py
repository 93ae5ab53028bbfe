"""Metrics, health and logs of the engine."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, TextIO

import msgspec
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
            "Watches that ended, by reason: closed (asked again), gone, lost, error.",
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
        self._leader = Gauge(f"{prefix}_leader", "1 while this process leads.", registry=self.registry)
        # Looking a child up by labels costs more than counting; there are few label sets.
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


class Health:
    """What /healthz and /readyz say, as named checks."""

    def __init__(self) -> None:
        self._checks: dict[str, Callable[[], tuple[bool, str]]] = {}

    def check(self, name: str, state: Callable[[], tuple[bool, str]]) -> None:
        """Add a check.

        Args:
            name: what is checked.
            state: returns whether all is well, and a word or sentence about it.
        """
        self._checks[name] = state

    def ready(self) -> tuple[bool, dict[str, str]]:
        """Whether all checks are well, and what each says."""
        states = {name: state() for name, state in self._checks.items()}
        return all(well for well, _ in states.values()), {name: text for name, (_, text) in states.items()}


class _JsonFormatter(logging.Formatter):
    """One JSON object per record; what a caller passes as ``extra={"fields": {...}}`` becomes keys."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _stamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


class _TextFormatter(logging.Formatter):
    """``time LEVEL logger: message key=value``, one line per record even if the message has several."""

    def format(self, record: logging.LogRecord) -> str:
        extras = "".join(f" {name}={value}" for name, value in _fields(record).items())
        text = record.getMessage().replace("\n", "\\n")
        line = f"{_stamp(record)} {record.levelname} {record.name}: {text}{extras}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def setup_logging(
    format_: Literal["json", "text"] = "text", level: str = "INFO", stream: TextIO | None = None
) -> None:
    """Send all records to one stream, one line each.

    Requests and answers are never logged, so that no Secret's value and no token can be.

    Args:
        format_: JSON objects or plain text.
        level: name of the lowest level shown.
        stream: stderr by default.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JsonFormatter() if format_ == "json" else _TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for noisy in ("aiohttp.access", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def _stamp(record: logging.LogRecord) -> str:
    return (
        datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields = getattr(record, "fields", None)
    return fields if isinstance(fields, dict) else {}
