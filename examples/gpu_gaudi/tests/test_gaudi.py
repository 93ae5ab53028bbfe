from __future__ import annotations

from pathlib import Path

import pytest

import kaiwo_batch_job.plugin
from kaiwo import testing
from kaiwo_gpu_gaudi import plugin

GOLDEN = Path(__file__).parent / "golden"
GAUDI3 = testing.node(
    "gaudi-1",
    gpus={"habana.ai/gaudi": 8},
    labels={"feature.node.kubernetes.io/pci-1200_1da3_1060.present": "true"},
)


def test_the_vendor_keeps_the_contract() -> None:
    """Whatever a Node looks like, recognising it is pure, total and honest about what is allocatable."""
    (vendor,) = testing.plugins(plugin).vendors
    testing.assert_vendor_contract(vendor, [GAUDI3, testing.node("plain", gpus={"habana.ai/gaudi": 1})])


@pytest.mark.parametrize(
    ("label", "model"),
    [
        ("pci-1200_1da3_1060.present", "gaudi3"),
        ("pci-1da3_1020.present", "gaudi2"),
        ("pci-1da3_1000.present", "gaudi"),
        ("pci-1da3_ffff.present", "gaudi"),
        ("pci-1200_1da3.present", "gaudi"),
        ("pci-10de_1060.present", "gaudi"),
    ],
)
def test_the_generation_comes_from_the_pci_device(label: str, model: str) -> None:
    """Users ask for a generation with gpuModels, so it must be the device's own."""
    node = testing.node(gpus={"habana.ai/gaudi": 8}, labels={f"feature.node.kubernetes.io/{label}": "true"})
    (gpus,) = plugin.recognise(node)
    assert (gpus.model, gpus.count, gpus.resource_key) == (model, 8, "habana.ai/gaudi")


def test_a_job_requests_gaudis() -> None:
    """Somebody who writes `gpuVendor: intel-gaudi` gets a pod that requests Gaudis and no other GPU."""
    loaded = testing.plugins(kaiwo_batch_job.plugin, plugin)
    workload = testing.job(
        gpus=2,
        gpuVendor="Intel-Gaudi",
        gpuModels=["gaudi3"],
        user="jane@example.com",
        image="registry.example/habana-pytorch:1",
        entrypoint="python train.py",
    )
    testing.assert_golden(testing.render(workload, loaded, nodes=[GAUDI3]), GOLDEN / "two_gaudis.yaml")
