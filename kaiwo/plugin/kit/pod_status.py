"""Facts about live pods: whether they run, since when, and what is wrong with them."""

from kaiwo.workload.observe.crash_loop import looping, works
from kaiwo.workload.observe.pod_status import (
    containers,
    controllers,
    current,
    failure,
    gated,
    owned,
    pod_name,
    problem,
    runs,
    since,
    started,
)

__all__ = [
    "containers",
    "controllers",
    "current",
    "failure",
    "gated",
    "looping",
    "owned",
    "pod_name",
    "problem",
    "runs",
    "since",
    "started",
    "works",
]
