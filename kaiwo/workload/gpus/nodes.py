"""Nodes as GPU planning sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.engine.quantity import InvalidQuantity, parse_quantity
from kaiwo.plugin.facts import NodeFact, VendorGpus
from kaiwo.plugin.vendors import NodeGpus
from kaiwo.workload.gpus.resource_keys import is_gpu
from kaiwo.workload.json_access import lenient_map, lenient_maps
from kaiwo.workload.labels import GPU_MODEL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kaiwo.api.resolved_config import ResolvedConfig
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.vendors import GpuVendor


_UNSUITABLE = (
    ("kubernetes.io/os", "windows"),
    ("type", "virtual-kubelet"),
    ("eks.amazonaws.com/compute-type", "fargate"),
)
"""Labels of nodes that never run a workload: the images are for Linux, and behind a virtual kubelet or
Fargate there is no machine whose capacity could be shared."""


def is_unsuitable(node: Object) -> bool:
    """Whether no workload runs on a node: it has another operating system, or is no machine."""
    labels = labels_of(node)
    return any(labels.get(key) == value for key, value in _UNSUITABLE)


def node_fact(
    node: Object,
    vendors: Iterable[GpuVendor],
    failed: Callable[[str, Exception], None] | None = None,
) -> NodeFact:
    """What GPU planning needs of a Node.

    Args:
        node: the Node object.
        vendors: the loaded vendors.
        failed: called with the vendor's name and its error when a plugin cannot read the node.
    """
    gpus: list[VendorGpus] = []
    for vendor in vendors:
        try:
            gpus += [VendorGpus(vendor.name, found) for found in vendor.gpus_of(node)]
        except Exception as error:  # noqa: BLE001 (a plugin that raises harms only its own vendor)
            if failed:
                failed(vendor.name, error)
    name = lenient_map(node.get("metadata")).get("name")
    return NodeFact(
        name=str(name or ""),
        gpus=tuple(gpus),
        usable=_usable(node),
        model_label=labels_of(node).get(GPU_MODEL, ""),
    )


def _usable(node: Object) -> bool:
    if lenient_map(node.get("spec")).get("unschedulable") or is_unsuitable(node):
        return False
    conditions = lenient_maps(lenient_map(node.get("status")).get("conditions"))
    return any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)


def expected_nodes(config: ResolvedConfig, vendors: Iterable[GpuVendor]) -> tuple[NodeFact, ...]:
    """The nodes that an autoscaler can bring, as KaiwoConfig's ``nodes.expectedGpus`` lists them.

    Entries of a vendor that is not loaded add nothing.
    """
    keys = {vendor.name: vendor.resource_keys[0] for vendor in vendors if vendor.resource_keys}
    facts: list[NodeFact] = []
    for position, entry in enumerate(config.expected_gpus):
        vendor = entry.vendor.strip().lower()
        if vendor not in keys:
            continue
        gpus = NodeGpus(
            model=(entry.model or "").lower(), count=entry.gpus_per_node, resource_key=keys[vendor]
        )
        where = f"nodes.expectedGpus[{position}]"
        facts.append(NodeFact(name=where, gpus=(VendorGpus(vendor, gpus),), count=entry.max_nodes))
    return tuple(facts)


def labels_of(node: Object) -> dict[str, str]:
    """The node's labels that are texts."""
    labels = lenient_map(lenient_map(node.get("metadata")).get("labels"))
    return {key: value for key, value in labels.items() if isinstance(value, str)}


def whole(value: object) -> int:
    """A count as labels and quantities hold it (``"8"``); 0 for anything that is none."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return 0
    try:
        quantity = parse_quantity(value)
    except InvalidQuantity:
        return 0
    return max(0, quantity.nano // 10**9)


def counts(node: Object, keys: Iterable[str]) -> dict[str, int]:
    """Allocatable counts of the vendor's resource keys that the node shows, zeros included.

    Args:
        node: the Node object.
        keys: the vendor's resource keys; one may end in ``*``.
    """
    patterns = tuple(keys)
    allocatable = lenient_map(lenient_map(node.get("status")).get("allocatable"))
    return {key: whole(value) for key, value in allocatable.items() if is_gpu(key, patterns)}


def counted(node: Object, keys: Sequence[str], label: str, model: str) -> tuple[NodeGpus, ...]:
    """The GPUs of a node, one entry for each resource key that pods may use.

    Args:
        node: the Node object.
        keys: the vendor's resource keys, that of whole GPUs first.
        label: holds the count of whole GPUs, for as long as the node shows none of the keys: what the device
            plugin says, 0 of broken ones included, goes before it.
        model: of all GPUs of the node.
    """
    found = counts(node, keys)
    if not found:
        found[keys[0]] = whole(labels_of(node).get(label))
    return tuple(NodeGpus(model, count, key) for key, count in found.items() if count)
