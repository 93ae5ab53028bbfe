"""Node pools: nodes with equal hardware, told apart by vendor, GPU model, GPU count, CPU and memory."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kaiwo.engine.quantity import InvalidQuantity, parse_quantity
from kaiwo.workload.gpus.nodes import labels_of, node_fact
from kaiwo.workload.json_access import lenient_map
from kaiwo.workload.metadata import GPU_MODEL, MAX_LABEL, label_value
from kaiwo_kueue.kinds import NODEPOOL, WORKER
from kaiwo_kueue.topology import BLOCK, RACK, topology_of
from kaiwo_kueue.wrote import wrote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.vendors import GpuVendor
    from kaiwo_kueue.topology import TopologyRule

CPU, MEMORY, STORAGE = "cpu", "memory", "ephemeral-storage"
SHARE = 9, 10
"""What of a node's capacity pods may use: the rest belongs to the system and to daemons."""

LABELS = (WORKER, NODEPOOL, GPU_MODEL, BLOCK, RACK)
"""Labels that Kaiwo may write on a node."""

_GI = 2**30
_NANO = 10**9
_CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_HASH_DIGITS = 6
_OUTSIDE_NAME = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Shape:
    """What a pool's name says.

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
        tail = f"-{self.gpus}gpu-{self.cpu}core-{self.memory}gi"
        model = _OUTSIDE_NAME.sub("-", self.model.lower()).strip("-") or "unknown"
        vendor = _OUTSIDE_NAME.sub("-", self.vendor.lower()).strip("-")
        room = MAX_LABEL - len(vendor) - 1 - len(tail)
        if len(model) > room:
            digest = hashlib.sha256(model.encode()).hexdigest()[:_HASH_DIGITS]
            model = f"{model[: max(0, room - _HASH_DIGITS - 1)].strip('-')}-{digest}".strip("-")
        return f"{vendor}-{model}{tail}"


@dataclass(frozen=True, slots=True)
class PoolNode:
    """One node as pools see it.

    Attributes:
        name: of the node.
        shape: its hardware; None when it belongs to no pool (a control-plane node that is left out).
        gpu_model: value of the label with the GPU model, empty without GPUs.
        resources: what it adds to a quota: cores, bytes, GPUs by resource key.
        pool: pool set by hand, empty when there is none.
        counts: whether it adds to the quota; a cordoned node does not.
        labels: its labels that may be Kaiwo's, as they are.
        taints: its taints, as they are.
        wrote: what Kaiwo is known to have written.
        topology: labels for where it stands, as an administrator's rules say.
    """

    name: str
    shape: Shape | None
    gpu_model: str
    resources: tuple[tuple[str, int], ...]
    pool: str
    counts: bool
    labels: Mapping[str, str]
    taints: tuple[tuple[str, str, str], ...]
    wrote: Object
    topology: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_gpus(self) -> bool:
        """Whether it has any GPU."""
        return bool(self.gpu_model)


@dataclass(frozen=True, slots=True)
class Pool:
    """Nodes that are interchangeable.

    Attributes:
        name: of the pool and of its flavor.
        shape: hardware of its smallest member.
        gpu_model: label value that all its nodes carry, empty without GPUs or where they differ.
        nodes: names of the nodes that count.
        quota: cores, bytes and GPUs of all of them, by resource.
        by_hand: an administrator named it on its nodes.
    """

    name: str
    shape: Shape
    gpu_model: str
    nodes: tuple[str, ...]
    quota: Mapping[str, int]
    by_hand: bool = False


def pool_node(
    node: Object,
    vendors: Iterable[GpuVendor],
    *,
    exclude_control_plane: bool = False,
    topology: Sequence[TopologyRule] = (),
    failed: Callable[[str, Exception], None] | None = None,
) -> PoolNode:
    """What pools need of a Node.

    Args:
        node: the Node object.
        vendors: the loaded vendors.
        exclude_control_plane: KaiwoConfig ``nodes.excludeMasterNodesFromNodePools``.
        topology: rules that tell where a node stands.
        failed: told the vendor's name and its error when a plugin cannot read the node.
    """
    labels = labels_of(node)
    spec = lenient_map(node.get("spec"))
    capacity = lenient_map(lenient_map(node.get("status")).get("capacity"))
    fact = node_fact(node, vendors, failed)
    resources = {
        CPU: _share(_amount(capacity, CPU)) // _NANO,
        MEMORY: _share(_amount(capacity, MEMORY) // _NANO // _GI * _GI),
        STORAGE: _share(_amount(capacity, STORAGE)) // _NANO,
    }
    counts: dict[str, int] = {}
    models: dict[str, str] = {}
    for item in fact.gpus:
        if item.gpus.count > 0:
            counts[item.vendor] = counts.get(item.vendor, 0) + item.gpus.count
            models.setdefault(item.vendor, item.gpus.model)
            resources[item.gpus.resource_key] = resources.get(item.gpus.resource_key, 0) + item.gpus.count
    cores, memory = resources[CPU], _share(_amount(capacity, MEMORY) // _NANO // _GI)
    if counts:
        main = min(counts, key=lambda vendor: (-counts[vendor], vendor))
        shape = Shape(main, models[main], counts[main], cores, memory)
        model = label_value(models[main]) or "unknown"
    else:
        shape, model = Shape("cpu", "only", 0, cores, memory), ""
    written = wrote(node)
    by_hand = labels.get(NODEPOOL, "")
    if by_hand == lenient_map(written.get("labels")).get(NODEPOOL):
        by_hand = ""
    left_out = exclude_control_plane and any(role in labels for role in _CONTROL_PLANE)
    return PoolNode(
        name=fact.name,
        shape=None if left_out else shape,
        gpu_model=model,
        resources=tuple(sorted(resources.items())),
        pool=by_hand,
        counts=not left_out and not spec.get("unschedulable"),
        labels={key: labels[key] for key in LABELS if key in labels},
        taints=_taints(spec.get("taints")),
        wrote=written,
        topology=topology_of(fact.name, labels, topology),
    )


def pools(nodes: Iterable[PoolNode], names: Mapping[str, str] | None = None) -> tuple[Pool, ...]:
    """The pools of some nodes: without GPUs first, then by GPUs, CPU and memory of a node.

    Args:
        nodes: nodes in any order.
        names: names of pools that were merged, to the merged pool's name.
    """
    merged = names or {}
    members: dict[tuple[str, bool], list[PoolNode]] = {}
    for node in nodes:
        if node.counts and node.shape is not None:
            name = node.pool or merged.get(node.shape.name, node.shape.name)
            members.setdefault((name, bool(node.pool)), []).append(node)
    by_name: dict[str, Pool] = {}
    for (name, by_hand), found in sorted(members.items()):
        earlier = by_name.get(name)
        pool = _pool(name, found, by_hand=by_hand)
        by_name[name] = pool if earlier is None else _union(earlier, pool)
    return tuple(sorted(by_name.values(), key=_order))


def _pool(name: str, members: list[PoolNode], *, by_hand: bool) -> Pool:
    quota: dict[str, int] = {}
    for node in members:
        for key, amount in node.resources:
            quota[key] = quota.get(key, 0) + amount
    shapes = [node.shape for node in members if node.shape is not None]
    smallest = min(shapes, key=lambda shape: (shape.gpus, shape.cpu, shape.memory, shape.name))
    models = {node.gpu_model for node in members}
    return Pool(
        name=name,
        shape=smallest,
        gpu_model=models.pop() if len(models) == 1 else "",
        nodes=tuple(sorted(node.name for node in members)),
        quota=quota,
        by_hand=by_hand,
    )


def _union(one: Pool, other: Pool) -> Pool:
    """A pool whose name an administrator also gave to other nodes."""
    return Pool(
        name=one.name,
        shape=one.shape,
        gpu_model=one.gpu_model if one.gpu_model == other.gpu_model else "",
        nodes=tuple(sorted((*one.nodes, *other.nodes))),
        quota={key: one.quota.get(key, 0) + other.quota.get(key, 0) for key in {*one.quota, *other.quota}},
    )


def _order(pool: Pool) -> tuple[int, int, int, str]:
    return (pool.shape.gpus, pool.shape.cpu, pool.shape.memory, pool.name)


def _share(amount: int) -> int:
    part, whole = SHARE
    return amount * part // whole


def _amount(capacity: Object, key: str) -> int:
    """A capacity in billionths; 0 for one that is absent or no quantity."""
    try:
        return max(0, parse_quantity(capacity.get(key, 0)).nano)
    except InvalidQuantity:
        return 0


def _taints(value: object) -> tuple[tuple[str, str, str], ...]:
    found = value if isinstance(value, list) else []
    return tuple(
        (str(item.get("key", "")), str(item.get("value") or ""), str(item.get("effect", "")))
        for item in found
        if isinstance(item, dict)
    )
