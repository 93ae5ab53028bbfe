"""What an administrator writes: KaiwoQueueConfig."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from kaiwo.plugin.kit.fields import INT32_MAX, SUBDOMAIN, Conditions, Model, ObjectName, Opaque

MAX_QUEUES = 1000
MAX_FLAVORS = 256
MAX_PRIORITY_CLASSES = 20
MAX_TOPOLOGIES = 10
MAX_NODE_LABELS = 10
MAX_TAINTS = 5
MAX_NAMESPACES = 4096

_EFFECTS = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
_EFFECTS_OR_ALL = Literal["NoSchedule", "PreferNoSchedule", "NoExecute", ""]
_ObjectName = Annotated[
    str | None, Field(min_length=1, max_length=253, pattern=SUBDOMAIN, description="Name of the object.")
]
_NamespaceName = Annotated[str, Field(max_length=253)]
_Metadata = Annotated[
    dict[str, Any] | None,
    Field(description="Metadata of the object: its name, and labels it gets."),
    WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
]


class ClusterQueueEntry(Model):
    """One ClusterQueue."""

    name: Annotated[ObjectName, Field(description="Name of the ClusterQueue and of its LocalQueues.")]
    spec: Annotated[
        Opaque | None,
        Field(
            description="Kueue's ClusterQueueSpec in v1beta1 form; cohortName and newer values are taken "
            "too. It is converted to what the cluster's Kueue serves."
        ),
    ] = None
    namespaces: Annotated[
        tuple[_NamespaceName, ...] | None,
        Field(
            strict=False,
            max_length=MAX_NAMESPACES,
            description="Namespaces that get a LocalQueue, exactly these. Without any, one is made in a "
            "namespace when a workload there names the queue.",
        ),
    ] = None


class Taint(Model):
    """A taint of a flavor's nodes."""

    key: Annotated[str, Field(min_length=1, description="Key of the taint.")]
    value: Annotated[str | None, Field(description="Value of the taint.")] = None
    effect: Annotated[_EFFECTS, Field(description="Effect of the taint.")]
    time_added: Annotated[str | None, Field(description="When the taint was added; not used.")] = None


class Toleration(Model):
    """A toleration that pods of a flavor get."""

    key: Annotated[str | None, Field(description="Key of the taint that is tolerated.")] = None
    operator: Annotated[
        Literal["Exists", "Equal", ""] | None, Field(description="How the value is compared; empty: Equal.")
    ] = None
    value: Annotated[str | None, Field(description="Value of the taint that is tolerated.")] = None
    effect: Annotated[
        _EFFECTS_OR_ALL | None, Field(description="Effect that is tolerated; all without one.")
    ] = None
    toleration_seconds: Annotated[
        int | None, Field(description="Seconds that a NoExecute taint is tolerated.")
    ] = None


class ResourceFlavorEntry(Model):
    """One ResourceFlavor."""

    name: Annotated[ObjectName, Field(description="Name of the ResourceFlavor.")]
    node_labels: Annotated[
        dict[str, str] | None,
        Field(
            max_length=MAX_NODE_LABELS,
            description='Labels of the flavor\'s nodes. Kueue takes 8. kaiwo/worker: "true" is added where '
            "there is room, unless a topology is named.",
        ),
    ] = None
    taints: Annotated[
        tuple[Taint, ...] | None,
        Field(strict=False, max_length=MAX_TAINTS, description="Taints of the flavor's nodes."),
    ] = None
    tolerations: Annotated[
        tuple[Toleration, ...] | None,
        Field(strict=False, max_length=MAX_TAINTS, description="Tolerations that its pods get."),
    ] = None
    topology_name: Annotated[
        str | None, Field(description="Topology of the flavor's nodes, for topology-aware scheduling.")
    ] = None


class PriorityClassEntry(Model):
    """One WorkloadPriorityClass, as the object itself is written."""

    api_version: Annotated[str | None, Field(description="Not needed.")] = None
    kind: Annotated[str | None, Field(description="Not needed.")] = None
    metadata: _Metadata = None
    name: _ObjectName = None
    value: Annotated[
        int, Field(ge=-INT32_MAX - 1, le=INT32_MAX, description="The higher, the sooner it is admitted.")
    ] = 0
    description: Annotated[str | None, Field(description="When to use the class.")] = None


class TopologyLevel(Model):
    """One level of a topology."""

    node_label: Annotated[str, Field(min_length=1, description="Node label that distinguishes the domains.")]


_Levels = Annotated[
    tuple[TopologyLevel, ...] | None,
    Field(strict=False, max_length=16, description="Levels, the widest first."),
]


class TopologySpec(Model):
    """Spec of a topology, as Kueue writes it."""

    levels: _Levels = None


class TopologyEntry(Model):
    """One Topology, as the object itself is written, or in short with name and levels."""

    api_version: Annotated[str | None, Field(description="Not needed.")] = None
    kind: Annotated[str | None, Field(description="Not needed.")] = None
    metadata: _Metadata = None
    name: _ObjectName = None
    spec: Annotated[TopologySpec | None, Field(description="Spec of the Topology.")] = None
    levels: _Levels = None


class QueueConfigSpec(Model):
    """``spec`` of a KaiwoQueueConfig."""

    cluster_queues: Annotated[
        tuple[ClusterQueueEntry, ...] | None,
        Field(strict=False, max_length=MAX_QUEUES, description="ClusterQueues that Kaiwo manages."),
    ] = None
    resource_flavors: Annotated[
        tuple[ResourceFlavorEntry, ...] | None,
        Field(
            strict=False,
            max_length=MAX_FLAVORS,
            description="ResourceFlavors that Kaiwo manages. Without any, one is made for each node pool.",
        ),
    ] = None
    workload_priority_classes: Annotated[
        tuple[PriorityClassEntry, ...] | None,
        Field(
            strict=False,
            max_length=MAX_PRIORITY_CLASSES,
            description="WorkloadPriorityClasses that Kaiwo manages.",
        ),
    ] = None
    topologies: Annotated[
        tuple[TopologyEntry, ...] | None,
        Field(strict=False, max_length=MAX_TOPOLOGIES, description="Topologies that Kaiwo manages."),
    ] = None

    @property
    def topology_names(self) -> frozenset[str]:
        """Names of the listed Topologies."""
        return frozenset(
            entry.name or str((entry.metadata or {}).get("name") or "") for entry in self.topologies or ()
        )


class ComputedLists(Model):
    """What the operator computes from the nodes and does not write into a spec that somebody applied."""

    cluster_queues: Annotated[
        tuple[ClusterQueueEntry, ...] | None,
        Field(
            strict=False,
            max_length=MAX_QUEUES,
            description="The default queue: its quotas where it is listed, else the whole entry.",
        ),
    ] = None
    resource_flavors: Annotated[
        tuple[ResourceFlavorEntry, ...] | None,
        Field(strict=False, max_length=MAX_FLAVORS, description="The list of ResourceFlavors."),
    ] = None


class QueueConfigStatus(Model):
    """``status`` of a KaiwoQueueConfig."""

    status: Annotated[
        Literal["", "PENDING", "READY", "FAILED"],
        Field(description="READY when Kueue's objects are as described."),
    ] = ""
    observed_generation: Annotated[
        int | None, Field(ge=0, description="Generation that was last acted on.")
    ] = None
    conditions: Annotated[
        Conditions, Field(description="Ready, and one condition for each kind of object.")
    ] = ()
    computed: Annotated[
        ComputedLists | None,
        Field(description="Lists that are in force instead of those in the spec, made from the nodes."),
    ] = None
