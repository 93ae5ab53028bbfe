"""Names in KaiwoConfig. No model is imported here, so that a command can use one quickly."""

from __future__ import annotations

SINGLETON = "kaiwo"
"""The only name that is used; the status of any other KaiwoConfig says that it is ignored."""

DEFAULT_SCHEDULER = "kaiwo-scheduler"
"""The scheduler of generated pods, unless KaiwoConfig names another one."""

WATCH_VARIABLE = "KAIWO_WATCH_NAMESPACE"
"""Environment variable of the operator with the only namespaces whose workloads run, separated by commas."""


def watched_namespaces(value: str) -> tuple[str, ...]:
    """The namespaces in the value of that variable, sorted; none for all."""
    return tuple(sorted({part.strip() for part in value.split(",")} - {""}))
