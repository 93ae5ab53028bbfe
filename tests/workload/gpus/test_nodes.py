from __future__ import annotations

from typing import Any

import pytest

from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.plugin.vendors import GpuVendor, NodeGpus
from kaiwo.testing import config, node
from kaiwo.workload.gpus.capacity import capacity
from kaiwo.workload.gpus.nodes import expected_nodes, node_fact


def two_gpus(_: object) -> tuple[NodeGpus, ...]:
    """Recognise two GPUs on everything."""
    return (NodeGpus("m1", 2, "acme.com/gpu"),)


def broken(_: object) -> tuple[NodeGpus, ...]:
    """Fail on everything."""
    raise RuntimeError("no idea")


ACME = GpuVendor("acme", ("acme.com/gpu",), two_gpus)


@pytest.mark.parametrize(
    ("arguments", "usable"),
    [
        ({}, True),
        ({"ready": False}, False),
        ({"cordoned": True}, False),
        ({"labels": {"kubernetes.io/os": "linux"}}, True),
        ({"labels": {"kubernetes.io/os": "windows"}}, False),
    ],
)
def test_only_ready_and_uncordoned_nodes_are_usable(arguments: dict[str, Any], usable: bool) -> None:
    """A node in maintenance is not counted on."""
    assert node_fact(node(**arguments), [ACME]).usable is usable


def test_a_vendor_plugin_that_raises_harms_only_itself() -> None:
    """The other vendors of a node are still recognised, and the failure is reported."""
    failures: list[str] = []
    fact = node_fact(
        node(),
        [GpuVendor("bad", ("bad.com/gpu",), broken), ACME],
        lambda name, error: failures.append(f"{name} {error}"),
    )
    assert [item.vendor for item in fact.gpus] == ["acme"]
    assert failures == ["bad no idea"]


@pytest.mark.parametrize(
    "odd", [{}, {"status": []}, {"metadata": None, "status": {"conditions": [None, "x"]}}]
)
def test_nonsense_nodes_are_unusable(odd: dict[str, Any]) -> None:
    """A node without a status has no effect."""
    assert not node_fact(odd, []).usable


def test_expected_nodes_count_without_being_there() -> None:
    """What an autoscaler can bring counts, two thousand million nodes at no cost; unknown vendors do not."""
    entries = [
        {"vendor": "ACME", "model": "M1", "gpusPerNode": 4, "maxNodes": 2**31 - 1},
        {"vendor": "acme", "gpusPerNode": 2, "maxNodes": 3},
        {"vendor": "acme", "gpusPerNode": 16, "maxNodes": 0},
        {"vendor": "other", "gpusPerNode": 8, "maxNodes": 8},
    ]
    facts = expected_nodes(ResolvedConfig.from_object(config(nodes={"expectedGpus": entries})), [ACME])
    room = capacity(facts, "acme", "acme.com/gpu")
    assert (room.largest, room.nodes) == (4, 2**31 + 2)
    # An entry without a model may bring any model.
    assert capacity(facts, "acme", "acme.com/gpu", {"m2"}).total == 6
