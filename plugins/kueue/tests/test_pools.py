from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.engine.resource import NODE
from kaiwo.testing import node
from kaiwo_kueue.defaults import resource_groups
from kaiwo_kueue.kinds import RESOURCE_FLAVOR
from kaiwo_kueue.label_check import missing_labels
from kaiwo_kueue.objects import DesiredObject
from kaiwo_kueue.pool_reader import LABEL_TIMEOUT, PoolReader
from kaiwo_kueue.pools import labelled_node, quota_pools

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.vendors import GpuVendor

    Vendors = tuple[GpuVendor, ...]


def amd(name: str = "a1", *, pool: str = "amd", gpus: int = 8, **more: Any) -> Object:
    """A labelled node with AMD GPUs."""
    labels = {
        "amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM",
        "kaiwo/worker": "true",
        "kaiwo/gpu-model": "mi300x",
        "kaiwo/nodepool": pool,
        **more.pop("labels", {}),
    }
    return node(name, gpus={"amd.com/gpu": gpus}, labels=labels, **more)


def test_a_quota_is_nine_tenths_of_the_capacity_in_bytes_and_cores(vendors: Vendors) -> None:
    """Memory counts whole GiB first, ephemeral storage does not, GPUs count as they are."""
    made = amd(cpu=16, memory="68000000Ki")
    made["status"]["capacity"]["ephemeral-storage"] = "1000"
    (pool,) = quota_pools([labelled_node(made, vendors)])
    assert pool.quota == {
        "cpu": 14,
        "memory": 64 * 2**30 * 9 // 10,
        "ephemeral-storage": 900,
        "amd.com/gpu": 8,
    }


def test_the_gpus_of_all_vendors_are_in_the_quota(vendors: Vendors) -> None:
    """A node with GPUs of two vendors offers both."""
    both = node(gpus={"amd.com/gpu": 4, "nvidia.com/gpu": 4}, labels={"kaiwo/nodepool": "both"})
    (pool,) = quota_pools([labelled_node(both, vendors)])
    assert (pool.quota["amd.com/gpu"], pool.quota["nvidia.com/gpu"]) == (4, 4)


def test_cordoned_nodes_add_no_quota_and_nodes_that_are_not_ready_keep_theirs(vendors: Vendors) -> None:
    """A cordoned node adds nothing, one that is not ready keeps its quota, a control plane as configured."""
    control = amd("d", labels={"node-role.kubernetes.io/control-plane": ""})
    nodes = [amd("a"), amd("b", cordoned=True), amd("c", ready=False), control]
    (pool,) = quota_pools([labelled_node(item, vendors) for item in nodes])
    assert pool.nodes == ("a", "c", "d")
    (pool,) = quota_pools([labelled_node(item, vendors, exclude_control_plane=True) for item in nodes])
    assert pool.nodes == ("a", "c")


def test_pools_follow_labels_and_begin_with_those_without_gpus(vendors: Vendors) -> None:
    """Whoever wrote the label; a model counts only where all nodes of the pool show it."""
    nodes = [
        amd("a", pool="large"),
        amd("b", pool="small", gpus=2),
        amd("c", pool="small", gpus=4, labels={"kaiwo/gpu-model": "mi325x"}),
        node("d", labels={"kaiwo/nodepool": "plain"}),
        node("e"),
    ]
    found = quota_pools([labelled_node(item, vendors) for item in nodes])
    assert [(pool.name, pool.gpu_model, pool.size[0]) for pool in found] == [
        ("plain", "", 0),
        ("small", "", 2),
        ("large", "mi300x", 8),
    ]


class Cluster:
    """Nodes as the host's cache gives them to a reader."""

    def __init__(self, vendors: Vendors, *, nodes_labelled: bool = True) -> None:
        self.listeners: list[Any] = []
        manager = SimpleNamespace(watch=lambda _: None, cache=self)
        config = SimpleNamespace(exclude_master_nodes_from_node_pools=False)
        self.host: Any = SimpleNamespace(
            manager=manager,
            vendors=vendors,
            config=lambda: config,
            on_config_change=lambda _: None,
            nodes_labelled=nodes_labelled,
        )

    def subscribe(self, kind: object, listener: Any) -> None:
        """Keep the listener for nodes."""
        assert kind == NODE
        self.listeners.append(listener)

    def shows(self, made: Object) -> None:
        """A node was added or changed."""
        entry = SimpleNamespace(name=made["metadata"]["name"], full=lambda: made)
        for listener in self.listeners:
            listener(SimpleNamespace(latest=entry, new=entry))


def test_a_default_queue_waits_until_all_nodes_are_labelled(vendors: Vendors) -> None:
    """It is made once; a node that nobody can label does not hold it up for long."""
    cluster, now = Cluster(vendors), 0.0
    reader = PoolReader(cluster.host, clock=lambda: now)
    cluster.shows(amd("a"))
    assert reader.label_wait() == 0
    cluster.shows(node("b"))
    assert reader.label_wait() == LABEL_TIMEOUT
    now = LABEL_TIMEOUT - 1
    assert reader.label_wait() == 1
    cluster.shows(amd("b"))
    assert reader.label_wait() == 0
    cluster.shows(node("c"))
    now += 2 * LABEL_TIMEOUT
    assert reader.label_wait() == LABEL_TIMEOUT
    now += LABEL_TIMEOUT
    assert reader.label_wait() == 0


def test_nobody_waits_for_labels_that_nobody_writes(vendors: Vendors) -> None:
    """Without the plugin node_pools an administrator may have labelled some nodes and left others out."""
    cluster = Cluster(vendors, nodes_labelled=False)
    reader = PoolReader(cluster.host)
    cluster.shows(node("a"))
    assert reader.unlabelled == ["a"]
    assert reader.label_wait() == 0


def test_merged_and_waiting_nodes_are_read_from_annotations(vendors: Vendors) -> None:
    """The plugin that labels nodes records there what it did; more pools than flavors are left out."""
    cluster = Cluster(vendors)
    reader = PoolReader(cluster.host)
    merged, moving = amd("a", pool="m"), amd("b", pool="old")
    merged["metadata"]["annotations"] = {"kaiwo.silogen.ai/nodepool-merged-from": "n"}
    moving["metadata"]["annotations"] = {"kaiwo.silogen.ai/nodepool-pending": "new"}
    cluster.shows(merged)
    cluster.shows(moving)
    assert (reader.merged, reader.pending, reader.left_out) == ({"n": "m"}, {"b": "old"}, ())
    reader.limit = 1
    assert ([pool.name for pool in reader.pools], reader.left_out) == (["m"], ("old",))


def test_a_group_has_no_more_pairs_of_flavor_and_resource_than_kueue_takes(vendors: Vendors) -> None:
    """Sixty kinds of nodes with six GPU keys: Kueue's webhook refuses a queue with 60 * 9 pairs."""
    cluster = Cluster(vendors)
    reader = PoolReader(cluster.host)
    for number in range(60):
        key = f"nvidia.com/mig-{number % 5 + 1}g.10gb"
        cluster.shows(
            node(f"n{number}", gpus={"nvidia.com/gpu": 1, key: 1}, labels={"kaiwo/nodepool": f"p{number}"})
        )
    (group,) = resource_groups(reader.pools)
    assert len(group["coveredResources"]) == 9
    assert len(group["flavors"]) == 512 // 9
    assert len(reader.left_out) == 60 - 512 // 9


@pytest.mark.parametrize(
    ("labels", "reported"),
    [
        ({"kaiwo/worker": "true"}, ["f"]),
        ({"kaiwo/nodepool": "p", "kaiwo/worker": "true"}, ["f"]),
        ({"rack": "7"}, []),
    ],
)
def test_a_flavor_that_selects_labels_that_nobody_writes_is_reported(
    vendors: Vendors, labels: Object, reported: list[str]
) -> None:
    """With the missing plugin and what else to do; labels set by hand are as good."""
    flavor = DesiredObject(RESOURCE_FLAVOR, "f", {"nodeLabels": labels})
    problems = missing_labels([flavor], [labelled_node(node("a"), vendors)])
    assert [problem.name for problem in problems] == reported
    assert all("add node_pools" in problem.message for problem in problems)
    assert missing_labels([flavor], [labelled_node(amd("a"), vendors)]) == []
    assert missing_labels([flavor], []) == []


def test_unlabelled_nodes_without_any_flavor_are_reported(vendors: Vendors) -> None:
    """The default queue would be empty, and nobody would know why."""
    (problem,) = missing_labels([], [labelled_node(node("a"), vendors)])
    assert (problem.reason, problem.severity) == ("NodePoolsNotLoaded", "FAILED")
    assert "kaiwo/nodepool" in problem.message


def test_a_pool_has_the_taints_that_all_its_nodes_have(vendors: Vendors) -> None:
    """A taint that keeps pods away from some nodes leaves others; one that shows a state passes."""
    control = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    team = {"key": "team", "value": "a", "effect": "NoExecute"}
    passing = [
        {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
        {"key": "node.cilium.io/agent-not-ready", "effect": "NoSchedule"},
        {"key": "soft", "effect": "PreferNoSchedule"},
    ]

    def tainted(name: str, *taints: Object) -> Object:
        made = node(name, labels={"kaiwo/nodepool": "cpu"})
        made["spec"]["taints"] = list(taints)
        return made

    nodes = [tainted("a", control, team, *passing), tainted("b", control, *passing)]
    (pool,) = quota_pools([labelled_node(item, vendors) for item in nodes])
    assert pool.taints == (("node-role.kubernetes.io/control-plane", "", "NoSchedule"),)
    (pool,) = quota_pools([labelled_node(item, vendors) for item in [*nodes, tainted("c")]])
    assert pool.taints == ()
