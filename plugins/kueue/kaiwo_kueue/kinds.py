"""Kueue's kinds, labels and annotations.

Two generations of Kueue are in use: up to 0.15 ``v1beta1`` (Topology ``v1alpha1``), later ``v1beta2``. Each
kind names the newest version and falls back to what a cluster serves.
"""

from __future__ import annotations

from typing import Final

from kaiwo.plugin.kit.kinds import Resource

GROUP = "kueue.x-k8s.io"

VISIBILITY: Final = "visibility.kueue.x-k8s.io"
"""API group that Kueue itself may serve: the pending Workloads of a queue in their order."""

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
COHORT: Final = Resource(
    GROUP, "v1beta2", "Cohort", "cohorts", namespaced=False, fallbacks=("v1beta1", "v1alpha1")
)
WORKLOAD: Final = Resource(GROUP, "v1beta2", "Workload", "workloads", fallbacks=("v1beta1",))

QUEUE_CONFIG: Final = Resource(
    "kaiwo.silogen.ai", "v1alpha1", "KaiwoQueueConfig", "kaiwoqueueconfigs", namespaced=False
)
SINGLETON = "kaiwo"
"""The only KaiwoQueueConfig that counts."""

SYNCED: Final = (TOPOLOGY, RESOURCE_FLAVOR, CLUSTER_QUEUE, LOCAL_QUEUE, PRIORITY_CLASS)
"""Kinds that a KaiwoQueueConfig describes, in the order of writing: each refers to earlier ones."""

FIELD_MANAGER = "kaiwo"
"""Field manager of all that the operator writes."""

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
MANAGED_POD_LABEL = "kueue.x-k8s.io/managed"
STOPPING_ANNOTATION = "kueue.x-k8s.io/stopping"
ADMISSION_GATE = "kueue.x-k8s.io/admission"
NAMESPACE_LABEL = "kueue-managed"
"""Label of a namespace that Kueue's usual ``managedJobsNamespaceSelector`` selects (value ``true``)."""

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY = "kaiwo"
"""Label of the objects that Kaiwo created, and its value."""

CONFIG_UID_LABEL = "kaiwo.silogen.ai/queue-config-uid"
"""Label of an object that Kaiwo created: uid of the KaiwoQueueConfig that lists it, or that listed it last.

It stands for an owner reference, which Kubernetes' garbage collector would act on: deleting the
KaiwoQueueConfig would delete queues with running workloads."""

DEFAULT_LABEL = "kaiwo.silogen.ai/default-queue-config"
"""Label of a ClusterQueue that a KaiwoQueueConfig lists as the operator wrote it (value ``true``)."""

DRAINING_LABEL = "kaiwo.silogen.ai/draining"
"""Label of a queue that is held until no workload uses it, and deleted then (value ``true``)."""

MANAGED_LABEL = "kaiwo.silogen.ai/managed"
"""Label of an object that existed before a KaiwoQueueConfig listed it: it is managed, not owned."""

APPLIED = "kaiwo.silogen.ai/applied"
"""Annotation with a hash of what was applied last, by which the removal of a field is noticed."""

TOUCHED = "kaiwo.silogen.ai/nudged"
"""Annotation with the time at which an object was changed to make Kueue reconcile it."""

PRIORITY_BOOST = "kueue.x-k8s.io/priority-boost"
"""Annotation of a Workload that is added to its priority."""
