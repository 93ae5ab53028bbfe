"""Room for pods: which GPU counts nodes have, and how many pods of a size fit at the same time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kaiwo.workload.gpus.resource_keys import matches
from kaiwo.workload.metadata import label_value

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kaiwo.plugin.facts import NodeFact


@dataclass(frozen=True, slots=True)
class Capacity:
    """GPUs of one vendor, resource key and choice of models on usable nodes.

    Attributes:
        sizes: GPUs per node, to the number of such nodes.
        other_models: models of that vendor and key on usable nodes that were not asked for.
        other_keys: other resource keys of that vendor on usable nodes.
    """

    sizes: Counter[int] = field(default_factory=Counter)
    other_models: frozenset[str] = frozenset()
    other_keys: frozenset[str] = frozenset()

    @property
    def largest(self) -> int:
        """GPUs of the largest node, 0 without any."""
        return max(self.sizes, default=0)

    @property
    def total(self) -> int:
        """GPUs of all nodes."""
        return sum(size * nodes for size, nodes in self.sizes.items())

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return self.sizes.total()

    def pods(self, gpus: int) -> int:
        """How many pods of that many GPUs (at least one) fit at the same time."""
        return sum(size // gpus * nodes for size, nodes in self.sizes.items())

    def holds(self, pods: Mapping[int, int]) -> bool:
        """Whether pods of several sizes fit at the same time: GPUs of a pod, to the number of such pods.

        Large pods are placed first, each on the smallest node that takes it.
        """
        free = Counter(self.sizes)
        for gpus in sorted(pods, reverse=True):
            left = pods[gpus]
            for size in sorted(size for size in free if size >= gpus):
                each = size // gpus
                full = min(free[size], left // each)
                free[size] -= full
                free[size - each * gpus] += full
                left -= full * each
                if left and free[size]:
                    free[size] -= 1
                    free[size - left * gpus] += 1
                    left = 0
            if left:
                return False
        return True


def capacity(nodes: Iterable[NodeFact], vendor: str, key: str, models: Collection[str] = ()) -> Capacity:
    """The room on usable nodes for pods that request a resource key of a vendor.

    Args:
        nodes: all nodes, expected ones included.
        vendor: the vendor's name.
        key: the resource key that pods will request.
        models: models the pods may run on, as nodes are labelled; empty for any.
    """
    sizes: Counter[int] = Counter()
    others: set[str] = set()
    keys: set[str] = set()
    for node in nodes:
        if not node.usable or node.count <= 0:
            continue
        count = 0
        for item in node.gpus:
            if item.vendor != vendor or item.gpus.count <= 0:
                continue
            if not matches(item.gpus.resource_key, key):
                keys.add(item.gpus.resource_key)
                continue
            # Pods select nodes by the label, which an administrator may have written. An expected node that
            # names no model may have any.
            model = (node.model_label or label_value(item.gpus.model)) if models else ""
            if model and model not in models:
                others.add(model)
            else:
                count += item.gpus.count
        if count > 0:
            sizes[count] += node.count
    return Capacity(sizes, frozenset(others), frozenset(keys))
