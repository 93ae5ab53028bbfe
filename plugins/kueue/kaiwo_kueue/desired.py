"""The objects of Kueue that a KaiwoQueueConfig describes."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps
from kaiwo.plugin.kit.names import GPU_MODEL
from kaiwo.plugin.kit.nodes import NODEPOOL, WORKER
from kaiwo_kueue.capacity_check import quota_beyond_nodes, quota_without_nodes
from kaiwo_kueue.conversion import ordered, to_v1beta2
from kaiwo_kueue.defaults import flavors
from kaiwo_kueue.kinds import (
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    PRIORITY_CLASS,
    RESOURCE_FLAVOR,
    TOPOLOGY,
)
from kaiwo_kueue.models import ResourceFlavorEntry
from kaiwo_kueue.objects import DesiredObject, SyncProblem, flavors_of
from kaiwo_kueue.pools import flavor_name
from kaiwo_kueue.quota_values import EXAMPLES, invalid_quotas

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from kaiwo.plugin.kit.kinds import Object, Resource
    from kaiwo_kueue.default_topology import DefaultTopology
    from kaiwo_kueue.models import (
        ClusterQueueEntry,
        PriorityClassEntry,
        QueueConfigSpec,
        Taint,
        Toleration,
        TopologyEntry,
    )
    from kaiwo_kueue.objects import Identity
    from kaiwo_kueue.pools import LabelledNode, QuotaPool

KUEUE_NODE_LABELS = 8
"""Node labels that a ResourceFlavor takes (``maxProperties`` in Kueue's CRD)."""

_SHOWN = 5  # names or fields in one message
_LONGEST_VALUE = 80
_NOT_WRITTEN = "timeAdded"
"""Field of a taint that is of a node; Kueue's webhook changes its form."""


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The state of the cluster that the objects depend on besides the spec.

    Attributes:
        pools: discovered node pools.
        nodes: all nodes.
        gpu_keys: resource keys of the loaded GPU vendors.
        namespaces: existing namespaces that are not being deleted.
        demand: pairs of namespace and queue that workloads name.
        kept: pairs of namespace and queue of LocalQueues that Kaiwo created earlier.
        existing_flavors: node labels of all live ResourceFlavors, by name.
        gpu_taint: key of the taint of GPU nodes, empty without one.
        flavor_limit: flavors that one resource group takes.
        topology: of the discovered flavors, None for none.
    """

    pools: Sequence[QuotaPool] = ()
    nodes: Collection[LabelledNode] = ()
    gpu_keys: Collection[str] = ()
    namespaces: Collection[str] = ()
    demand: Collection[tuple[str, str]] = ()
    kept: Collection[tuple[str, str]] = ()
    existing_flavors: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    gpu_taint: str = ""
    flavor_limit: int = 64
    topology: DefaultTopology | None = None


@dataclass(frozen=True, slots=True)
class DesiredObjects:
    """The objects that should exist, in the order of writing.

    Attributes:
        objects: the objects.
        problems: parts of the spec that cannot be used, or that an administrator should know of.
        unusable: objects that are described wrongly, and discovered flavors whose nodes are away; live ones
            stay as they are.
    """

    objects: tuple[DesiredObject, ...]
    problems: tuple[SyncProblem, ...]
    unusable: frozenset[Identity] = frozenset()


def desired(spec: QueueConfigSpec, state: ClusterState) -> DesiredObjects:
    """The objects that a spec describes; an entry that cannot be used does not affect the others."""
    problems: list[SyncProblem] = []
    topologies = _topologies(spec, state, problems)
    listed = spec.resource_flavors or [ResourceFlavorEntry.read(entry) for entry in flavors(state.pools)]
    flavor_list = [_flavor(entry, state, problems) for entry in listed]
    flavor_objects = _unique(RESOURCE_FLAVOR, [item for item in flavor_list if item], problems)
    entries = list(spec.cluster_queues or ())
    known = {*state.existing_flavors, *(item.name for item in flavor_objects)}
    described = _unique(CLUSTER_QUEUE, [_queue(e) for e in entries], problems)
    queues = [queue for queue in described if _is_valid(queue, known, state.flavor_limit, problems)]
    classes = _unique(
        PRIORITY_CLASS, [_priority_class(e) for e in spec.workload_priority_classes or ()], problems
    )
    problems += quota_beyond_nodes(queues, state.pools, state.nodes)
    problems += quota_without_nodes([*flavor_objects, *queues], state.nodes, state.gpu_keys)
    objects = (
        *topologies,
        *flavor_objects,
        *queues,
        *_local_queues(entries, state, problems),
        *classes,
    )
    listed_all = {queue.identity for queue in described}
    listed_all |= {(RESOURCE_FLAVOR.plural, "", entry.name) for entry in listed}
    if not spec.resource_flavors:
        listed_all |= {(RESOURCE_FLAVOR.plural, "", name) for name in _away(queues, state)}
    return DesiredObjects(
        objects, tuple(problems), frozenset(listed_all - {item.identity for item in objects})
    )


def _away(queues: Iterable[DesiredObject], state: ClusterState) -> frozenset[str]:
    """Discovered flavors that queues list and whose nodes are all away: cordoned, or scaled to zero.

    They stay, so that the queue has them when the nodes are back.
    """
    listed = {name for queue in queues for name in flavors_of(queue.spec)}
    pools = {name: str(labels.get(NODEPOOL) or "") for name, labels in state.existing_flavors.items()}
    return frozenset(name for name in listed if pools.get(name) and flavor_name(pools[name]) == name)


def _unique(
    kind: Resource, objects: Iterable[DesiredObject], problems: list[SyncProblem]
) -> list[DesiredObject]:
    """Objects with different names; of several entries with one name the first counts."""
    kept: dict[str, DesiredObject] = {}
    for item in objects:
        if not item.name:
            problems.append(
                SyncProblem(kind, "", "NameMissing", f"a {kind.kind} has no name; give it metadata.name")
            )
        elif item.name in kept:
            problems.append(
                SyncProblem(
                    kind,
                    item.name,
                    "DuplicateName",
                    f"{kind.kind} {item.name} is listed more than once, the first entry counts; "
                    "remove or rename the others",
                )
            )
        else:
            kept[item.name] = item
    return list(kept.values())


def _topologies(
    spec: QueueConfigSpec, state: ClusterState, problems: list[SyncProblem]
) -> list[DesiredObject]:
    """The listed topologies, and the one of the discovered flavors; a listed one of its name is it."""
    listed = _unique(TOPOLOGY, [_topology(entry) for entry in spec.topologies or ()], problems)
    topology = state.topology
    if topology is None or any(item.name == topology.name for item in listed):
        return listed
    levels = {"levels": [{"nodeLabel": label} for label in topology.levels]}
    return [*listed, DesiredObject(TOPOLOGY, topology.name, levels)]


def _topology(entry: TopologyEntry) -> DesiredObject:
    levels = entry.levels or (entry.spec.levels if entry.spec else None) or ()
    spec = {"levels": [{"nodeLabel": level.node_label} for level in levels]}
    return DesiredObject(TOPOLOGY, entry.name or _name(entry.metadata), spec, labels=_labels(entry.metadata))


def _priority_class(entry: PriorityClassEntry) -> DesiredObject:
    spec: Object = {"value": entry.value}
    if entry.description:
        spec["description"] = entry.description
    return DesiredObject(
        PRIORITY_CLASS, entry.name or _name(entry.metadata), spec, labels=_labels(entry.metadata)
    )


def _name(metadata: Mapping[str, object] | None) -> str:
    return str((metadata or {}).get("name") or "")


def _labels(metadata: Mapping[str, object] | None) -> dict[str, str]:
    labels = lenient_map((metadata or {}).get("labels"))
    return {key: value for key, value in labels.items() if isinstance(value, str)}


def _flavor(
    entry: ResourceFlavorEntry, state: ClusterState, problems: list[SyncProblem]
) -> DesiredObject | None:
    labels = dict(entry.node_labels or {})
    taints = [_without_empty(taint) for taint in entry.taints or ()]
    pool = next((pool for pool in state.pools if pool.name == entry.name), None)
    discovered = set(labels) == {NODEPOOL} and flavor_name(labels[NODEPOOL]) == entry.name
    topology = entry.topology_name or (state.topology.name if state.topology and discovered else "")
    if pool is not None and discovered:
        # Kueue considers only the labels and taints of the flavor. Without these it would admit a job that
        # needs another model, or does not tolerate the taint, to nodes where it can never run.
        if pool.gpu_model:
            labels[GPU_MODEL] = pool.gpu_model
        taints = taints or _pool_taints(pool, state.gpu_taint, with_topology=bool(topology))
    if not topology and WORKER not in labels and len(labels) < KUEUE_NODE_LABELS:
        labels[WORKER] = "true"
    if len(labels) > KUEUE_NODE_LABELS:
        text = (
            f"ResourceFlavor {entry.name}: nodeLabels has {len(labels)} labels, Kueue takes "
            f"{KUEUE_NODE_LABELS}; remove {len(labels) - KUEUE_NODE_LABELS}"
        )
        problems.append(SyncProblem(RESOURCE_FLAVOR, entry.name, "TooManyNodeLabels", text))
        return None
    spec: Object = {"nodeLabels": labels}
    if taints:
        spec["nodeTaints"] = taints
    if entry.tolerations:
        spec["tolerations"] = [_without_empty(toleration) for toleration in entry.tolerations]
    if topology:
        spec["topologyName"] = topology
    return DesiredObject(RESOURCE_FLAVOR, entry.name, spec)


def _pool_taints(pool: QuotaPool, gpu_taint: str, *, with_topology: bool) -> list[Object]:
    """The taints of a discovered flavor.

    Those that an administrator gave GPU nodes are left out: clusters often add the toleration for them to
    pods, where Kueue does not see it. With a topology Kueue reads the taints of the nodes themselves.
    """
    if pool.has_gpus:
        return [{"key": gpu_taint, "value": "true", "effect": "NoSchedule"}] if gpu_taint else []
    found = () if with_topology else pool.taints
    return [
        {"key": key, **({"value": value} if value else {}), "effect": effect} for key, value, effect in found
    ]


def _without_empty(entry: Taint | Toleration) -> Object:
    """A taint or toleration without empty fields; an empty field means the same as none."""
    return {key: value for key, value in entry.dump().items() if value != "" and key != _NOT_WRITTEN}


def _queue(entry: ClusterQueueEntry) -> DesiredObject:
    spec = ordered(to_v1beta2(CLUSTER_QUEUE, deepcopy(entry.spec or {})))
    # Without a selector Kueue admits no workload.
    spec.setdefault("namespaceSelector", {})
    if not spec.get("resourceGroups"):
        spec.pop("resourceGroups", None)
    return DesiredObject(CLUSTER_QUEUE, entry.name, spec)


def _is_valid(queue: DesiredObject, known: Collection[str], limit: int, problems: list[SyncProblem]) -> bool:
    unknown = sorted(flavors_of(queue.spec) - set(known))
    if unknown:
        text = (
            f"ClusterQueue {queue.name} lists {_shortened('ResourceFlavor', unknown)}, which do not exist; "
            "Kueue keeps the queue inactive until they do. Add them to resourceFlavors or correct the names"
        )
        problems.append(SyncProblem(CLUSTER_QUEUE, queue.name, "UnknownFlavor", text))
    wrong = [
        f"spec.resourceGroups[{item.positions[0]}].flavors[{item.flavor}].resources[{item.resource}]."
        f"{item.field}: {repr(item.value)[:_LONGEST_VALUE]} is not a quantity"
        for item in invalid_quotas(queue.spec)
    ]
    if wrong:
        more = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        text = f"ClusterQueue {queue.name}: {'; '.join(wrong[:_SHOWN])}{more}; {EXAMPLES}"
        problems.append(SyncProblem(CLUSTER_QUEUE, queue.name, "InvalidQuantity", text))
        return False
    for group in lenient_maps(queue.spec.get("resourceGroups")):
        count = len(lenient_maps(group.get("flavors")))
        if count > limit:
            text = (
                f"ClusterQueue {queue.name}: a resource group has {count} flavors, this cluster's Kueue "
                f"takes {limit}; use fewer flavors or another queue"
            )
            problems.append(SyncProblem(CLUSTER_QUEUE, queue.name, "TooManyFlavors", text))
            return False
    return True


def _shortened(kind: str, names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    return f"{kind} {shown}"


def _local_queues(
    entries: Sequence[ClusterQueueEntry], state: ClusterState, problems: list[SyncProblem]
) -> list[DesiredObject]:
    on_demand: dict[str, set[str]] = {}
    for namespace, queue in (*state.demand, *state.kept):
        on_demand.setdefault(queue, set()).add(namespace)
    wanted: dict[tuple[str, str], DesiredObject] = {}
    names: set[str] = set()
    for entry in entries:
        if entry.name in names:
            continue
        names.add(entry.name)
        missing = sorted(set(entry.namespaces or ()) - set(state.namespaces))
        if missing:
            text = (
                f"ClusterQueue {entry.name}: {_shortened('namespace', missing)} does not exist; create it, "
                "or remove it from namespaces"
            )
            problems.append(SyncProblem(LOCAL_QUEUE, entry.name, "NamespaceNotFound", text))
        namespaces = set(entry.namespaces) if entry.namespaces else on_demand.get(entry.name, set())
        for namespace in sorted(namespaces & set(state.namespaces)):
            wanted[namespace, entry.name] = DesiredObject(
                LOCAL_QUEUE, entry.name, {"clusterQueue": entry.name}, namespace
            )
    return list(wanted.values())
