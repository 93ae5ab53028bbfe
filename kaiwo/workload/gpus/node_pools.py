"""Facts about node pools that two kinds of plugins share: the one that labels nodes, and queue systems.

The labelling plugin writes labels and annotations on nodes; a queue system reads them and counts the hardware
behind them. Neither imports the other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaiwo.engine.quantity import InvalidQuantity, parse_quantity
from kaiwo.plugin.facts import VendorGpus
from kaiwo.plugin.vendors import NodeGpus
from kaiwo.workload.gpus.nodes import is_unsuitable, labels_of, node_fact
from kaiwo.workload.gpus.resource_keys import is_gpu
from kaiwo.workload.json_access import lenient_map
from kaiwo.workload.labels import GPU_MODEL, PREFIX
from kaiwo.workload.metadata import label_value

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.vendors import GpuVendor

WORKER = "kaiwo/worker"
"""Label of every node that belongs to a pool; its value is ``true``."""

NODEPOOL = "kaiwo/nodepool"
"""Label with the name of a node's pool."""

TOPOLOGY_BLOCK, TOPOLOGY_RACK = "kaiwo/topology-block", "kaiwo/topology-rack"
"""Labels of the place of a node, where an administrator's rules give a value."""

NODEPOOL_PENDING = PREFIX + "nodepool-pending"
"""Annotation with the pool that a node joins when the pods that select its present pool have ended."""

NODEPOOL_MERGED_FROM = PREFIX + "nodepool-merged-from"
"""Annotation with the pool that a node would be in, were there fewer pools."""

CPU, MEMORY, STORAGE = "cpu", "memory", "ephemeral-storage"
"""Resources that every node has."""

SHARE = 9, 10
"""What of a node's capacity pods may use: the rest belongs to the system and to daemons."""

_GI = 2**30
_NANO = 10**9
_GPUS_OF_POOL = re.compile(r"-(\d+)gpu-\d+core-\d+gi$")
_CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


@dataclass(frozen=True, slots=True)
class NodeHardware:
    """Hardware of one node, as far as pods may use it.

    Attributes:
        vendor: vendor of most of its GPUs, ``cpu`` without any.
        model: model of these GPUs, ``only`` without any.
        gpus: how many GPUs of this vendor it has, also while none of them can be used.
        cpu: cores.
        memory: GiB.
        resources: what it adds to a quota: cores, bytes, and GPUs of all vendors by resource key.
    """

    vendor: str
    model: str
    gpus: int
    cpu: int
    memory: int
    resources: tuple[tuple[str, int], ...]


def node_hardware(
    node: Object,
    vendors: Iterable[GpuVendor],
    failed: Callable[[str, Exception], None] | None = None,
) -> NodeHardware:
    """The hardware of a Node.

    Args:
        node: the Node object.
        vendors: the loaded vendors.
        failed: called with the vendor's name and its error when a plugin cannot read the node.
    """
    capacity = lenient_map(lenient_map(node.get("status")).get("capacity"))
    resources = {
        CPU: _share(_amount(capacity, CPU)) // _NANO,
        MEMORY: _share(_amount(capacity, MEMORY) // _NANO // _GI * _GI),
        STORAGE: _share(_amount(capacity, STORAGE)) // _NANO,
    }
    vendors = tuple(vendors)
    counts: dict[str, int] = {}
    models: dict[str, str] = {}
    usable = [item for item in node_fact(node, vendors, failed).gpus if item.gpus.count > 0]
    known = {item.vendor for item in usable}
    unusable = [item for item in _unusable_gpus(node, vendors) if item.vendor not in known]
    for item in (*usable, *unusable):
        counts[item.vendor] = counts.get(item.vendor, 0) + item.gpus.count
        models.setdefault(item.vendor, item.gpus.model)
        amount = item.gpus.count if item.vendor in known else 0
        resources[item.gpus.resource_key] = resources.get(item.gpus.resource_key, 0) + amount
    vendor, model = "cpu", "only"
    if counts:
        vendor = min(counts, key=lambda name: (-counts[name], name))
        model = models[vendor]
    return NodeHardware(
        vendor=vendor,
        model=model,
        gpus=counts.get(vendor, 0),
        cpu=resources[CPU],
        memory=_share(_amount(capacity, MEMORY) // _NANO // _GI),
        resources=tuple(sorted(resources.items())),
    )


def _unusable_gpus(node: Object, vendors: Collection[GpuVendor]) -> list[VendorGpus]:
    """The GPUs of a node of which pods may use none now.

    So it is while a device plugin restarts: the kubelet shows what it has, and after five minutes, or after a
    restart of its own, that it has none. The node stays in its pool, tainted, with a quota of none.
    """
    status = lenient_map(node.get("status"))
    capacity, allocatable = lenient_map(status.get("capacity")), lenient_map(status.get("allocatable"))
    unusable = sorted(key for key in allocatable if "/" in key and not _amount(allocatable, key))
    if not unusable:
        return []
    kept = {key: capacity[key] for key in unusable if _amount(capacity, key)}
    shown = node_fact({**node, "status": {**status, "allocatable": kept}}, vendors).gpus if kept else ()
    found = [item for item in shown if item.gpus.resource_key in kept and item.gpus.count > 0]
    named = _vendor_of_pool(labels_of(node).get(NODEPOOL, ""), vendors)
    others = [
        vendor
        for vendor in vendors
        if vendor.name not in {item.vendor for item in found} and named in ("", vendor.name)
    ]
    return [*found, *_unregistered_gpus(node, others, [key for key in unusable if key not in kept])]


def _vendor_of_pool(pool: str, vendors: Iterable[GpuVendor]) -> str:
    """The vendor that the name of a discovered pool begins with, empty for another name.

    The label with the model alone does not tell: without labels of its own every vendor's model is unknown.
    """
    if not _GPUS_OF_POOL.search(pool):
        return ""
    return next((vendor.name for vendor in vendors if pool.startswith(f"{vendor.name}-")), "")


def _unregistered_gpus(node: Object, vendors: Iterable[GpuVendor], keys: Collection[str]) -> list[VendorGpus]:
    """The GPUs of a node whose device plugin is not registered, by the labels that Kaiwo gave it before.

    A node whose GPUs were taken out has lost the vendor's labels with the model, so it is another node.
    """
    labels = labels_of(node)
    labelled = labels.get(GPU_MODEL)
    for vendor in vendors if labelled else ():
        own = [key for key in keys if is_gpu(key, vendor.resource_keys)]
        for guess in _guesses(own, labels.get(NODEPOOL, "")):
            status = {**lenient_map(node.get("status")), "allocatable": guess}
            shown = node_fact({**node, "status": status}, (vendor,)).gpus
            found = next((item.gpus for item in shown if label_value(item.gpus.model) == labelled), None)
            if found is not None:
                counts = (found.count, *(0 for _ in own[1:]))
                return [
                    VendorGpus(vendor.name, NodeGpus(found.model, count, key))
                    for key, count in zip(own, counts, strict=True)
                ]
    return []


def _guesses(keys: Sequence[str], pool: str) -> list[Object]:
    """What the kubelet may have shown of a vendor's keys, the best guess first.

    A pool that was named by hand does not say how many GPUs there are. The vendor's own label, which counts
    where the kubelet shows nothing, may do so; else there is one at least.
    """
    match = _GPUS_OF_POOL.search(pool)
    if not keys:
        return []
    return [{keys[0]: match[1]}] if match else [{}, {keys[0]: "1"}]


def is_excluded(node: Object, *, exclude_control_plane: bool) -> bool:
    """Whether a node belongs to no pool: one that runs no workloads, or an excluded control-plane node.

    Args:
        node: the Node object.
        exclude_control_plane: KaiwoConfig ``nodes.excludeMasterNodesFromNodePools``.
    """
    labels = labels_of(node)
    control_plane = exclude_control_plane and any(role in labels for role in _CONTROL_PLANE)
    return control_plane or is_unsuitable(node)


def is_cordoned(node: Object) -> bool:
    """Whether a node takes no new pods; it keeps its labels and adds nothing to a quota."""
    return bool(lenient_map(node.get("spec")).get("unschedulable"))


def annotation(node: Object, key: str) -> str:
    """An annotation of a node, empty when it has none."""
    value = lenient_map(lenient_map(node.get("metadata")).get("annotations")).get(key)
    return value if isinstance(value, str) else ""


def _share(amount: int) -> int:
    part, whole = SHARE
    return amount * part // whole


def _amount(capacity: Object, key: str) -> int:
    """A capacity in billionths; 0 for one that is absent or no quantity."""
    try:
        return max(0, parse_quantity(capacity.get(key, 0)).nano)
    except InvalidQuantity:
        return 0
