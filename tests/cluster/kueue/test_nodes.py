"""Nodes and real Kueue: labels, taints, pools that change, and quotas that fit the nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine.quantity import parse_quantity
from kaiwo.engine.resource import NODE, POD
from kaiwo_kueue.kinds import (
    CLUSTER_QUEUE,
    QUEUE_CONFIG,
    RESOURCE_FLAVOR,
)
from kaiwo_sandbox.nodes import amd_node

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object
    from kaiwo.testing.fault_proxy import FaultProxy
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = [pytest.mark.cluster, pytest.mark.matrix, pytest.mark.usefixtures("pristine")]


GPU_TAINT = "kaiwo.silogen.ai/gpu"


def tainted(obj: Object | None) -> bool:
    """Whether a node has the taint of GPU nodes."""
    return any(taint["key"] == GPU_TAINT for taint in (obj or {}).get("spec", {}).get("taints") or ())


async def test_gpu_nodes_are_tainted_on_request_and_the_taint_is_taken_back(
    operator: Start, admin: Any, client: Client
) -> None:
    """The flavor shows the taint too, so that Kueue admits only what tolerates it."""
    await admin.set(nodes={"addTaintsToGpuNodes": True})
    await operator()
    await admin.sees(NODE, "amd-1", tainted)
    await admin.status("READY")
    flavor = (await client.get(NODE, None, "amd-1"))["metadata"]["labels"]["kaiwo/nodepool"]
    live = await client.get(RESOURCE_FLAVOR, None, flavor)
    assert live["spec"]["nodeTaints"] == [{"key": GPU_TAINT, "value": "true", "effect": "NoSchedule"}]
    assert not tainted(await client.get(NODE, None, "cpu-1"))
    await admin.set(nodes={"addTaintsToGpuNodes": False})
    await admin.sees(NODE, "amd-1", lambda obj: not tainted(obj))
    await admin.sees(RESOURCE_FLAVOR, flavor, lambda obj: obj and not obj["spec"].get("nodeTaints"))


async def test_without_the_plugin_that_labels_nodes_the_status_names_it(
    operator: Start, admin: Any, client: Client
) -> None:
    """No flavor can have nodes then; with the plugin the default queue gets its quotas by itself."""
    nothing = dict.fromkeys(("kaiwo/worker", "kaiwo/nodepool", "kaiwo/gpu-model"))
    async for node in client.list(NODE):
        bare = {"metadata": {"labels": nothing, "annotations": {"kaiwo.silogen.ai/node-wrote": None}}}
        await client.merge_patch(NODE, None, node["metadata"]["name"], bare)
    process = await operator(plugins="batch_job,gpu_amd,gpu_nvidia,kueue")
    status = await admin.status("FAILED", "NodePoolsNotLoaded")
    assert "add node_pools" in admin.condition_of(status, "ResourceFlavorsSynced")["message"]
    assert "kaiwo/nodepool" not in (await client.get(NODE, None, "amd-1"))["metadata"]["labels"]
    process.close()
    await operator()
    await admin.status("READY")
    queue = await client.get(CLUSTER_QUEUE, None, "kaiwo")
    assert len(queue["spec"]["resourceGroups"][0]["flavors"]) == 3


async def test_a_node_that_others_write_too_is_tried_again_at_once(
    operator: Start, admin: Any, proxy: FaultProxy, tmp_path: Path
) -> None:
    """A new node is written by kubelet and controllers as well; workloads wait for its labels."""
    node = amd_node("joining-1")
    proxy.answer(409, method="PATCH", path=r"/nodes/joining-1$", times=2)
    await operator(kubeconfig=proxy.write_kubeconfig(tmp_path / "kubeconfig"))
    await admin.status("READY")
    await admin.client.create(NODE, node)
    try:
        labelled = lambda obj: obj and obj["metadata"]["labels"].get("kaiwo/gpu-model") == "mi300x"  # noqa: E731
        await admin.sees(NODE, "joining-1", labelled)
    finally:
        await admin.client.delete(NODE, None, "joining-1")


async def test_a_new_pool_waits_for_pods_that_select_the_old_one(
    operator: Start, admin: Any, client: Client, lab: Any
) -> None:
    """A pod on the node keeps the label it was placed by; the node moves as soon as it is gone."""
    await operator()
    await admin.status("READY")
    await lab.submit(
        "stays",
        gpus=8,
        resources={"requests": {"cpu": "1"}},
        pods={"kaiwo-sandbox/forever": "true"},
        podTemplateSpecLabels={"find": "me"},
    )
    await lab.reaches("stays", "RUNNING")
    (pod,) = [pod async for pod in client.list(POD, lab.namespace, label_selector="find=me")]
    name, old = pod["spec"]["nodeName"], pod["spec"]["nodeSelector"]["kaiwo/nodepool"]
    label = "amd.com/gpu.product-name"
    before = (await client.get(NODE, None, name))["metadata"]["labels"][label]

    def in_pool(model: str) -> Callable[[Object | None], bool]:
        return lambda obj: model in (obj or {})["metadata"]["labels"]["kaiwo/nodepool"]

    try:
        renamed = {"metadata": {"labels": {label: "AMD_Instinct_MI325X_OAM"}}}
        await client.merge_patch(NODE, None, name, renamed)

        def pending(obj: Object | None) -> bool:
            conditions = (obj or {}).get("status", {}).get("conditions", ())
            return any(item["reason"] == "PoolChangePending" for item in conditions)

        found = await admin.sees(QUEUE_CONFIG, "kaiwo", pending)
        assert name in admin.condition_of(found["status"], "NodePoolsSettled")["message"]
        assert (await client.get(NODE, None, name))["metadata"]["labels"]["kaiwo/nodepool"] == old
        await client.delete(KAIWO_JOB, lab.namespace, "stays")
        await admin.sees(NODE, name, in_pool("mi325x"))
        await admin.sees(QUEUE_CONFIG, "kaiwo", lambda obj: not pending(obj))
    finally:
        await client.merge_patch(NODE, None, name, {"metadata": {"labels": {label: before}}})
    await admin.sees(NODE, name, in_pool("mi300x"))


async def test_a_node_keeps_its_pool_when_its_memory_changes(
    operator: Start, admin: Any, client: Client, lab: Any
) -> None:
    """As after a kubelet reservation on every node: the flavor still has its nodes, and quotas follow."""
    await admin.set(dynamicallyUpdateDefaultClusterQueue=True)
    await operator()
    await admin.status("READY")
    names = ["amd-1", "amd-2"]
    pool = (await client.get(NODE, None, names[0]))["metadata"]["labels"]["kaiwo/nodepool"]

    def has_memory(amount: int) -> Callable[[Object | None], bool]:
        def holds(obj: Object | None) -> bool:
            groups = ((obj or {}).get("spec") or {}).get("resourceGroups") or [{"flavors": []}]
            resources = [f["resources"] for f in groups[0]["flavors"] if f["name"] == pool]
            quota = {item["name"]: item["nominalQuota"] for found in resources for item in found}
            return bool(quota) and parse_quantity(quota["memory"]).units == amount

        return holds

    async def resize(memory: str) -> None:
        for name in names:
            status = {"status": {"capacity": {"memory": memory}}}
            await client.merge_patch(NODE, None, name, status, subresource="status")

    await admin.sees(CLUSTER_QUEUE, "kaiwo", has_memory(2 * (2**40 * 9 // 10)))
    try:
        await resize("900Gi")
        await admin.sees(CLUSTER_QUEUE, "kaiwo", has_memory(2 * (900 * 2**30 * 9 // 10)))
        for name in names:
            assert (await client.get(NODE, None, name))["metadata"]["labels"]["kaiwo/nodepool"] == pool
        await lab.submit("runs", gpus=8)
        await lab.reaches("runs", "COMPLETE")
    finally:
        await resize("1Ti")


async def test_a_pool_by_hand_may_have_any_label(
    operator: Start, admin: Any, client: Client, lab: Any
) -> None:
    """A value that no object can be named stops no queue; its nodes are used, and away for a while."""
    label = {"metadata": {"labels": {"kaiwo/nodepool": "Gold_Nodes"}}}
    for name in ("amd-1", "amd-2"):
        await client.merge_patch(NODE, None, name, label)
    try:
        await admin.set(dynamicallyUpdateDefaultClusterQueue=True)
        await operator()
        await admin.status("READY")
        config = await client.get(QUEUE_CONFIG, None, "kaiwo")
        (flavor,) = [
            entry["name"]
            for entry in config["spec"]["resourceFlavors"]
            if entry["nodeLabels"] == {"kaiwo/nodepool": "Gold_Nodes"}
        ]
        live = await client.get(RESOURCE_FLAVOR, None, flavor)
        assert live["spec"]["nodeLabels"]["kaiwo/gpu-model"] == "mi300x"
        await lab.submit("runs", gpus=8)
        await lab.reaches("runs", "COMPLETE")
        assert (await client.get(NODE, None, "amd-1"))["metadata"]["labels"]["kaiwo/nodepool"] == "Gold_Nodes"
    finally:
        for name in ("amd-1", "amd-2"):
            await client.merge_patch(NODE, None, name, {"metadata": {"labels": {"kaiwo/nodepool": None}}})


async def test_a_flavor_whose_nodes_are_cordoned_stays_with_its_queue(
    operator: Start, admin: Any, client: Client, quota: Callable[..., Object]
) -> None:
    """Maintenance of a pool leaves a list that names its flavor READY, and needs no change of it."""
    await operator()
    await admin.status("READY")
    pool = (await client.get(NODE, None, "amd-1"))["metadata"]["labels"]["kaiwo/nodepool"]
    spec = {"clusterQueues": [{"name": "q", "spec": quota(pool)}], "resourceFlavors": None}
    config = await client.merge_patch(QUEUE_CONFIG, None, "kaiwo", {"spec": spec}, field_manager="admin")
    await admin.status("READY", generation=config["metadata"]["generation"])
    uid = (await client.get(RESOURCE_FLAVOR, None, pool))["metadata"]["uid"]
    try:
        for name in ("amd-1", "amd-2"):
            await admin.cordon(name)
        own = lambda obj: pool not in str((obj or {}).get("status", {}).get("computed"))  # noqa: E731
        await admin.sees(QUEUE_CONFIG, "kaiwo", own)
        status = await admin.status("READY")
        assert admin.condition_of(status, "ResourceFlavorsSynced")["status"] == "True"
    finally:
        for name in ("amd-1", "amd-2"):
            await admin.cordon(name, cordoned=False)
    assert (await client.get(RESOURCE_FLAVOR, None, pool))["metadata"]["uid"] == uid


async def test_gpus_and_quota_that_do_not_meet_are_reported(
    operator: Start, admin: Any, quota: Callable[..., Object]
) -> None:
    """READY alone would hide GPUs without a queue and quota without nodes; both heal with the list."""
    spec = quota()
    group = spec["resourceGroups"][0]
    group["coveredResources"].append("amd.com/gpus")
    group["flavors"][0]["resources"].append({"name": "amd.com/gpus", "nominalQuota": 16})
    await admin.configure(
        clusterQueues=[{"name": "q", "spec": spec}],
        resourceFlavors=[{"name": "f", "nodeLabels": {"kubernetes.io/hostname": "cpu-1"}}],
    )
    await operator()
    await admin.status("READY")

    def outside(obj: Object | None) -> bool:
        conditions = (obj or {}).get("status", {}).get("conditions", ())
        return any((item["type"], item["status"]) == ("GpusOutsideQueues", "True") for item in conditions)

    status = (await admin.sees(QUEUE_CONFIG, "kaiwo", outside))["status"]
    assert "amd-1" in admin.condition_of(status, "GpusOutsideQueues")["message"]
    capacity = admin.condition_of(status, "QuotaWithinCapacity")
    assert (capacity["status"], capacity["reason"]) == ("False", "QuotaWithoutNodes")
    await admin.sees_event("NoFlavorSelects")
    await admin.sees_event("QuotaWithoutNodes")

    config = await admin.configure(
        clusterQueues=[{"name": "q", "spec": quota()}], resourceFlavors=[{"name": "f"}]
    )
    healed = await admin.status("READY", generation=config["metadata"]["generation"])
    assert "GpusOutsideQueues" not in [item["type"] for item in healed["conditions"]]
    assert admin.condition_of(healed, "QuotaWithinCapacity")["status"] == "True"


async def test_a_taint_that_somebody_takes_back_is_not_written_without_end(
    operator: Start, admin: Any, client: Client
) -> None:
    """Two controllers that disagree would write a node a hundred times in a second; one of them gives in."""
    await admin.set(nodes={"addTaintsToGpuNodes": True})
    process = await operator()
    for _ in range(11):
        await admin.sees(NODE, "amd-1", tainted)
        await client.merge_patch(NODE, None, "amd-1", {"spec": {"taints": None}})
    process.wait_log("node amd-1: somebody takes back what Kaiwo writes")
    await admin.sees(NODE, "amd-1", tainted)


async def test_a_job_goes_past_nodes_whose_taint_it_does_not_tolerate(
    operator: Start, admin: Any, client: Client, lab: Any
) -> None:
    """Kueue takes nodes without GPUs first, and would choose them for ever; without the taint it does."""
    pool = "cpu-only-0gpu-28core-115gi"
    await client.merge_patch(
        NODE, None, "cpu-1", {"spec": {"taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}]}}
    )
    try:
        await operator()
        await admin.status("READY")
        await lab.submit("past")
        await lab.reaches("past", "COMPLETE")
        template = {"spec": {"nodeSelector": {"kaiwo/nodepool": pool}, "containers": [{"name": "main"}]}}
        await lab.submit("waits", job={"spec": {"template": template}})
        await lab.says("waits", "untolerated taint")
        await client.merge_patch(NODE, None, "cpu-1", {"spec": {"taints": None}})
        await lab.reaches("waits", "COMPLETE")
        await admin.sees(CLUSTER_QUEUE, "kaiwo", lambda obj: obj["spec"].get("stopPolicy") in (None, "None"))
    finally:
        await client.merge_patch(NODE, None, "cpu-1", {"spec": {"taints": None}})
