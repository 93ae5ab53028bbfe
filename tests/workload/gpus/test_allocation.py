from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.api.workload import Workload
from kaiwo.plugin.facts import Allocation, Blocked, NodeFact, VendorGpus
from kaiwo.plugin.rendering import AllocationInput
from kaiwo.plugin.vendors import GpuVendor, NodeGpus
from kaiwo.testing import job, service
from kaiwo.workload.gpus.allocation import even, one_pod, spread, template_gpus, written
from kaiwo.workload.gpus.capacity import Capacity

AMD = GpuVendor("amd", ("amd.com/gpu", "amd.com/cpx_*"), lambda _: ())
NVIDIA = GpuVendor("nvidia", ("nvidia.com/gpu", "nvidia.com/mig-*"), lambda _: ())


def nodes(
    *sizes: int, model: str = "mi300x", vendor: str = "amd", usable: bool = True
) -> tuple[NodeFact, ...]:
    """Nodes with that many GPUs each."""
    return tuple(
        NodeFact(
            f"n{number}", (VendorGpus(vendor, NodeGpus(model, size, f"{vendor}.com/gpu")),), usable=usable
        )
        for number, size in enumerate(sizes)
    )


def asked(
    facts: tuple[NodeFact, ...] = nodes(8, 8),
    *,
    kind: str = "KaiwoJob",
    check: bool = True,
    vendors: tuple[GpuVendor, ...] = (AMD, NVIDIA),
    key: str = "amd.com/gpu",
    **spec: Any,
) -> AllocationInput:
    """What an allocation depends on."""
    build = job if kind == "KaiwoJob" else service
    return AllocationInput(Workload.from_object(build(**spec)), vendors, facts, key, check)


def refused(answer: Allocation | Blocked, reason: str) -> str:
    """The message of an expected refusal."""
    assert isinstance(answer, Blocked), answer
    assert (answer.reason, answer.condition, answer.status) == (reason, "Schedulable", "ERROR")
    return answer.message


def shape(answer: Allocation | Blocked) -> tuple[int, int, int]:
    """Replicas, GPUs of each, pods."""
    assert isinstance(answer, Allocation), answer
    return answer.replicas, answer.gpus_per_replica, answer.pods


@pytest.mark.parametrize(
    ("gpus", "split"),
    [
        (1, (1, 1)),
        (4, (1, 4)),
        (8, (1, 8)),
        (9, (3, 3)),
        (10, (2, 5)),
        (12, (2, 6)),
        (14, (2, 7)),
        (16, (2, 8)),
    ],
)
def test_ray_takes_the_fewest_equal_workers_that_fit(gpus: int, split: tuple[int, int]) -> None:
    """On two nodes with eight GPUs each the documented table holds."""
    assert shape(spread(asked(gpus=gpus)))[:2] == split


def test_a_count_that_never_fits_is_reported_with_the_nearest_that_does() -> None:
    """17 GPUs on 16 are refused, and the user learns what there is."""
    message = refused(spread(asked(gpus=17)), "InsufficientGPUs")
    for part in ("17 amd GPUs", "largest node has 8", "2 nodes have 16 in total", "nearest that fits: 16"):
        assert part in message


@pytest.mark.parametrize(
    ("spec", "split"),
    [
        ({"gpus": 4}, (1, 4, 1)),
        ({"gpusPerReplica": 2, "replicas": 3}, (1, 2, 1)),
        ({"gpus": 8, "gpusPerReplica": 4, "replicas": 2}, (1, 4, 1)),
        ({"gpus": 0}, (1, 0, 1)),
        ({"replicas": 5}, (1, 0, 1)),
        ({"gpuVendor": "NVIDIA"}, (1, 0, 1)),
        ({"gpuVendor": "nobody"}, (1, 0, 1)),
    ],
)
def test_a_batch_job_is_one_pod(spec: dict[str, Any], split: tuple[int, int, int]) -> None:
    """All GPUs are in one pod, and replicas do not matter; no vendor is required without GPUs."""
    assert shape(one_pod(asked(**spec))) == split


def test_parallel_pods_each_need_the_gpus() -> None:
    """Four pods of four fit two nodes of eight, five do not; the job's environment has its pod's share."""
    assert shape(one_pod(asked(gpus=4), pods=4)) == (1, 4, 4)
    message = refused(one_pod(asked(gpus=4), pods=5), "InsufficientGPUs")
    assert "asked for 20 amd GPUs as 5 pods of 4" in message
    assert "nearest that fits: 4 pods of 4 or 5 pods of 2" in message


@pytest.mark.parametrize("spec", [{"gpusPerReplica": 8, "replicas": 5}, {"gpus": 40, "replicas": 5}])
def test_pods_that_do_not_fit_are_refused_with_pods_that_do(spec: dict[str, Any]) -> None:
    """Five pods of eight on four nodes of eight: one fewer, or half as large; never a total alone."""
    for split in (even, spread):
        message = refused(split(asked(nodes(8, 8, 8, 8), kind="KaiwoService", **spec)), "InsufficientGPUs")
        assert message.endswith("nearest that fits: 4 pods of 8 or 5 pods of 4")


def test_pods_larger_than_any_node_are_refused_with_the_size_that_fits() -> None:
    """There is no smaller number of such pods."""
    message = refused(even(asked(kind="KaiwoService", gpusPerReplica=16, replicas=3)), "GPUsExceedNode")
    assert "asked for 16 amd GPUs in each of 3 pods" in message
    assert message.endswith("nearest that fits: 3 pods of 4")


def test_a_pod_larger_than_any_node_is_reported() -> None:
    """16 GPUs in one pod never fit nodes of eight."""
    message = refused(one_pod(asked(gpus=16)), "GPUsExceedNode")
    assert "asked for 16 amd GPUs in one pod; the largest node has 8" in message
    assert "nearest that fits: 8" in message


@pytest.mark.parametrize(
    ("spec", "split"),
    [
        ({"gpus": 8, "replicas": 2}, (2, 4, 2)),
        ({"gpus": 7, "gpusPerReplica": 3, "replicas": 2}, (2, 3, 2)),
        ({"replicas": 3}, (3, 0, 3)),
        ({"gpus": 4, "replicas": 0}, (0, 4, 0)),
    ],
)
def test_a_deployment_splits_evenly(spec: dict[str, Any], split: tuple[int, int, int]) -> None:
    """Each replica of a service has the same GPUs; the per-replica count wins over the total."""
    assert shape(even(asked(kind="KaiwoService", **spec))) == split


def test_an_uneven_split_is_refused_with_the_nearest_that_work() -> None:
    """7 GPUs over 2 replicas are not rounded."""
    message = refused(even(asked(kind="KaiwoService", gpus=7, replicas=2)), "IndivisibleGPUs")
    assert "6 or 8" in message


def test_ray_keeps_the_replicas_a_user_gave() -> None:
    """Replicas and GPUs per replica are taken as they are, and the total follows from them."""
    assert shape(spread(asked(gpus=5, gpusPerReplica=4, replicas=3))) == (3, 4, 3)
    assert shape(spread(asked(gpus=8, replicas=4))) == (4, 2, 4)
    refused(spread(asked(gpus=9, replicas=2)), "IndivisibleGPUs")


def test_gpus_of_other_containers_of_a_template_need_room_too() -> None:
    """The primary container gets the workload's GPUs, and the others keep theirs."""
    limits = {"resources": {"limits": {"amd.com/gpu": 1}}}
    template = {"spec": {"containers": [{"name": "c", **limits}, {"name": "s", **limits}]}}
    assert shape(one_pod(asked(gpus=7), template)) == (1, 7, 1)
    message = refused(one_pod(asked(gpus=8), template), "GPUsExceedNode")
    assert "asked for 9 amd GPUs in one pod" in message
    assert "nearest" not in message
    refused(even(asked(gpus=16, replicas=2), template), "GPUsExceedNode")
    assert shape(even(asked(gpus=14, replicas=2), template)) == (2, 7, 2)
    # An init container has ended when the others start.
    before = {"spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "i", **limits}]}}
    assert shape(one_pod(asked(gpus=8), before)) == (1, 8, 1)


def test_several_hosts_of_a_replica_multiply_the_need() -> None:
    """A worker group of two hosts per replica needs twice the pods."""
    assert shape(spread(asked(gpus=8), hosts=2)) == (1, 8, 2)
    assert shape(spread(asked(gpusPerReplica=8, replicas=1), hosts=2)) == (1, 8, 2)
    message = refused(spread(asked(gpusPerReplica=8, replicas=2), hosts=2), "InsufficientGPUs")
    assert message.endswith("nearest that fits: 2 pods of 8 or 4 pods of 4")
    message = refused(
        spread(asked(nodes(8, 8, 8), gpusPerReplica=8, replicas=2), hosts=2), "InsufficientGPUs"
    )
    assert message.endswith("nearest that fits: 2 pods of 8 or 4 pods of 4")
    message = refused(spread(asked(gpus=8), hosts=3), "InsufficientGPUs")
    assert "asked for 8 amd GPUs for each of 3 sets of workers, which makes 24; " in message


def wanting(gpus: int, key: str = "amd.com/gpu") -> dict[str, Any]:
    """A pod template whose container requests GPUs; none at 0."""
    limits = {key: gpus} if gpus else {"cpu": "4"}
    return {"spec": {"containers": [{"name": "worker", "resources": {"limits": limits}}]}}


def test_worker_groups_without_gpus_need_no_gpu_nodes() -> None:
    """A group for preprocessing beside one of eight GPUs fits one node of eight."""
    assert shape(written(asked(nodes(8)), [(wanting(8), 1), (wanting(0), 3)])) == (1, 8, 1)
    assert shape(written(asked(()), [(wanting(0), 2), (None, 1)])) == (1, 0, 1)
    assert shape(written(asked(nodes(8), replicas=3), [])) == (3, 0, 3)


def test_worker_groups_of_different_sizes_share_the_nodes() -> None:
    """Pods of 8, 4 and 4 fit two nodes of eight, though 3 pods of 8 would not; twice as many do not."""
    groups = [(wanting(4), 2), (wanting(8), 1)]
    assert shape(written(asked(), groups)) == (1, 8, 1)
    message = refused(written(asked(replicas=2), groups), "InsufficientGPUs")
    assert "asked for 32 amd GPUs as 2 pods of 8 and 4 pods of 4; the largest node has 8" in message
    assert message.endswith("16 in total")
    refused(written(asked(), [(wanting(9), 1)]), "GPUsExceedNode")
    assert "nearest that fits: 2 pods of 5 or 3 pods of 4" in refused(
        written(asked(), [(wanting(5), 2), (wanting(5), 1)]), "InsufficientGPUs"
    )
    assert shape(written(asked(check=False, replicas=2), groups)) == (2, 8, 2)


def test_worker_groups_with_several_resource_keys_need_room_for_each() -> None:
    """The refusal has the numbers of the key that does not fit, not those of the largest group."""
    facts = (*nodes(8, 8), *nodes(2, vendor="nvidia"))
    groups = [(wanting(8), 1), (wanting(2, "nvidia.com/gpu"), 1)]
    assert shape(written(asked(facts), groups)) == (1, 8, 1)
    message = refused(written(asked(facts, replicas=2), groups), "InsufficientGPUs")
    assert "asked for 4 nvidia GPUs as 2 pods of 2; the largest node has 2, 1 node has 2 in total" in message
    assert message.endswith("nearest that fits: 1 pod of 2 or 2 pods of 1")


def test_gpus_under_another_resource_key_are_no_room_and_are_named() -> None:
    """A slice is not a whole GPU: the message says which keys and models the usable nodes do have."""
    slices = wanting(2, "nvidia.com/mig-1g.10gb")
    facts = (*nodes(8, vendor="nvidia"), *nodes(4))
    message = refused(one_pod(asked(facts), slices), "NoGPUs")
    assert "asked for 2 nvidia GPUs (nvidia.com/mig-1g.10gb)" in message
    assert "; usable nodes have nvidia.com/gpu; " in message


def test_models_without_a_usable_gpu_are_not_named() -> None:
    """Neither GPUs that are all broken nor those under another key are what usable nodes have."""
    broken = nodes(0, model="mi250")
    other = (NodeFact("n", (VendorGpus("amd", NodeGpus("mi210", 8, "amd.com/cpx_nps1")),)),)
    facts = (*nodes(8, model="mi300x"), *broken, *other)
    message = refused(one_pod(asked(facts, gpus=1, gpuModels=["mi400"])), "NoGPUs")
    assert "; spec.gpuModels: usable nodes have mi300x, amd.com/cpx_nps1; " in message


@given(st.lists(st.integers(1, 8), min_size=1, max_size=5), st.integers(1, 12), st.integers(2, 6))
def test_advised_pods_do_fit(have: list[int], each: int, pods: int) -> None:
    """Who follows the advice of a refusal is not refused again, and no advice is far from the request."""

    def decided(each: int, pods: int) -> Allocation | Blocked:
        return even(asked(nodes(*have), kind="KaiwoService", gpusPerReplica=each, replicas=pods))

    answer = decided(each, pods)
    if isinstance(answer, Allocation) or "nearest that fits: " not in answer.message:
        return
    for advice in answer.message.rsplit("nearest that fits: ", 1)[1].split(" or "):
        count, _, _, size = advice.split(" ")
        assert isinstance(decided(int(size), int(count)), Allocation)
        more = (each, int(count) + 1) if int(size) == each else (int(size) + 1, pods)
        assert isinstance(decided(*more), Blocked)


@given(st.lists(st.integers(1, 8), max_size=6), st.lists(st.integers(1, 8), min_size=1, max_size=5))
def test_equal_pods_fit_as_counted_and_no_pods_always_fit(pods: list[int], have: list[int]) -> None:
    """An accepted count has the GPUs; pods of one size fit exactly when that many do."""
    room = Capacity(Counter(have))
    if room.holds(Counter(pods)):
        assert sum(pods) <= sum(have)
        assert max(pods, default=0) <= max(have)
    for size in pods:
        assert room.holds({size: len(pods)}) == (room.pods(size) >= len(pods))
    assert room.holds({})


def test_a_running_workload_is_split_at_once_whatever_it_requests() -> None:
    """A count that only one pod per GPU divides does not hold the operator up."""
    assert shape(spread(asked(nodes(8), check=False, gpus=2**31 - 1)))[:2] == (2**31 - 1, 1)


@pytest.mark.parametrize("facts", [(), nodes(8, vendor="nvidia"), nodes(8, 8, usable=False), nodes(0)])
def test_without_usable_gpus_the_job_waits_for_a_node(facts: tuple[NodeFact, ...]) -> None:
    """No node of the vendor, a cordoned one, or one whose GPUs are all broken: the reason says so."""
    assert "when such a node joins" in refused(one_pod(asked(facts, gpus=1)), "NoGPUs")


def test_the_label_of_a_node_is_its_model() -> None:
    """Pods select nodes by it: one that an administrator wrote counts where the vendor's labels say else."""
    unknown, labelled = nodes(8, 4, model="unknown")
    facts = (unknown, replace(labelled, model_label="mi300x"))
    assert shape(one_pod(asked(facts, gpus=4, gpuModels=["mi300x"]))) == (1, 4, 1)
    refused(one_pod(asked(facts, gpus=8, gpuModels=["mi300x"])), "GPUsExceedNode")
    (other,) = nodes(8, model="mi250")
    message = refused(
        one_pod(asked((replace(other, model_label="gold"),), gpus=4, gpuModels=["mi250"])), "NoGPUs"
    )
    assert "usable nodes have gold" in message


def test_models_limit_the_nodes() -> None:
    """Only nodes of the wanted models count, in any case of letters, and the others are named."""
    facts = nodes(8, model="mi300x") + nodes(4, model="mi250")
    assert shape(one_pod(asked(facts, gpus=4, gpuModels=["MI250"]))) == (1, 4, 1)
    refused(one_pod(asked(facts, gpus=8, gpuModels=["mi250"])), "GPUsExceedNode")
    assert shape(one_pod(asked(facts, gpus=8, gpuModels=[""]))) == (1, 8, 1)
    message = refused(one_pod(asked(facts, gpus=1, gpuModels=["mi400"])), "NoGPUs")
    assert "mi250, mi300x" in message


def test_a_model_is_the_label_that_nodes_carry() -> None:
    """Where a product's name is no label of ours, the node's label and the pod's affinity still agree."""
    facts = nodes(8, model="a_b.c--d")
    for name in ("a_b.c--d", "A-b.c-d"):
        answer = one_pod(asked(facts, gpus=1, gpuModels=[name, name.upper()]))
        assert isinstance(answer, Allocation)
        assert answer.models == ("a-b.c-d",)


def test_a_vendor_is_found_in_any_case() -> None:
    """One document writes AMD."""
    answer = one_pod(asked(gpus=1, gpuVendor="AMD"))
    assert isinstance(answer, Allocation)
    assert (answer.vendor, answer.resource_key) == ("amd", "amd.com/gpu")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"gpuVendor": "nvidai"}, ["'nvidai'", "amd, nvidia", 'did you mean "nvidia"?']),
        ({"gpuVendor": "zzz"}, ["amd, nvidia", "plugin of that vendor"]),
        ({"gpuVendor": "default", "key": "acme.com/gpu"}, ["acme.com/gpu", "defaultGpuResourceKey"]),
    ],
)
def test_an_unknown_vendor_is_reported_with_the_loaded_ones(spec: dict[str, Any], words: list[str]) -> None:
    """A misspelt vendor is answered with the nearest, another with what is loaded."""
    message = refused(one_pod(asked(gpus=1, **spec)), "VendorNotLoaded")
    for word in words:
        assert word in message


def test_only_the_literal_default_uses_the_configured_key() -> None:
    """``default`` follows KaiwoConfig; a named vendor never does."""
    facts = nodes(8, vendor="nvidia")
    answer = one_pod(asked(facts, gpus=2, gpuVendor="default", key="nvidia.com/gpu"))
    assert isinstance(answer, Allocation)
    assert (answer.vendor, answer.resource_key) == ("nvidia", "nvidia.com/gpu")
    refused(one_pod(asked(facts, gpus=2, gpuVendor="amd", key="nvidia.com/gpu")), "NoGPUs")


def test_a_running_workload_is_not_judged_by_the_nodes() -> None:
    """While a child exists no node has to be there."""
    for split in (one_pod, even, spread):
        assert shape(split(asked((), check=False, gpus=8)))[:2] == (1, 8)
    assert shape(spread(asked(nodes(8), check=False, gpus=17)))[:2] == (17, 1)


def container(**amounts: str) -> dict[str, Any]:
    """A container with GPU limits, given as vendor to count."""
    return {"resources": {"limits": {f"{name}.com/gpu": count for name, count in amounts.items()}}}


def test_gpus_of_an_embedded_template_count() -> None:
    """Containers and sidecars add up, init containers run before them, nonsense counts as nothing."""
    template = {
        "spec": {
            "containers": [container(amd="2"), container(amd="1")],
            "initContainers": [container(amd="1")],
        }
    }
    assert template_gpus(template, (AMD, NVIDIA)) == ("amd", "amd.com/gpu", 3)
    sidecar = {**container(amd="2"), "restartPolicy": "Always"}
    beside = {"spec": {"containers": [container(amd="1")], "initContainers": [sidecar]}}
    assert template_gpus(beside, (AMD, NVIDIA)) == ("amd", "amd.com/gpu", 3)
    slice_ = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/mig-1g.10gb": 2}}}]}}
    assert template_gpus(slice_, (AMD, NVIDIA)) == ("nvidia", "nvidia.com/mig-1g.10gb", 2)
    for odd in (
        None,
        {},
        {"spec": []},
        {"spec": {"containers": ["x", {"resources": []}, container(amd="many")]}},
    ):
        assert template_gpus(odd, (AMD,)) == ("", "", 0)  # type: ignore[arg-type] # what users may write
    answer = one_pod(asked(), template)
    assert shape(answer) == (1, 3, 1)


sizes = st.lists(st.integers(0, 16), max_size=6)


@given(sizes, st.integers(1, 80), st.integers(1, 6), st.integers(0, 9))
def test_a_granted_allocation_fits_and_is_what_was_requested(
    have: list[int], gpus: int, replicas: int, per_replica: int
) -> None:
    """Whatever the nodes: the split has the requested count, and all its pods fit at the same time."""
    spec: dict[str, Any] = {"gpus": gpus, "replicas": replicas}
    if per_replica:
        spec["gpusPerReplica"] = per_replica
    for split in (one_pod, even, spread):
        answer = split(asked(nodes(*have), **spec))
        if isinstance(answer, Blocked):
            continue
        each = answer.gpus_per_replica
        assert sum(size // each for size in have) >= answer.pods
        assert answer.gpus == answer.replicas * each
        if split is one_pod:
            assert answer.gpus == (per_replica or gpus)
        else:
            assert answer.gpus == (replicas * per_replica or gpus)


@given(sizes, st.integers(1, 80))
def test_spreading_refuses_only_what_no_split_can_give(have: list[int], gpus: int) -> None:
    """A refusal means that no equal split fits, and a granted one is the smallest."""
    possible = [
        count
        for count in range(1, gpus + 1)
        if gpus % count == 0 and sum(size // (gpus // count) for size in have) >= count
    ]
    answer = spread(asked(nodes(*have), gpus=gpus))
    assert (answer.replicas if isinstance(answer, Allocation) else None) == min(possible, default=None)


@given(sizes, st.integers(1, 40))
def test_the_nearest_counts_do_fit(have: list[int], gpus: int) -> None:
    """Who follows the advice of a refusal is not refused again."""
    for split in (one_pod, spread):
        answer = split(asked(nodes(*have), gpus=gpus))
        if isinstance(answer, Blocked) and "nearest that fits: " in answer.message:
            for count in answer.message.rsplit("nearest that fits: ", 1)[1].split(" or "):
                assert isinstance(split(asked(nodes(*have), gpus=int(count))), Allocation)
