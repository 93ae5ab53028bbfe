"""Facts about the cluster that are given to plugins, which read nothing from the cluster themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaiwo.plugin.vendors import NodeGpus


@dataclass(frozen=True, slots=True)
class VendorGpus:
    """GPUs of one vendor on one node: the vendor's name and what its plugin recognised."""

    vendor: str
    gpus: NodeGpus


@dataclass(frozen=True, slots=True)
class NodeFact:
    """One node as GPU planning sees it, real or expected from an autoscaler.

    Attributes:
        name: the node's name; for an expected node, the entry of ``nodes.expectedGpus`` it stands for.
        gpus: what each vendor plugin recognised.
        usable: the node is Ready and not cordoned; expected nodes are usable.
        count: how many equal nodes it stands for; 1 for a real one.
        model_label: value of its label ``kaiwo/gpu-model``, empty without one.
    """

    name: str
    gpus: tuple[VendorGpus, ...]
    usable: bool = True
    count: int = 1
    model_label: str = ""


@dataclass(frozen=True, slots=True)
class Blocked:
    """Why a workload cannot run now. It heals by itself when the named cause is gone.

    Attributes:
        reason: one CamelCase word from the documented list (``InsufficientGPUs``).
        message: what, where, why, next step, in one line.
        condition: the type of the condition for it, which becomes False.
        status: ``ERROR``, or ``PENDING`` where only waiting is needed.
    """

    reason: str
    message: str
    condition: str = "Schedulable"
    status: str = "ERROR"


@dataclass(frozen=True, slots=True)
class Allocation:
    """How a workload's GPUs are split over pods.

    ``replicas * gpus_per_replica`` is what the workload's own code gets as ``NUM_GPUS``.

    Attributes:
        vendor: vendor name, empty without GPUs.
        resource_key: extended resource to request, empty without GPUs.
        replicas: pods (or Ray workers) that share the work, as ``NUM_REPLICAS``.
        gpus_per_replica: GPUs of each.
        pods: pods that run at the same time and each take ``gpus_per_replica``; differs from
            ``replicas`` only for a batch Job with an embedded parallelism.
        models: GPU models the pods may run on; empty for any.
    """

    vendor: str = ""
    resource_key: str = ""
    replicas: int = 1
    gpus_per_replica: int = 0
    pods: int = 1
    models: tuple[str, ...] = ()

    @property
    def gpus(self) -> int:
        """Total that the workload's code gets as ``NUM_GPUS``."""
        return self.replicas * self.gpus_per_replica
