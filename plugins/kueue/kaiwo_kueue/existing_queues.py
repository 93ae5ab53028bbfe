"""ClusterQueues of somebody else that the default KaiwoQueueConfig lists, since its queue has their name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaiwo.plugin.kit.json_access import lenient_text
from kaiwo.plugin.kit.workload import Condition
from kaiwo_kueue.kinds import CLUSTER_QUEUE, SINGLETON

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaiwo.plugin.kit.kinds import Object
    from kaiwo_kueue.objects import ConfigOwner, DesiredObject, LiveObject

EXISTING_MANAGED: Final = "ExistingQueueManaged"
"""Type of the condition of a KaiwoQueueConfig; it has none without such queues."""


def existing_queues(
    desired: Iterable[DesiredObject], live: Iterable[LiveObject], owner: ConfigOwner
) -> list[LiveObject]:
    """The listed ClusterQueues that Kaiwo did not create and that nobody asked it to manage.

    Args:
        desired: the listed objects.
        live: all objects.
        owner: the KaiwoQueueConfig. Whoever has written its list knows what is in it.
    """
    if not owner.is_default:
        return []
    listed = {item.identity for item in desired if item.kind == CLUSTER_QUEUE}
    found = [item for item in live if item.identity in listed and not item.is_owned and not item.deleting]
    return sorted(found, key=lambda item: item.name)


def existing_condition(queues: Sequence[LiveObject], generation: int) -> list[Condition]:
    """The condition that names these queues; none without any.

    Args:
        queues: as `existing_queues` returns them.
        generation: of the KaiwoQueueConfig.
    """
    if not queues:
        return []
    return [Condition(EXISTING_MANAGED, "True", "ExistedBefore", _text(queues), generation)]


def unannounced(queues: Sequence[LiveObject], conditions: Iterable[Object]) -> list[LiveObject]:
    """The queues that may not be changed yet: the condition has to say first that they will be.

    Args:
        queues: as `existing_queues` returns them.
        conditions: of the KaiwoQueueConfig, as they were written last.
    """
    said = [lenient_text(one.get("message")) for one in conditions if one.get("type") == EXISTING_MANAGED]
    return [] if _text(queues) in said else [item for item in queues if not item.managed]


def _text(queues: Sequence[LiveObject]) -> str:
    names = ", ".join(item.name for item in queues)
    return (
        f"ClusterQueue {names} existed before and has the name of the default queue, so it is changed to "
        f"what KaiwoQueueConfig {SINGLETON} lists. To keep a queue of your own, give the entry there and "
        "defaultClusterQueueName of KaiwoConfig another name and apply your queue again"
    )
