"""What keeps a Workload from being considered: a queue that is inactive, a back-off, its own spec.

Kueue says that it is so, and what it was before; this says why, until when, and what ends it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps, lenient_text, name_of, one_line
from kaiwo_kueue.kinds import CLUSTER_QUEUE, DRAINING_LABEL, LOCAL_QUEUE, SINGLETON

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.queues import QueueFacts

INADMISSIBLE = "Inadmissible"
"""Kueue's reason while the queue of a Workload is missing or inactive."""

DEACTIVATED = "Deactivated"
"""Kueue's reason of an eviction because of the Workload's own spec, or its beginning."""

NOT_READY = ("PodsReadyTimeout", f"{DEACTIVATED}DueToRequeuingLimitExceeded")
"""Kueue's reasons of evictions because pods were not ready in time."""

_UNNAMED_CHECK = "At least one admission check is false"
_WAS_RETRY = "Previously: Retry"
"""Kueue's message of an eviction by an admission check, and the end of that of the check from then on."""

_STOPPED = ("ClusterQueueStopped", "LocalQueueStopped")

QUEUE_REASONS = (INADMISSIBLE, *_STOPPED)
"""Reasons with a message that says what is wrong with a queue."""


def inactive_queue(reserved: Object | None, queue: str, facts: QueueFacts) -> str:
    """Why a queue is inactive, to be added to Kueue's message; empty where that is not known.

    Args:
        reserved: the condition QuotaReserved, whose message names the queue that is inactive.
        queue: name of the LocalQueue.
        facts: have the queues.
    """
    message = lenient_text((reserved or {}).get("message"))
    if (reserved or {}).get("reason") != INADMISSIBLE or not message.endswith(" is inactive"):
        return ""
    local = _named(facts.objects.get(LOCAL_QUEUE, ()), queue)
    own = _named(facts.objects.get(CLUSTER_QUEUE, ()), cluster_queue(queue, facts))
    for found in (local, own) if f"LocalQueue {queue} " in message else (own,):
        if found is not None and (why := _why_inactive(found)):
            return f": {why}"
    return ""


def cluster_queue(queue: str, facts: QueueFacts) -> str:
    """The ClusterQueue behind a queue; one that Kaiwo makes a LocalQueue for has its name."""
    local = _named(facts.objects.get(LOCAL_QUEUE, ()), queue)
    return lenient_text(lenient_map((local or {}).get("spec")).get("clusterQueue")) or queue


def _why_inactive(queue: Object) -> str:
    labels = lenient_map(lenient_map(queue.get("metadata")).get("labels"))
    if labels.get(DRAINING_LABEL) == "true":
        return (
            f"KaiwoQueueConfig {SINGLETON} does not list it any more, so it takes no new workloads; have it "
            "listed again, or submit the workload to another queue"
        )
    policy = lenient_map(queue.get("spec")).get("stopPolicy")
    if policy not in (None, "", "None"):
        return f"its stopPolicy is {policy}; the workload is considered when that is None"
    for condition in lenient_maps(lenient_map(queue.get("status")).get("conditions")):
        if condition.get("type") == "Active" and condition.get("status") == "False":
            return one_line(condition.get("message")).rstrip(".")
    return ""


def is_over_again(reason: str, why: str, workload: Object, reserved: Object | None) -> bool:
    """Whether a Workload was evicted for a cause that is gone, and is considered again.

    Kueue keeps the condition Evicted with its message until the Workload is admitted. Of a preemption that
    stays true; that a queue is stopped, or the Workload not active, does not.

    Args:
        reason: of the condition Evicted.
        why: message of the condition Evicted.
        workload: the Workload.
        reserved: its condition QuotaReserved.
    """
    if reserved is None or reserved.get("status") != "False" or reserved.get("message") in (None, "", why):
        return False
    if reason in _STOPPED:
        # Another queue of the Workload may be inactive by now.
        return reserved.get("reason") != INADMISSIBLE or _is_requeued(workload)
    return reason.startswith(DEACTIVATED) and not is_inactive(workload)


def _is_requeued(workload: Object) -> bool:
    """Whether Kueue has queued a Workload again after its eviction."""
    conditions = lenient_maps(lenient_map(workload.get("status")).get("conditions"))
    return any(item.get("type") == "Requeued" and item.get("status") == "True" for item in conditions)


def is_left_out(workload: Object, reason: str, reserved: Object | None) -> bool:
    """Whether a Workload is not active and Kueue has not said so: it does not for one without quota.

    Args:
        workload: the Workload.
        reason: why it was evicted, empty where it was not.
        reserved: its condition QuotaReserved.
    """
    has_quota = reserved is not None and reserved.get("status") == "True"
    return is_inactive(workload) and not has_quota and not reason.startswith(DEACTIVATED)


def is_inactive(workload: Object) -> bool:
    """Whether the Workload's own spec keeps it out of the queue."""
    return lenient_map(workload.get("spec")).get("active") is False


def requeued_at(workload: Object) -> str:
    """When Kueue queues an evicted Workload again, RFC 3339; empty where it waits for no back-off."""
    status = lenient_map(workload.get("status"))
    for condition in lenient_maps(status.get("conditions")):
        if condition.get("type") == "Requeued" and condition.get("status") == "False":
            return lenient_text(lenient_map(status.get("requeueState")).get("requeueAt"))
    return ""


def next_try(workload: Object, reason: str) -> str:
    """What ends the wait of an evicted Workload that Kueue does not consider, to be added to a message."""
    if reason.startswith(DEACTIVATED) and is_inactive(workload):
        return (
            f"; it stays so until spec.active of Workload {name_of(workload)} is true: remove the cause, "
            "then set it, or submit the workload again"
        )
    at = requeued_at(workload)
    return f"; Kueue queues it again at {at}" if at else ""


def unnamed_checks(workload: Object, why: str) -> str:
    """The admission checks that evicted a Workload, to be added to a message of Kueue that names none.

    Kueue up to 0.16 writes such a message, and resets all checks with the eviction.

    Args:
        workload: the Workload.
        why: message of the condition Evicted.
    """
    checks = lenient_maps(lenient_map(workload.get("status")).get("admissionChecks"))
    names = [lenient_text(check.get("name")) for check in checks if _has_evicted(check)]
    return f": {', '.join(names)}" if why == _UNNAMED_CHECK and names else ""


def _has_evicted(check: Object) -> bool:
    return check.get("state") == "Retry" or lenient_text(check.get("message")).endswith(_WAS_RETRY)


def _named(objects: Iterable[Object], name: str) -> Object | None:
    return next((obj for obj in objects if name_of(obj) == name), None)
