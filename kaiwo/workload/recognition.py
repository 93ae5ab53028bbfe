"""Reading a node's labels and allocatable resources, for vendor plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.engine.quantity import InvalidQuantity, parse_quantity
from kaiwo.plugin.vendors import NodeGpus
from kaiwo.workload.keys import is_gpu
from kaiwo.workload.shapes import lenient_map

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaiwo.engine.resource import Object


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
    if keys[0] not in found and not any(found.values()):
        found[keys[0]] = whole(labels_of(node).get(label))
    return tuple(NodeGpus(model, count, key) for key, count in found.items() if count)
