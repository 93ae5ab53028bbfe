"""Fewer pools where Kueue takes fewer flavors: those that differ least become one.

Memory is lowered before CPU, since nodes of one order differ by what their firmware keeps of it. Pools of
different GPUs are never merged: a pod that asks for GPUs must know what it gets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo_kueue.pools import Pool, Shape


@dataclass(frozen=True, slots=True)
class Merged:
    """How many pools became few.

    Attributes:
        names: name of each pool that was merged, to the name it has now.
        left_out: names of pools that are too many all the same.
    """

    names: dict[str, str]
    left_out: tuple[str, ...] = ()


def merge(found: Iterable[Pool], limit: int) -> Merged:
    """Which pools to merge so that no more than `limit` are left.

    Args:
        found: pools before merging; those named by hand stay as they are.
        limit: flavors that one resource group of the served Kueue takes.
    """
    pools = list(found)
    groups: list[tuple[Shape, list[str]]] = [(p.shape, [p.name]) for p in pools if not p.by_hand]
    fixed = len(pools) - len(groups)
    while len(groups) + fixed > limit:
        closest = min(_pairs([shape for shape, _ in groups]), default=None)
        if closest is None:
            break
        one, other = closest[-2:]
        (a, names), (b, more) = groups[one], groups[other]
        groups[one] = (replace(a, cpu=min(a.cpu, b.cpu), memory=min(a.memory, b.memory)), names + more)
        del groups[other]
    renamed = {name: shape.name for shape, names in groups if len(names) > 1 for name in names}
    left = [p.name for p in pools if p.by_hand] + [shape.name for shape, _ in groups]
    kept = set(left)
    order = list(dict.fromkeys(renamed.get(pool.name, pool.name) for pool in pools))
    return Merged(renamed, tuple(name for name in order if name in kept)[limit:])


def _pairs(shapes: list[Shape]) -> list[tuple[int, float, int, int]]:
    """Neighbours that may be merged: by rank (only memory differs, or CPU too), then by difference."""
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


def _gpus(shape: Shape) -> tuple[str, str, int]:
    return (shape.vendor, shape.model, shape.gpus)


def _gap(one: int, other: int) -> float:
    """How much two amounts differ, relative to the larger."""
    return abs(one - other) / max(one, other, 1)
