"""The order of pending Workloads: Kueue's own where it is served, else by priority and time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps, lenient_text, name_of
from kaiwo.plugin.kit.values import parse_time
from kaiwo.plugin.queue_usage import QueuedObject, QueuedWorkload
from kaiwo_kueue.kinds import LOCAL_QUEUE, VISIBILITY, WORKLOAD
from kaiwo_kueue.workload_usage import namespace_of, spec_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.queue_usage import UsageFacts

_VERSIONS = ("v1beta2", "v1beta1")
_MOST_PENDING = 10_000
"""Pending workloads that Kueue's visibility interface is asked for; its own default is 1000."""

_MOST_PATHS = 50
_LAST = datetime.max.replace(tzinfo=UTC)


def usage_paths(facts: UsageFacts) -> tuple[tuple[str, ...], ...]:
    """Paths of Kueue's visibility interface; none where all Workloads are known anyway."""
    if not is_partial(facts):
        return ()
    locals_ = facts.objects.get(LOCAL_QUEUE, ())
    queues = dict.fromkeys(lenient_text(spec_of(local).get("clusterQueue")) for local in locals_)
    paths = [f"clusterqueues/{quote(name, safe='')}" for name in queues if name]
    for local in locals_:
        namespace, name = quote(namespace_of(local), safe=""), quote(name_of(local), safe="")
        paths.append(f"namespaces/{namespace}/localqueues/{name}")
    return tuple(
        tuple(
            f"/apis/{VISIBILITY}/{version}/{path}/pendingworkloads?limit={_MOST_PENDING}"
            for version in _VERSIONS
        )
        for path in paths[:_MOST_PATHS]
    )


def is_partial(facts: UsageFacts) -> bool:
    """Whether Workloads of some namespaces are not known."""
    return WORKLOAD in facts.narrowed or WORKLOAD in facts.hidden


def add_visible(
    facts: UsageFacts,
    leads_to: Mapping[tuple[str, str], str],
    pending: dict[str, list[QueuedWorkload]],
) -> None:
    """Take positions, and workloads of other namespaces, from the visibility interface."""
    known = {
        item.subject.uid: (queue, at) for queue, items in pending.items() for at, item in enumerate(items)
    }
    for path, document in facts.documents.items():
        whole, _, _ = path.partition("/pendingworkloads")
        queue = whole.rpartition("/clusterqueues/")[2] if "/clusterqueues/" in whole else ""
        for item in lenient_maps(document.get("items")):
            metadata = lenient_map(item.get("metadata"))
            entrance, place = lenient_text(item.get("localQueueName")), item.get("positionInClusterQueue")
            name = queue or leads_to.get((lenient_text(metadata.get("namespace")), entrance), "")
            if not name or not isinstance(place, int):
                continue
            uid = lenient_text(metadata.get("uid"))
            source = f"{'clusterqueues' if queue else 'localqueues'}/pendingworkloads.{VISIBILITY}"
            if uid in known:
                where, at = known[uid]
                pending[where][at] = replace(pending[where][at], position=place + 1, position_source=source)
            else:
                known[uid] = (name, len(pending[name]))
                found = _visible(item, metadata, name, entrance)
                pending[name].append(replace(found, position=place + 1, position_source=source))


def _visible(item: Object, metadata: Object, queue: str, entrance: str) -> QueuedWorkload:
    """A pending workload of which only its place is known."""
    owners = lenient_maps(metadata.get("ownerReferences"))
    kind, name = (
        ("Workload", metadata.get("name")) if not owners else (owners[0].get("kind"), owners[0].get("name"))
    )
    created = parse_time(metadata.get("creationTimestamp"))
    subject = QueuedObject(
        lenient_text(kind),
        namespace_of({"metadata": metadata}),
        lenient_text(name),
        uid=lenient_text(metadata.get("uid")),
    )
    rank = item.get("priority")
    return QueuedWorkload(
        subject=subject,
        queue=queue,
        entrance=entrance,
        requests={},
        priority=rank if isinstance(rank, int) else 0,
        created=created,
        ordered_at=created,
    )


def in_order(items: Sequence[QueuedWorkload], *, exact: bool) -> list[QueuedWorkload]:
    """Pending workloads in the order in which Kueue considers them; inactive ones have no position."""
    rows = sorted(
        items,
        key=lambda item: (
            item.state == "inactive",
            item.position if item.position is not None else _MOST_PENDING,
            -item.priority,
            item.ordered_at or _LAST,
            item.subject.uid,
        ),
    )
    if not exact:
        return rows
    return [
        item
        if item.state == "inactive" or item.position is not None
        else replace(item, position=at, position_source=str(WORKLOAD))
        for at, item in enumerate(rows, start=1)
    ]
