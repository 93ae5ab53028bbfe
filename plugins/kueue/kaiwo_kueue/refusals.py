"""Workloads that Kueue refuses whatever quota is free."""

from __future__ import annotations

_NAMESPACE = "Workload namespace doesn't match ClusterQueue selector"
_REFUSALS = (
    "resources didn't satisfy LimitRange constraints",
    "resources validation failed",
    _NAMESPACE,
    "The workload has failed admission checks",
)
"""How the messages of these begin (Kueue's pkg/scheduler). Their condition has the reason Pending, as that of
Workloads for which only quota is lacking."""


def is_refused(message: str) -> bool:
    """Whether Kueue would refuse the Workload also with all quota free, as its message says."""
    return message.startswith(_REFUSALS)


def refusal_text(message: str, namespace: str, queue: str) -> str:
    """Kueue's message of a refusal, with the names that it leaves out.

    Args:
        message: of the condition QuotaReserved.
        namespace: of the Workload.
        queue: name of its ClusterQueue.
    """
    if not message.startswith(_NAMESPACE):
        return message
    return (
        f"the namespaceSelector of ClusterQueue {queue} does not select namespace {namespace}; use another "
        f"queue, or have the labels of the namespace or the selector changed ({message})"
    )
