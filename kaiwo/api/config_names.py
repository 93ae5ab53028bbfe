"""Names in KaiwoConfig. No model is imported here, so that a command can use one quickly."""

from __future__ import annotations

SINGLETON = "kaiwo"
"""The only name that is used; the status of any other KaiwoConfig says that it is ignored."""

DEFAULT_SCHEDULER = "kaiwo-scheduler"
"""The scheduler of generated pods, unless KaiwoConfig names another one."""

WATCH_VARIABLE = "KAIWO_WATCH_NAMESPACE"
"""Environment variable of the operator with the only namespaces whose workloads run, separated by commas."""


SHARD_VARIABLE = "KAIWO_SHARD"
"""Environment variable of an operator with the shard that it serves."""

SHARD_LABEL = "kaiwo.silogen.ai/shard"
"""Label of a Namespace with the name of its shard, where several operators share a cluster."""


def watched_namespaces(value: str) -> tuple[str, ...]:
    """The namespaces in the value of that variable, sorted; none for all."""
    return tuple(sorted({part.strip() for part in value.split(",")} - {""}))
