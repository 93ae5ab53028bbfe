"""NVIDIA GPUs: resource keys, and how a node's model and count are recognised."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin import hookimpl
from kaiwo.plugin.kit.nodes import counted, labels_of, partition
from kaiwo.plugin.vendors import GpuTool, GpuVendor, Utilization
from kaiwo_gpu_nvidia.nvidia_smi import NVIDIA_SMI, parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.vendors import NodeGpus, RequestedModel

KAIWO_API = 1

GPU = "nvidia.com/gpu"
KEYS = (GPU, "nvidia.com/gpu.shared*", "nvidia.com/mig-*")
"""Whole GPUs, shared ones where the device plugin renames them (``renameByDefault``), and MIG profiles in its
mixed strategy (``nvidia.com/mig-1g.10gb``)."""

PRODUCT = "nvidia.com/gpu.product"
COUNT = "nvidia.com/gpu.count"
"""Labels of NVIDIA's GPU feature discovery."""

CLOUD_PRODUCTS = (
    "cloud.google.com/gke-accelerator",
    "eks.amazonaws.com/instance-gpu-name",
    "karpenter.k8s.aws/instance-gpu-name",
    "k8s.amazonaws.com/accelerator",
)
"""Labels of managed clusters with the name of the product; these often run no feature discovery."""

UTILIZATION = Utilization(
    metric="DCGM_FI_DEV_GPU_UTIL",
    gpu_labels=("gpu", "UUID", "GPU_I_ID", "vgpu"),
    memory_used="DCGM_FI_DEV_FB_USED",
    memory_free="DCGM_FI_DEV_FB_FREE",
)
"""Metrics of NVIDIA's DCGM exporter."""

UNKNOWN = "unknown"


def model(labels: Mapping[str, str]) -> str:
    """The short name of a node's GPU model: its product name in lower case without dashes."""
    found = (labels.get(key, "").lower().replace("-", "").strip() for key in (PRODUCT, *CLOUD_PRODUCTS))
    return next((name for name in found if name), UNKNOWN)


def recognise(node: Object) -> tuple[NodeGpus, ...]:
    """The NVIDIA GPUs of a node, one entry for each resource key."""
    return counted(node, KEYS, COUNT, model(labels_of(node)))


def requested(entry: str) -> RequestedModel | None:
    """What an entry of ``gpuModels`` asks for: a MIG profile, alone or after a model, or just a model."""
    return partition(entry, KEYS[1:])


@hookimpl
def kaiwo_gpu_vendors() -> list[GpuVendor]:
    """The vendor."""
    return [
        GpuVendor(
            name="nvidia",
            resource_keys=KEYS,
            recognise=recognise,
            requested=requested,
            utilization=UTILIZATION,
            tool=GpuTool(NVIDIA_SMI, parse),
        )
    ]
