"""Queues that leave the list while workloads use them: held, and deleted when no workload does any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.kit.workload import Condition
from kaiwo_kueue.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, SINGLETON

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from kaiwo_kueue.objects import ConfigOwner, DesiredObject, Identity, LiveObject
    from kaiwo_kueue.queue_use import Holders

DRAINING = "Draining"
"""Type of the condition of a KaiwoQueueConfig."""

_SHOWN = 10


def draining_queues(
    desired: Iterable[DesiredObject],
    live: Iterable[LiveObject],
    holders: Callable[[LiveObject], Holders],
    *,
    owner: ConfigOwner,
    unusable: Collection[Identity] = (),
) -> dict[Identity, Holders]:
    """The queues of Kaiwo that are not listed and that workloads use.

    A KaiwoQueueConfig that the operator wrote because there was none does not change a queue in use that an
    administrator described differently before. Its quotas would admit pending workloads, and applying the
    administrator's file again could not take that back.

    Args:
        desired: objects that are described.
        live: all objects of these kinds.
        holders: returns the workloads that use a queue.
        owner: the KaiwoQueueConfig.
        unusable: objects that are described wrongly; live ones stay as they are.
    """
    listed = {item.identity: item for item in desired}
    found: dict[Identity, Holders] = {}
    for queue in live:
        if queue.kind not in (CLUSTER_QUEUE, LOCAL_QUEUE) or not queue.is_owned or queue.deleting:
            continue
        item = listed.get(queue.identity)
        if item is None:
            leaves = queue.identity not in unusable
        else:
            leaves = owner.is_default and is_of_an_administrator(queue, item, owner)
        if leaves and (users := holders(queue)).number:
            found[queue.identity] = users
    return found


def is_of_an_administrator(live: LiveObject, item: DesiredObject, owner: ConfigOwner) -> bool:
    """Whether an earlier KaiwoQueueConfig, of an administrator, described an object differently."""
    return live.owner != owner.uid and not live.is_default and live.applied != item.digest


def draining_condition(draining: Mapping[Identity, Holders], generation: int) -> list[Condition]:
    """The condition that names the queues; none without any.

    Args:
        draining: the queues, with the workloads that use them.
        generation: of the KaiwoQueueConfig.
    """
    texts = []
    for (plural, namespace, name), users in sorted(draining.items()):
        if plural == CLUSTER_QUEUE.plural:
            texts.append(f"ClusterQueue {name}: {users}")
        elif (CLUSTER_QUEUE.plural, "", name) not in draining:  # a LocalQueue is named like its ClusterQueue
            texts.append(f"LocalQueue {namespace}/{name}: {users}")
    if not texts:
        return []
    more = f"; and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    text = (
        f"queues that KaiwoQueueConfig {SINGLETON} does not list are held until no workload uses them: "
        f"{'; '.join(texts[:_SHOWN])}{more}. List a queue again to open it, or delete its workloads"
    )
    return [Condition(DRAINING, "True", "QueuesInUse", text, generation)]
