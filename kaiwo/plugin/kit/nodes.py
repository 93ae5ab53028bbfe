"""Nodes: their GPUs, as ``recognise`` of a vendor returns them, requested models, and pools of nodes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kaiwo.plugin.vendors import RequestedModel
from kaiwo.workload.gpus.node_pools import (
    CPU,
    MEMORY,
    NODEPOOL,
    NODEPOOL_MERGED_FROM,
    NODEPOOL_PENDING,
    STORAGE,
    TOPOLOGY_BLOCK,
    TOPOLOGY_RACK,
    WORKER,
    NodeHardware,
    annotation,
    is_cordoned,
    is_excluded,
    node_hardware,
)
from kaiwo.workload.gpus.nodes import counted, counts, labels_of, whole
from kaiwo.workload.gpus.resource_keys import matches

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "CPU",
    "MEMORY",
    "NODEPOOL",
    "NODEPOOL_MERGED_FROM",
    "NODEPOOL_PENDING",
    "STORAGE",
    "TOPOLOGY_BLOCK",
    "TOPOLOGY_RACK",
    "WORKER",
    "NodeHardware",
    "annotation",
    "counted",
    "counts",
    "is_cordoned",
    "is_excluded",
    "labels_of",
    "node_hardware",
    "partition",
    "whole",
]


def partition(entry: str, keys: Iterable[str]) -> RequestedModel | None:
    """The part of a GPU that an entry of ``gpuModels`` asks for; None where it is just a model.

    Such an entry is the name of a resource key, after its domain, alone or after a model:
    ``h100-mig-1g.10gb`` and ``mig-1g.10gb`` ask for ``nvidia.com/mig-1g.10gb``.

    Args:
        entry: the entry.
        keys: the vendor's resource keys but for the usual one; one may end in ``*``.
    """
    text = entry.strip().lower()
    for key in keys:
        domain, _, name = key.partition("/")
        found = re.search(rf"(?:^|[-._]){re.escape(name.removesuffix('*'))}", text)
        if found is None:
            continue
        wanted = f"{domain}/{text[found.start() :].lstrip('-._')}"
        if matches(wanted, key):
            return RequestedModel(text[: found.start()], wanted)
    return None
