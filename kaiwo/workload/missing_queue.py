"""Queued workloads while no queue system is loaded: they stay in their queues, and none runs outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.conditions import Condition, find_condition
from kaiwo.plugin.facts import Blocked
from kaiwo.plugin.queues import Admission
from kaiwo.workload.observe import pod_status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object
    from kaiwo.workload.model import Facts

NOT_LOADED = "QueueSystemNotLoaded"


def recorded_queue(workload: Workload) -> str:
    """The queue that the workload's child is or was in by the last status, empty without one."""
    queue = (workload.status.allocation or {}).get("queue")
    return queue if isinstance(queue, str) else ""


def blocked(workload: Workload, facts: Facts) -> Blocked | None:
    """Why no child is created while no queue system is loaded; None when the workload needs none.

    A workload that was never queued needs none unless it names a queue. Where no queue system was ever in
    force, a named queue is ignored with a warning.
    """
    recorded, named = recorded_queue(workload), workload.spec.cluster_queue
    if not recorded and not (named and facts.missing_queue):
        return None
    advice = "" if recorded else ", or remove the field to run the workload without a queue"
    return Blocked(
        NOT_LOADED,
        f"spec.clusterQueue: {_what(facts)} is not loaded, and the workload does not run outside queue "
        f"{named or recorded}; select the plugin again{advice}",
    )


def immutable(facts: Facts, names: Iterable[str]) -> str:
    """The message about fields that only the queue system can change."""
    fields = ", ".join(f"spec.{name}" for name in names)
    return f"{fields}: {_what(facts)} is not loaded; the change is applied once the plugin is selected again"


def last_admission(workload: Workload, pods: Iterable[Object]) -> Admission | None:
    """The admission of a queued child that still waits, as the status has it; None where nothing is known.

    Args:
        workload: the workload.
        pods: pods of its child; one that is free to run was admitted meanwhile.
    """
    status, before = workload.status, find_condition(workload.status.conditions, "Admitted")
    if status.status != "PENDING" or before is None or before.get("status") == "True":
        return None
    if not all(pod_status.held_by_queue(pod) for pod in pods):
        return None
    return Admission("pending", status.reason, status.message)


def admitted(workload: Workload, facts: Facts) -> Condition:
    """The condition Admitted of a queued child."""
    text = (
        f"{_what(facts)} is not loaded, so admission is not read. The object stays in its queue; select the "
        "plugin again"
    )
    return Condition("Admitted", "Unknown", NOT_LOADED, text, workload.generation or None)


def _what(facts: Facts) -> str:
    return f"queue plugin {facts.missing_queue}" if facts.missing_queue else "the queue system's plugin"
