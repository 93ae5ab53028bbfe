"""Nodes as GPU planning sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.facts import NodeFact, VendorGpus
from kaiwo.plugin.vendors import NodeGpus
from kaiwo.workload.shapes import lenient_map, lenient_maps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kaiwo.api.config import ResolvedConfig
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.vendors import GpuVendor


def node_fact(
    node: Object,
    vendors: Iterable[GpuVendor],
    failed: Callable[[str, Exception], None] | None = None,
) -> NodeFact:
    """What GPU planning needs of a Node.

    Args:
        node: the Node object.
        vendors: the loaded vendors.
        failed: told the vendor's name and its error when a plugin cannot read the node; the others go on.
    """
    gpus: list[VendorGpus] = []
    for vendor in vendors:
        try:
            gpus += [VendorGpus(vendor.name, found) for found in vendor.recognise(node)]
        except Exception as error:  # noqa: BLE001 (a plugin that raises harms only its own vendor)
            if failed:
                failed(vendor.name, error)
    name = lenient_map(node.get("metadata")).get("name")
    return NodeFact(name=str(name or ""), gpus=tuple(gpus), usable=_usable(node))


def _usable(node: Object) -> bool:
    if lenient_map(node.get("spec")).get("unschedulable"):
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
