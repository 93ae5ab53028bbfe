"""When pending workloads may start, from the time limits of those that hold the quota."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from itertools import count
from operator import add
from typing import TYPE_CHECKING

from kaiwo.engine.quantity import Quantity
from kaiwo.workload.queues.order import capacity_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaiwo.plugin.queue_usage import FlavorResource, QueuedWorkload, QueueState, QueueUsage, QuotaHolder

_ZERO = Quantity(0)


@dataclass(frozen=True, slots=True)
class StartEstimate:
    """When a pending workload may start.

    Attributes:
        at: when, as far as `basis` holds; None without an estimate.
        basis: what the estimate follows from; without one, why there is none.
        surely: whether it starts then at the latest: all that has to end before is ended by its time limit.
    """

    at: datetime | None
    basis: str
    surely: bool = False

    def __str__(self) -> str:
        """The basis, with ``no estimate:`` before the reason why there is none."""
        return self.basis if self.at else f"no estimate: {self.basis}"


@dataclass(slots=True)
class _End:
    """The end of a workload that holds quota, now or later."""

    queue: str
    amounts: Mapping[FlavorResource, Quantity]
    why: str
    surely: bool


class _Pool:
    """Quota of queues that share a cohort while workloads end and start.

    What a queue can get is its free quota now and what ends; of another queue's workload only what that one
    has from the cohort or may lend.
    """

    def __init__(self, queues: Sequence[QueueState]) -> None:
        self._capacity = {queue.name: dict(capacity_of(queue)) for queue in queues}
        self._used = {
            name: {key: item.used for key, item in capacities.items()}
            for name, capacities in self._capacity.items()
        }
        self._free = {
            name: {key: item.free or _ZERO for key, item in capacities.items()}
            for name, capacities in self._capacity.items()
        }

    def release(self, end: _End) -> None:
        self._move(end.queue, end.amounts, 1)

    def take(self, queue: str, amounts: Mapping[FlavorResource, Quantity]) -> None:
        self._move(queue, amounts, -1)

    def _move(self, name: str, amounts: Mapping[FlavorResource, Quantity], sign: int) -> None:
        for key, amount in amounts.items():
            capacity = self._capacity.get(name, {}).get(key)
            if capacity is None:
                continue
            before = self._used[name][key]
            after = before - amount if sign > 0 else before + amount
            self._used[name][key] = after
            kept = (capacity.nominal or _ZERO) - capacity.lendable
            shared = abs(max(0, before.nano - kept.nano) - max(0, after.nano - kept.nano))
            for other, free in self._free.items():
                if key in free:
                    change = amount.nano if other == name else shared
                    free[key] = Quantity(free[key].nano + sign * change, free[key].form)

    def fitting(self, queue: str, workload: QueuedWorkload) -> dict[FlavorResource, Quantity] | None:
        """What the workload would take: each resource from the first flavor with enough; None without one."""
        taken: dict[FlavorResource, Quantity] = {}
        free, capacity = self._free.get(queue, {}), self._capacity.get(queue, {})
        for resource, requested in workload.requests.items():
            flavors = [key for key in free if key[1] == resource]
            if not requested or not flavors:
                continue
            key = next(
                (
                    key
                    for key in flavors
                    if requested.nano <= free[key].nano
                    and (most := capacity[key].most) is not None
                    and self._used[queue][key] + requested <= most
                ),
                None,
            )
            if key is None:
                return None
            taken[key] = requested
        return taken


def start_estimates(usage: QueueUsage, queue: QueueState, now: datetime) -> dict[str, StartEstimate]:
    """An estimate for each pending workload of a queue, by the uid of its subject.

    Workloads start in their order as others end at their time limits. What runs without a limit never ends
    here, so that an estimate is late rather than early.
    """
    queues = [item for item in usage.sharing(queue) if item.readable]
    estimates = {item.subject.uid: _certain(queue, item) for item in queue.pending}
    if not any(estimate is None for estimate in estimates.values()):
        return {uid: estimate for uid, estimate in estimates.items() if estimate is not None}
    started = _simulate(queues, now)
    unlimited = _unlimited(queues)
    blocked: QueuedWorkload | None = None
    result: dict[str, StartEstimate] = {}
    for item in queue.pending:
        uid = item.subject.uid
        known = estimates[uid]
        if known is not None:
            result[uid] = known
        elif uid in started:
            result[uid] = started[uid]
        elif blocked is not None:
            result[uid] = StartEstimate(None, f"{blocked.subject} is ahead, and its start is not known")
        else:
            result[uid] = StartEstimate(None, _never_ends(item, unlimited))
        if result[uid].at is None and item.state == "pending" and (known is None or queue.strict):
            blocked = blocked or item
    return result


def beyond_quota(queue: QueueState, pod_sets: Sequence[Mapping[str, Quantity]]) -> str:
    """Why a queue can never start a workload, whoever ends; empty where it can or that is not known.

    Args:
        queue: the queue that it would wait in.
        pod_sets: what each set of its pods requests at least, by resource. The pods of one set take one
            flavor of a resource, and several sets may take several.
    """
    for resource in dict.fromkeys(key for requests in pod_sets for key in requests):
        amounts = [requests[resource] for requests in pod_sets if resource in requests]
        limits = [item.most for item in queue.capacities if item.resource == resource]
        known = [limit for limit in limits if limit is not None]
        if not known or len(known) < len(limits):
            continue
        pairs = (max(amounts), max(known)), (reduce(add, amounts), reduce(add, known))
        for requested, most in pairs:
            if requested > most:
                return _too_much(requested, resource, most)
    return ""


def _too_much(requested: Quantity, resource: str, most: Quantity) -> str:
    return f"it requests {requested} {resource}, and the queue can have at most {most}"


def _certain(queue: QueueState, item: QueuedWorkload) -> StartEstimate | None:
    """What is known without any end of others."""
    if queue.stopped:
        return StartEstimate(None, f"queue {queue.name} admits nothing: {queue.stopped}")
    if not queue.readable:
        return StartEstimate(None, f"the quota of queue {queue.name} is not readable")
    if item.state == "inactive":
        return StartEstimate(None, f"{item.held or 'it is not active'}, and the queue leaves it out")
    if item.refused:
        return StartEstimate(None, f"the queue refuses it, whatever quota is free: {item.refused}")
    for shortage in item.shortages:
        if shortage.never:
            return StartEstimate(None, _too_much(shortage.requested, shortage.resource, shortage.most))
    if any(each.most is None and item.requests.get(each.resource) for each in queue.capacities):
        whose = f"cohort {queue.cohort}" if queue.cohort else f"queue {queue.name}"
        return StartEstimate(None, f"the quota of {whose} is not readable")
    return None


def _simulate(queues: Sequence[QueueState], now: datetime) -> dict[str, StartEstimate]:
    """The start of each pending workload that starts although only those with time limits end."""
    pool, tie = _Pool(queues), count()
    ends: list[tuple[datetime, int, _End]] = []
    for queue in queues:
        for holder in queue.holders:
            end = now if holder.state == "evicted" else holder.ends
            if end is not None:
                ended = _End(queue.name, holder.amounts, _why_ends(holder), holder.ends_surely)
                heapq.heappush(ends, (max(end, now), next(tie), ended))
    waiting = {
        queue.name: [
            item
            for item in reversed(queue.pending)
            if item.state == "pending" and (queue.strict or _certain(queue, item) is None)
        ]
        for queue in queues
        if not queue.stopped
    }
    started: dict[str, StartEstimate] = {}
    moment, last, surely = now, "the quota is free now", True
    while True:
        for name, item, taken in _admissions(pool, waiting):
            started[item.subject.uid] = StartEstimate(moment, last, surely)
            if item.runs_for is not None:
                why = f"after the time that {item.subject} runs, which is ahead"
                planned = _End(name, taken, why, item.ends_surely)
                heapq.heappush(ends, (_later(moment, item.runs_for), next(tie), planned))
        if not ends:
            return started
        moment, _, ended = heapq.heappop(ends)
        pool.release(ended)
        last, surely = ended.why, surely and ended.surely


def _why_ends(holder: QuotaHolder) -> str:
    if holder.state == "evicted":
        return f"after the eviction of {holder.subject}"
    if holder.ends_surely:
        return f"at the latest end of `{holder.ends_by}` of {holder.subject}"
    return f"if {holder.subject} ends with its `{holder.ends_by}`, which does not end it by itself"


def _admissions(
    pool: _Pool, waiting: dict[str, list[QueuedWorkload]]
) -> list[tuple[str, QueuedWorkload, dict[FlavorResource, Quantity]]]:
    """Start what fits, in the order of each queue; of several queues first the one whose head goes first."""
    admitted = []
    heads = sorted(
        (name for name, items in waiting.items() if items),
        key=lambda name: (-waiting[name][-1].priority, str(waiting[name][-1].ordered_at)),
    )
    for name in heads:
        while items := waiting[name]:
            taken = pool.fitting(name, items[-1])
            if taken is None:
                break
            pool.take(name, taken)
            admitted.append((name, items.pop(), taken))
    return admitted


def _later(moment: datetime, seconds: float) -> datetime:
    """A time so many seconds later; the last that can be written where many long ones follow each other."""
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=moment.tzinfo)


def _unlimited(queues: Sequence[QueueState]) -> dict[FlavorResource, QuotaHolder]:
    """The holder of each quota that has no time limit and holds most of it."""
    found: dict[FlavorResource, QuotaHolder] = {}
    for queue in queues:
        for holder in queue.holders:
            if holder.ends is None and holder.state != "evicted":
                for key, amount in holder.amounts.items():
                    if amount and (key not in found or amount > found[key].amounts[key]):
                        found[key] = holder
    return found


def _never_ends(item: QueuedWorkload, unlimited: Mapping[FlavorResource, QuotaHolder]) -> str:
    for shortage in item.shortages:
        key = (shortage.flavor, shortage.resource)
        if holder := unlimited.get(key):
            return (
                f"{holder.subject} holds {holder.amounts[key]} {shortage.resource} without a known time limit"
            )
    return "workloads without a known time limit hold the quota, or will"
