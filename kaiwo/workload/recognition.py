"""Reading a node's labels and allocatable resources, for vendor plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.engine.quantity import InvalidQuantity, parse_quantity
from kaiwo.workload.keys import is_gpu
from kaiwo.workload.shapes import lenient_map

if TYPE_CHECKING:
    from collections.abc import Iterable

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
