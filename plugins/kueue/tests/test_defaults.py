from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kaiwo.testing import node
from kaiwo_kueue.defaults import computed_lists, default_spec, flavors, follow_pools, updated_spec
from kaiwo_kueue.kinds import RESOURCE_FLAVOR
from kaiwo_kueue.objects import ConfigOwner
from kaiwo_kueue.pools import labelled_node, quota_pools
from kaiwo_kueue.sync import plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.vendors import GpuVendor
    from kaiwo_kueue.desired import DesiredObjects
    from kaiwo_kueue.objects import DesiredObject, LiveObject

    Wants = Callable[..., DesiredObjects]

MINE_CLASS: Object = {"name": "high", "value": 1}
MINE: Object = {"name": "mine", "spec": {"cohort": "c"}}


def flavor_of(found: DesiredObjects, name: str) -> DesiredObject:
    """The ResourceFlavor of a name."""
    return next(item for item in found.objects if item.kind == RESOURCE_FLAVOR and item.name == name)


AMD_POOL = "amd-mi300x-8gpu-86core-921gi"
CPU_POOL = "cpu-only-0gpu-28core-115gi"


@pytest.fixture
def cluster() -> list[Object]:
    """One node without GPUs, two with, labelled with their pools."""
    labels = {
        "amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM",
        "kaiwo/nodepool": AMD_POOL,
        "kaiwo/gpu-model": "mi300x",
    }
    return [
        node("cpu-1", cpu=32, memory="128Gi", labels={"kaiwo/nodepool": CPU_POOL}),
        node("amd-1", gpus={"amd.com/gpu": 8}, labels=labels),
        node("amd-2", gpus={"amd.com/gpu": 8}, labels=labels),
    ]


@pytest.mark.parametrize(
    "label",
    ["Gold_Nodes", "a..b", "a_b", "G" + "_" * 61 + "G", "-".join("Ab" * 20)],
    ids=lambda text: text[:10],
)
def test_a_pool_by_hand_may_have_a_label_that_no_object_may_be_named(
    wants: Wants, vendors: tuple[GpuVendor, ...], label: str
) -> None:
    """Its flavor gets a legal name of its own and selects the label: one such node stops no queue."""
    members = [
        node("cpu-1", labels={"kaiwo/nodepool": CPU_POOL}),
        node("amd-1", gpus={"amd.com/gpu": 8}, labels={"kaiwo/nodepool": label, "kaiwo/gpu-model": "mi300x"}),
        node("amd-2", labels={"kaiwo/nodepool": label.lower() + "1"}),
    ]
    nodes = [labelled_node(item, vendors) for item in members]
    found = quota_pools(nodes)
    spec = default_spec(found, "kaiwo", "kaiwo")
    result = wants(spec, pools=found, nodes=nodes, gpu_taint="gpu")
    assert not result.problems
    pool = next(pool for pool in found if pool.label == label)
    assert len(pool.name) <= 63
    assert len({each.name for each in found}) == 3
    flavor = flavor_of(result, pool.name).spec
    assert flavor["nodeLabels"] == {
        "kaiwo/nodepool": label, "kaiwo/gpu-model": "mi300x", "kaiwo/worker": "true",
    }  # fmt: skip
    assert flavor["nodeTaints"]
    followed = follow_pools(spec, found, "kaiwo", "kaiwo")
    assert followed["clusterQueues"] == spec["clusterQueues"]
    assert follow_pools(followed, found, "kaiwo", "kaiwo") == followed


def test_the_default_configuration_is_made_from_the_nodes(
    wants: Wants, cluster: list[Object], vendors: tuple[GpuVendor, ...]
) -> None:
    """One queue over all pools, quotas as texts, every flavor with every resource, GPU-less first."""
    found = quota_pools([labelled_node(item, vendors) for item in cluster])
    spec = default_spec(found, "kaiwo", "kaiwo")
    assert spec == {
        "clusterQueues": [
            {
                "name": "kaiwo",
                "spec": {
                    "cohort": "kaiwo",
                    "namespaceSelector": {},
                    "resourceGroups": [
                        {
                            "coveredResources": ["cpu", "memory", "ephemeral-storage", "amd.com/gpu"],
                            "flavors": [
                                {
                                    "name": CPU_POOL,
                                    "resources": [
                                        {"name": "cpu", "nominalQuota": "28"},
                                        {"name": "memory", "nominalQuota": str(128 * 2**30 * 9 // 10)},
                                        {"name": "ephemeral-storage", "nominalQuota": "0"},
                                        {"name": "amd.com/gpu", "nominalQuota": "0"},
                                    ],
                                },
                                {
                                    "name": AMD_POOL,
                                    "resources": [
                                        {"name": "cpu", "nominalQuota": "172"},
                                        {"name": "memory", "nominalQuota": str(2 * (1024 * 2**30 * 9 // 10))},
                                        {"name": "ephemeral-storage", "nominalQuota": "0"},
                                        {"name": "amd.com/gpu", "nominalQuota": "16"},
                                    ],
                                },
                            ],
                        }
                    ],
                },
            }
        ],
        "resourceFlavors": [
            {"name": CPU_POOL, "nodeLabels": {"kaiwo/nodepool": CPU_POOL}},
            {"name": AMD_POOL, "nodeLabels": {"kaiwo/nodepool": AMD_POOL}},
        ],
    }
    asked = wants(spec, pools=found, gpu_taint="kaiwo.silogen.ai/gpu")
    assert not asked.problems
    assert flavor_of(asked, AMD_POOL).spec == {
        "nodeLabels": {"kaiwo/nodepool": AMD_POOL, "kaiwo/gpu-model": "mi300x", "kaiwo/worker": "true"},
        "nodeTaints": [{"key": "kaiwo.silogen.ai/gpu", "value": "true", "effect": "NoSchedule"}],
    }
    assert "nodeTaints" not in flavor_of(asked, CPU_POOL).spec


def test_a_discovered_flavor_without_gpus_has_the_taints_of_its_nodes(
    cluster: list[Object], wants: Wants, vendors: tuple[GpuVendor, ...]
) -> None:
    """Kueue would admit jobs to a control plane first, where they never run.

    Not those of GPU nodes: for these a cluster often adds tolerations to pods. Not with a topology: Kueue
    reads the nodes then.
    """
    for item in cluster:
        item["spec"]["taints"] = [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]
    found = quota_pools([labelled_node(item, vendors) for item in cluster])
    asked = wants(default_spec(found, "kaiwo", "kaiwo"), pools=found)
    taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    assert flavor_of(asked, CPU_POOL).spec["nodeTaints"] == [taint]
    assert "nodeTaints" not in flavor_of(asked, AMD_POOL).spec
    listed = {"resourceFlavors": [{**entry, "topologyName": "t"} for entry in flavors(found)]}
    assert "nodeTaints" not in flavor_of(wants(listed, pools=found), CPU_POOL).spec
    own = {
        "resourceFlavors": [
            {**entry, "taints": [{"key": "a", "effect": "NoExecute"}]} for entry in flavors(found)
        ]
    }
    assert flavor_of(wants(own, pools=found), CPU_POOL).spec["nodeTaints"] == [
        {"key": "a", "effect": "NoExecute"}
    ]


def test_a_default_made_before_any_node_gets_its_quotas_with_the_first(
    wants: Wants, cluster: list[Object], vendors: tuple[GpuVendor, ...]
) -> None:
    """A new cluster has a queue at once; what somebody wrote, or was made from nodes, is not rewritten."""
    found = quota_pools([labelled_node(item, vendors) for item in cluster])
    empty = default_spec((), "kaiwo", "kaiwo")
    asked = wants(empty)
    assert not asked.problems
    assert [item.name for item in asked.objects] == ["kaiwo"]
    assert updated_spec(empty, (), "kaiwo", "kaiwo", dynamically=True) == empty
    made = updated_spec(empty, found, "kaiwo", "kaiwo", dynamically=False)
    assert made == default_spec(found, "kaiwo", "kaiwo")
    for theirs in (made, {"clusterQueues": [{"name": "kaiwo"}]}, {}):
        assert updated_spec(theirs, found[:1], "kaiwo", "kaiwo", dynamically=False) == theirs


@pytest.mark.parametrize("names", [("kaiwo", "team"), ("main", "kaiwo"), ("main", "team")])
def test_a_default_made_before_any_node_follows_names_that_changed_meanwhile(
    cluster: list[Object], vendors: tuple[GpuVendor, ...], names: tuple[str, str]
) -> None:
    """KaiwoConfig may come after the operator; the queue of an administrator is not taken for the default."""
    found = quota_pools([labelled_node(item, vendors) for item in cluster])
    empty = default_spec((), "kaiwo", "kaiwo")
    assert updated_spec(empty, found, *names, dynamically=False, ours=True) == default_spec(found, *names)
    assert updated_spec(empty, found, *names, dynamically=False) == empty
    made = default_spec(found, "kaiwo", "kaiwo")
    assert updated_spec(made, found, *names, dynamically=False, ours=True) == made
    for odd in ({}, {"clusterQueues": []}, {"clusterQueues": [{"name": "kaiwo"}]}, {"clusterQueues": None}):
        assert updated_spec(odd, found, *names, dynamically=False, ours=True) == odd


def test_a_default_that_follows_the_nodes_has_one_queue_whatever_it_was_called(
    cluster: list[Object], vendors: tuple[GpuVendor, ...]
) -> None:
    """A second one over the same nodes would double their quota; pools by hand leave as others do."""
    for item in cluster[1:]:
        item["metadata"]["labels"]["kaiwo/nodepool"] = "gold"
    found = quota_pools([labelled_node(item, vendors) for item in cluster])
    spec = {**default_spec(found, "kaiwo", "kaiwo"), "workloadPriorityClasses": [MINE_CLASS]}
    new = updated_spec(spec, found[:1], "main", "team", dynamically=True, ours=True)
    assert new == {**default_spec(found[:1], "main", "team"), "workloadPriorityClasses": [MINE_CLASS]}
    theirs = updated_spec(spec, found, "main", "team", dynamically=True)
    assert [entry["name"] for entry in theirs["clusterQueues"]] == ["main", "kaiwo"]


def test_discovered_flavors_stand_in_for_an_empty_list(
    wants: Wants, cluster: list[Object], vendors: tuple[GpuVendor, ...]
) -> None:
    """The user's spec stays as it is written."""
    found = quota_pools([labelled_node(item, vendors) for item in cluster])
    asked = wants({"clusterQueues": default_spec(found, "q", "c")["clusterQueues"]}, pools=found)
    assert not asked.problems
    assert flavor_of(asked, AMD_POOL).name == AMD_POOL


@pytest.mark.parametrize(
    "away", ["cordoned", "removed", "all removed", "pool by hand cordoned", "pool by hand removed"]
)
def test_a_discovered_flavor_stays_while_its_nodes_are_away(
    wants: Wants,
    live: Callable[..., LiveObject],
    cluster: list[Object],
    vendors: tuple[GpuVendor, ...],
    away: str,
) -> None:
    """A node under maintenance, and a pool that is scaled to zero, leave the status READY."""
    if "by hand" in away:
        for item in cluster[1:]:
            item["metadata"]["labels"]["kaiwo/nodepool"] = "Gold_Nodes"
    before = [labelled_node(item, vendors) for item in cluster]
    spec = {"clusterQueues": default_spec(quota_pools(before), "q", "c")["clusterQueues"]}
    made = wants(spec, pools=quota_pools(before), nodes=before).objects
    there = [live(item) for item in made]
    if "removed" in away:
        after = [] if away == "all removed" else before[:1]
    else:
        after = [before[0], *(replace(node, counts=False) for node in before[1:])]
    asked = wants(
        spec,
        pools=quota_pools(after),
        nodes=after,
        existing_flavors={
            item.name: item.spec["nodeLabels"] for item in made if item.kind == RESOURCE_FLAVOR
        },
    )
    assert not [problem for problem in asked.problems if problem.severity != "INFO"]
    done = plan(asked.objects, there, owner=ConfigOwner(there[0].owner), unusable=asked.unusable)
    assert (done.actions, done.problems) == ((), ())


def test_a_flavor_that_an_administrator_removes_from_the_list_is_not_away(
    wants: Wants, cluster: list[Object], vendors: tuple[GpuVendor, ...]
) -> None:
    """One that was listed, and that a queue still lists, is reported."""
    nodes = [labelled_node(item, vendors) for item in cluster]
    group = {
        "coveredResources": ["cpu"],
        "flavors": [{"name": "own", "resources": [{"name": "cpu", "nominalQuota": 1}]}],
    }
    spec = {"clusterQueues": [{"name": "q", "spec": {"resourceGroups": [group]}}]}
    asked = wants(
        spec, pools=quota_pools(nodes), nodes=nodes, existing_flavors={"own": {"kaiwo/nodepool": AMD_POOL}}
    )
    assert not asked.unusable


def test_the_default_queue_follows_the_nodes_and_nothing_else(
    cluster: list[Object], vendors: tuple[GpuVendor, ...]
) -> None:
    """Quotas and discovered flavors change; entries and fields of the user stay; the default queue leads."""
    before = quota_pools([labelled_node(item, vendors) for item in cluster])
    spec = default_spec(before, "kaiwo", "kaiwo")
    spec["clusterQueues"][0]["spec"]["preemption"] = {"withinClusterQueue": "LowerPriority"}
    spec["clusterQueues"][0]["namespaces"] = ["a"]
    spec["clusterQueues"].insert(0, MINE)
    spec["resourceFlavors"].append({"name": "own", "nodeLabels": {"pool": "own"}})
    spec["workloadPriorityClasses"] = [{"metadata": {"name": "high"}, "value": 1}]
    after = quota_pools([labelled_node(item, vendors) for item in cluster[:2]])
    new = follow_pools(spec, after, "kaiwo", "kaiwo")
    default, mine = new["clusterQueues"]
    assert (default["name"], mine) == ("kaiwo", MINE)
    assert default["namespaces"] == ["a"]
    assert default["spec"]["preemption"] == {"withinClusterQueue": "LowerPriority"}
    gpus = default["spec"]["resourceGroups"][0]["flavors"][1]["resources"][3]
    assert gpus == {"name": "amd.com/gpu", "nominalQuota": "8"}
    assert follow_pools(new, after, "kaiwo", "kaiwo") == new
    gone = follow_pools(new, quota_pools([labelled_node(cluster[0], vendors)]), "kaiwo", "kaiwo")
    assert [item["name"] for item in gone["resourceFlavors"]] == [CPU_POOL, "own"]
    assert gone["workloadPriorityClasses"] == spec["workloadPriorityClasses"]


def test_only_what_an_administrator_did_not_write_counts_as_computed(
    cluster: list[Object], vendors: tuple[GpuVendor, ...]
) -> None:
    """Of a listed default queue the quotas, of an unlisted one the whole entry; other entries never."""
    pools = quota_pools([labelled_node(item, vendors) for item in cluster])
    default = default_spec(pools, "kaiwo", "kaiwo")
    groups = default["clusterQueues"][0]["spec"]["resourceGroups"]
    for written, queues in (
        ({"clusterQueues": [MINE]}, default["clusterQueues"]),
        (
            {"clusterQueues": [MINE, {"name": "kaiwo", "spec": {"cohort": "c"}}]},
            [{"name": "kaiwo", "spec": {"resourceGroups": groups}}],
        ),
    ):
        in_force = follow_pools(written, pools, "kaiwo", "kaiwo")
        found = computed_lists(written, in_force, pools)
        assert found == {"clusterQueues": queues, "resourceFlavors": flavors(pools)}
    assert computed_lists(default, follow_pools(default, pools, "kaiwo", "kaiwo"), pools) is None
    own = {"resourceFlavors": [{"name": "own"}]}
    assert computed_lists(own, own, pools) is None


def test_quota_that_is_counted_twice_is_reported(
    wants: Wants, cluster: list[Object], vendors: tuple[GpuVendor, ...]
) -> None:
    """Two queues with the whole of one pool promise more than there is; that is reported, not refused."""
    found = quota_pools([labelled_node(item, vendors) for item in cluster])
    spec = default_spec(found, "kaiwo", "kaiwo")
    spec["clusterQueues"].append({**spec["clusterQueues"][0], "name": "second"})
    problems = wants(spec, pools=found).problems
    assert {(p.reason, p.severity) for p in problems} == {("QuotaExceedsNodes", "INFO")}
    assert any("amd.com/gpu" in p.message and "second" in p.message for p in problems)


def test_quota_that_only_cordoned_nodes_lack_names_the_nodes(
    wants: Wants, cluster: list[Object], vendors: tuple[GpuVendor, ...]
) -> None:
    """Two queues share a pool; half of it is cordoned: nobody needs to change a quota."""
    gpu = next(item for item in cluster if "amd.com/gpu" in item["status"]["allocatable"])
    nodes = [labelled_node({**gpu, "metadata": {**gpu["metadata"], "name": n}}, vendors) for n in ("a", "b")]
    whole = quota_pools(nodes)
    spec = default_spec(quota_pools(nodes[:1]), "kaiwo", "kaiwo")
    spec["clusterQueues"].append({**spec["clusterQueues"][0], "name": "second"})
    assert wants(spec, pools=whole, nodes=nodes).problems == ()
    nodes[1] = replace(nodes[1], counts=False)
    problems = wants(spec, pools=quota_pools(nodes), nodes=nodes).problems
    assert {p.reason for p in problems} == {"NodesCordoned"}
    assert all("Cordoned: b" in p.message for p in problems)
