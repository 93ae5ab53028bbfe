"""The order of a queue in words: who is ahead of a pending workload, who went first, who holds the quota."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from kaiwo.engine.quantity import Quantity
from kaiwo.engine.timestamps import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kaiwo.plugin.queue_usage import (
        QueueCapacity,
        QueuedObject,
        QueuedWorkload,
        QueueState,
        QueueUsage,
        QuotaHolder,
        QuotaShortage,
    )

_ZERO = Quantity(0)


@dataclass(frozen=True, slots=True)
class WorkloadAhead:
    """A workload that goes before another one, or went.

    Attributes:
        subject: the workload.
        queue: its queue.
        reason: why it goes first.
        holds: whether it has quota already.
    """

    subject: QueuedObject
    queue: str
    reason: str
    holds: bool = False


@dataclass(frozen=True, slots=True)
class HeldShare:
    """Quota that a pending workload needs and another one holds.

    Attributes:
        holder: who holds it.
        shortage: what the pending workload lacks.
        amount: how much of that resource is held.
    """

    holder: QuotaHolder
    shortage: QuotaShortage
    amount: Quantity


def find_pending(usage: QueueUsage, kind: str, namespace: str, name: str) -> tuple[QueuedWorkload, ...]:
    """The pending workloads that an object stands for; several where its pods are queued one by one."""
    every = (*(item for queue in usage.queues for item in queue.pending), *usage.unplaced)
    return tuple(item for item in every if _is(item.subject, kind, namespace, name))


def _is(subject: QueuedObject, kind: str, namespace: str, name: str) -> bool:
    return (subject.name, subject.namespace, subject.kind) == (name, namespace, kind)


def workloads_ahead(
    usage: QueueUsage, workload: QueuedWorkload, most: int | None = None
) -> tuple[WorkloadAhead, ...]:
    """The pending workloads that are considered before one, the first one first.

    Args:
        usage: of all queues.
        workload: a pending workload.
        most: how many of its own queue are returned, those directly before it; None for all.
    """
    queue = usage.queue(workload.queue)
    if queue is None or workload.state == "inactive":
        return ()
    before = takewhile(lambda other: other.subject.uid != workload.subject.uid, queue.pending)
    own = deque((other for other in before if other.state == "pending"), maxlen=most)
    found = [WorkloadAhead(other.subject, queue.name, _why_before(other, workload)) for other in own]
    for neighbor in usage.sharing(queue):
        if neighbor.name == queue.name:
            continue
        head = next((item for item in neighbor.pending if item.state == "pending"), None)
        if head is not None and _competes(head, workload) and _key(head) < _key(workload):
            reason = f"queue {neighbor.name} shares the cohort; {_why_before(head, workload)}"
            found.append(WorkloadAhead(head.subject, neighbor.name, reason))
    return tuple(found)


def later_holders(usage: QueueUsage, workload: QueuedWorkload) -> Iterator[WorkloadAhead]:
    """Workloads that were queued later than a pending one and hold quota that it could use, and why."""
    queue = usage.queue(workload.queue)
    if queue is None or workload.created is None:
        return
    lacking = {(item.flavor, item.resource) for item in workload.shortages}
    for neighbor in usage.sharing(queue):
        for holder in neighbor.holders:
            if holder.created is None or holder.created <= workload.created:
                continue
            if lacking and not lacking & holder.amounts.keys():
                continue
            reason = _why_first(holder, workload, queue, other=neighbor.name != queue.name)
            yield WorkloadAhead(holder.subject, neighbor.name, reason, holds=True)


def holders_of_needed(usage: QueueUsage, workload: QueuedWorkload) -> tuple[HeldShare, ...]:
    """Who holds the quota that a pending workload lacks, the largest share of each resource first.

    Of other queues of the cohort those are named that hold more than their own quota; and all of them, where
    the workload itself needs more than the quota of its queue.
    """
    queue = usage.queue(workload.queue)
    if queue is None:
        return ()
    shares: list[HeldShare] = []
    for shortage in workload.shortages:
        shares += sorted(_holding(usage, queue, shortage), key=lambda share: -share.amount.nano)
    return tuple(shares)


def _holding(usage: QueueUsage, queue: QueueState, shortage: QuotaShortage) -> Iterator[HeldShare]:
    key = (shortage.flavor, shortage.resource)
    own = capacity_of(queue).get(key)
    borrows = own is None or own.nominal is None or own.used + shortage.requested > own.nominal
    for neighbor in usage.sharing(queue):
        if neighbor.name != queue.name:
            capacity = capacity_of(neighbor).get(key)
            if capacity is None or not (capacity.borrowed or borrows):
                continue
        for holder in neighbor.holders:
            if amount := holder.amounts.get(key):
                yield HeldShare(holder, shortage, amount)


def capacity_of(queue: QueueState) -> Mapping[tuple[str, str], QueueCapacity]:
    """The quotas of a queue by flavor and resource."""
    return {(item.flavor, item.resource): item for item in queue.capacities}


def _key(item: QueuedWorkload) -> tuple[int, str]:
    return -item.priority, format_time(item.ordered_at) if item.ordered_at else ""


def _competes(one: QueuedWorkload, other: QueuedWorkload) -> bool:
    return bool({key for key, value in one.requests.items() if value} & other.requests.keys())


def _why_before(first: QueuedWorkload, second: QueuedWorkload) -> str:
    if first.priority > second.priority:
        return f"higher priority ({first.priority}, this one {second.priority})"
    if first.priority < second.priority:
        return f"ahead although its priority is lower ({first.priority}, this one {second.priority})"
    if second.ordered_by == "eviction" and second.ordered_at is not None:
        return f"this one was evicted at {format_time(second.ordered_at)} and went behind it"
    if first.ordered_at is None or second.ordered_at is None:
        return "the queue system places it before this one"
    if first.ordered_at == second.ordered_at:
        return "same priority and second of creation; the queue system's own order decides"
    if first.ordered_at > second.ordered_at:
        return "the queue system places it before this one"
    verb = "evicted" if first.ordered_by == "eviction" else "queued"
    return f"same priority, {verb} earlier ({format_time(first.ordered_at)})"


def _why_first(holder: QuotaHolder, waiting: QueuedWorkload, queue: QueueState, *, other: bool) -> str:
    if holder.priority > waiting.priority:
        return f"higher priority ({holder.priority}, this one {waiting.priority})"
    if waiting.ordered_by == "eviction":
        return "this one was evicted meanwhile and queued again"
    if other:
        return (
            f"queued in {holder.queue}, which shares the cohort {queue.cohort}; each queue has its own order"
        )
    if queue.strict:
        return "it was admitted before the order changed"
    smaller = all(
        amount <= waiting.requests.get(resource, _ZERO) for resource, amount in _by_resource(holder).items()
    )
    if smaller:
        return "queue is BestEffortFIFO: it requests no more, and fitted while this one did not"
    return "queue is BestEffortFIFO: it fitted while this one did not"


def _by_resource(holder: QuotaHolder) -> dict[str, Quantity]:
    total: dict[str, Quantity] = {}
    for (_, resource), amount in holder.amounts.items():
        total[resource] = total.get(resource, _ZERO) + amount
    return total
