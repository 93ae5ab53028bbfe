"""The pages of ``kaiwo queue``, and the lines about one pending workload, which ``kaiwo status`` has too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kaiwo.cli import duration as spans
from kaiwo.cli.output.responsive import BAD, GOOD, WAITS, Cell, write_pair, write_rows
from kaiwo.cli.terminal import clean
from kaiwo.engine.quantity import quantity
from kaiwo.engine.timestamps import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from kaiwo.client.queue_records import (
        GoesFirst,
        HeldAmount,
        NeededQuota,
        QueueDetails,
        QueueHolder,
        QueueList,
        QueueMember,
        QueueOverview,
        QueueQuota,
        QueueWait,
    )

_EXPLAINED = 3
"""Pending workloads that are explained on the page of a queue; ``-o wide`` explains all that are."""

_SHOWN = 50
"""Workloads in each table of a queue's page; ``-o wide`` shows all."""

_RULES = {
    "StrictFIFO": "StrictFIFO: nothing goes before the first one, even where it would fit",
    "BestEffortFIFO": "BestEffortFIFO: one that fits goes before earlier ones that do not",
}
_OF_BYTES = ("memory", "ephemeral-storage")
_KIBI = 1024
_UNITS = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_QUOTA_TITLES = ("FLAVOR", "RESOURCE", "QUOTA", "USED", "BORROWED", "LENT", "FREE", "PENDING")


def write_queues(found: QueueList) -> None:
    """Write all queues."""
    rows = [
        (queue.name, queue.cohort, *_quota_cells(quota))
        for queue in found.items
        for quota in _telling(queue.quotas)
    ]
    write_rows(("QUEUE", "COHORT", *_QUOTA_TITLES), rows)
    click.echo()
    titles = ("QUEUE", "ADMITTED", "PENDING", "STRATEGY", "NAMESPACES", "STATE")
    write_rows(titles, [_queue_cells(queue) for queue in found.items])
    for item in found.unplaced:
        click.echo()
        click.echo(clean(f"{member(item.workload)}:"))
        waits = f"waits in {item.entrance}, which leads to no queue that is known"
        write_pair("", item.message or waits, column=2)


def _queue_cells(queue: QueueOverview) -> tuple[Cell | str, ...]:
    names = ", ".join(dict.fromkeys(item.namespace for item in queue.namespaces))
    if queue.stopped:
        state = Cell(queue.stopped, BAD)
    elif not queue.readable:
        state = Cell("not readable", WAITS)
    else:
        state = Cell("active", GOOD)
    strategy = queue.strategy if queue.readable else ""
    return (
        queue.name,
        str(queue.admitted),
        Cell(str(queue.pending), WAITS if queue.pending else ""),
        strategy,
        names,
        state,
    )


def _telling(quotas: Sequence[QueueQuota]) -> list[QueueQuota]:
    """Without the zeros of a resource that other flavors of the queue have.

    Kueue makes every flavor of a group name every resource of it, so nodes of one GPU vendor have a quota of
    0 for the GPUs of the others.
    """
    had = {item.resource for item in quotas if _any_amount(item)}
    return [item for item in quotas if _any_amount(item) or item.resource not in had]


def _any_amount(item: QueueQuota) -> bool:
    """Whether the flavor has any of the resource; what is pending is the same for all flavors."""
    amounts = (item.nominal, item.used, item.borrowed, item.lent, item.free)
    return any(quantity(amount) for amount in amounts if amount)


def _quota_cells(item: QueueQuota) -> tuple[Cell | str, ...]:
    waits = WAITS if quantity(item.pending) else ""
    full = WAITS if item.free is not None and not quantity(item.free) and waits else ""
    return (
        item.flavor,
        item.resource,
        readable_amount(item.resource, item.nominal or ""),
        readable_amount(item.resource, item.used),
        readable_amount(item.resource, item.borrowed),
        readable_amount(item.resource, item.lent),
        Cell(readable_amount(item.resource, item.free or ""), full),
        Cell(readable_amount(item.resource, item.pending), waits),
    )


def write_queue(found: QueueDetails, now: datetime, *, wide: bool = False) -> None:
    """Write one queue with its workloads.

    Args:
        found: what is known.
        now: what ages are counted to.
        wide: show all workloads, and explain all pending ones that are explained, not the first ones only.
    """
    queue = found.queue
    write_pair("Queue:", queue.name)
    write_pair("Cohort:", queue.cohort)
    write_pair("Strategy:", _RULES.get(queue.strategy, queue.strategy) if queue.readable else "")
    write_pair("Stopped:", queue.stopped, color=BAD)
    write_pair("Workloads:", f"{queue.admitted} admitted, {queue.pending} pending")
    write_pair("Used by:", ", ".join(_namespaces(queue)) or ("no namespace" if queue.readable else ""))
    if queue.quotas:
        click.echo("\nQuotas:")
        write_rows(_QUOTA_TITLES, [_quota_cells(item) for item in _telling(queue.quotas)], indent="  ")
    most = None if wide else _SHOWN
    if found.holders:
        click.echo("\nAdmitted:")
        titles = ("WORKLOAD", "USER", "HOLDS", "PRIORITY", "SINCE", "ENDS", "MESSAGE")
        write_rows(titles, [_holder_cells(item, now) for item in found.holders[:most]], indent="  ")
        _write_rest(len(found.holders), most)
    if found.waiting:
        click.echo("\nPending:")
        titles = ("POSITION", "WORKLOAD", "USER", "REQUESTS", "PRIORITY", "WAITS", "STARTS")
        write_rows(titles, [_wait_cells(item, now) for item in found.waiting[:most]], indent="  ")
        _write_rest(len(found.waiting), most)
    explained = [item for item in found.waiting if item.explained]
    for item in explained if wide else explained[:_EXPLAINED]:
        click.echo(f"\n{clean(member(item.workload))}:")
        write_wait(item, now)


def _write_rest(number: int, most: int | None) -> None:
    if most is not None and number > most:
        click.echo(f"  and {number - most} more (-o wide)")


def _namespaces(queue: QueueOverview) -> Iterable[str]:
    for item in queue.namespaces:
        name = f" as {item.name}" if item.name != queue.name else ""
        trouble = f"; {item.message}" if item.message else ""
        yield f"{item.namespace}{name} ({item.admitted} admitted, {item.pending} pending{trouble})"


def _holder_cells(item: QueueHolder, now: datetime) -> tuple[Cell | str, ...]:
    message = item.message or ("" if item.state == "admitted" else item.state)
    return (
        member(item.workload),
        item.workload.user,
        held(item.holds),
        str(item.priority),
        spans.since(item.since, now),
        _end(item, now),
        Cell(message, BAD if item.message.startswith("ERROR") else WAITS),
    )


def _wait_cells(item: QueueWait, now: datetime) -> tuple[Cell | str, ...]:
    never = next((need for need in item.needs if _never(need)), None)
    latest = " at the latest" if item.estimate_is_latest else ", if durations hold"
    starts = f"{_when(item.estimate, now)}{latest}" if item.estimate else item.estimate_basis
    return (
        Cell("" if item.position is None else str(item.position), WAITS),
        member(item.workload),
        item.workload.user,
        held(item.requests),
        str(item.priority),
        spans.since(item.created, now),
        Cell(starts, BAD if never else ""),
    )


def write_wait(item: QueueWait, now: datetime) -> None:
    """Write the place of a pending workload, who is ahead, who holds what it needs, and when it starts."""

    def pair(title: str, text: str, color: str = "") -> None:
        write_pair(title, text, column=12, indent="  ", color=color)

    place = "" if item.position is None else f"{item.position} in queue {item.queue}"
    pair("Position:", place, WAITS)
    for other in item.ahead:
        pair("Ahead:", _first(other))
    for other in item.went_first:
        pair("Passed by:", _first(other))
    for need in item.needs:
        needed = readable_amount(need.resource, need.requested)
        if _never(need):
            available = readable_amount(need.resource, need.most or "")
            most = f"at most {available} {need.resource} can be had in queue {item.queue}"
            where = f" (flavor {need.flavor})" if need.flavor else ""
            pair("Never:", f"it requests {needed}, and {most}{where}", BAD)
            continue
        free = readable_amount(need.resource, need.free or "")
        pair("Needs:", f"{needed} {need.resource} of flavor {need.flavor}; {free} free")
        for holder in need.held_by:
            pair("Held by:", _share(holder, need, now))
        if need.holders > len(need.held_by):
            pair("", f"and {need.holders - len(need.held_by)} more (kaiwo queue {item.queue})")
    when = f"{_when(item.estimate, now)}, {item.estimate_basis}" if item.estimate else item.estimate_basis
    pair("Starts:", when)
    pair("Queue says:", item.message)


def _first(found: GoesFirst) -> str:
    return f"{member(found.workload)}: {found.reason}"


def _share(holder: QueueHolder, need: NeededQuota, now: datetime) -> str:
    amount = next(
        (
            item.amount
            for item in holder.holds
            if (item.flavor, item.resource) == (need.flavor, need.resource)
        ),
        "",
    )
    user = f" of {holder.workload.user}" if holder.workload.user else ""
    since = f" for {spans.since(holder.since, now)}" if holder.since else ""
    end = _end(holder, now)
    limit = "ends {} at the latest" if holder.ends_surely else "expected to end {}"
    ends = limit.format(end) if holder.ends and holder.state != "evicted" else end
    parts = [
        f"{member(holder.workload)}{user} holds {readable_amount(need.resource, amount)}{since}",
        ends,
        holder.message,
    ]
    return "; ".join(part for part in parts if part)


def _end(item: QueueHolder, now: datetime) -> str:
    if item.state == "evicted":
        return "is being evicted"
    return f"{_when(item.ends, now)} ({item.ends_by})" if item.ends else ""


def _when(text: str | None, now: datetime) -> str:
    """A time to come as ``in 2h``."""
    moment = parse_time(text)
    seconds = (moment - now).total_seconds() if moment else 0
    return f"in {spans.span(seconds)}" if seconds >= 1 else "now"


def _never(need: NeededQuota) -> bool:
    requested, most = quantity(need.requested), quantity(need.most)
    return requested is not None and most is not None and requested > most


def member(workload: QueueMember) -> str:
    """``KaiwoJob team/train``."""
    return f"{workload.kind} {workload.namespace}/{workload.name}"


def held(amounts: Sequence[HeldAmount]) -> str:
    """Amounts of resources as text, accelerators first."""
    ordered = sorted(amounts, key=lambda item: ("/" not in item.resource, item.resource, item.flavor))
    return ", ".join(f"{readable_amount(item.resource, item.amount)} {item.resource}" for item in ordered)


def readable_amount(resource: str, text: str) -> str:
    """An amount for people: of bytes with the largest unit that fits and one decimal, others as they are.

    JSON has the exact amounts.
    """
    amount = quantity(text) if resource in _OF_BYTES or resource.startswith("hugepages-") else None
    if amount is None or amount.value < _KIBI:
        return text
    size, unit = amount.value, ""
    units = iter(_UNITS)
    while size >= _KIBI and (following := next(units, "")):
        size, unit = size / _KIBI, following
    return f"{size:.1f}".removesuffix(".0") + unit
