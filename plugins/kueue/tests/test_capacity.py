from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry

from kaiwo.testing import node
from kaiwo_kueue.capacity_check import gpus_outside_queues, outside_text, quota_without_nodes
from kaiwo_kueue.capacity_gauges import CapacityGauges
from kaiwo_kueue.kinds import CLUSTER_QUEUE, RESOURCE_FLAVOR
from kaiwo_kueue.objects import DesiredObject
from kaiwo_kueue.pools import labelled_node

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.plugin.vendors import GpuVendor
    from kaiwo_kueue.objects import LiveObject
    from kaiwo_kueue.pools import LabelledNode

KEYS = ("amd.com/gpu", "nvidia.com/gpu")


def flavor(name: str = "f", **labels: str) -> DesiredObject:
    """A flavor that selects nodes by labels."""
    return DesiredObject(RESOURCE_FLAVOR, name, {"nodeLabels": labels})


def queue(resource: str = "amd.com/gpu", quota: Any = "8", flavor: str = "f") -> DesiredObject:
    """A queue with one quota."""
    resources = [{"name": resource, "nominalQuota": quota}]
    group = {"coveredResources": [resource], "flavors": [{"name": flavor, "resources": resources}]}
    return DesiredObject(CLUSTER_QUEUE, "q", {"resourceGroups": [group]})


@pytest.fixture
def nodes(vendors: tuple[GpuVendor, ...]) -> list[LabelledNode]:
    """One node with GPUs, one without."""
    return [
        labelled_node(node("a", gpus={"amd.com/gpu": 8}, labels={"rack": "1"}), vendors),
        labelled_node(node("b", labels={"rack": "2"}), vendors),
    ]


@pytest.mark.parametrize(
    ("item", "rack", "reason"),
    [
        (queue(), "1", ""),
        (queue(quota="0"), "2", ""),
        (queue("cpu", "500m"), "2", ""),
        (queue("rdma/hca"), "2", ""),
        (queue(), "2", "QuotaWithoutNodes"),
        (queue(), "3", "QuotaWithoutNodes"),
        (queue("amd.com/gpus"), "1", "QuotaWithoutNodes"),
        (queue("nvidia.com/gpu"), "1", "QuotaWithoutNodes"),
        (queue(quota="16500m"), "1", "FractionalGPUs"),
    ],
)
def test_a_gpu_quota_that_no_node_can_serve_is_reported(
    nodes: list[LabelledNode], item: DesiredObject, rack: str, reason: str
) -> None:
    """Kueue admits workloads to it, and they wait for ever; the queue and the flavor are named."""
    problems = quota_without_nodes([flavor(rack=rack), item], nodes, KEYS)
    assert [problem.reason for problem in problems] == ([reason] if reason else [])
    for problem in problems:
        assert problem.severity == "INFO"
        assert "ClusterQueue q, flavor f" in problem.message


def test_a_quota_of_gpus_that_come_back_is_not_reported(vendors: tuple[GpuVendor, ...]) -> None:
    """A device plugin restarts in a minute; nobody has to correct a name or to remove a quota."""
    made = node("a", gpus={"amd.com/gpu": 8}, labels={"rack": "1"})
    made["status"]["allocatable"]["amd.com/gpu"] = "0"
    objects = [flavor(rack="1"), queue()]
    assert quota_without_nodes(objects, [labelled_node(made, vendors)], KEYS) == []


def test_without_nodes_nothing_is_compared() -> None:
    """A new cluster whose nodes come with an autoscaler has no wrong quota."""
    assert quota_without_nodes([flavor(rack="1"), queue()], [], KEYS) == []


def test_gpus_that_no_queue_can_use_are_found(
    nodes: list[LabelledNode], live: Callable[..., LiveObject]
) -> None:
    """A flavor counts when a queue lists it, whoever made the queue; nodes without GPUs do not matter."""
    assert gpus_outside_queues([], [], nodes) == {"a": 8}
    assert gpus_outside_queues([flavor(rack="1")], [], nodes) == {"a": 8}
    assert gpus_outside_queues([flavor(rack="2"), queue()], [], nodes) == {"a": 8}
    assert gpus_outside_queues([flavor(rack="1"), queue()], [], nodes) == {}
    theirs = [live(flavor(rack="1"), owner=""), live(queue(), owner="")]
    assert gpus_outside_queues([], theirs, nodes) == {}
    assert "8 GPUs of the nodes a;" in outside_text({"a": 8})


def test_both_are_shown_as_metrics(nodes: list[LabelledNode]) -> None:
    """An alert needs a number; it goes back to 0 when the cause is gone."""
    registry = CollectorRegistry()
    gauges = CapacityGauges(registry)
    problems = quota_without_nodes([flavor(rack="2"), queue()], nodes, KEYS)
    gauges.show({"a": 8}, problems)
    assert registry.get_sample_value("kaiwo_gpus_outside_queues") == 8
    assert registry.get_sample_value("kaiwo_quotas_beyond_capacity") == 1
    gauges.show({}, [])
    assert registry.get_sample_value("kaiwo_gpus_outside_queues") == 0
    assert registry.get_sample_value("kaiwo_quotas_beyond_capacity") == 0
