"""AMD GPUs: resource keys, and how a node's model and count are recognised."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kaiwo.plugin import hookimpl
from kaiwo.plugin.kit.nodes import counted, labels_of, partition
from kaiwo.plugin.vendors import GpuTool, GpuVendor, Utilization
from kaiwo_gpu_amd.rocm_smi import ROCM_SMI, parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.plugin.kit.kinds import Object
    from kaiwo.plugin.vendors import NodeGpus, RequestedModel

KAIWO_API = 1

GPU = "amd.com/gpu"
KEYS = (GPU, "amd.com/spx_*", "amd.com/dpx_*", "amd.com/tpx_*", "amd.com/qpx_*", "amd.com/cpx_*")
"""Whole GPUs, and the compute partitions in the device plugin's mixed naming (``amd.com/cpx_nps4``)."""

PRODUCT = "amd.com/gpu.product-name"
DEVICE_ID = "amd.com/gpu.device-id"
OLD_DEVICE_ID = "beta.amd.com/gpu.device-id"
DEVICE_COUNT = "beta.amd.com/gpu.device-id."
COUNT = "beta.amd.com/gpu.family.AI"
"""Labels of AMD's node labeller."""

DEVICES = {"74a1": "mi300", "740c": "mi250"}
"""PCI device ids to models."""

UTILIZATION = Utilization(
    metric="gpu_gfx_activity",
    gpu_labels=("gpu_id", "gpu_partition_id", "gpu_uuid"),
    memory_used="gpu_used_vram",
    memory_total="gpu_total_vram",
)
"""Metrics of AMD's device metrics exporter."""

_NOISE = re.compile(r"instinct|radeon|_|oam|amd|series|gpu")
UNKNOWN = "unknown"


def model(labels: Mapping[str, str]) -> str:
    """The short name of a node's GPU model: from its product name, else from its device id."""
    name = _NOISE.sub("", labels.get(PRODUCT, "").lower()).strip("-. ")
    if name:
        return name
    device = (labels.get(DEVICE_ID) or labels.get(OLD_DEVICE_ID) or _counted_device(labels)).strip()
    device = device.lower().removeprefix("0x")
    if not device:
        return UNKNOWN
    return DEVICES.get(device, f"amd-{device}")


def _counted_device(labels: Mapping[str, str]) -> str:
    """The device id by the only form that old node labellers write: ``beta.amd.com/gpu.device-id.74a1=8``.

    Empty where GPUs of several models have one each.
    """
    found = [key.removeprefix(DEVICE_COUNT) for key in labels if key.startswith(DEVICE_COUNT)]
    return found[0] if len(found) == 1 else ""


def recognise(node: Object) -> tuple[NodeGpus, ...]:
    """The AMD GPUs of a node, one entry for each resource key."""
    return counted(node, KEYS, COUNT, model(labels_of(node)))


def requested(entry: str) -> RequestedModel | None:
    """What an entry of ``gpuModels`` asks for: a compute partition, alone or after a model, or a model."""
    return partition(entry, KEYS[1:])


@hookimpl
def kaiwo_gpu_vendors() -> list[GpuVendor]:
    """The vendor."""
    return [
        GpuVendor(
            name="amd",
            resource_keys=KEYS,
            recognise=recognise,
            requested=requested,
            utilization=UTILIZATION,
            tool=GpuTool(ROCM_SMI, parse),
        )
    ]
