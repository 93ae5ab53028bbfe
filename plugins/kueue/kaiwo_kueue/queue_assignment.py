"""The queue of a workload, or why the workload cannot use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.facts import Blocked
from kaiwo.plugin.kit.json_access import is_deleting, lenient_map, lenient_maps, name_of, one_line
from kaiwo.plugin.kit.kinds import NAMESPACE
from kaiwo.plugin.kit.values import did_you_mean
from kaiwo.plugin.queues import QueueAssignment
from kaiwo_kueue.holding import cluster_queue
from kaiwo_kueue.kinds import (
    CLUSTER_QUEUE,
    CONFIG_UID_LABEL,
    DRAINING_LABEL,
    LOCAL_QUEUE,
    NAMESPACE_LABEL,
    PRIORITY_CLASS,
    PRIORITY_LABEL,
    QUEUE_CONFIG,
    QUEUE_LABEL,
    RESOURCE_FLAVOR,
    SINGLETON,
    TOPOLOGY,
)
from kaiwo_kueue.settings import KueueSettings
from kaiwo_kueue.topology_check import missing_level

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo.plugin.kit.kinds import Object, Resource
    from kaiwo.plugin.kit.workload import Workload
    from kaiwo.plugin.queues import QueueFacts

_SHOWN = 10


def assign(workload: Workload, facts: QueueFacts) -> QueueAssignment | Blocked:
    """The labels of a queued object, or why the workload cannot be queued now.

    Nothing is checked where the cluster's queues are not known (a plan without a cluster). A plan that is not
    executed does not wait until the LocalQueue and the label of the namespace exist.
    """
    queue = workload.spec.cluster_queue or facts.default_queue
    if facts.missing & {CLUSTER_QUEUE, LOCAL_QUEUE}:
        return Blocked(
            "QueueUnavailable",
            "Kueue is not installed in this cluster, so nothing can be queued; install Kueue and the "
            "workload starts by itself, or run Kaiwo without its kueue plugin",
            status="PENDING",
        )
    if LOCAL_QUEUE in facts.objects:
        refusal = _unusable_reason(workload, queue, facts)
        if refusal is None:
            refusal = missing_level(workload, cluster_queue(queue, facts), facts)
        if refusal is not None:
            return refusal
    labels = {QUEUE_LABEL: queue}
    priority = workload.spec.priority_class
    priorities = tuple(name_of(obj) for obj in facts.objects.get(PRIORITY_CLASS, ())) if priority else ()
    known = priority in priorities
    if priority and known:
        labels[PRIORITY_LABEL] = priority
    return QueueAssignment(
        queue=queue, labels=labels, suspend=True, knows_priority=known, priorities=priorities
    )


def manages(kind: Resource, facts: QueueFacts) -> bool:
    """Whether Kueue queues objects of a kind by itself, by the setting ``integrations``.

    Kueue's own configuration is a file in its namespace, which Kaiwo has no right to read.
    """
    settings = facts.settings
    listed = settings.integrations if isinstance(settings, KueueSettings) else None
    return f"{kind.group}/{kind.kind}".lower() in {name.lower() for name in listed or ()}


def queues(facts: QueueFacts) -> frozenset[str] | None:
    """Names of the queues that workloads can name; None without Kueue or without a KaiwoQueueConfig.

    A LocalQueue that Kaiwo did not create can be named without an entry in the list.
    """
    if facts.missing - {RESOURCE_FLAVOR, TOPOLOGY} or not facts.objects.get(QUEUE_CONFIG):
        return None
    created = (
        obj
        for obj in facts.objects.get(CLUSTER_QUEUE, ())
        if _is_owned(obj) and not _label(obj, DRAINING_LABEL)
    )
    foreign = (obj for obj in facts.objects.get(LOCAL_QUEUE, ()) if not _is_owned(obj))
    return frozenset((*_entries(facts), *map(name_of, created), *map(name_of, foreign)))


def _unusable_reason(workload: Workload, queue: str, facts: QueueFacts) -> Blocked | None:
    """Why a queue cannot be used from the workload's namespace, None when it can."""
    namespace = workload.namespace
    entries = _entries(facts)
    entry = entries.get(queue)
    local = next((obj for obj in facts.objects[LOCAL_QUEUE] if name_of(obj) == queue), None)
    foreign = local is not None and not _is_owned(local)
    if not foreign:
        if entry is None:
            return _unknown_queue(workload, queue, entries, facts)
        allowed = [item for item in entry.get("namespaces") or () if isinstance(item, str)]
        if allowed and namespace not in allowed:
            return Blocked(
                "WrongQueueNamespace",
                f"spec.clusterQueue: queue {queue} is open to the namespaces {_joined(allowed)} only, not to "
                f"{namespace}; submit there, use another queue, or have {namespace} added to the queue in "
                f"KaiwoQueueConfig {SINGLETON}",
            )
        if facts.now is not None and (local is None or is_deleting(local)):
            return _being_prepared(f"LocalQueue {queue} is being created in namespace {namespace}", facts)
    if facts.now is not None and _unlabelled(facts):
        what = f"namespace {namespace} is being labelled {NAMESPACE_LABEL}=true for Kueue"
        return _being_prepared(what, facts)
    return None


def _being_prepared(what: str, facts: QueueFacts) -> Blocked:
    text = f"{what}; the workload starts by itself then"
    if failure := _local_queues_failure(facts):
        text += f". KaiwoQueueConfig {SINGLETON} says: {failure}"
    return Blocked("QueuePreparing", text, status="PENDING")


def _local_queues_failure(facts: QueueFacts) -> str:
    """Why LocalQueues or labels of namespaces cannot be written, empty while they can."""
    configs = (obj for obj in facts.objects.get(QUEUE_CONFIG, ()) if name_of(obj) == SINGLETON)
    for config in configs:
        for condition in lenient_maps(lenient_map(config.get("status")).get("conditions")):
            if condition.get("type") == "LocalQueuesSynced" and condition.get("status") == "False":
                return one_line(condition.get("message"))
    return ""


def _unknown_queue(workload: Workload, queue: str, entries: dict[str, Object], facts: QueueFacts) -> Blocked:
    namespace, named = workload.namespace, bool(workload.spec.cluster_queue)
    usable = {
        name
        for name, entry in entries.items()
        if not entry.get("namespaces") or namespace in entry["namespaces"]
    }
    usable |= {name_of(obj) for obj in facts.objects[LOCAL_QUEUE] if not _is_owned(obj)}
    others = f"queues for namespace {namespace}: {_joined(sorted(usable))}"
    default = f"none is named, and the default queue {queue} (KaiwoConfig spec.defaultClusterQueueName)"
    queues = (*facts.objects.get(CLUSTER_QUEUE, ()), *facts.objects[LOCAL_QUEUE])
    if any(name_of(obj) == queue and _label(obj, DRAINING_LABEL) for obj in queues):
        which = f"queue {queue}" if named else default
        steps = "Use one of them or list it again" if usable else "List it again"
        text = f"{which} is draining: KaiwoQueueConfig {SINGLETON} does not list it; {others}. {steps}"
    elif any(name_of(obj) == queue for obj in facts.objects.get(CLUSTER_QUEUE, ())):
        text = (
            f"ClusterQueue {queue} exists, but namespace {namespace} has no LocalQueue of "
            f"that name; add the queue to KaiwoQueueConfig {SINGLETON}, or create the LocalQueue"
        )
    else:
        suggestion = did_you_mean(queue, sorted(usable)) if named else ""
        hint = f"{suggestion} " if suggestion else ""
        which = f"unknown queue {queue}" if named else f"{default} is unknown"
        steps = "Use one of them or add it" if usable else "Add it"
        text = (
            f"{which}; {hint}{others}. {steps} to KaiwoQueueConfig {SINGLETON}; the workload starts by "
            "itself then"
        )
    return Blocked("ClusterQueueNotFound", f"spec.clusterQueue: {text}")


def _entries(facts: QueueFacts) -> dict[str, Object]:
    """Entries of the KaiwoQueueConfig by name; of several with one name the first counts."""
    found: dict[str, Object] = {}
    for config in facts.objects.get(QUEUE_CONFIG, ()):
        if name_of(config) == SINGLETON:
            computed = lenient_map(lenient_map(config.get("status")).get("computed"))
            for lists in (lenient_map(config.get("spec")), computed):
                for entry in lenient_maps(lists.get("clusterQueues")):
                    found.setdefault(str(entry.get("name")), entry)
    return found


def _unlabelled(facts: QueueFacts) -> bool:
    """Whether the namespace lacks the label and Kaiwo is going to write it."""
    settings = facts.settings
    if isinstance(settings, KueueSettings) and not settings.label_namespaces:
        return False
    return any(
        NAMESPACE_LABEL not in lenient_map(lenient_map(obj.get("metadata")).get("labels"))
        for obj in facts.objects.get(NAMESPACE, ())
    )


def _is_owned(obj: Object) -> bool:
    """Whether Kaiwo created a queue; earlier versions wrote an owner reference instead of the label."""
    owners = lenient_maps(lenient_map(obj.get("metadata")).get("ownerReferences"))
    return bool(_label(obj, CONFIG_UID_LABEL)) or any(
        owner.get("kind") == QUEUE_CONFIG.kind for owner in owners
    )


def _label(obj: Object, key: str) -> str:
    return str(lenient_map(lenient_map(obj.get("metadata")).get("labels")).get(key) or "")


def _joined(names: Iterable[str]) -> str:
    known = list(names)
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return (", ".join(known[:_SHOWN]) or "none") + more
