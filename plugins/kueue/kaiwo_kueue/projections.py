"""The parts of numerous objects that are kept in memory."""

from __future__ import annotations

from kaiwo.plugin.kit.cache import Projection

WORKLOAD_PROJECTION = Projection(
    keep=(
        ("spec", "queueName"),
        ("spec", "priority"),
        ("spec", "active"),
        ("spec", "podSets", "*", "count"),
        ("spec", "podSets", "*", "template", "spec", "containers", "*", "resources"),
        ("spec", "podSets", "*", "template", "spec", "initContainers", "*", "resources"),
        ("spec", "podSets", "*", "template", "spec", "nodeSelector"),
        ("spec", "podSets", "*", "template", "spec", "affinity", "nodeAffinity"),
        ("spec", "podSets", "*", "template", "spec", "tolerations"),
        ("status", "conditions"),
        ("status", "admissionChecks"),
        ("status", "requeueState"),
        ("status", "admission", "clusterQueue"),
        ("status", "admission", "podSetAssignments", "*", "name"),
        ("status", "admission", "podSetAssignments", "*", "count"),
        ("status", "admission", "podSetAssignments", "*", "flavors"),
        ("status", "admission", "podSetAssignments", "*", "resourceUsage"),
        ("status", "reclaimablePods"),
    )
)
"""Of a Workload: its admission with the quota that it holds, what it requests and where it may run."""

NAMESPACE_PROJECTION = Projection(keep=(("metadata",),))

LISTS = (("spec", "clusterQueues"), ("spec", "resourceFlavors"))
"""Lists of a KaiwoQueueConfig that the operator computes where nobody else wrote them."""

QUEUE_CONFIG_PROJECTION = Projection(owned_fields=LISTS)
"""Of a KaiwoQueueConfig: everything, and who wrote the lists."""
