"""Rendering: what a backend and a pod contribution get to make objects from, and what they return."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from kaiwo.plugin.declaration import Declaration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import BaseModel

    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.plugin.facts import Allocation, NodeFact
    from kaiwo.plugin.namespace_defaults import SecretVariable
    from kaiwo.plugin.queues import QueueAssignment
    from kaiwo.plugin.vendors import GpuVendor


TEMPLATE_VERSION = 4
"""Version of the generated templates, raised when they change; an existing child keeps that of its creation.

Since version 2, generated pods meet the Pod Security Standard ``restricted``, and a Deployment selects its
pods by the label of the run. Since version 3, the last lines of the log of a container that failed are its
termination message. Since version 4, a Deployment selects its pods by the label ``app`` as well, a
script whose last line ends with a backslash loses this backslash, containers get no default for what their
pod has as a whole, a pod that requests 0 GPUs does not tolerate the taint of GPU nodes, and a rollout starts
no new pod beside an old one that holds a volume of one node or pod."""


def _as_many_as_asked(_: Object) -> int | None:
    return None


@dataclass(frozen=True, slots=True)
class AllocationInput:
    """What splitting GPUs over pods may depend on.

    Attributes:
        workload: the user's workload.
        vendors: the loaded vendors.
        nodes: usable and unusable nodes with their GPUs, expected nodes included.
        default_resource_key: KaiwoConfig ``nodes.defaultGpuResourceKey``; used for the literal vendor
            ``default`` only.
        check_capacity: False while a child exists: a running workload never becomes ERROR because a
            node left.
        settings: those of the backend's plugin; None for a plugin that has none.
        fewest_pods: with how many pods, at least, the queue system starts an object; None where it does not
            say. It reads the annotations and the number of pods of the object.
    """

    workload: Workload
    vendors: tuple[GpuVendor, ...]
    nodes: tuple[NodeFact, ...]
    default_resource_key: str
    check_capacity: bool = True
    settings: BaseModel | None = None
    fewest_pods: Callable[[Object], int | None] = _as_many_as_asked


@dataclass(frozen=True, slots=True)
class Resolved:
    """Everything that was taken from configuration, nodes and templates when the child was created.

    It is stored on the child (annotation ``kaiwo.silogen.ai/resolved``) and reused, so that neither a
    configuration edit nor an upgrade of the operator changes an existing child.

    Attributes:
        allocation: how GPUs are split.
        default_image: image for containers that name none.
        scheduler_name: ``schedulerName`` of generated pods.
        gpu_taint_key: key to tolerate on GPU nodes, empty when GPU nodes are not tainted.
        mount_paths: where volumes are mounted unless the workload sets it, by name of the volume.
        storage_class: class of volumes, empty for the cluster's default.
        priority_class: Kubernetes PriorityClass of the pods, empty for none.
        vendor_keys: resource keys of all vendors loaded at that time; any of them counts as GPUs.
        template_version: version of the generated templates, see `TEMPLATE_VERSION`.
        labels: the workload's own labels that its pods carry; a later edit of metadata alone changes no pod.
        annotations: likewise.
        contributions: settings of pod contributions, by name of the plugin.
        taken: what the backend takes from KaiwoConfig (:attr:`kaiwo.plugin.backends.Backend.takes`), as text.
        variables: environment variables from the defaults of the namespace.
        image_pull_secrets: Secrets from these defaults, beside the workload's own.
    """

    allocation: Allocation
    default_image: str = ""
    scheduler_name: str = ""
    gpu_taint_key: str = ""
    mount_paths: Mapping[str, str] = field(default_factory=dict)
    storage_class: str = ""
    priority_class: str = ""
    vendor_keys: tuple[str, ...] = ()
    template_version: int = TEMPLATE_VERSION
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    contributions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    taken: Mapping[str, str] = field(default_factory=dict)
    variables: tuple[SecretVariable, ...] = ()
    image_pull_secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RenderInput:
    """What a backend renders from.

    Attributes:
        workload: the user's workload.
        resolved: see :class:`Resolved`.
        queue: the assignment of the queue system; None when no queue system is loaded.
        contributions: pod contributions of loaded plugins, in loading order.
        settings: those of the plugin whose code is called; None for a plugin that has none.
    """

    workload: Workload
    resolved: Resolved
    queue: QueueAssignment | None = None
    contributions: tuple[PodContribution, ...] = ()
    settings: BaseModel | None = None


@dataclass(frozen=True, slots=True)
class PodContribution(Declaration):
    """A pure function that adds to a pod template.

    Attributes:
        name: short name; it is the origin that ``kaiwo plan --explain`` shows for what was added.
        contribute: takes the render input and the pod template made so far and returns a pod template.
            It must not change what it is given, and what the user wrote wins. A result that lacks a
            container, changes what the user runs in one or a label of Kaiwo, or contains null becomes
            ``PluginError``. The render input has the settings with which the workload's child was created;
            an edit of KaiwoConfig changes no running pod.
    """

    name: str
    contribute: Callable[[RenderInput, Object], Object]


Origin = Literal["user", "template", "default", "config", "nodes", "plugin", "system", "queue"]
"""Where a value came from: the user's own fields, the user's embedded block, a built-in default, KaiwoConfig,
the cluster's nodes, a plugin's contribution, Kaiwo's own bookkeeping, or the queue system."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """One object to create, with warnings and origins for the user.

    Attributes:
        child: the object, complete but for ownership and the annotations that the core adds.
        warnings: what was ignored or overridden, one sentence each.
        origins: JSON path (``spec.template.spec.containers[0].image``) to its origin, and in words which
            field or plugin.
        secondary: objects beside the child, by kind, each named like the workload and complete but for
            ownership; kinds that the backend lists as ``secondary``. One that is not rendered any more
            is deleted.
    """

    child: Object
    warnings: tuple[str, ...] = ()
    origins: Mapping[str, tuple[Origin, str]] = field(default_factory=dict)
    secondary: Mapping[Resource, Object] = field(default_factory=dict)
