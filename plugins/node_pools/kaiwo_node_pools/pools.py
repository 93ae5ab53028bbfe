"""Node pools: nodes with equal vendor, GPU model, GPU count, CPU and memory."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps
from kaiwo.plugin.kit.names import GPU_MODEL, MAX_LABEL, label_value
from kaiwo.plugin.kit.nodes import (
    NODEPOOL,
    NODEPOOL_MERGED_FROM,
    NODEPOOL_PENDING,
    TOPOLOGY_BLOCK,
    TOPOLOGY_RACK,
    WORKER,
    annotation,
    is_cordoned,
    is_excluded,
    labels_of,
    node_hardware,
)
from kaiwo_node_pools.topology import topology_of
from kaiwo_node_pools.written_record import read_record

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.vendors import GpuVendor
    from kaiwo_node_pools.topology import TopologyRule

LABELS = (WORKER, NODEPOOL, GPU_MODEL, TOPOLOGY_BLOCK, TOPOLOGY_RACK)
"""Labels that Kaiwo may write on a node."""

_HASH_DIGITS = 6
_MOST_SHOWN = 999_999_999  # in a name, of virtual nodes that show absurd amounts
_OUTSIDE_NAME = re.compile(r"[^a-z0-9]+")
_TAIL = re.compile(r"-(\d+)core-(\d+)gi$")


@dataclass(frozen=True, slots=True)
class PoolShape:
    """The hardware that a pool's name shows.

    Attributes:
        vendor: vendor of the GPUs, ``cpu`` without any.
        model: model of the GPUs, ``only`` without any.
        gpus: GPUs of each node.
        cpu: cores that pods may use.
        memory: GiB that pods may use.
    """

    vendor: str
    model: str
    gpus: int
    cpu: int
    memory: int

    @property
    def name(self) -> str:
        """Name of the pool, a label value and an object name: at most 63 characters."""
        return name_of(self)


@lru_cache(maxsize=1024)
def name_of(shape: PoolShape) -> str:
    """A name is needed several times for each node in each reconciliation, and many nodes share one."""
    gpus, cpu, memory = (min(amount, _MOST_SHOWN) for amount in (shape.gpus, shape.cpu, shape.memory))
    tail = f"-{gpus}gpu-{cpu}core-{memory}gi"
    model = _OUTSIDE_NAME.sub("-", shape.model.lower()).strip("-") or "unknown"
    vendor = _OUTSIDE_NAME.sub("-", shape.vendor.lower()).strip("-")
    room = MAX_LABEL - len(vendor) - 1 - len(tail)
    if len(model) > room:
        digest = hashlib.sha256(model.encode()).hexdigest()[:_HASH_DIGITS]
        model = f"{model[: max(0, room - _HASH_DIGITS - 1)].strip('-')}-{digest}".strip("-")
    return f"{vendor}-{model}{tail}"


@dataclass(frozen=True, slots=True)
class PoolNode:
    """One node, with what decides its pool and what is written on it.

    Attributes:
        name: of the node.
        shape: its hardware; None when it belongs to no pool (an excluded control-plane node).
        gpu_model: value of the label with the GPU model, empty without GPUs.
        pool_by_hand: pool that somebody else set, empty when nobody did.
        schedulable: whether it counts as a member of its pool; a cordoned node does not.
        labels: its labels that may be Kaiwo's, as they are.
        taints: its taints, as they are.
        written: what Kaiwo is known to have written.
        topology: labels for block and rack, as the administrator's rules give them.
        pending: value of the annotation with the pool that it is going to join, empty without one.
        merged_from: value of the annotation with its pool before merging, empty without one.
        resource_keys: resources that it adds to the quota of its flavor.
    """

    name: str
    shape: PoolShape | None
    gpu_model: str
    pool_by_hand: str
    schedulable: bool
    labels: Mapping[str, str]
    taints: tuple[Object, ...]
    written: Object
    topology: Mapping[str, str] = field(default_factory=dict)
    pending: str = ""
    merged_from: str = ""
    resource_keys: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class NodePool:
    """A pool of interchangeable nodes.

    Attributes:
        name: of the pool.
        shape: hardware of its smallest member.
        by_hand: an administrator named it on its nodes.
    """

    name: str
    shape: PoolShape
    by_hand: bool = False


def pool_node(
    node: Object,
    vendors: Iterable[GpuVendor],
    *,
    exclude_control_plane: bool = False,
    topology: Sequence[TopologyRule] = (),
    failed: Callable[[str, Exception], None] | None = None,
) -> PoolNode:
    """What decides the pool of a Node, and what is written on it.

    Args:
        node: the Node object.
        vendors: the loaded vendors.
        exclude_control_plane: KaiwoConfig ``nodes.excludeMasterNodesFromNodePools``.
        topology: rules that give a node's block and rack.
        failed: called with the vendor's name and its error when a plugin cannot read the node.
    """
    labels = labels_of(node)
    name = str(lenient_map(node.get("metadata")).get("name") or "")
    hardware = node_hardware(node, vendors, failed)
    shape = PoolShape(hardware.vendor, hardware.model, hardware.gpus, hardware.cpu, hardware.memory)
    record = read_record(node)
    pool = labels.get(NODEPOOL, "")
    excluded = is_excluded(node, exclude_control_plane=exclude_control_plane)
    return PoolNode(
        name=name,
        shape=None if excluded else shape,
        gpu_model=(label_value(hardware.model) or "unknown") if hardware.gpus else "",
        pool_by_hand="" if pool == lenient_map(record.get("labels")).get(NODEPOOL) else pool,
        schedulable=not excluded and not is_cordoned(node),
        labels={key: labels[key] for key in LABELS if key in labels},
        taints=tuple(lenient_maps(lenient_map(node.get("spec")).get("taints"))),
        written=record,
        topology=topology_of(name, labels, topology),
        pending=annotation(node, NODEPOOL_PENDING),
        merged_from=annotation(node, NODEPOOL_MERGED_FROM),
        resource_keys=frozenset(key for key, _ in hardware.resources),
    )


def with_kept_pool(node: PoolNode, selected: Collection[str]) -> PoolNode:
    """The node with the CPU and memory that its present label shows, where it keeps this label.

    A kubelet reservation or a new kernel changes the memory of a node. Its flavor selects the old label and
    would have no nodes, so the label stays as long as vendor, model and number of GPUs are the same. The
    labels of merged pools follow the hardware.

    Args:
        node: the node.
        selected: pools that a flavor selects.
    """
    label = node.labels.get(NODEPOOL, "")
    if node.shape is None or node.pool_by_hand or node.merged_from or label not in selected:
        return node
    tail = _TAIL.search(label) if label != node.shape.name else None
    if tail is None:
        return node
    kept = replace(node.shape, cpu=int(tail[1]), memory=int(tail[2]))
    return replace(node, shape=kept) if kept.name == label else node


def node_pools(nodes: Iterable[PoolNode], merged: Mapping[str, str] | None = None) -> tuple[NodePool, ...]:
    """The pools of some nodes: without GPUs first, then by GPUs, CPU and memory of a node.

    Args:
        nodes: nodes in any order.
        merged: names of pools that were merged, to the merged pool's name.
    """
    members: dict[tuple[bool, str], list[PoolShape]] = {}
    for node in nodes:
        if node.schedulable and node.shape is not None:
            members.setdefault((bool(node.pool_by_hand), pool_of(node, merged or {})), []).append(node.shape)
    pools: dict[str, NodePool] = {}
    for (by_hand, name), shapes in sorted(members.items()):
        smallest = min(shapes, key=lambda shape: (shape.gpus, shape.cpu, shape.memory, shape.name))
        # An administrator may give the name of a discovered pool to other nodes, too.
        pools.setdefault(name, NodePool(name, smallest, by_hand))
    return tuple(sorted(pools.values(), key=_order))


def pool_of(node: PoolNode, merged: Mapping[str, str]) -> str:
    """The pool that a node belongs to, empty for none. A cordoned node keeps its own: its pods stay.

    Args:
        node: the node.
        merged: names of pools that were merged, to the merged pool's name.
    """
    if node.shape is None:
        return ""
    return node.pool_by_hand or merged.get(node.shape.name, node.shape.name)


def _order(pool: NodePool) -> tuple[int, int, int, str]:
    return (pool.shape.gpus, pool.shape.cpu, pool.shape.memory, pool.name)
