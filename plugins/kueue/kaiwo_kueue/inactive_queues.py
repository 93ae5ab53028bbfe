"""ClusterQueues that are as listed and admit nothing all the same, with Kueue's reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaiwo.plugin.kit.json_access import lenient_maps, lenient_text, one_line
from kaiwo.plugin.kit.values import parse_time
from kaiwo.plugin.kit.workload import Condition
from kaiwo_kueue.kinds import CLUSTER_QUEUE, SINGLETON

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime

    from kaiwo.plugin.kit.cache import CachedObject, CacheEvent
    from kaiwo.plugin.kit.kinds import Object

QUEUES_ACTIVE: Final = "QueuesActive"
"""Type of the condition of a KaiwoQueueConfig; it has none while all queues are active."""

SETTLED: Final = 5.0
"""Seconds for which a queue has to be inactive: Kueue learns of flavors and checks after the queue."""

_INTENDED: Final = ("Stopped", "Terminating", "")
"""Reasons of queues that somebody has stopped or deleted, and of one that Kueue has not looked at."""
_SHOWN: Final = 5


def activity_changed(event: CacheEvent) -> bool:
    """Whether Kueue says otherwise than before whether a ClusterQueue is active, or why it is not."""
    if event.latest.resource != CLUSTER_QUEUE or event.old is None or event.new is None:
        return False
    before, now = _active(event.old), _active(event.new)
    return any(before.get(part) != now.get(part) for part in ("status", "reason", "message"))


def inactive_queues(
    queues: Iterable[CachedObject], listed: Collection[str], now: datetime
) -> tuple[dict[str, tuple[str, str]], float | None]:
    """The listed queues that are inactive, and that nobody has stopped.

    Args:
        queues: all ClusterQueues.
        listed: names of the listed ones.
        now: the time, UTC.

    Returns:
        Kueue's reason and message by the name of the queue, and seconds until another one has been inactive
        for long enough.
    """
    found: dict[str, tuple[str, str]] = {}
    waits: list[float] = []
    for queue in queues:
        condition = _active(queue)
        reason = lenient_text(condition.get("reason"))
        current = condition.get("observedGeneration") in (None, queue.generation)
        if queue.name not in listed or condition.get("status") != "False" or not current:
            continue
        if reason in _INTENDED or queue.deleted is not None:
            continue
        since = parse_time(condition.get("lastTransitionTime"))
        left = SETTLED - (now - since).total_seconds() if since is not None else 0.0
        if left > 0:
            waits.append(min(left, SETTLED))
        else:
            found[queue.name] = (reason, one_line(condition.get("message")).rstrip("."))
    return found, min(waits, default=None)


def inactive_condition(queues: Mapping[str, tuple[str, str]], generation: int) -> list[Condition]:
    """The condition that names inactive queues; none without any.

    Args:
        queues: Kueue's reason and message by the name of the queue.
        generation: of the KaiwoQueueConfig.
    """
    if not queues:
        return []
    names = sorted(queues)
    texts = [f"ClusterQueue {name}: {queues[name][1]}" for name in names[:_SHOWN]]
    more = f"; and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    text = (
        f"Kueue keeps queues inactive that are as KaiwoQueueConfig {SINGLETON} lists them: "
        f"{'; '.join(texts)}{more}. Their workloads wait until that is mended"
    )
    return [Condition(QUEUES_ACTIVE, "False", queues[names[0]][0], text, generation)]


def _active(queue: CachedObject) -> Object:
    """The condition Active of a ClusterQueue, empty without one."""
    conditions = lenient_maps(queue.part("status", "conditions"))
    return next((item for item in conditions if item.get("type") == "Active"), {})
