"""Nodes: their GPUs, as ``recognise`` of a vendor returns them, and their pools."""

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
    "whole",
]
