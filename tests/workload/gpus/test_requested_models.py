"""Entries of ``gpuModels`` that ask for a part of a GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kaiwo.api.workload import Workload
from kaiwo.plugin.facts import Allocation, Blocked, NodeFact, VendorGpus
from kaiwo.plugin.kit.nodes import partition
from kaiwo.plugin.rendering import AllocationInput
from kaiwo.plugin.vendors import GpuVendor, NodeGpus, RequestedModel
from kaiwo.testing import job
from kaiwo.workload.errors import PluginError, SpecError
from kaiwo.workload.gpus.allocation import one_pod

KEYS = ("nvidia.com/gpu", "nvidia.com/gpu.shared*", "nvidia.com/mig-*")
VENDOR = GpuVendor("nvidia", KEYS, lambda _: (), requested=lambda entry: partition(entry, KEYS[1:]))
SLICE = "nvidia.com/mig-1g.10gb"


def node(name: str, model: str, **counts: int) -> NodeFact:
    """A node with these counts of resource keys, which follow the domain."""
    gpus = (
        NodeGpus(model, count, f"nvidia.com/{key.replace('__', '-', 1).replace('_', '.')}")
        for key, count in counts.items()
    )
    return NodeFact(name, tuple(VendorGpus("nvidia", one) for one in gpus))


NODES = (node("a", "h100", mig__1g_10gb=7), node("b", "a100", gpu=8, mig__1g_10gb=2))


def allocated(*models: str, vendor: GpuVendor = VENDOR, **spec: Any) -> Allocation | Blocked:
    """The allocation of a job that asks for these models."""
    workload = Workload.from_object(job(gpuVendor="nvidia", gpuModels=list(models), **{"gpus": 1, **spec}))
    return one_pod(AllocationInput(workload, (vendor,), NODES, ""))


@pytest.mark.parametrize(
    ("entry", "wanted"),
    [
        ("h100", None),
        ("gpu", None),
        ("migraine-9", None),
        ("mig-1g.10gb", RequestedModel("", SLICE)),
        ("H100-MIG-1g.10gb", RequestedModel("h100", SLICE)),
        ("a100-gpu.shared", RequestedModel("a100", "nvidia.com/gpu.shared")),
    ],
)
def test_an_entry_names_a_model_or_a_part_of_one(entry: str, wanted: RequestedModel | None) -> None:
    """The name of the resource key, alone or after the model, in any case."""
    assert partition(entry, KEYS[1:]) == wanted


def test_a_pod_requests_the_part_that_was_asked_for() -> None:
    """No embedded template is needed, and the node's model is still what its label says."""
    answer = allocated("h100-mig-1g.10gb")
    assert isinstance(answer, Allocation)
    assert (answer.resource_key, answer.models) == (SLICE, ("h100",))


def test_a_part_alone_takes_any_model() -> None:
    """The nodes of all models that have it count."""
    answer = allocated("mig-1g.10gb")
    assert isinstance(answer, Allocation)
    assert (answer.resource_key, answer.models) == (SLICE, ())


def test_the_room_is_that_of_the_part() -> None:
    """Eight whole GPUs are no room for three slices."""
    blocked = allocated("a100-mig-1g.10gb", gpus=3)
    assert isinstance(blocked, Blocked)
    assert f"asked for 3 nvidia GPUs ({SLICE}) of model a100 in one pod" in blocked.message


def test_a_model_asks_for_the_usual_key() -> None:
    """As before."""
    answer = allocated("a100")
    assert isinstance(answer, Allocation)
    assert (answer.resource_key, answer.models) == ("nvidia.com/gpu", ("a100",))


def test_entries_of_different_resources_are_refused() -> None:
    """A container requests one resource, and Kaiwo does not choose for the user."""
    with pytest.raises(SpecError, match=r"spec.gpuModels: .*mig-1g.10gb, nvidia.com/gpu"):
        allocated("h100-mig-1g.10gb", "a100")


def test_a_vendor_that_fails_harms_the_workload_alone() -> None:
    """The error names the plugin and what it was asked."""

    def broken(entry: str) -> RequestedModel | None:
        raise KeyError(entry)

    with pytest.raises(PluginError, match=r"plugin nvidia failed to say what the GPU model h100 asks for"):
        allocated("h100", vendor=replace(VENDOR, requested=broken))
