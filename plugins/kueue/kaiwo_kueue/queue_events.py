"""Events about queues that are held, deleted or opened again, for the queues and their namespaces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kaiwo.plugin.kit.kinds import NAMESPACE
from kaiwo_kueue.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, SINGLETON
from kaiwo_kueue.sync_actions import ApplyObject, DeleteObject, HoldObject

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaiwo.plugin.kit.kinds import Object
    from kaiwo_kueue.objects import ConfigOwner, Identity, LiveObject
    from kaiwo_kueue.queue_use import Holders
    from kaiwo_kueue.sync_actions import Action


@dataclass(frozen=True, slots=True)
class QueueEvent:
    """One event.

    Attributes:
        about: reference to the object that it is about, in the form of an object.
        type: Normal or Warning.
        reason: one CamelCase word.
        message: what happened, why, and the next step.
    """

    about: Object
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class _Change:
    queue: LiveObject
    type: Literal["Normal", "Warning"]
    reason: str
    text: str


def queue_events(
    done: Iterable[Action],
    live: Iterable[LiveObject],
    draining: Mapping[Identity, Holders],
    owner: ConfigOwner,
    namespaces: Mapping[str, str],
) -> list[QueueEvent]:
    """The events about actions that succeeded.

    Args:
        done: the actions.
        live: all objects as they were before.
        draining: queues that are held, with the workloads that use them.
        owner: the KaiwoQueueConfig.
        namespaces: uid of each namespace.
    """
    changes = [change for action in done if (change := _change(action, draining, owner)) is not None]
    if not changes:
        return []
    users: dict[str, list[str]] = {}
    for item in live:
        if item.kind == LOCAL_QUEUE:
            users.setdefault(str(item.normal_spec.get("clusterQueue")), []).append(item.namespace)
    events = [
        QueueEvent(_reference(change.queue), change.type, change.reason, change.text) for change in changes
    ]
    announced: set[tuple[str, str, str]] = set()
    # A ClusterQueue first: what happens to it is the cause of what happens to its LocalQueues.
    for change in sorted(changes, key=lambda item: item.queue.kind != CLUSTER_QUEUE):
        queue = change.queue
        for namespace in [queue.namespace] if queue.namespace else users.get(queue.name, []):
            place = (namespace, queue.name, change.reason)
            if namespace in namespaces and place not in announced:
                announced.add(place)
                about = _namespace(namespace, namespaces[namespace])
                events.append(QueueEvent(about, change.type, change.reason, change.text))
    return events


def _change(action: Action, draining: Mapping[Identity, Holders], owner: ConfigOwner) -> _Change | None:
    queue = action.live
    if queue is None or queue.kind not in (CLUSTER_QUEUE, LOCAL_QUEUE):
        return None
    name = f"{queue.kind.kind} {queue.name}"
    why = (
        f"KaiwoQueueConfig {SINGLETON} does not list it"
        if queue.owner == owner.uid
        else f"the KaiwoQueueConfig {SINGLETON} that listed it was deleted"
    )
    match action:
        case HoldObject() if not queue.is_draining:
            text = (
                f"{name} is held: {why}. It has {draining[queue.identity]}; admitted ones go on, pending "
                "ones wait. List it again to open it; it is deleted when no workload uses it"
            )
            return _Change(queue, "Warning", "QueueDraining", text)
        case DeleteObject() if not action.recreated:
            text = f"{name} is deleted: {why}, and no workload uses it. List it again to create it"
            return _Change(queue, "Warning", "QueueDeleted", text)
        case ApplyObject() if queue.is_draining:
            text = f"{name} is open again: KaiwoQueueConfig {SINGLETON} lists it"
            return _Change(queue, "Normal", "QueueRestored", text)
    return None


def _reference(queue: LiveObject) -> Object:
    metadata = {"name": queue.name, "namespace": queue.namespace, "uid": queue.uid}
    return {"apiVersion": queue.kind.api_version, "kind": queue.kind.kind, "metadata": metadata}


def _namespace(name: str, uid: str) -> Object:
    """A reference to a namespace whose events are in that namespace, where its users can read them."""
    metadata = {"name": name, "namespace": name, "uid": uid}
    return {"apiVersion": NAMESPACE.api_version, "kind": NAMESPACE.kind, "metadata": metadata}
