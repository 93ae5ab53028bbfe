"""Queues: quota, who holds it, who waits, and when a waiting workload may start."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kaiwo.client.errors import ClientError, PluginFailed
from kaiwo.client.queue_records import (
    GoesFirst,
    HeldAmount,
    NeededQuota,
    QueueDetails,
    QueueHolder,
    QueueList,
    QueueMember,
    QueueNamespace,
    QueueOverview,
    QueueQuota,
    QueueWait,
)
from kaiwo.engine.timestamps import format_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kaiwo.engine.client import Client
    from kaiwo.engine.quantity import Quantity
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.plugin.queue_usage import (
        QueueCapacity,
        QueuedObject,
        QueuedWorkload,
        QueueState,
        QueueUsage,
        QuotaHolder,
        UsageFacts,
    )
    from kaiwo.plugin.queues import QueueSystem
    from kaiwo.plugin.registry import Plugins
    from kaiwo.workload.queues.estimate import StartEstimate
    from kaiwo.workload.queues.order import WorkloadAhead

T = TypeVar("T")

EXPLAINED = 50
"""Pending workloads of a queue that are explained one by one; of those behind them the place is shown."""

_UNAUTHORIZED = 401
_MOST_AHEAD = 5
_MOST_HOLDERS = 5


class QueuesUnknown(ClientError):
    """There are no queues to show: no queue system is loaded, or it is not installed."""


class QueueNotFound(ClientError):
    """There is no queue of that name, or the caller may not know of it."""

    exit_code = 3


async def read_usage(api: Client, plugins: Plugins, namespace: str) -> QueueUsage:
    """The use of all queues, read with the rights of the caller.

    Kinds of namespaces are read in all of them, and in the caller's alone where that is not allowed.

    Args:
        api: the cluster.
        plugins: the loaded plugins, of which the queue system interprets what is read.
        namespace: the caller's.

    Raises:
        QueuesUnknown: there is no queue system, or the cluster does not serve its kinds.
        PluginFailed: its plugin failed.
    """
    from kaiwo.workload.queues.enrichment import with_workloads

    system, usage = _queue_system(plugins)
    workload_kinds = _workload_kinds()
    read = await _lists(api, (*system.usage_reads, *workload_kinds), namespace)
    facts = _facts(system, {kind: read[kind] for kind in system.usage_reads}, namespace)
    if system.usage_paths is not None:
        groups = _answer(system, system.usage_paths, facts)
        answers = await asyncio.gather(*(_first(api, group) for group in groups))
        facts = replace(
            facts, documents={path: answer for found in answers for path, answer in found.items()}
        )
    workloads = [obj for kind in workload_kinds for obj in read[kind].objects]
    states = {read[kind].state for kind in workload_kinds}
    namespaces = None if states == {"whole"} else set() if "hidden" in states else {namespace}
    return with_workloads(_answer(system, usage, facts), workloads, namespaces)


async def read_quotas(api: Client, plugins: Plugins, namespace: str) -> QueueUsage | None:
    """The quotas of all queues, without who waits and who holds them; None where not all may be read.

    Args:
        api: the cluster.
        plugins: the loaded plugins, of which the queue system interprets what is read.
        namespace: the caller's, of which the names of queues are read at least.

    Raises:
        QueuesUnknown: there is no queue system, or the cluster does not serve its kinds.
        PluginFailed: its plugin failed.
    """
    system, usage = _queue_system(plugins)
    # What belongs to single workloads may be thousands, and no quota depends on it.
    kinds = tuple(kind for kind in system.usage_reads if kind not in system.owned)
    facts = _facts(system, await _lists(api, kinds, namespace), namespace)
    return None if facts.hidden else _answer(system, usage, facts)


def _queue_system(plugins: Plugins) -> tuple[QueueSystem, Callable[[UsageFacts], QueueUsage]]:
    system = plugins.queue_system
    if system is None or system.usage is None:
        what = "no queue system is loaded" if system is None else f"{system.name} does not report its queues"
        raise QueuesUnknown(what, "kaiwo plugins shows the plugins and their state")
    return system, system.usage


def _answer(system: QueueSystem, function: Callable[[UsageFacts], T], facts: UsageFacts) -> T:
    """What a function of the queue system says of the queues.

    Raises:
        PluginFailed: it failed.
    """
    try:
        return function(facts)
    except Exception as error:
        raise PluginFailed(system.plugin, "report its queues", error) from error


def _facts(system: QueueSystem, read: Mapping[Resource, _Listed], namespace: str) -> UsageFacts:
    from kaiwo.plugin.queue_usage import UsageFacts

    missing = frozenset(kind for kind, found in read.items() if found.state == "missing")
    if len(missing) == len(read):
        names = ", ".join(str(kind) for kind in read)
        raise QueuesUnknown(
            f"the cluster serves none of {names}; {system.name} is not installed",
            "workloads start without waiting there; kaiwo list shows them",
        )
    return UsageFacts(
        objects={kind: found.objects for kind, found in read.items()},
        now=datetime.now(UTC),
        namespace=namespace,
        narrowed=frozenset(kind for kind, found in read.items() if found.state == "narrowed"),
        hidden=frozenset(kind for kind, found in read.items() if found.state == "hidden"),
        missing=missing,
    )


async def _lists(api: Client, kinds: Sequence[Resource], namespace: str) -> dict[Resource, _Listed]:
    lists = await asyncio.gather(*(_list(api, kind, namespace) for kind in kinds))
    return dict(zip(kinds, lists, strict=True))


def _workload_kinds() -> tuple[Resource, ...]:
    from kaiwo.api.crds import KAIWO_JOB, KAIWO_SERVICE

    return KAIWO_JOB, KAIWO_SERVICE


class _Listed(NamedTuple):
    """Objects of a kind, and how much of it may be read: whole, narrowed, hidden or missing."""

    objects: tuple[Object, ...]
    state: str


async def _list(api: Client, kind: Resource, namespace: str) -> _Listed:
    from kaiwo.engine.errors import Forbidden, NotFound

    try:
        return _Listed(tuple([obj async for obj in api.list(kind)]), "whole")
    except NotFound:
        return _Listed((), "missing")
    except Forbidden as error:
        if error.status == _UNAUTHORIZED:
            raise
        if not kind.namespaced:
            return _Listed((), "hidden")
    try:
        return _Listed(tuple([obj async for obj in api.list(kind, namespace)]), "narrowed")
    except NotFound:
        return _Listed((), "missing")
    except Forbidden:
        return _Listed((), "hidden")


async def _first(api: Client, paths: tuple[str, ...]) -> dict[str, Object]:
    """The first path that answers, with its answer."""
    from kaiwo.engine.errors import EngineError

    for path in paths:
        try:
            return {path: await api.get_json(path)}
        except EngineError:
            # Not served, not allowed, or its server is down: the same to somebody who wants a position.
            continue
    return {}


async def list_queues(api: Client, plugins: Plugins, namespace: str) -> QueueList:
    """All queues. The arguments and errors are those of `read_usage`."""
    usage = await read_usage(api, plugins, namespace)
    return QueueList(
        items=tuple(_overview(queue) for queue in usage.queues),
        unplaced=tuple(_wait(usage, item, None, explained=False) for item in usage.unplaced),
        unseen=usage.unseen,
    )


async def describe_queue(api: Client, plugins: Plugins, namespace: str, name: str) -> QueueDetails:
    """One queue with its workloads.

    Args:
        api: the cluster.
        plugins: the loaded plugins.
        namespace: the caller's.
        name: of the queue, or by which it is reached in that namespace (Kueue: of a LocalQueue).

    Raises:
        QueueNotFound: there is none of that name.
        QueuesUnknown: as of `read_usage`.
        PluginFailed: likewise.
    """
    from kaiwo.api.suggestion import did_you_mean

    usage = await read_usage(api, plugins, namespace)
    queue = usage.queue(name) or _by_entrance(usage, namespace, name)
    if queue is None:
        names = {item.name for item in usage.queues}
        hint = did_you_mean(name, names) or f"known: {', '.join(sorted(names)) or 'none'}"
        workload = f"kaiwo status {name} shows the place of a workload"
        raise QueueNotFound(f'queue "{name}" not found', "; ".join((hint, workload, *usage.unseen)))
    return details(usage, queue, datetime.now(UTC))


def queue_named(usage: QueueUsage, namespace: str, name: str) -> QueueState | None:
    """The queue to which a name leads in a namespace, else the one of that name, which it will lead to."""
    return _by_entrance(usage, namespace, name) or usage.queue(name)


def _by_entrance(usage: QueueUsage, namespace: str, name: str) -> QueueState | None:
    for queue in usage.queues:
        if any((item.namespace, item.name) == (namespace, name) for item in queue.entrances):
            return queue
    return None


async def waits_of(api: Client, plugins: Plugins, workload: Object) -> tuple[QueueWait, ...]:
    """What a workload waits for in its queue; empty when it does not wait.

    Args:
        api: the cluster.
        plugins: the loaded plugins.
        workload: a KaiwoJob or KaiwoService as it was read. Pods of one may be queued one by one.
    """
    metadata = workload["metadata"]
    usage = await read_usage(api, plugins, metadata["namespace"])
    return waits_in(usage, workload, datetime.now(UTC))


def waits_in(usage: QueueUsage, workload: Object, now: datetime) -> tuple[QueueWait, ...]:
    """The same from what was read before."""
    from kaiwo.workload.queues.estimate import start_estimates
    from kaiwo.workload.queues.order import find_pending

    metadata = workload["metadata"]
    found = find_pending(usage, workload["kind"], metadata["namespace"], metadata["name"])
    waits = []
    estimates: dict[str, dict[str, StartEstimate]] = {}
    for item in found[:EXPLAINED]:
        queue = usage.queue(item.queue)
        if queue is not None and queue.name not in estimates:
            estimates[queue.name] = start_estimates(usage, queue, now)
        waits.append(_wait(usage, item, estimates.get(item.queue, {}).get(item.subject.uid), explained=True))
    return tuple(waits)


def details(usage: QueueUsage, queue: QueueState, now: datetime) -> QueueDetails:
    """One queue with its workloads, from what was read before."""
    from kaiwo.workload.queues.estimate import start_estimates

    estimates = start_estimates(usage, queue, now)
    return QueueDetails(
        queue=_overview(queue),
        holders=tuple(_holder(item) for item in queue.holders),
        waiting=tuple(
            _wait(usage, item, estimates.get(item.subject.uid), explained=at < EXPLAINED)
            for at, item in enumerate(queue.pending)
        ),
        unseen=usage.unseen,
    )


def _overview(queue: QueueState) -> QueueOverview:
    return QueueOverview(
        name=queue.name,
        cohort=queue.cohort,
        strategy="StrictFIFO" if queue.strict else "BestEffortFIFO",
        stopped=queue.stopped,
        quotas=tuple(_quota(item) for item in queue.capacities),
        namespaces=tuple(
            QueueNamespace(
                namespace=item.namespace,
                name=item.name,
                admitted=item.admitted,
                pending=item.pending,
                message=item.message,
            )
            for item in queue.entrances
        ),
        admitted=queue.holder_count,
        pending=queue.pending_count,
        readable=queue.readable,
    )


def _quota(item: QueueCapacity) -> QueueQuota:
    return QueueQuota(
        flavor=item.flavor,
        resource=item.resource,
        nominal=_text(item.nominal),
        used=str(item.used),
        borrowed=str(item.borrowed),
        lent=str(item.lent),
        free=_text(item.free),
        pending=str(item.pending),
    )


def _text(amount: Quantity | None) -> str | None:
    return None if amount is None else str(amount)


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else format_time(moment)


def _member(subject: QueuedObject) -> QueueMember:
    return QueueMember(
        kind=subject.kind,
        namespace=subject.namespace,
        name=subject.name,
        user=subject.user,
        child=subject.child,
    )


def _holder(item: QuotaHolder) -> QueueHolder:
    return QueueHolder(
        workload=_member(item.subject),
        holds=tuple(
            HeldAmount(flavor=flavor, resource=resource, amount=str(amount))
            for (flavor, resource), amount in item.amounts.items()
        ),
        priority=item.priority,
        since=_time(item.since),
        ends=_time(item.ends),
        ends_by=item.ends_by,
        ends_surely=item.ends_surely,
        state=item.state,
        message=item.message,
    )


def _wait(
    usage: QueueUsage, item: QueuedWorkload, estimate: StartEstimate | None, *, explained: bool
) -> QueueWait:
    from kaiwo.workload.queues.order import later_holders, workloads_ahead

    ahead: tuple[WorkloadAhead, ...] = ()
    passed: tuple[WorkloadAhead, ...] = ()
    needs: tuple[NeededQuota, ...] = ()
    if explained:
        ahead = workloads_ahead(usage, item, _MOST_AHEAD)
        passed = tuple(
            found for _, found in zip(range(_MOST_AHEAD), later_holders(usage, item), strict=False)
        )
        needs = tuple(_needs(usage, item))
    return QueueWait(
        workload=_member(item.subject),
        queue=item.queue,
        entrance=item.entrance,
        requests=tuple(
            HeldAmount(flavor="", resource=resource, amount=str(amount))
            for resource, amount in item.requests.items()
            if amount
        ),
        position=item.position,
        position_source=item.position_source,
        priority=item.priority,
        created=_time(item.created),
        estimate=_time(estimate.at) if estimate else None,
        estimate_is_latest=bool(estimate and estimate.at and estimate.surely),
        estimate_basis=str(estimate) if estimate else "",
        message=item.message,
        explained=explained,
        ahead=tuple(_first_one(found) for found in ahead),
        went_first=tuple(_first_one(found) for found in passed),
        needs=needs,
    )


def _needs(usage: QueueUsage, item: QueuedWorkload) -> Iterator[NeededQuota]:
    from kaiwo.workload.queues.order import holders_of_needed

    shares = holders_of_needed(usage, item)
    for shortage in item.shortages:
        found = [share.holder for share in shares if share.shortage is shortage]
        yield NeededQuota(
            flavor=shortage.flavor,
            resource=shortage.resource,
            requested=str(shortage.requested),
            free=str(shortage.free),
            most=str(shortage.most),
            held_by=tuple(_holder(holder) for holder in found[:_MOST_HOLDERS]),
            holders=len(found),
        )


def _first_one(found: WorkloadAhead) -> GoesFirst:
    return GoesFirst(workload=_member(found.subject), queue=found.queue, reason=found.reason)
