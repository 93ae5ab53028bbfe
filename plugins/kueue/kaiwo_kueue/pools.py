"""Node pools as Kueue's flavors need them: the nodes that carry one ``kaiwo/nodepool`` label."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from kaiwo.plugin.kit.fields import SUBDOMAIN
from kaiwo.plugin.kit.json_access import lenient_map, lenient_maps, lenient_text
from kaiwo.plugin.kit.names import GPU_MODEL, MAX_LABEL
from kaiwo.plugin.kit.nodes import (
    NODEPOOL,
    NODEPOOL_MERGED_FROM,
    NODEPOOL_PENDING,
    WORKER,
    annotation,
    is_cordoned,
    is_excluded,
    labels_of,
    node_hardware,
)
from kaiwo.plugin.kit.values import quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.vendors import GpuVendor

_HASH_DIGITS = 6
_FLAVOR_NAME = re.compile(SUBDOMAIN)
_OUTSIDE_NAME = re.compile(r"[^a-z0-9]+")

_KEEPS_PODS_AWAY = ("NoSchedule", "NoExecute")
_PASSING = re.compile(
    r"^(node\.kubernetes\.io|node\.cloudprovider\.kubernetes\.io|karpenter\.sh|node\.cluster\.x-k8s\.io)/"
    r"|^ToBeDeletedByClusterAutoscaler$|not-ready"
)
"""Keys of taints that show a state of a node, which passes. An administrator's taint stays."""

NodeTaint: TypeAlias = tuple[str, str, str]
"""Key, value and effect of a taint."""

POOL_LABELS = (WORKER, NODEPOOL, GPU_MODEL)
"""Labels by which flavors select nodes, and which the plugin ``node_pools`` writes."""


@dataclass(frozen=True, slots=True)
class LabelledNode:
    """One node with the labels that put it into a pool.

    Attributes:
        name: of the node.
        labels: its labels, by which flavors select it.
        counts: whether it adds to a quota; a cordoned or excluded node does not.
        size: GPUs, cores and GiB that pods may use.
        resources: what it adds to a quota: cores, bytes, GPUs by resource key.
        offered: resource keys that its kubelet or its labels show, also while no pod may use them.
        taints: those that an administrator gave it to keep pods away.
        pool_pending: the pool that it joins later, empty when it stays where it is.
        merged_from: its pool before pools were merged, empty when they were not.
    """

    name: str
    labels: Mapping[str, str]
    counts: bool
    size: tuple[int, int, int]
    resources: tuple[tuple[str, int], ...]
    offered: frozenset[str] = frozenset()
    taints: frozenset[NodeTaint] = frozenset()
    pool_pending: str = ""
    merged_from: str = ""

    @property
    def pool(self) -> str:
        """Its pool, empty while nobody labelled it."""
        return self.labels.get(NODEPOOL, "")

    @property
    def gpu_model(self) -> str:
        """The GPU model that its label shows, empty without one."""
        return self.labels.get(GPU_MODEL, "")


@dataclass(frozen=True, slots=True)
class QuotaPool:
    """The nodes of one pool and what they have together.

    Attributes:
        name: of its flavor.
        label: of the pool, as its nodes carry it.
        gpu_model: label value that all its nodes carry, empty without GPUs or where they differ.
        size: GPUs, cores and GiB of its smallest node.
        nodes: names of the nodes that count.
        quota: cores, bytes and GPUs of all of them, by resource.
        taints: those that all its nodes have.
    """

    name: str
    label: str
    gpu_model: str
    size: tuple[int, int, int]
    nodes: tuple[str, ...]
    quota: Mapping[str, int]
    taints: tuple[NodeTaint, ...] = ()

    @property
    def has_gpus(self) -> bool:
        """Whether each of its nodes has GPUs."""
        return self.size[0] > 0


def labelled_node(
    node: Object,
    vendors: Iterable[GpuVendor],
    *,
    exclude_control_plane: bool = False,
    failed: Callable[[str, Exception], None] | None = None,
) -> LabelledNode:
    """What quotas need of a Node.

    Args:
        node: the Node object.
        vendors: the loaded vendors.
        exclude_control_plane: KaiwoConfig ``nodes.excludeMasterNodesFromNodePools``.
        failed: called with the vendor's name and its error when a plugin cannot read the node.
    """
    labels = labels_of(node)
    allocatable = lenient_map(lenient_map(node.get("status")).get("allocatable"))
    hardware = node_hardware(node, vendors, failed)
    excluded = is_excluded(node, exclude_control_plane=exclude_control_plane)
    return LabelledNode(
        name=str(lenient_map(node.get("metadata")).get("name") or ""),
        labels=labels,
        counts=not excluded and not is_cordoned(node),
        size=(hardware.gpus, hardware.cpu, hardware.memory),
        resources=hardware.resources,
        offered=frozenset(
            [*(key for key, amount in allocatable.items() if quantity(amount)), *dict(hardware.resources)]
        ),
        taints=_taints(node),
        pool_pending=annotation(node, NODEPOOL_PENDING),
        merged_from=annotation(node, NODEPOOL_MERGED_FROM),
    )


def flavor_name(pool: str) -> str:
    """The name of the flavor of a pool, which is that of the pool where an object may have it.

    An administrator may label nodes ``Gold_Nodes``: labels take more characters than names of objects do.
    """
    if _FLAVOR_NAME.fullmatch(pool):
        return pool
    digest = hashlib.sha256(pool.encode()).hexdigest()[:_HASH_DIGITS]
    plain = _OUTSIDE_NAME.sub("-", pool.lower()).strip("-")[: MAX_LABEL - _HASH_DIGITS - 1].strip("-")
    return f"{plain}-{digest}"


def quota_pools(nodes: Iterable[LabelledNode]) -> tuple[QuotaPool, ...]:
    """The pools of some nodes: without GPUs first, then by GPUs, CPU and memory of a node."""
    members: dict[str, list[LabelledNode]] = {}
    for node in nodes:
        if node.counts and node.pool:
            members.setdefault(node.pool, []).append(node)
    pools = [_pool(label, found) for label, found in members.items()]
    return tuple(sorted(pools, key=lambda pool: (pool.size, pool.name)))


def _pool(label: str, members: list[LabelledNode]) -> QuotaPool:
    quota: dict[str, int] = {}
    for node in members:
        for key, amount in node.resources:
            quota[key] = quota.get(key, 0) + amount
    models = {node.gpu_model for node in members}
    return QuotaPool(
        name=flavor_name(label),
        label=label,
        gpu_model=models.pop() if len(models) == 1 else "",
        size=min(node.size for node in members),
        nodes=tuple(sorted(node.name for node in members)),
        quota=quota,
        taints=tuple(sorted(frozenset.intersection(*(node.taints for node in members)))),
    )


def _taints(node: Object) -> frozenset[NodeTaint]:
    found = [
        (lenient_text(taint.get("key")), lenient_text(taint.get("value")), lenient_text(taint.get("effect")))
        for taint in lenient_maps(lenient_map(node.get("spec")).get("taints"))
    ]
    return frozenset(
        (key, value, effect)
        for key, value, effect in found
        if effect in _KEEPS_PODS_AWAY and not _PASSING.search(key)
    )
