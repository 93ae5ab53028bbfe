"""What ``kaiwo init`` shows of Kueue: the default configuration, and the objects that come of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.plugin.queue_setup import SetupFacts
from kaiwo.testing import node
from kaiwo_kueue.kinds import CLUSTER_QUEUE, QUEUE_CONFIG, RESOURCE_FLAVOR
from kaiwo_kueue.setup import plan_setup

if TYPE_CHECKING:
    from kaiwo.plugin.queue_setup import SetupPlan
    from kaiwo.plugin.vendors import GpuVendor

POOL = "amd-mi300x-8gpu-86core-921gi"
GPU_NODE = node(
    "gpu-1",
    labels={
        "amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM",
        "kaiwo/worker": "true",
        "kaiwo/nodepool": POOL,
        "kaiwo/gpu-model": "mi300x",
    },
    gpus={"amd.com/gpu": 8},
)


def plan(
    vendors: tuple[GpuVendor, ...], *nodes: Any, live: Any = None, kueue: bool = True, **config: Any
) -> SetupPlan:
    """The set-up for some nodes, with a KaiwoConfig."""
    objects: dict[Any, Any] = {QUEUE_CONFIG: () if live is None else (live,)}
    if kueue:
        objects |= {RESOURCE_FLAVOR: (), CLUSTER_QUEUE: ()}
    return plan_setup(
        SetupFacts(tuple(nodes), vendors, ResolvedConfig.from_object({"spec": config}), objects)
    )


def written(spec: Any, manager: str) -> Any:
    """A live KaiwoQueueConfig whose lists somebody wrote."""
    fields = {"f:spec": {"f:clusterQueues": {}, "f:resourceFlavors": {}}}
    return {
        "metadata": {"name": "kaiwo", "managedFields": [{"manager": manager, "fieldsV1": fields}]},
        "spec": spec,
    }


def test_a_new_cluster_gets_a_queue_over_its_pools(vendors: tuple[GpuVendor, ...]) -> None:
    """The configuration is written, flavors and queue are shown as the operator's."""
    found = plan(vendors, GPU_NODE)
    assert [(one.resource.kind, one.name, one.by_operator) for one in found.changes] == [
        ("KaiwoQueueConfig", "kaiwo", False),
        ("ResourceFlavor", POOL, True),
        ("ClusterQueue", "kaiwo", True),
    ]
    assert all(one.before is None for one in found.changes)
    assert found.notes == ()
    assert found.changes[0].after["resourceFlavors"] == [
        {"name": POOL, "nodeLabels": {"kaiwo/nodepool": POOL}}
    ]


def test_more_pools_than_kueue_takes_are_not_in_the_queue(vendors: tuple[GpuVendor, ...]) -> None:
    """Sixty pools with nine resources are 540 pairs: the queue that is shown is one that Kueue takes."""
    nodes = [
        node(
            f"n{number}",
            gpus={"nvidia.com/gpu": 1, f"nvidia.com/mig-{number % 5 + 1}g.10gb": 1},
            labels={"kaiwo/nodepool": f"p{number}"},
        )
        for number in range(60)
    ]
    found = plan(vendors, *nodes)
    (group,) = found.changes[0].after["clusterQueues"][0]["spec"]["resourceGroups"]
    assert len(group["flavors"]) == len(found.changes[0].after["resourceFlavors"]) == 56
    assert "60 node pools are more than the 56" in found.notes[0]


def test_a_second_run_changes_nothing_and_new_nodes_change_the_quota(
    vendors: tuple[GpuVendor, ...],
) -> None:
    """The configuration that the first run wrote is the operator's own, so it follows the nodes."""
    live = written(plan(vendors, GPU_NODE).changes[0].after, "kaiwo")
    again = plan(vendors, GPU_NODE, live=live).changes[0]
    assert again.before == again.after
    more = plan(
        vendors, GPU_NODE, {**GPU_NODE, "metadata": {**GPU_NODE["metadata"], "name": "gpu-2"}}, live=live
    )
    assert more.changes[0].before != more.changes[0].after
    assert "{'name': 'amd.com/gpu', 'nominalQuota': '16'}" in str(more.changes[0].after)


def test_a_configuration_of_somebody_else_stays(vendors: tuple[GpuVendor, ...]) -> None:
    """It is named whose it is; nothing is written."""
    spec = {"clusterQueues": [{"name": "mine", "spec": {"cohort": "c"}}]}
    found = plan(vendors, GPU_NODE, live=written(spec, "kubectl"))
    assert found.changes[0].before == found.changes[0].after == spec
    assert "KaiwoQueueConfig kaiwo was written by kubectl and stays as it is" in found.notes


def test_what_is_missing_is_said(vendors: tuple[GpuVendor, ...]) -> None:
    """No nodes, a node in no pool, no Kueue, and a configuration that cannot be read."""
    assert "no nodes" in plan(vendors).notes[0]
    bare = node("new")
    assert "no quota for nodes without a pool: new" in plan(vendors, bare).notes
    notes = plan(vendors, GPU_NODE, kueue=False).notes
    assert notes == ("Kueue is not installed (ResourceFlavor, ClusterQueue); nothing is queued before it is",)
    bad = plan(vendors, GPU_NODE, live=written({"clusterQueues": "x"}, "kubectl"))
    assert bad.changes == ()
    assert "clusterQueues" in bad.notes[-1]


def test_the_topology_that_kaiwoconfig_names_is_shown(vendors: tuple[GpuVendor, ...]) -> None:
    """With the levels that the nodes have now; the discovered flavors refer to it."""
    host = {"kubernetes.io/hostname": "gpu-1", "kaiwo/topology-rack": "r1"}
    placed = {
        **GPU_NODE,
        "metadata": {**GPU_NODE["metadata"], "labels": GPU_NODE["metadata"]["labels"] | host},
    }
    found = plan(vendors, placed, defaultTopologyName="halls")
    after = {one.resource.kind: one.after for one in found.changes}
    levels = [{"nodeLabel": "kaiwo/topology-rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
    assert after["Topology"] == {"levels": levels}
    assert after["ResourceFlavor"]["topologyName"] == "halls"
