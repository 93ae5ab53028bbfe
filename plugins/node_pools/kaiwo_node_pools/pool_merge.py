"""Merging of node pools that differ least, where Kueue takes fewer flavors than there are pools.

Memory is lowered before CPU, because nodes of one order differ by what their firmware reserves of it. Pools
of different GPUs are never merged: a pod must get the GPUs that it requests.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo_node_pools.pools import NodePool, PoolShape


def merged_names(pools: Iterable[NodePool], limit: int) -> dict[str, str]:
    """The name of each pool that has to be merged, to the name of the merged pool.

    Pools that were named by hand stay as they are. More than `limit` pools are left where only different GPUs
    remain.

    Args:
        pools: pools before merging.
        limit: flavors that one resource group of the served Kueue takes.
    """
    found = list(pools)
    groups: list[tuple[PoolShape, list[str]]] = [(p.shape, [p.name]) for p in found if not p.by_hand]
    fixed = len(found) - len(groups)
    while len(groups) + fixed > limit:
        closest = min(_pairs([shape for shape, _ in groups]), default=None)
        if closest is None:
            break
        one, other = closest[-2:]
        (a, names), (b, more) = groups[one], groups[other]
        groups[one] = (replace(a, cpu=min(a.cpu, b.cpu), memory=min(a.memory, b.memory)), names + more)
        del groups[other]
    return {name: shape.name for shape, names in groups if len(names) > 1 for name in names}


def _pairs(shapes: list[PoolShape]) -> list[tuple[int, float, int, int]]:
    """Neighbours that may be merged, by rank (only memory differs, or CPU too), then by difference."""
    order = sorted(
        range(len(shapes)), key=lambda at: (_gpus(shapes[at]), shapes[at].cpu, shapes[at].memory, at)
    )
    pairs = []
    for one, other in pairwise(order):
        a, b = shapes[one], shapes[other]
        if _gpus(a) == _gpus(b):
            memory, cpu = _gap(a.memory, b.memory), _gap(a.cpu, b.cpu)
            pairs.append((0, memory, one, other) if a.cpu == b.cpu else (1, cpu + memory, one, other))
    return pairs


def _gpus(shape: PoolShape) -> tuple[str, str, int]:
    return (shape.vendor, shape.model, shape.gpus)


def _gap(one: int, other: int) -> float:
    """How much two amounts differ, relative to the larger."""
    return abs(one - other) / max(one, other, 1)
