from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kaiwo_gpu_amd.plugin
from kaiwo.plugin.vendors import NodeGpus, RequestedModel
from kaiwo.testing import assert_vendor_contract, node, plugins
from kaiwo_gpu_amd.plugin import recognise, requested

(VENDOR,) = plugins(kaiwo_gpu_amd.plugin).vendors
PRODUCT, DEVICE, COUNT = "amd.com/gpu.product-name", "amd.com/gpu.device-id", "beta.amd.com/gpu.family.AI"


@pytest.mark.parametrize(
    ("labels", "model"),
    [
        ({PRODUCT: "AMD_Instinct_MI300X_OAM"}, "mi300x"),
        ({PRODUCT: "AMD-Instinct-MI300X"}, "mi300x"),
        ({PRODUCT: "Instinct_MI250"}, "mi250"),
        ({PRODUCT: "AMD_Radeon_RX7900"}, "rx7900"),
        ({PRODUCT: "AMD_Instinct_MI300X_OAM", DEVICE: "740c"}, "mi300x"),
        ({DEVICE: "74a1"}, "mi300"),
        ({DEVICE: "740c"}, "mi250"),
        ({DEVICE: "73BF"}, "amd-73bf"),
        ({f"beta.{DEVICE}": "740c", f"beta.{DEVICE}.740c": "8"}, "mi250"),
        ({f"beta.{DEVICE}.74a1": "8", COUNT: "8"}, "mi300"),
        ({f"beta.{DEVICE}.6860": "1"}, "amd-6860"),
        ({f"beta.{DEVICE}.74a1": "4", f"beta.{DEVICE}.740c": "4"}, "unknown"),
        ({PRODUCT: "AMD_Instinct", DEVICE: "74a1"}, "mi300"),
        ({}, "unknown"),
    ],
)
def test_the_model_is_the_short_name(labels: dict[str, str], model: str) -> None:
    """Users and node pools use the name mi300x; without a product name the device id decides."""
    assert recognise(node(gpus={"amd.com/gpu": 8}, labels=labels)) == (NodeGpus(model, 8, "amd.com/gpu"),)


@pytest.mark.parametrize(
    ("gpus", "label", "count"),
    [
        ({"amd.com/gpu": 4}, "8", 4),
        ({"amd.com/gpu": 0}, "8", 0),
        ({}, "8", 8),
        ({}, "many", 0),
        ({}, None, 0),
    ],
)
def test_allocatable_counts_and_the_label_stands_in(
    gpus: dict[str, int], label: str | None, count: int
) -> None:
    """0 allocatable is 0 (the device plugin found them broken); only without the key the label speaks."""
    labels = {} if label is None else {COUNT: label}
    assert sum(found.count for found in recognise(node(gpus=gpus, labels=labels))) == count


def test_partitions_are_gpus_of_their_own_key() -> None:
    """A partitioned node shows several keys, and no whole GPU is made up from the label."""
    found = recognise(node(gpus={"amd.com/cpx_nps4": 64, "amd.com/spx_nps1": 1}, labels={COUNT: "8"}))
    assert {(gpus.resource_key, gpus.count) for gpus in found} == {
        ("amd.com/cpx_nps4", 64),
        ("amd.com/spx_nps1", 1),
    }


def test_the_vendor_keeps_the_contract() -> None:
    """What the host relies on holds."""
    assert_vendor_contract(
        VENDOR, [node(gpus={"amd.com/gpu": 8}, labels={PRODUCT: "AMD_Instinct_MI300X_OAM"})]
    )
    assert VENDOR.utilization is not None
    assert VENDOR.utilization.metric == "gpu_gfx_activity"


LABELS = [
    ("metadata",),
    ("metadata", "labels"),
    ("metadata", "labels", PRODUCT),
    ("metadata", "labels", COUNT),
]
COUNTS = [("status",), ("status", "allocatable"), ("status", "allocatable", "amd.com/gpu")]
ODD = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["labels", "allocatable", "amd.com/gpu", PRODUCT, COUNT]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


def with_odd(place: tuple[str, ...], odd: Any) -> Any:
    """A node with 8 GPUs and something odd at one place."""
    made: Any = node(gpus={"amd.com/gpu": 8}, labels={PRODUCT: "AMD_Instinct_MI300X"})
    *parents, last = place
    at = made
    for key in parents:
        at = at[key]
    at[last] = odd
    return made


@given(st.sampled_from(LABELS), ODD)
def test_no_label_hides_gpus(place: tuple[str, ...], odd: Any) -> None:
    """Whatever stands where labels belong, allocatable GPUs are counted."""
    assert [found.count for found in recognise(with_odd(place, odd))] == [8]


@given(st.sampled_from(COUNTS), ODD)
def test_no_status_breaks_planning(place: tuple[str, ...], odd: Any) -> None:
    """GPUs that are reported are at least one each."""
    assert all(found.count > 0 for found in recognise(with_odd(place, odd)))


def test_a_part_of_a_gpu_is_requested_by_its_name() -> None:
    """A workload needs no embedded template for it."""
    assert requested("mi300x-cpx_nps4") == RequestedModel("mi300x", "amd.com/cpx_nps4")
    assert requested("cpx_nps4") == RequestedModel("", "amd.com/cpx_nps4")
    assert requested("mi300x") is None
