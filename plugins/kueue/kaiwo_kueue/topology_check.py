"""Whether a queue can place pods by the topology level that a workload names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.facts import Blocked
from kaiwo.plugin.kit.json_access import is_deleting, lenient_map, name_of
from kaiwo.plugin.kit.values import did_you_mean
from kaiwo_kueue.default_topology import levels_of
from kaiwo_kueue.kinds import CLUSTER_QUEUE, RESOURCE_FLAVOR, SINGLETON, TOPOLOGY
from kaiwo_kueue.objects import HELD, flavors_of

if TYPE_CHECKING:
    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.kit.workload import Workload
    from kaiwo.plugin.queues import QueueFacts


def missing_level(workload: Workload, cluster_queue: str, facts: QueueFacts) -> Blocked | None:
    """Why no flavor of a queue has the workload's topology level; None where one has it, or nobody knows.

    Kueue would never admit the workload, and say so in the Workload alone. While flavors or topologies of the
    queue are replaced, the workload waits.

    Args:
        workload: the workload.
        cluster_queue: name of its ClusterQueue.
        facts: what the queue system may read.
    """
    spec = workload.spec
    field = "requiredTopologyLabel" if spec.required_topology_label else "preferredTopologyLabel"
    label = spec.required_topology_label or spec.preferred_topology_label
    if not label or not {CLUSTER_QUEUE, RESOURCE_FLAVOR, TOPOLOGY} <= set(facts.objects):
        return None
    queue = _named(facts.objects[CLUSTER_QUEUE], cluster_queue)
    if queue is None:
        return None
    queue_spec = lenient_map(queue.get("spec"))
    names = sorted(flavors_of(queue_spec))
    flavors = [_named(facts.objects[RESOURCE_FLAVOR], name) for name in names]
    wanted = {str(lenient_map((flavor or {}).get("spec")).get("topologyName") or "") for flavor in flavors}
    topologies = [_named(facts.objects[TOPOLOGY], name) for name in sorted(wanted - {""})]
    levels = list(
        dict.fromkeys(
            level for found in topologies if found for level in levels_of(lenient_map(found.get("spec")))
        )
    )
    if label in levels:
        return None
    replacing = queue_spec.get("stopPolicy") in HELD or any(
        found is None or is_deleting(found) for found in (*flavors, *topologies)
    )
    if facts.now is not None and replacing:
        text = (
            f"queue {cluster_queue} is on hold, or its flavors are being created, so that topology level "
            f"{label} is not there yet; the workload starts by itself then"
        )
        return Blocked("QueuePreparing", text, status="PENDING")
    there = f"its levels: {', '.join(levels)}" if levels else "none of its flavors names a Topology"
    hint = f" {suggestion}" if (suggestion := did_you_mean(label, levels)) else ""
    return Blocked(
        "NoTopology",
        f"spec.{field}: queue {cluster_queue} has no topology level {label}; {there}.{hint} Use one of its "
        "levels or another queue, or have the level added: defaultTopologyName in KaiwoConfig for discovered "
        f"flavors, topologies and topologyName in KaiwoQueueConfig {SINGLETON} for others; the workload "
        "starts by itself then",
    )


def _named(objects: tuple[Object, ...], name: str) -> Object | None:
    return next((obj for obj in objects if name_of(obj) == name), None)
