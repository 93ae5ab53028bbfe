from __future__ import annotations

from dataclasses import replace

import pytest

import kaiwo_gpu_nvidia.plugin
from kaiwo.plugin.vendors import NodeGpus, RequestedModel
from kaiwo.testing import assert_vendor_contract, node, plugins
from kaiwo.workload.monitoring.samples import Samples, meanings
from kaiwo_gpu_nvidia.plugin import recognise, requested

(VENDOR,) = plugins(kaiwo_gpu_nvidia.plugin).vendors
PRODUCT, COUNT = "nvidia.com/gpu.product", "nvidia.com/gpu.count"


@pytest.mark.parametrize(
    ("product", "model"),
    [
        ("Tesla-K80", "teslak80"),
        ("NVIDIA-A100-SXM4-80GB", "nvidiaa100sxm480gb"),
        ("NVIDIA-H100-80GB-HBM3", "nvidiah10080gbhbm3"),
        (None, "unknown"),
    ],
)
def test_the_model_is_the_product_without_dashes(product: str | None, model: str) -> None:
    """As node pools write it."""
    labels = {PRODUCT: product} if product else {}
    assert recognise(node(gpus={"nvidia.com/gpu": 8}, labels=labels)) == (
        NodeGpus(model, 8, "nvidia.com/gpu"),
    )


@pytest.mark.parametrize(
    ("label", "name", "model"),
    [
        ("cloud.google.com/gke-accelerator", "nvidia-h100-80gb", "nvidiah10080gb"),
        ("karpenter.k8s.aws/instance-gpu-name", "a100", "a100"),
        ("eks.amazonaws.com/instance-gpu-name", "l40s", "l40s"),
        ("k8s.amazonaws.com/accelerator", "nvidia-tesla-t4", "nvidiateslat4"),
    ],
)
def test_models_of_managed_clusters_without_feature_discovery_are_known(
    label: str, name: str, model: str
) -> None:
    """GKE and EKS label nodes themselves; without that all their GPUs would be one unknown model."""
    (found,) = recognise(node(gpus={"nvidia.com/gpu": 8}, labels={label: name}))
    assert found.model == model
    (found,) = recognise(node(gpus={"nvidia.com/gpu": 8}, labels={label: name, PRODUCT: "NVIDIA-L40S"}))
    assert found.model == "nvidial40s"


@pytest.mark.parametrize(
    ("gpus", "label", "count"),
    [
        ({"nvidia.com/gpu": 4}, "8", 4),
        ({"nvidia.com/gpu": 0}, "8", 0),
        ({}, "8", 8),
        ({}, "", 0),
        ({}, None, 0),
    ],
)
def test_allocatable_counts_and_the_label_stands_in(
    gpus: dict[str, int], label: str | None, count: int
) -> None:
    """0 allocatable is 0; only without the key the label speaks."""
    labels = {} if label is None else {COUNT: label}
    assert sum(found.count for found in recognise(node(gpus=gpus, labels=labels))) == count


def test_mig_slices_are_gpus_of_their_own_key() -> None:
    """A node in the mixed strategy shows slices beside its whole GPUs."""
    found = recognise(node(gpus={"nvidia.com/gpu": 7, "nvidia.com/mig-1g.10gb": 7}, labels={COUNT: "8"}))
    assert {(gpus.resource_key, gpus.count) for gpus in found} == {
        ("nvidia.com/gpu", 7),
        ("nvidia.com/mig-1g.10gb", 7),
    }
    (only,) = recognise(node(gpus={"nvidia.com/mig-7g.80gb": 8}, labels={COUNT: "8"}))
    assert only.resource_key == "nvidia.com/mig-7g.80gb"


def test_shared_gpus_are_no_whole_ones() -> None:
    """Where the device plugin renames what it shares, the label still counts the whole GPUs."""
    labels = {PRODUCT: "Tesla-T4-SHARED", COUNT: "8"}
    assert recognise(node(gpus={"nvidia.com/gpu.shared": 32}, labels=labels)) == (
        NodeGpus("teslat4shared", 32, "nvidia.com/gpu.shared"),
    )
    (whole,) = recognise(node(gpus={"nvidia.com/gpu": 8, "nvidia.com/gpu.shared": 0}, labels=labels))
    assert (whole.resource_key, whole.count) == ("nvidia.com/gpu", 8)


def test_the_vendor_keeps_the_contract() -> None:
    """What the host relies on holds."""
    assert_vendor_contract(VENDOR, [node(gpus={"nvidia.com/gpu": 4}, labels={PRODUCT: "Tesla-K80"})])
    assert VENDOR.utilization is not None
    assert VENDOR.utilization.metric == "DCGM_FI_DEV_GPU_UTIL"


def test_a_part_of_a_gpu_is_requested_by_its_name() -> None:
    """A workload needs no embedded template for it."""
    assert requested("h100-mig-1g.10gb") == RequestedModel("h100", "nvidia.com/mig-1g.10gb")
    assert requested("mig-1g.10gb") == RequestedModel("", "nvidia.com/mig-1g.10gb")
    assert requested("h100") is None


def test_shares_of_one_gpu_are_samples_of_their_own() -> None:
    """DCGM's exporter numbers them (KUBERNETES_VIRTUAL_GPUS); else two shares would have one sample."""
    assert VENDOR.utilization is not None
    found = Samples()
    (meaning,) = meanings([replace(VENDOR.utilization, memory_used="", memory_free="")]).values()
    pod = {"gpu": "0", "UUID": "GPU-5a1f", "namespace": "team", "pod": "train"}
    for share in ("0", "1"):
        found.add(meaning, {**pod, "vgpu": share}, 40.0)
    assert [gpu.use for gpu in found.of_pod("team", "train")] == [40.0, 40.0]
