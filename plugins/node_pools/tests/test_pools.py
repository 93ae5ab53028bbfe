from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from kaiwo.plugin.kit.nodes import node_hardware
from kaiwo.testing import node
from kaiwo_node_pools.node_patch import node_patch, pending_patch, pool_left
from kaiwo_node_pools.pool_limit import limit_for
from kaiwo_node_pools.pool_merge import merged_names
from kaiwo_node_pools.pools import PoolShape, name_of, node_pools, pool_node, pool_of, with_kept_pool
from kaiwo_node_pools.settings import NodePoolsSettings
from kaiwo_node_pools.topology import TopologyRule

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.vendors import GpuVendor

    Vendors = tuple[GpuVendor, ...]


def nvidia(name: str = "n1", *, gpus: int = 8, product: str = "Tesla-K80", **more: Any) -> Object:
    """A node with NVIDIA GPUs."""
    labels = {"nvidia.com/gpu.product": product, **more.pop("labels", {})}
    return node(name, gpus={"nvidia.com/gpu": gpus}, labels=labels, **more)


def amd(name: str = "a1", *, gpus: int = 8, product: str = "AMD_Instinct_MI300X_OAM", **more: Any) -> Object:
    """A node with AMD GPUs."""
    labels = {"amd.com/gpu.product-name": product, **more.pop("labels", {})}
    return node(name, gpus={"amd.com/gpu": gpus}, labels=labels, **more)


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (nvidia(cpu=16, memory="64Gi"), "nvidia-teslak80-8gpu-14core-57gi"),
        (amd(cpu=96, memory="1024Gi"), "amd-mi300x-8gpu-86core-921gi"),
        (node(cpu=32, memory="128Gi"), "cpu-only-0gpu-28core-115gi"),
        (node(cpu=1, memory="64000000Ki"), "cpu-only-0gpu-0core-54gi"),
        (amd(gpus=0, labels={"beta.amd.com/gpu.family.AI": "8"}, cpu=10, memory="10Gi"),
         "cpu-only-0gpu-9core-9gi"),
    ],
)  # fmt: skip
def test_a_pool_is_named_after_vendor_model_count_cpu_and_memory(
    vendors: Vendors, made: Object, name: str
) -> None:
    """Nine tenths of the capacity, rounded down; a node whose label lies about GPUs has none."""
    seen = pool_node(made, vendors)
    assert seen.shape is not None
    assert seen.shape.name == name


def test_a_node_stays_in_its_pool_while_its_device_plugin_restarts(vendors: Vendors) -> None:
    """The kubelet says that it has eight and lets pods use none: no other pool, and no taint taken off."""
    before = amd(cpu=96, memory="1024Gi")
    meanwhile = amd(cpu=96, memory="1024Gi")
    meanwhile["status"]["allocatable"]["amd.com/gpu"] = "0"
    seen, known = pool_node(meanwhile, vendors), pool_node(before, vendors)
    assert (seen.shape, seen.gpu_model) == (known.shape, "mi300x")
    assert dict(node_hardware(before, vendors).resources)["amd.com/gpu"] == 8
    assert dict(node_hardware(meanwhile, vendors).resources)["amd.com/gpu"] == 0


@pytest.mark.parametrize(
    ("key", "labels"),
    [
        ("nvidia.com/mig-1g.10gb", {"nvidia.com/gpu.product": "NVIDIA-H100", "nvidia.com/gpu.count": "8"}),
        ("amd.com/cpx_nps4", {"amd.com/gpu.product-name": "MI300X", "beta.amd.com/gpu.family.AI": "8"}),
    ],
)
def test_a_partitioned_node_stays_in_its_pool_while_its_device_plugin_restarts(
    vendors: Vendors, key: str, labels: dict[str, str]
) -> None:
    """The label counts whole GPUs, of which it has none: they would be a quota that no pod can use."""
    before, meanwhile = node(gpus={key: 56}, labels=labels), node(gpus={key: 56}, labels=labels)
    meanwhile["status"]["allocatable"][key] = "0"
    assert pool_node(meanwhile, vendors).shape == pool_node(before, vendors).shape
    found = dict(node_hardware(meanwhile, vendors).resources)
    assert {name: amount for name, amount in found.items() if "/" in name} == {key: 0}


@pytest.mark.parametrize("pool", ["amd-mi300x-8gpu-86core-921gi", "research"])
def test_a_node_stays_in_its_pool_after_its_kubelet_has_restarted(vendors: Vendors, pool: str) -> None:
    """It shows no GPU before the device plugin has registered again; the labels say what the node was."""
    labels = {"kaiwo/nodepool": pool, "kaiwo/gpu-model": "mi300x"}
    labels["beta.amd.com/gpu.family.AI"] = "8"
    before = amd(cpu=96, memory="1024Gi", labels=dict(labels))
    meanwhile = amd(gpus=0, cpu=96, memory="1024Gi", labels=dict(labels))
    seen, known = pool_node(meanwhile, vendors), pool_node(before, vendors)
    assert (pool_of(seen, {}), seen.gpu_model, seen.shape) == (pool, "mi300x", known.shape)
    assert dict(node_hardware(meanwhile, vendors).resources)["amd.com/gpu"] == 0


def test_partitions_stay_covered_after_a_restart_of_the_kubelet(vendors: Vendors) -> None:
    """A queue covers each of the keys as before, with none of them."""
    pool = "nvidia-teslak80-14gpu-14core-57gi"
    labels = {"kaiwo/nodepool": pool, "kaiwo/gpu-model": "teslak80"}
    made = nvidia(gpus=0, cpu=16, memory="64Gi", labels=labels)
    for part in ("capacity", "allocatable"):
        made["status"][part] |= {"nvidia.com/mig-1g.10gb": "0", "nvidia.com/mig-2g.20gb": "0"}
    found = node_hardware(made, vendors)
    assert (found.vendor, found.model, found.gpus) == ("nvidia", "teslak80", 14)
    assert {key: amount for key, amount in found.resources if key.startswith("nvidia.com/mig-")} == {
        "nvidia.com/mig-1g.10gb": 0,
        "nvidia.com/mig-2g.20gb": 0,
    }


def test_a_node_whose_gpus_were_taken_out_leaves_its_pool(vendors: Vendors) -> None:
    """Its resource key stays with 0 for ever, but the vendor's labels with the model are gone."""
    labels = {"kaiwo/nodepool": "amd-mi300x-8gpu-86core-921gi", "kaiwo/gpu-model": "mi300x"}
    bare = node(gpus={"amd.com/gpu": 0}, labels=labels)
    assert (node_hardware(bare, vendors).vendor, node_hardware(bare, vendors).gpus) == ("cpu", 0)


def test_a_node_has_the_pool_of_the_gpus_that_can_be_used(vendors: Vendors) -> None:
    """A broken GPU is no whole node, and partitions stand for the GPU that they are made of."""
    broken = amd(cpu=96, memory="1024Gi")
    broken["status"]["allocatable"]["amd.com/gpu"] = "7"
    divided = nvidia(cpu=16, memory="64Gi")
    divided["status"]["capacity"]["nvidia.com/mig-1g.10gb"] = "14"
    divided["status"]["allocatable"] |= {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "14"}
    names = [shape.name for one in (broken, divided) if (shape := pool_node(one, vendors).shape)]
    assert names == ["amd-mi300x-7gpu-86core-921gi", "nvidia-teslak80-14gpu-14core-57gi"]
    assert "nvidia.com/gpu" not in dict(node_hardware(divided, vendors).resources)


def test_a_name_over_63_characters_is_cut_and_hashed() -> None:
    """Two long models never share a name, and a name is a legal label value."""
    one = PoolShape("nvidia", "x" * 70, 8, 86, 921)
    other = PoolShape("nvidia", "x" * 71, 8, 86, 921)
    assert len(one.name) == len(other.name) == 63
    assert one.name != other.name
    assert one.name.endswith("-8gpu-86core-921gi")


def test_two_vendors_on_one_node(vendors: Vendors) -> None:
    """The pool is named after the larger count, or after the plugin's name where they are equal."""
    both = node(gpus={"amd.com/gpu": 4, "nvidia.com/gpu": 4}, labels={"nvidia.com/gpu.product": "L4"})
    seen = pool_node(both, vendors)
    assert seen.shape is not None
    assert seen.shape.vendor == "amd"
    more = node(gpus={"amd.com/gpu": 1, "nvidia.com/gpu": 4}, labels={"nvidia.com/gpu.product": "L4"})
    shape = pool_node(more, vendors).shape
    assert shape is not None
    assert shape.name.startswith("nvidia-l4-4gpu-")


def test_an_excluded_control_plane_node_gets_no_labels(vendors: Vendors) -> None:
    """A cordoned node keeps its labels, so that its pods may go on; an excluded one has none."""
    control = amd("d", labels={"node-role.kubernetes.io/control-plane": ""})
    excluded = pool_node(control, vendors, exclude_control_plane=True)
    assert node_patch(excluded, pool_of(excluded, {}), "") == {}
    included = pool_node(control, vendors)
    assert node_patch(included, pool_of(included, {}), "")
    cordoned = pool_node(amd("b", cordoned=True), vendors)
    assert node_patch(cordoned, pool_of(cordoned, {}), "")["metadata"]["labels"]["kaiwo/nodepool"]
    assert node_pools([excluded, cordoned]) == ()


@pytest.mark.parametrize(
    "label",
    [
        {"kubernetes.io/os": "windows"},
        {"type": "virtual-kubelet"},
        {"eks.amazonaws.com/compute-type": "fargate"},
    ],
)
def test_a_node_that_runs_no_workloads_is_in_no_pool(vendors: Vendors, label: dict[str, str]) -> None:
    """A queue would admit jobs to its flavor, and their pods would wait there for ever."""
    other = pool_node(nvidia("w", labels=label), vendors)
    assert node_patch(other, pool_of(other, {}), "") == {}
    assert node_pools([other]) == ()


def test_a_pool_made_by_hand_is_respected(vendors: Vendors) -> None:
    """An administrator's label names the pool; Kaiwo adds what is missing beside it and never changes it."""
    seen = pool_node(amd(labels={"kaiwo/nodepool": "research"}), vendors)
    (pool,) = node_pools([seen])
    assert (pool.name, pool.by_hand) == ("research", True)
    patch = node_patch(seen, pool_of(seen, {}), "")
    assert patch["metadata"]["labels"] == {"kaiwo/worker": "true", "kaiwo/gpu-model": "mi300x"}


def written(made: Object, patch: Object) -> Object:
    """The node after a merge patch."""
    labels = {**made["metadata"]["labels"], **patch.get("metadata", {}).get("labels", {})}
    notes = {
        **made["metadata"].get("annotations", {}),
        **patch.get("metadata", {}).get("annotations", {}),
    }
    spec = {**made["spec"], **patch.get("spec", {})}
    return {
        **made,
        "metadata": {
            **made["metadata"],
            "labels": {key: value for key, value in labels.items() if value is not None},
            "annotations": {key: value for key, value in notes.items() if value is not None},
        },
        "spec": {key: value for key, value in spec.items() if value is not None},
    }


def test_labels_and_taint_are_written_once_and_taken_back(vendors: Vendors) -> None:
    """A second reconciliation writes nothing; what no longer applies goes, what others wrote stays."""
    made = amd(labels={"team": "a"})
    made["spec"]["taints"] = [{"key": "theirs", "effect": "NoExecute"}]
    seen = pool_node(made, vendors)
    pool = pool_of(seen, {})
    patch = node_patch(seen, pool, "kaiwo.silogen.ai/gpu")
    assert patch["metadata"]["labels"] == {
        "kaiwo/worker": "true",
        "kaiwo/nodepool": "amd-mi300x-8gpu-86core-921gi",
        "kaiwo/gpu-model": "mi300x",
    }
    assert patch["spec"]["taints"] == [
        {"key": "theirs", "effect": "NoExecute"},
        {"key": "kaiwo.silogen.ai/gpu", "value": "true", "effect": "NoSchedule"},
    ]
    after = written(made, patch)
    again = pool_node(after, vendors)
    assert again.pool_by_hand == ""
    assert node_patch(again, pool, "kaiwo.silogen.ai/gpu") == {}

    moved = node_patch(again, pool, "other.example/gpu")
    assert [taint["key"] for taint in moved["spec"]["taints"]] == ["theirs", "other.example/gpu"]
    back = written(after, node_patch(again, "", ""))
    assert back["metadata"]["labels"] == made["metadata"]["labels"]
    assert back["metadata"]["annotations"] == {}
    assert back["spec"]["taints"] == [{"key": "theirs", "effect": "NoExecute"}]


def test_taints_of_others_are_written_back_as_they_are(vendors: Vendors) -> None:
    """The list of taints is replaced as a whole: the time at which a taint was added stays in it."""
    theirs = {
        "key": "node.kubernetes.io/unreachable",
        "effect": "NoExecute",
        "timeAdded": "2026-01-01T00:00:00Z",
    }
    made = amd()
    made["spec"]["taints"] = [theirs]
    seen = pool_node(made, vendors)
    after = written(made, node_patch(seen, pool_of(seen, {}), "t"))
    assert after["spec"]["taints"][0] == theirs
    assert node_patch(pool_node(after, vendors), "", "")["spec"]["taints"] == [theirs]


def test_what_somebody_else_wrote_is_not_taken_over(vendors: Vendors) -> None:
    """A taint and a label that were there before stay when Kaiwo has no use for them any more."""
    made = amd(labels={"kaiwo/worker": "true"})
    made["spec"]["taints"] = [{"key": "t", "value": "true", "effect": "NoSchedule"}]
    seen = pool_node(made, vendors)
    after = written(made, node_patch(seen, pool_of(seen, {}), "t"))
    assert "taints" not in node_patch(seen, pool_of(seen, {}), "t").get("spec", {})
    back = written(after, node_patch(pool_node(after, vendors), "", ""))
    assert back["metadata"]["labels"]["kaiwo/worker"] == "true"
    assert back["spec"]["taints"] == made["spec"]["taints"]


def test_five_thousand_unchanged_nodes_need_no_write(vendors: Vendors) -> None:
    """A pass over a large cluster that changed nothing finds nothing to write, also where pools merge."""
    nodes = []
    for number in range(5000):
        made = amd(f"n{number}", memory=f"{1000 + number % 20}Gi")
        nodes.append((made, pool_node(made, vendors)))
    merged = merged_names(node_pools(node for _, node in nodes), 16)
    after = [
        pool_node(written(made, node_patch(node, pool_of(node, merged), "k")), vendors)
        for made, node in nodes
    ]
    assert len(node_pools(after, merged)) == 16
    assert not any(node_patch(node, pool_of(node, merged), "k") for node in after)


def test_a_pass_at_rest_makes_each_name_once_and_no_node_anew(vendors: Vendors) -> None:
    """The event loop waits for the pass, so its cost for each node counts; nodes share pools."""
    nodes = []
    for number in range(500):
        made = amd(f"n{number}", memory=f"{1000 + 10 * (number % 20)}Gi")
        node = pool_node(made, vendors)
        nodes.append(pool_node(written(made, node_patch(node, pool_of(node, {}), "")), vendors))
    selected = {pool.name for pool in node_pools(nodes)}
    assert len(selected) == 20
    name_of.cache_clear()
    kept = [with_kept_pool(node, selected) for node in nodes]
    assert all(after is before for after, before in zip(kept, nodes, strict=True))
    assert not any(node_patch(node, pool_of(node, {}), "") for node in kept)
    assert name_of.cache_info().misses == 20


@settings(max_examples=60)
@given(
    shapes=st.lists(
        st.tuples(
            st.sampled_from(["", "mi300x", "mi250"]), st.integers(1, 4), st.integers(2, 6), st.integers(2, 40)
        ),
        min_size=1,
        max_size=30,
    ),
    limit=st.integers(4, 12),
)
def test_merging_loses_no_node_and_never_mixes_gpus(
    vendors: Vendors, shapes: list[tuple[str, int, int, int]], limit: int
) -> None:
    """Whatever is merged, every node stays in one pool of its own GPUs, named after the smallest member."""
    nodes = []
    for number, (model, gpus, cpu, memory) in enumerate(shapes):
        made = (
            amd(f"n{number}", gpus=gpus, product=model, cpu=cpu * 10, memory=f"{memory}Gi")
            if model
            else node(f"n{number}", cpu=cpu * 10, memory=f"{memory}Gi")
        )
        nodes.append(pool_node(made, vendors))
    merged = merged_names(node_pools(nodes), limit)
    found = {pool.name for pool in node_pools(nodes, merged)}
    assert found == {pool_of(item, merged) for item in nodes}
    assert len(found) <= max(
        limit, len({(item.shape.model, item.shape.gpus) for item in nodes if item.shape})
    )
    for name in found:
        members = [item.shape for item in nodes if pool_of(item, merged) == name and item.shape]
        assert len({(shape.vendor, shape.model, shape.gpus) for shape in members}) == 1
        if name in merged.values():
            cpu, memory = min(shape.cpu for shape in members), min(shape.memory for shape in members)
            assert name.endswith(f"-{cpu}core-{memory}gi")


@pytest.mark.parametrize("count", ["1", "0"])
def test_a_node_of_an_unknown_model_does_not_change_its_vendor(vendors: Vendors, count: str) -> None:
    """Its other device plugin shows 0 GPUs, and the model of either vendor is unknown without its labels."""
    made = node("n", gpus={"nvidia.com/gpu": 1})
    made["status"]["allocatable"]["amd.com/gpu"] = made["status"]["capacity"]["amd.com/gpu"] = "0"
    first = pool_node(made, vendors)
    after = written(made, node_patch(first, pool_of(first, {}), "k"))
    after["status"]["allocatable"]["nvidia.com/gpu"] = count  # its device plugin may restart, too
    second = pool_node(after, vendors)
    assert pool_of(first, {}).startswith("nvidia-unknown-1gpu-")
    assert node_patch(second, pool_of(second, {}), "k") == {}


def test_the_name_of_a_node_with_absurd_amounts_is_a_label_value(vendors: Vendors) -> None:
    """A virtual node may show anything that the API server takes; without a label it would be in no pool."""
    most = 2**63 - 1
    shape = pool_node(nvidia(gpus=most, cpu=most, memory=f"{2**33}Gi"), vendors).shape
    assert shape is not None
    assert shape.name == "nvidia-teslak80-999999999gpu-999999999core-999999999gi"


def test_many_gpu_keys_leave_fewer_pools(vendors: Vendors) -> None:
    """A resource group takes 512 pairs of flavor and resource: 56 flavors with nine resources."""
    bare = [pool_node(node(f"n{number}", memory=f"{number + 10}Gi"), vendors) for number in range(64)]
    keys = [f"nvidia.com/mig-{number}g.10gb" for number in range(1, 7)]
    mixed = pool_node(node("mig", gpus=dict.fromkeys(keys, 1)), vendors)
    assert (limit_for(bare, 64), limit_for([*bare, mixed], 64), limit_for([*bare, mixed], 16)) == (64, 56, 16)


def test_memory_is_given_up_before_cpu(vendors: Vendors) -> None:
    """Of three pools two must become one: those that differ only in memory, and least."""
    seen = [
        pool_node(node("a", cpu=10, memory="100Gi"), vendors),
        pool_node(node("b", cpu=10, memory="98Gi"), vendors),
        pool_node(node("c", cpu=12, memory="100Gi"), vendors),
    ]
    merged = merged_names(node_pools(seen), 2)
    smallest = "cpu-only-0gpu-9core-88gi"
    assert merged == {"cpu-only-0gpu-9core-90gi": smallest, smallest: smallest}


def test_block_and_rack_are_what_an_administrators_rules_say(vendors: Vendors) -> None:
    """Of each level the first rule that gives a value; nothing is invented, what no rule gives goes again."""
    rules = [
        TopologyRule(level="rack", node_label="example.com/rack"),
        TopologyRule(level="rack", pattern=r"-(r\d+)-"),
        TopologyRule(level="block", node_label="example.com/hall", pattern="^[^/]+"),
    ]
    labels = {"example.com/rack": "R 7", "example.com/hall": "West/2"}
    labelled = amd("gpu-r12-1", labels=labels)
    assert pool_node(labelled, vendors, topology=rules).topology == {
        "kaiwo/topology-rack": "r-7",
        "kaiwo/topology-block": "West",
    }
    bare = pool_node(amd("gpu-r12-1"), vendors, topology=rules)
    assert bare.topology == {"kaiwo/topology-rack": "r12"}
    assert pool_node(amd("other"), vendors, topology=rules).topology == {}
    assert bare.shape is not None
    written = node_patch(bare, bare.shape.name, "")
    assert written["metadata"]["labels"]["kaiwo/topology-rack"] == "r12"
    done = amd("gpu-r12-1", labels={k: v for k, v in written["metadata"]["labels"].items() if v is not None})
    done["metadata"]["annotations"] = written["metadata"]["annotations"]
    assert node_patch(pool_node(done, vendors, topology=rules), bare.shape.name, "") == {}
    gone = node_patch(pool_node(done, vendors), bare.shape.name, "")
    assert gone["metadata"]["labels"] == {"kaiwo/topology-rack": None}


def test_a_topology_rule_that_is_no_expression_is_refused() -> None:
    """With the field and the reason."""
    with pytest.raises(ValidationError, match="regular expression"):
        NodePoolsSettings.parse({"topologyRules": [{"level": "rack", "pattern": "("}]})


def test_a_merged_node_shows_the_pool_that_it_would_have(vendors: Vendors) -> None:
    """The annotation comes with the merged label and goes when pools are no longer merged."""
    made = node("a", cpu=10, memory="100Gi")
    seen = pool_node(made, vendors)
    own, other = "cpu-only-0gpu-9core-90gi", "cpu-only-0gpu-9core-88gi"
    patch = node_patch(seen, other, "")
    assert patch["metadata"]["labels"]["kaiwo/nodepool"] == other
    assert patch["metadata"]["annotations"]["kaiwo.silogen.ai/nodepool-merged-from"] == own
    after = pool_node(written(made, patch), vendors)
    assert node_patch(after, other, "") == {}
    back = node_patch(after, own, "")
    assert back["metadata"]["annotations"]["kaiwo.silogen.ai/nodepool-merged-from"] is None


def test_a_node_whose_new_pool_waits_says_which_it_will_be(vendors: Vendors) -> None:
    """Queue plugins and administrators read it on the node; it is written once and goes with the change."""
    made = amd()
    seen = pool_node(made, vendors)
    made = written(made, node_patch(seen, pool_of(seen, {}), ""))
    made["metadata"]["labels"]["amd.com/gpu.product-name"] = "AMD_Instinct_MI325X_OAM"
    moving = pool_node(made, vendors)
    new = pool_of(moving, {})
    assert pool_left(moving, node_patch(moving, new, "")) == "amd-mi300x-8gpu-86core-921gi"
    waits = pending_patch(moving, new)
    assert waits == {"metadata": {"annotations": {"kaiwo.silogen.ai/nodepool-pending": new}}}
    made = written(made, waits)
    waiting = pool_node(made, vendors)
    assert pending_patch(waiting, new) == {}
    moved = node_patch(waiting, new, "")
    assert moved["metadata"]["annotations"]["kaiwo.silogen.ai/nodepool-pending"] is None
    assert moved["metadata"]["labels"]["kaiwo/nodepool"] == new


def test_a_node_keeps_its_pool_while_a_flavor_selects_it(vendors: Vendors) -> None:
    """A kubelet reservation takes memory from every node; other GPUs make another pool at once."""
    made = amd(memory="1024Gi")
    seen = pool_node(made, vendors)
    old = pool_of(seen, {})
    made = written(made, node_patch(seen, old, ""))
    made["status"]["capacity"]["memory"] = "950Gi"
    smaller = pool_node(made, vendors)
    kept = with_kept_pool(smaller, {old})
    assert pool_of(kept, {}) == old
    assert node_patch(kept, old, "") == {}
    assert pool_of(with_kept_pool(smaller, set()), {}) == "amd-mi300x-8gpu-86core-855gi"

    made["status"]["allocatable"]["amd.com/gpu"] = "7"
    fewer = with_kept_pool(pool_node(made, vendors), {old})
    assert pool_of(fewer, {}) == "amd-mi300x-7gpu-86core-855gi"
    by_hand = pool_node(amd(labels={"kaiwo/nodepool": old}, memory="950Gi"), vendors)
    assert with_kept_pool(by_hand, {old}) == by_hand
