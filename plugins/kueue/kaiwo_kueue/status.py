"""The status of a KaiwoQueueConfig."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.kit.workload import Condition, merge_conditions
from kaiwo_kueue.capacity_check import outside_text
from kaiwo_kueue.draining import DRAINING
from kaiwo_kueue.existing_queues import EXISTING_MANAGED
from kaiwo_kueue.inactive_queues import QUEUES_ACTIVE
from kaiwo_kueue.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, PRIORITY_CLASS, RESOURCE_FLAVOR, SYNCED, TOPOLOGY

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from kaiwo.plugin.kit.kinds import Object, Resource
    from kaiwo.plugin.kit.workload import Truth
    from kaiwo_kueue.default_topology import DefaultTopology
    from kaiwo_kueue.objects import SyncProblem
    from kaiwo_kueue.pool_reader import PoolReader

CONDITIONS = {
    TOPOLOGY: "TopologiesSynced",
    RESOURCE_FLAVOR: "ResourceFlavorsSynced",
    CLUSTER_QUEUE: "ClusterQueuesSynced",
    LOCAL_QUEUE: "LocalQueuesSynced",
    PRIORITY_CLASS: "WorkloadPriorityClassesSynced",
}
READY = "Ready"
POOLS = "NodePoolsDistinct"
CHANGES = "NodePoolsSettled"
QUOTA = "QuotaWithinCapacity"
OUTSIDE = "GpusOutsideQueues"
TOPOLOGY_COMPLETE = "TopologyComplete"
OWN = (
    *(READY, *CONDITIONS.values(), POOLS, CHANGES, QUOTA, OUTSIDE, TOPOLOGY_COMPLETE),
    *(DRAINING, QUEUES_ACTIVE, EXISTING_MANAGED),
)

_SHOWN = 5
_MOST_NAMED = 20  # pools or nodes that a message names


def status(
    before: Sequence[Object],
    problems: Sequence[SyncProblem],
    *,
    generation: int,
    now: datetime,
    missing: Collection[Resource] = (),
    others: Sequence[Condition] = (),
) -> Object:
    """The status to write.

    Args:
        before: conditions as they are.
        problems: of this reconciliation.
        generation: that was acted on.
        now: the time, UTC.
        missing: kinds of Kueue that the cluster does not serve.
        others: conditions of node pools and of queues that are draining.
    """
    conditions: list[Condition] = []
    for kind in SYNCED:
        relevant = [item for item in problems if item.kind == kind and item.severity != "INFO"]
        name = CONDITIONS[kind]
        if kind in missing:
            text = f"the cluster does not serve {kind}; its objects are written as soon as it does"
            conditions.append(Condition(name, "Unknown", "NotServed", text, generation))
        elif relevant:
            conditions.append(
                Condition(name, "False", _most_severe(relevant).reason, _text(relevant), generation)
            )
        else:
            conditions.append(Condition(name, "True", "Synced", "", generation))
    state, ready = _overall(problems, missing)
    beyond_capacity = [item for item in problems if item.severity == "INFO"]
    conditions.append(
        Condition(QUOTA, "False", beyond_capacity[0].reason, _text(beyond_capacity), generation)
        if beyond_capacity
        else Condition(QUOTA, "True", "WithinCapacity", "", generation)
    )
    truth: Truth = "True" if state == "READY" else "False"
    conditions = [Condition(READY, truth, *ready, generation), *conditions, *others]
    present = {condition.type for condition in conditions}
    drop = [name for name in OWN if name not in present]
    return {
        "status": state,
        "observedGeneration": generation,
        "conditions": merge_conditions(before, conditions, now, drop),
    }


def not_the_singleton(before: Sequence[Object], generation: int, now: datetime, singleton: str) -> Object:
    """The status of a KaiwoQueueConfig of another name."""
    text = (
        f"only the KaiwoQueueConfig named {singleton} counts, this one is ignored; move its entries there "
        "and delete it"
    )
    condition = Condition(READY, "False", "NotTheSingleton", text, generation)
    return {
        "observedGeneration": generation,
        "conditions": merge_conditions(before, [condition], now, [name for name in OWN if name != READY]),
    }


def pool_conditions(
    pools: PoolReader, outside: Mapping[str, int], topology: DefaultTopology | None, generation: int
) -> list[Condition]:
    """Conditions of the node pools; none while nothing is wrong.

    Args:
        pools: the node pools.
        outside: GPUs that no flavor of any queue selects, by resource key.
        topology: of the discovered flavors.
        generation: that was acted on.
    """
    conditions = []
    if pools.merged or pools.left_out:
        text = "more node pools than Kueue takes flavors; merged: "
        text += _some([f"{old} into {new}" for old, new in sorted(pools.merged.items())]) or "none"
        if pools.left_out:
            text += f"; left out: {_some(pools.left_out)}. List these in another ClusterQueue of the cohort"
        conditions.append(Condition(POOLS, "False", "PoolsMerged", text, generation))
    if pools.pending:
        leaving = [f"{node} ({pool})" for node, pool in sorted(pools.pending.items())]
        text = f"pods still select the pool that a node leaves: {_some(leaving)}"
        conditions.append(Condition(CHANGES, "False", "PoolChangePending", text, generation))
    if topology is not None and topology.lacking:
        conditions.append(
            Condition(TOPOLOGY_COMPLETE, "False", "LevelLeftOut", topology.left_out, generation)
        )
    if outside:
        conditions.append(Condition(OUTSIDE, "True", "NoFlavorSelects", outside_text(outside), generation))
    return conditions


def _overall(problems: Sequence[SyncProblem], missing: Collection[Resource]) -> tuple[str, tuple[str, str]]:
    failed = [item for item in problems if item.severity == "FAILED"]
    if CLUSTER_QUEUE in missing:
        return "PENDING", (
            "KueueNotInstalled",
            "the cluster does not serve Kueue's ClusterQueue; install Kueue, the queues are created then",
        )
    if failed:
        return "FAILED", (failed[0].reason, _text(failed))
    pending = [item for item in problems if item.severity == "PENDING"]
    if pending:
        return "PENDING", (pending[0].reason, _text(pending))
    return "READY", ("Synced", "Kueue's objects are as described")


def _some(texts: Sequence[str]) -> str:
    """The first texts, and how many there are beside them."""
    more = len(texts) - _MOST_NAMED
    return ", ".join(texts[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _most_severe(problems: Sequence[SyncProblem]) -> SyncProblem:
    return next((item for item in problems if item.severity == "FAILED"), problems[0])


def _text(problems: Sequence[SyncProblem]) -> str:
    texts = list(dict.fromkeys(item.message for item in problems))
    more = len(texts) - _SHOWN
    return "; ".join(texts[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
