"""The labels that ``kaiwo init`` expects on nodes before an operator has run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.testing import node
from kaiwo_node_pools.predicted_labels import predicted_labels

if TYPE_CHECKING:
    from kaiwo.plugin.vendors import GpuVendor


def test_nodes_get_the_labels_that_the_controller_writes(vendors: tuple[GpuVendor, ...]) -> None:
    """Pool, worker and GPU model by the hardware."""
    gpu = node(
        "gpu-1",
        labels={"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"},
        gpus={"amd.com/gpu": 8},
    )
    cpu = node("cpu-1", cpu=32, memory="128Gi")
    assert predicted_labels([gpu, cpu], vendors, ResolvedConfig.defaults()) == {
        "gpu-1": {
            "kaiwo/worker": "true",
            "kaiwo/nodepool": "amd-mi300x-8gpu-86core-921gi",
            "kaiwo/gpu-model": "mi300x",
        },
        "cpu-1": {"kaiwo/worker": "true", "kaiwo/nodepool": "cpu-only-0gpu-28core-115gi"},
    }


def test_more_pools_than_every_kueue_takes_are_not_predicted(vendors: tuple[GpuVendor, ...]) -> None:
    """Which of them are merged depends on the cluster's Kueue."""
    nodes = [node(f"n-{cores}", cpu=cores) for cores in range(10, 190, 10)]
    assert predicted_labels(nodes, vendors, ResolvedConfig.defaults()) == {}
