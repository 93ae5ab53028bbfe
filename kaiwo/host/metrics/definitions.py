"""The operator's metrics: those of the host, and all together.

docs/metrics.md, the dashboard and the tests follow these definitions.
"""

from __future__ import annotations

from typing import Final

from kaiwo.engine.metric_definition import MetricDefinition, Panel
from kaiwo.engine.metric_definitions import API, CONFIGURATION, HEALTH, RECONCILIATION
from kaiwo.engine.metric_definitions import DEFINITIONS as OF_ENGINE
from kaiwo.host.metrics.reason_classes import CLASSES, OTHER

PREFIX: Final = "kaiwo"

WORKLOAD: Final = "Workloads"
GPUS: Final = "GPUs"
MONITORING: Final = "Monitoring of GPUs"
WEBHOOKS: Final = "Webhooks"

SECTIONS: Final = (WORKLOAD, GPUS, MONITORING, CONFIGURATION, HEALTH, WEBHOOKS, API, RECONCILIATION)
"""In the order of the documentation and of the dashboard."""

_START_BUCKETS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)
_DOWNLOAD_BUCKETS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0, 43200.0)
_SCRAPE_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_REVIEW_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0)

WORKLOADS: Final = MetricDefinition(
    "kaiwo_workloads", "gauge", WORKLOAD,
    "Workloads by status; an empty status: not reconciled yet. Classes of reasons: "
    f"{', '.join((*CLASSES, OTHER))}.",
    ("kind", "status", "reason_class", "queue"), Panel("Workloads", ("status", "reason_class"), "max"),
)  # fmt: skip
ENDED: Final = MetricDefinition(
    "kaiwo_workloads_ended_total", "counter", WORKLOAD,
    "Workloads that reached a final status: COMPLETE, FAILED, TERMINATED.",
    ("kind", "status", "reason_class", "queue"), Panel("Ended workloads", ("status", "reason_class")),
)  # fmt: skip
SINCE_CREATION: Final = MetricDefinition(
    "kaiwo_workload_since_creation_seconds", "histogram", WORKLOAD,
    "Time from a workload's creation until it was first admitted, running, and ready.",
    ("kind", "reached"), Panel("From creation to", ("reached",)), _START_BUCKETS,
)  # fmt: skip
DOWNLOAD_SECONDS: Final = MetricDefinition(
    "kaiwo_workload_download_seconds", "histogram", WORKLOAD,
    "Time that the downloads of a workload took, from the creation of their Job to their end.",
    ("kind",), Panel("Duration of downloads", ("kind",)), _DOWNLOAD_BUCKETS,
)  # fmt: skip
PREEMPTIONS: Final = MetricDefinition(
    "kaiwo_preemptions_total", "counter", WORKLOAD, "Workloads that lost their quota while they ran.",
    ("kind", "queue"), Panel("Preemptions", ("queue",)),
)  # fmt: skip

_OWNER = ("queue", "user")
GPUS_PENDING: Final = MetricDefinition(
    "kaiwo_gpus_pending", "gauge", GPUS, "GPUs that workloads wait for.",
    _OWNER, Panel("GPUs waited for", ("queue",), "max"),
)  # fmt: skip
GPUS_RESERVED: Final = MetricDefinition(
    "kaiwo_gpus_reserved", "gauge", GPUS, "GPUs that workloads hold, used or not.",
    _OWNER, Panel("GPUs held", _OWNER, "max"),
)  # fmt: skip
GPUS_USED: Final = MetricDefinition(
    "kaiwo_gpus_used", "gauge", GPUS,
    "GPUs that workloads hold, times their utilization. Workloads without a known utilization count neither "
    "here nor as idle.",
    _OWNER, Panel("GPUs used", _OWNER, "max"),
)  # fmt: skip
GPUS_IDLE: Final = MetricDefinition(
    "kaiwo_gpus_idle", "gauge", GPUS, "GPUs that workloads hold and do not use, where that is known.",
    _OWNER, Panel("GPUs idle", _OWNER, "max"),
)  # fmt: skip
RESERVED_SECONDS: Final = MetricDefinition(
    "kaiwo_gpu_reserved_seconds_total", "counter", GPUS,
    "Time for which GPUs were held, times their number. It goes on over restarts; the process that leads "
    "shows it.",
    _OWNER, Panel("GPU time held", _OWNER, "max"),
)  # fmt: skip
USED_SECONDS: Final = MetricDefinition(
    "kaiwo_gpu_used_seconds_total", "counter", GPUS,
    "The same times the utilization, where that was known.", _OWNER, Panel("GPU time used", _OWNER, "max"),
)  # fmt: skip
IDLE_SECONDS: Final = MetricDefinition(
    "kaiwo_gpu_idle_seconds_total", "counter", GPUS,
    "Time for which GPUs were held and not used, where that was known.",
    _OWNER, Panel("GPU time idle", _OWNER, "max"),
)  # fmt: skip

SCRAPES: Final = MetricDefinition(
    "kaiwo_monitoring_scrapes_total", "counter", MONITORING,
    "Scrapes of the metrics endpoint by result: success or error.",
    ("result",), Panel("Scrapes of the metrics endpoint", ("result",)),
)  # fmt: skip
SCRAPE_SECONDS: Final = MetricDefinition(
    "kaiwo_monitoring_scrape_duration_seconds", "histogram", MONITORING,
    "Time until the answer of the metrics endpoint was read.", (), Panel("Duration of scrapes"),
    _SCRAPE_BUCKETS,
)  # fmt: skip
SAMPLES: Final = MetricDefinition(
    "kaiwo_monitoring_samples", "gauge", MONITORING,
    "Samples of pods' GPUs in the last scrape by kind: taken, absurd (no percentage), stale.",
    ("kind",), Panel("Samples in the last scrape", ("kind",), "max"),
)  # fmt: skip
LAST_SCRAPE: Final = MetricDefinition(
    "kaiwo_monitoring_last_success_timestamp_seconds", "gauge", MONITORING,
    "When the metrics endpoint was last read.",
)  # fmt: skip

CONFIG_RECREATED: Final = MetricDefinition(
    "kaiwo_config_recreated", "gauge", CONFIGURATION,
    "1 after a KaiwoConfig that existed was deleted, until it is edited: earlier values are lost.",
    (), Panel("KaiwoConfig was deleted", (), "max"),
)  # fmt: skip
PLUGIN: Final = MetricDefinition(
    "kaiwo_plugin", "gauge", CONFIGURATION,
    "1 for the state of each plugin: loaded, disabled, broken, and so on.",
    ("name", "state"), Panel("Plugins", ("name", "state"), "max"),
)  # fmt: skip

BUILD_INFO: Final = MetricDefinition(
    "kaiwo_build_info", "gauge", HEALTH, "1 for the versions of this process.", ("version", "python_version"),
    Panel("Processes by version", ("version",)),
)  # fmt: skip

REVIEWS: Final = MetricDefinition(
    "kaiwo_webhook_reviews_total", "counter", WEBHOOKS,
    "Requests of the API server: allowed, refused, unreadable, error, timeout, too_large. A path that is not "
    "served is other.",
    ("path", "result"), Panel("Reviews", ("path", "result")),
)  # fmt: skip
REVIEW_SECONDS: Final = MetricDefinition(
    "kaiwo_webhook_review_seconds", "histogram", WEBHOOKS, "Computing time of one review.",
    ("path",), Panel("Duration of reviews", ("path",)), _REVIEW_BUCKETS,
)  # fmt: skip
CERTIFICATE_EXPIRY: Final = MetricDefinition(
    "kaiwo_webhook_certificate_expiry_timestamp_seconds", "gauge", WEBHOOKS,
    "When the certificate that is served, or its authority, ends; 0 while there is none.",
)  # fmt: skip

OF_HOST: Final = (
    WORKLOADS, ENDED, SINCE_CREATION, DOWNLOAD_SECONDS, PREEMPTIONS,
    GPUS_PENDING, GPUS_RESERVED, GPUS_USED, GPUS_IDLE, RESERVED_SECONDS, USED_SECONDS, IDLE_SECONDS,
    SCRAPES, SCRAPE_SECONDS, SAMPLES, LAST_SCRAPE,
    CONFIG_RECREATED, PLUGIN, BUILD_INFO, REVIEWS, REVIEW_SECONDS, CERTIFICATE_EXPIRY,
)  # fmt: skip

DEFINITIONS: Final = tuple(item.with_prefix(PREFIX) for item in (*OF_HOST, *OF_ENGINE))
"""All but those of plugins."""
