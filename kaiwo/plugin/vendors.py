"""GPU vendors: which resource keys are theirs and what GPUs a node has."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kaiwo.plugin.declaration import Declaration
from kaiwo.plugin.rbac import PolicyRule

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import BaseModel

    from kaiwo.engine.resource import Object


@dataclass(frozen=True, slots=True)
class NodeGpus:
    """The GPUs of one vendor on one node.

    Attributes:
        model: the model's short name, as node pools and ``gpuModels`` write it (``mi300x``).
        count: GPUs that pods may use: allocatable of the resource key when present (0 is 0),
            else the vendor's own count label.
        resource_key: the extended resource to request.
    """

    model: str
    count: int
    resource_key: str


@dataclass(frozen=True, slots=True)
class RequestedModel:
    """What an entry of ``gpuModels`` asks for.

    Attributes:
        model: the model of the nodes, as :class:`NodeGpus` has it; empty for any.
        resource_key: the extended resource that pods request; empty for the vendor's usual one.
    """

    model: str
    resource_key: str = ""


@dataclass(frozen=True, slots=True)
class Utilization:
    """How a vendor's exporter names GPU utilization in Prometheus text.

    Attributes:
        metric: metric name, a percentage from 0 to 100.
        namespace_label: label that carries the pod's namespace.
        pod_label: label that carries the pod's name.
        gpu_labels: labels whose values together tell a pod's GPUs apart; empty: each sample is a GPU.
        memory_used: name of the metric of used GPU memory, empty if unknown. It has the same labels.
        memory_free: name of the metric of free GPU memory, in the same unit.
        memory_total: name of the metric of all GPU memory, in the same unit; one of the two is enough.
    """

    metric: str
    namespace_label: str = "namespace"
    pod_label: str = "pod"
    gpu_labels: tuple[str, ...] = ()
    memory_used: str = ""
    memory_free: str = ""
    memory_total: str = ""


@dataclass(frozen=True, slots=True)
class GpuReading:
    """What a vendor's tool says of one GPU now.

    Attributes:
        gpu: its index or name in the container.
        model: name of the model, empty if unknown.
        use_percent: how busy it is, None if unknown.
        memory_used: bytes, None if unknown.
        memory_total: bytes, None if unknown.
    """

    gpu: str
    model: str = ""
    use_percent: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None


@dataclass(frozen=True, slots=True)
class GpuTool:
    """A program in the container's image, or put there by the device plugin, that reads the GPUs.

    Attributes:
        command: program and arguments.
        parse: pure function from what it wrote to the GPUs; raises ValueError for anything else.
    """

    command: tuple[str, ...]
    parse: Callable[[str], tuple[GpuReading, ...]]


_READS_NODES: Final = (PolicyRule(("",), ("nodes",), ("get", "list", "watch"), "which GPUs nodes have"),)


@dataclass(frozen=True, slots=True)
class GpuVendor(Declaration):
    """A GPU vendor.

    Attributes:
        name: what users write in ``gpuVendor``, lower case (``amd``).
        resource_keys: extended resources that are this vendor's GPUs; the first is requested by default. All
            but the first may end in ``*`` for a family of keys (``nvidia.com/mig-*``).
        recognise: pure function from a Node object to its GPUs of this vendor; empty when there are none.
            Reads only ``metadata.labels``, ``status.allocatable`` and ``status.capacity``. Where the vendor
            names a settings model, the second argument is the plugin's settings.
        utilization: where utilization is to be found, None if unknown.
        tool: the program that ``kaiwo monitor`` runs in a pod, None if there is none.
        rules: what it needs of the cluster: the operator reads nodes only where a vendor is loaded.
        requested: pure function: what an entry of ``gpuModels`` asks for, where some of them name a part of a
            GPU with a resource key of its own (``h100-mig-1g.10gb``); None for an entry that is just a model.
            :func:`kaiwo.plugin.kit.nodes.partition` reads the usual form.
    """

    name: str
    resource_keys: tuple[str, ...]
    recognise: Callable[..., tuple[NodeGpus, ...]]
    utilization: Utilization | None = None
    tool: GpuTool | None = None
    rules: tuple[PolicyRule, ...] = _READS_NODES
    requested: Callable[[str], RequestedModel | None] | None = None

    def gpus_of(self, node: Object) -> tuple[NodeGpus, ...]:
        """The GPUs of a node; with default settings unless :meth:`with_settings` gave others."""
        return self.recognise(node) if self.settings is None else self.recognise(node, self.settings())

    def with_settings(self, current: Callable[[], BaseModel | None]) -> GpuVendor:
        """The vendor with settings, which are read at each call of `recognise`.

        Args:
            current: returns the plugin's settings, or None for the defaults.
        """
        model, recognise = self.settings, self.recognise
        if model is None:
            return self

        def recognised(node: Object) -> tuple[NodeGpus, ...]:
            given = current()
            return recognise(node, model() if given is None else given)

        return replace(self, recognise=recognised, settings=None)
