"""Adds to the use of queues what only the Kaiwo workloads show: users, time limits, and what does not run."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from kaiwo.api.duration import InvalidDuration, parse_duration
from kaiwo.engine.timestamps import parse_time
from kaiwo.workload.json_access import lenient_map, one_line

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.queue_usage import QueuedObject, QueuedWorkload, QueueState, QueueUsage, QuotaHolder

_RUNS = frozenset({"RUNNING", "READY", "COMPLETE"})
_LONGEST = 100 * 365 * 86400.0


def with_workloads(
    usage: QueueUsage, workloads: Iterable[Object], namespaces: Collection[str] | None
) -> QueueUsage:
    """The use of queues with what the Kaiwo workloads say.

    Args:
        usage: as the queue system reports it.
        workloads: the Kaiwo workloads that may be read.
        namespaces: the namespaces whose workloads are all in `workloads`; None for every namespace. There a
            label that names no workload is somebody's invention, and the queued object itself is shown.
    """
    by_uid = {str(lenient_map(obj.get("metadata")).get("uid")): obj for obj in workloads}

    def subject(item: QueuedObject) -> QueuedObject:
        return _subject(item, by_uid, namespaces)

    def state(queue: QueueState) -> QueueState:
        return replace(
            queue,
            holders=tuple(_holder(item, subject(item.subject), by_uid) for item in queue.holders),
            pending=tuple(_pending(item, subject(item.subject), by_uid) for item in queue.pending),
        )

    return replace(
        usage,
        queues=tuple(state(queue) for queue in usage.queues),
        unplaced=tuple(_pending(item, subject(item.subject), by_uid) for item in usage.unplaced),
    )


def _subject(
    item: QueuedObject, by_uid: Mapping[str, Object], namespaces: Collection[str] | None
) -> QueuedObject:
    if not item.run_id:
        return item
    found = by_uid.get(item.run_id)
    metadata = lenient_map(found.get("metadata")) if found is not None else {}
    if found is not None and metadata.get("namespace") == item.namespace:
        user = lenient_map(found.get("spec")).get("user")
        return replace(
            item,
            kind=str(found.get("kind")),
            name=str(metadata.get("name")),
            user=user if isinstance(user, str) else "",
        )
    if namespaces is not None and item.namespace not in namespaces:
        return item
    kind, _, name = item.child.partition(" ")
    return replace(item, kind=kind, name=name, user="", child="", run_id="")


def _holder(item: QuotaHolder, subject: QueuedObject, by_uid: Mapping[str, Object]) -> QuotaHolder:
    found = by_uid.get(subject.run_id) if subject.run_id else None
    if found is None:
        return replace(item, subject=subject) if subject is not item.subject else item
    status = lenient_map(found.get("status"))
    word = status.get("status")
    message = item.message
    if isinstance(word, str) and word and word not in _RUNS:
        reason = status.get("reason") or ""
        parts = [f"{word}/{reason}" if reason else word, one_line(status.get("message"))]
        message = ": ".join(part for part in parts if part)
    item = replace(item, subject=subject, message=message)
    start = parse_time(status.get("startTime"))
    for seconds, field, surely in _limits(found):
        end = start + timedelta(seconds=seconds) if start else None
        # What ends it surely says more than what is expected.
        if end is not None and (item.ends is None or (surely and end < item.ends)):
            item = replace(item, ends=end, ends_by=field, ends_surely=surely)
    return item


def _pending(item: QueuedWorkload, subject: QueuedObject, by_uid: Mapping[str, Object]) -> QueuedWorkload:
    found = by_uid.get(subject.run_id) if subject.run_id else None
    if found is None:
        return replace(item, subject=subject) if subject is not item.subject else item
    item = replace(item, subject=subject)
    for seconds, _, surely in _limits(found):
        if item.runs_for is None or (surely and seconds < item.runs_for):
            item = replace(item, runs_for=seconds, ends_surely=surely)
    return item


def _limits(workload: Object) -> Iterator[tuple[float, str, bool]]:
    """Seconds, field, and whether something ends the workload then."""
    spec = lenient_map(workload.get("spec"))
    for embedded in spec.values():
        # An embedded Job or RayJob, whichever field of a backend it stands in.
        seconds = lenient_map(lenient_map(embedded).get("spec")).get("activeDeadlineSeconds")
        if isinstance(seconds, int) and seconds > 0:
            yield min(float(seconds), _LONGEST), "activeDeadlineSeconds", True
    try:
        seconds = parse_duration(spec.get("duration")).total_seconds()
    except InvalidDuration:
        return
    if seconds:
        yield min(seconds, _LONGEST), "duration", False
