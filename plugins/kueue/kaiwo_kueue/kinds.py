"""Kueue's kinds and the words they are marked with.

Two generations of Kueue are in use: up to 0.15 ``v1beta1`` (Topology ``v1alpha1``), later ``v1beta2``. Each
kind names the newest version and falls back to what a cluster serves.
"""

from __future__ import annotations

from typing import Final

from kaiwo.engine.resource import Resource

GROUP = "kueue.x-k8s.io"

CLUSTER_QUEUE: Final = Resource(
    GROUP, "v1beta2", "ClusterQueue", "clusterqueues", namespaced=False, fallbacks=("v1beta1",)
)
LOCAL_QUEUE: Final = Resource(GROUP, "v1beta2", "LocalQueue", "localqueues", fallbacks=("v1beta1",))
RESOURCE_FLAVOR: Final = Resource(
    GROUP, "v1beta2", "ResourceFlavor", "resourceflavors", namespaced=False, fallbacks=("v1beta1",)
)
PRIORITY_CLASS: Final = Resource(
    GROUP,
    "v1beta2",
    "WorkloadPriorityClass",
    "workloadpriorityclasses",
    namespaced=False,
    fallbacks=("v1beta1",),
)
TOPOLOGY: Final = Resource(
    GROUP, "v1beta2", "Topology", "topologies", namespaced=False, fallbacks=("v1beta1", "v1alpha1")
)
WORKLOAD: Final = Resource(GROUP, "v1beta2", "Workload", "workloads", fallbacks=("v1beta1",))

QUEUE_CONFIG: Final = Resource(
    "kaiwo.silogen.ai", "v1alpha1", "KaiwoQueueConfig", "kaiwoqueueconfigs", namespaced=False
)
SINGLETON = "kaiwo"
"""The only KaiwoQueueConfig that counts."""

SYNCED: Final = (TOPOLOGY, RESOURCE_FLAVOR, CLUSTER_QUEUE, LOCAL_QUEUE, PRIORITY_CLASS)
"""What a KaiwoQueueConfig leads to, in the order of writing: each refers to what comes before."""

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
MANAGED_POD_LABEL = "kueue.x-k8s.io/managed"
ADMISSION_GATE = "kueue.x-k8s.io/admission"
NAMESPACE_LABEL = "kueue-managed"
"""What Kueue's usual ``managedJobsNamespaceSelector`` asks of a namespace (value ``true``)."""

MANAGED_LABEL = "kaiwo.silogen.ai/managed"
"""On an object that was there before a KaiwoQueueConfig listed it: it is managed, not owned."""

APPLIED = "kaiwo.silogen.ai/applied"
"""Annotation with a hash of what was applied last; that is how a field that is wanted no more is noticed."""

TOUCHED = "kaiwo.silogen.ai/nudged"
"""Annotation with the time at which Kueue was made to look at an object again."""
