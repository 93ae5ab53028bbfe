"""The engine's metrics.

Where the meaning is the same, names and labels are those of client-go and controller-runtime, so that their
dashboards fit.
"""

from __future__ import annotations

from typing import Final

from kaiwo.engine.metric_definition import MetricDefinition, Panel

_REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_RECONCILE_BUCKETS = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0)
_QUEUE_BUCKETS = (0.0001, 0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0)

CONFIGURATION: Final = "Configuration and plugins"
HEALTH: Final = "Health"
API: Final = "Reading and writing"
RECONCILIATION: Final = "Reconciliation"

CONFIG_CONDITION: Final = MetricDefinition(
    "config_condition", "gauge", CONFIGURATION,
    "1 for the status that a condition of a configuration object has. The condition Ready is whether it is "
    "in force.",
    ("kind", "condition", "status"), Panel("Conditions that are not True", ("kind", "condition"), "max"),
    prefixed=True,
)  # fmt: skip
HEALTH_CHECK: Final = MetricDefinition(
    "health_check", "gauge", HEALTH,
    "1 while a check of /readyz succeeds, else 0: writes, lease, webhooks where they are served, and one for "
    "the cache of each kind.",
    ("check",), Panel("Processes in which a health check succeeds", ("check",)), prefixed=True,
)  # fmt: skip
FAILING_WRITES: Final = MetricDefinition(
    "failing_writes", "gauge", HEALTH,
    "Causes for which writes fail now: Forbidden, Webhook, ServerError, Unreachable.",
    ("cause", "verb", "resource"), Panel("Failing writes", ("cause", "verb", "resource")), prefixed=True,
)  # fmt: skip
LEADER: Final = MetricDefinition(
    "leader_election_master_status", "gauge", HEALTH,
    "1 while this process leads, 0 while it stands by.", ("name",), Panel("Leaders", ("name",)),
)  # fmt: skip
LEASE_CHANGES: Final = MetricDefinition(
    "lease_changes_total", "counter", HEALTH,
    "Changes of the Lease that this process saw as its holder: acquired, and lost or given up (ended).",
    ("name", "change"), Panel("Changes of the Lease", ("change",)), prefixed=True,
)  # fmt: skip
REQUESTS: Final = MetricDefinition(
    "rest_client_requests_total", "counter", API, "Requests to the API server; code <error>: no answer.",
    ("code", "host", "method", "verb", "resource"), Panel("API requests", ("verb", "code")),
)  # fmt: skip
REQUEST_SECONDS: Final = MetricDefinition(
    "rest_client_request_duration_seconds", "histogram", API,
    "Time from sending a request to the end of its answer, without watches.",
    ("host", "verb"), Panel("Duration of API requests", ("verb",)), _REQUEST_BUCKETS,
)  # fmt: skip
WATCH_RESTARTS: Final = MetricDefinition(
    "watch_restarts_total", "counter", API,
    "Watches that ended, by reason: closed (renewed), gone, lost, error.",
    ("resource", "reason"), Panel("Watch restarts", ("reason",)), prefixed=True,
)  # fmt: skip
CACHE_OBJECTS: Final = MetricDefinition(
    "cache_objects", "gauge", API, "Objects in the cache.",
    ("resource",), Panel("Objects in the cache", ("resource",), "max"), prefixed=True,
)  # fmt: skip
UNDECODABLE_OBJECTS: Final = MetricDefinition(
    "undecodable_objects_total", "counter", API,
    "Objects from lists and watches that were passed over: too deep, too large, or no object.",
    ("resource",), Panel("Objects that cannot be decoded", ("resource",), "max"), prefixed=True,
)  # fmt: skip
EVENTS: Final = MetricDefinition(
    "events_total", "counter", API, "Kubernetes Events: sent, merged, dropped.",
    ("result",), Panel("Kubernetes Events", ("result",)), prefixed=True,
)  # fmt: skip
RECONCILES: Final = MetricDefinition(
    "controller_runtime_reconcile_total", "counter", RECONCILIATION,
    "Reconciliations by result: success, requeue_after, error.",
    ("controller", "result"), Panel("Reconciliations", ("controller", "result")),
)  # fmt: skip
RECONCILE_ERRORS: Final = MetricDefinition(
    "controller_runtime_reconcile_errors_total", "counter", RECONCILIATION,
    "Reconciliations that failed.", ("controller",), Panel("Failed reconciliations", ("controller",)),
)  # fmt: skip
RECONCILE_TIMEOUTS: Final = MetricDefinition(
    "controller_runtime_reconcile_timeouts_total", "counter", RECONCILIATION,
    "Reconciliations that were cancelled because they took too long; they count as errors too.",
    ("controller",), Panel("Cancelled reconciliations", ("controller",)),
)  # fmt: skip
RECONCILE_SECONDS: Final = MetricDefinition(
    "controller_runtime_reconcile_time_seconds", "histogram", RECONCILIATION,
    "Time one reconciliation took.",
    ("controller",), Panel("Duration of reconciliations", ("controller",)), _RECONCILE_BUCKETS,
)  # fmt: skip
WORKERS: Final = MetricDefinition(
    "controller_runtime_max_concurrent_reconciles", "gauge", RECONCILIATION,
    "Reconciliations that may run at the same time.", ("controller",),
)  # fmt: skip
ACTIVE_WORKERS: Final = MetricDefinition(
    "controller_runtime_active_workers", "gauge", RECONCILIATION,
    "Reconciliations that run now.", ("controller",), Panel("Active workers", ("controller",)),
)  # fmt: skip
QUEUE_DEPTH: Final = MetricDefinition(
    "workqueue_depth", "gauge", RECONCILIATION, "Keys that wait for a worker.",
    ("name", "controller"), Panel("Depth of work queues", ("name",)),
)  # fmt: skip
QUEUE_ADDS: Final = MetricDefinition(
    "workqueue_adds_total", "counter", RECONCILIATION, "Keys that were added.",
    ("name", "controller"), Panel("Keys added to work queues", ("name",)),
)  # fmt: skip
QUEUE_RETRIES: Final = MetricDefinition(
    "workqueue_retries_total", "counter", RECONCILIATION,
    "Keys that were added again after a failure.",
    ("name", "controller"), Panel("Retries", ("name",)),
)  # fmt: skip
QUEUE_WAIT_SECONDS: Final = MetricDefinition(
    "workqueue_queue_duration_seconds", "histogram", RECONCILIATION, "Time a key waited for a worker.",
    ("name", "controller"), Panel("Wait for a worker", ("name",)), _QUEUE_BUCKETS,
)  # fmt: skip
QUEUE_WORK_SECONDS: Final = MetricDefinition(
    "workqueue_work_duration_seconds", "histogram", RECONCILIATION, "Time a worker took for a key.",
    ("name", "controller"), Panel("Work on a key", ("name",)), _QUEUE_BUCKETS,
)  # fmt: skip
QUEUE_UNFINISHED: Final = MetricDefinition(
    "workqueue_unfinished_work_seconds", "gauge", RECONCILIATION,
    "Seconds that the keys which are worked on have taken so far, all together.", ("name", "controller"),
)  # fmt: skip
QUEUE_LONGEST: Final = MetricDefinition(
    "workqueue_longest_running_processor_seconds", "gauge", RECONCILIATION,
    "Seconds that the longest running reconciliation has taken so far.",
    ("name", "controller"), Panel("Longest running reconciliation", ("name",)),
)  # fmt: skip

DEFINITIONS: Final = (
    CONFIG_CONDITION, HEALTH_CHECK, FAILING_WRITES, LEADER, LEASE_CHANGES,
    REQUESTS, REQUEST_SECONDS, WATCH_RESTARTS, CACHE_OBJECTS, UNDECODABLE_OBJECTS, EVENTS,
    RECONCILES, RECONCILE_ERRORS, RECONCILE_TIMEOUTS, RECONCILE_SECONDS, WORKERS, ACTIVE_WORKERS,
    QUEUE_DEPTH, QUEUE_ADDS, QUEUE_RETRIES, QUEUE_WAIT_SECONDS, QUEUE_WORK_SECONDS, QUEUE_UNFINISHED,
    QUEUE_LONGEST,
)  # fmt: skip
"""All of them."""
