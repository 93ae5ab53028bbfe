"""KaiwoQueueConfig against real Kueue: created, kept, healed, replaced, and reported."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine.quantity import parse_quantity
from kaiwo.engine.resource import NODE, POD
from kaiwo_kueue.kinds import (
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    PRIORITY_CLASS,
    QUEUE_CONFIG,
    RESOURCE_FLAVOR,
    TOPOLOGY,
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


def condition_of(status: Object, kind: str) -> Object:
    """A condition of the KaiwoQueueConfig."""
    return next(item for item in status["conditions"] if item["type"] == kind)


async def test_the_default_configuration_comes_from_the_nodes_and_follows_them(
    operator: Start, admin: Any, client: Client
) -> None:
    """Made when there is none, again when it is deleted; with the option quotas follow a cordon."""
    await operator()
    await admin.status("READY")
    config = await client.get(QUEUE_CONFIG, None, "kaiwo")
    (queue,) = config["spec"]["clusterQueues"]
    assert (queue["name"], queue["spec"]["cohort"]) == ("kaiwo", "kaiwo")
    names = [flavor["name"] for flavor in config["spec"]["resourceFlavors"]]
    assert names[0].startswith("cpu-only-0gpu-")
    assert [name.split("-")[0] for name in names[1:]] == ["amd", "nvidia"]
    amd = names[1]
    node = await client.get(NODE, None, "amd-1")
    labels = node["metadata"]["labels"]
    assert labels["kaiwo/nodepool"] == amd
    assert (labels["kaiwo/worker"], labels["kaiwo/gpu-model"]) == ("true", "mi300x")
    live = await client.get(RESOURCE_FLAVOR, None, amd)
    assert live["spec"]["nodeLabels"] == {
        "kaiwo/nodepool": amd,
        "kaiwo/worker": "true",
        "kaiwo/gpu-model": "mi300x",
    }

    await client.delete(QUEUE_CONFIG, None, "kaiwo")
    again = lambda obj: obj and obj["metadata"]["uid"] != config["metadata"]["uid"]  # noqa: E731
    await admin.sees(QUEUE_CONFIG, "kaiwo", again)
    await admin.status("READY")

    def gpus(count: str) -> Callable[[Object | None], bool]:
        def holds(obj: Object | None) -> bool:
            groups = ((obj or {}).get("spec") or {}).get("resourceGroups") or [{"flavors": []}]
            found = [f for f in groups[0]["flavors"] if f["name"] == amd]
            return bool(found) and {"name": "amd.com/gpu", "nominalQuota": count} in found[0]["resources"]

        return holds

    await admin.sees(CLUSTER_QUEUE, "kaiwo", gpus("16"))
    await admin.cordon("amd-1")
    try:
        await admin.set(dynamicallyUpdateDefaultClusterQueue=True)
        await admin.sees(CLUSTER_QUEUE, "kaiwo", gpus("8"))
    finally:
        await admin.cordon("amd-1", cordoned=False)
    await admin.sees(CLUSTER_QUEUE, "kaiwo", gpus("16"))


async def test_gpu_nodes_are_tainted_on_request_and_the_taint_is_taken_back(
    operator: Start, admin: Any, client: Client
) -> None:
    """The flavor shows the taint too, so that Kueue admits only what tolerates it."""
    key = "kaiwo.silogen.ai/gpu"

    def tainted(obj: Object | None) -> bool:
        return any(taint["key"] == key for taint in (obj or {}).get("spec", {}).get("taints") or ())

    await admin.set(nodes={"addTaintsToGpuNodes": True})
    await operator()
    await admin.sees(NODE, "amd-1", tainted)
    await admin.status("READY")
    flavor = (await client.get(NODE, None, "amd-1"))["metadata"]["labels"]["kaiwo/nodepool"]
    live = await client.get(RESOURCE_FLAVOR, None, flavor)
    assert live["spec"]["nodeTaints"] == [{"key": key, "value": "true", "effect": "NoSchedule"}]
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
    assert "add node_pools" in condition_of(status, "ResourceFlavorsSynced")["message"]
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
    conflicts = proxy.answer(409, method="PATCH", path=r"/nodes/joining-1$", times=2)
    await operator(kubeconfig=proxy.write_kubeconfig(tmp_path / "kubeconfig"))
    await admin.status("READY")
    await admin.client.create(NODE, node)
    try:
        labelled = lambda obj: obj and obj["metadata"]["labels"].get("kaiwo/gpu-model") == "mi300x"  # noqa: E731
        await admin.sees(NODE, "joining-1", labelled)
    finally:
        await admin.client.delete(NODE, None, "joining-1")
    assert conflicts.struck == 2


async def test_objects_heal_and_go_with_their_entries(
    operator: Start, admin: Any, client: Client, namespace: str, quota: Callable[..., Object]
) -> None:
    """Edited, deleted, listed no more; what was there before stays, what nobody listed is not touched."""
    version = await _version(client)
    head = {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": "ResourceFlavor"}
    await client.create(RESOURCE_FLAVOR, {**head, "metadata": {"name": "before"}, "spec": {}})
    await client.create(RESOURCE_FLAVOR, {**head, "metadata": {"name": "foreign"}, "spec": {}})
    spec = {
        "clusterQueues": [
            {
                "name": "q",
                "spec": quota(cohort="c", flavorFungibility={"whenCanBorrow": "Borrow"}),
                "namespaces": [namespace],
            }
        ],
        "resourceFlavors": [{"name": "f"}, {"name": "before", "nodeLabels": {"a": "b"}}],
        "workloadPriorityClasses": [{"metadata": {"name": "high"}, "value": 7}],
    }
    await admin.configure(**spec)
    process = await operator()
    await admin.status("READY")
    queue = await client.get(CLUSTER_QUEUE, None, "q")
    assert queue["spec"].get("cohortName", queue["spec"].get("cohort")) == "c"
    assert queue["spec"]["namespaceSelector"] == {}
    adopted = await client.get(RESOURCE_FLAVOR, None, "before")
    assert adopted["metadata"]["labels"] == {"kaiwo.silogen.ai/managed": "true"}
    assert "ownerReferences" not in adopted["metadata"]
    assert adopted["spec"]["nodeLabels"] == {"a": "b", "kaiwo/worker": "true"}

    field = "cohortName" if version == "v1beta2" else "cohort"
    await client.merge_patch(CLUSTER_QUEUE, None, "q", {"spec": {field: "stolen"}})
    await admin.sees(CLUSTER_QUEUE, "q", lambda obj: obj and obj["spec"][field] == "c")
    await client.delete(LOCAL_QUEUE, namespace, "q")
    await admin.sees(
        LOCAL_QUEUE, "q", lambda obj: obj and not obj["metadata"].get("deletionTimestamp"), namespace
    )
    uid = queue["metadata"]["uid"]
    await client.delete(CLUSTER_QUEUE, None, "q")
    await admin.sees(CLUSTER_QUEUE, "q", lambda obj: obj and obj["metadata"]["uid"] != uid)
    uid = (await client.get(RESOURCE_FLAVOR, None, "f"))["metadata"]["uid"]
    await client.delete(RESOURCE_FLAVOR, None, "f")
    await admin.sees(RESOURCE_FLAVOR, "f", lambda obj: obj and obj["metadata"]["uid"] != uid)
    await admin.sees(
        CLUSTER_QUEUE,
        "q",
        lambda obj: obj and obj["spec"].get("stopPolicy", "None") == "None" and obj["spec"]["resourceGroups"],
    )
    await admin.status("READY")
    assert "KaiwoQueueConfig kaiwo: FAILED" not in process.log

    await admin.configure(clusterQueues=[], resourceFlavors=[{"name": "g"}])
    await admin.sees(CLUSTER_QUEUE, "q", lambda obj: obj is None)
    await admin.sees(RESOURCE_FLAVOR, "f", lambda obj: obj is None)
    await admin.sees(PRIORITY_CLASS, "high", lambda obj: obj is None)
    await admin.sees(RESOURCE_FLAVOR, "before", lambda obj: obj and not obj["metadata"].get("labels"))
    assert (await client.get(RESOURCE_FLAVOR, None, "foreign"))["metadata"].get("labels") is None


async def test_a_flavor_that_may_not_change_is_replaced(
    operator: Start, admin: Any, client: Client, quota: Callable[..., Object]
) -> None:
    """With a topology Kueue fixes a flavor's labels; the queue drops it for the moment and has it back."""
    spec = {
        "topologies": [
            {"metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}}
        ],
        "clusterQueues": [{"name": "q", "spec": quota()}],
        "resourceFlavors": [{"name": "f", "nodeLabels": {"a": "1"}, "topologyName": "t"}],
    }
    await admin.configure(**spec)
    await operator()
    await admin.status("READY")
    before = await client.get(RESOURCE_FLAVOR, None, "f")
    spec["resourceFlavors"] = [{"name": "f", "nodeLabels": {"a": "2"}, "topologyName": "t"}]
    await admin.configure(**spec)
    after = await admin.sees(
        RESOURCE_FLAVOR, "f", lambda obj: obj and obj["spec"]["nodeLabels"] == {"a": "2"}
    )
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    await admin.sees(
        CLUSTER_QUEUE,
        "q",
        lambda obj: (
            obj
            and obj["spec"].get("stopPolicy", "None") == "None"
            and obj["spec"]["resourceGroups"][0]["flavors"][0]["name"] == "f"
        ),
    )
    spec["topologies"] = [
        {"name": "t", "levels": [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]}
    ]
    config = await admin.configure(**spec)
    await admin.sees(TOPOLOGY, "t", lambda obj: obj and len(obj["spec"]["levels"]) == 2)
    await admin.status("READY", generation=config["metadata"]["generation"])
    assert (await client.get(RESOURCE_FLAVOR, None, "f"))["spec"]["topologyName"] == "t"


async def test_mistakes_are_reported_and_affect_nothing_else(
    operator: Start, admin: Any, client: Client, quota: Callable[..., Object]
) -> None:
    """A quantity that is none, an unknown flavor, a missing namespace: named, and healed by a correction."""
    wrong = quota(cpu="lots")
    spec: Object = {
        "clusterQueues": [
            {"name": "wrong", "spec": wrong},
            {"name": "fine", "spec": quota(), "namespaces": ["nowhere"]},
            {"name": "astray", "spec": quota("nope")},
        ],
        "resourceFlavors": [{"name": "f"}],
    }
    await admin.configure(**spec)
    await operator()
    status = await admin.status("FAILED")
    await admin.sees(CLUSTER_QUEUE, "fine", lambda obj: obj is not None)
    text = condition_of(status, "Ready")["message"]
    for word in ("wrong", "nominalQuota", "nowhere", "nope"):
        assert word in text, text
    assert condition_of(status, "ClusterQueuesSynced")["status"] == "False"
    assert condition_of(status, "LocalQueuesSynced")["reason"] == "NamespaceNotFound"
    assert condition_of(status, "ResourceFlavorsSynced")["status"] == "True"
    spec["clusterQueues"] = [{"name": "wrong", "spec": quota()}, {"name": "fine", "spec": quota()}]
    config = await admin.configure(**spec)
    await admin.status("READY", generation=config["metadata"]["generation"])
    assert await client.get(CLUSTER_QUEUE, None, "wrong")


async def test_kueue_that_does_not_answer_is_reported_and_heals(
    operator: Start, admin: Any, control_plane: Any, quota: Callable[..., Object]
) -> None:
    """Its webhook is silent: the status says what could not be written, and is READY once it is back."""
    spec = {"clusterQueues": [{"name": "q", "spec": quota()}], "resourceFlavors": [{"name": "f"}]}
    await admin.configure(**spec)
    await operator()
    await admin.status("READY")
    (pid,) = (each.pid for each in control_plane.status().processes if each.name == "kueue")
    os.kill(pid, signal.SIGSTOP)
    try:
        spec["clusterQueues"] = [{"name": "q", "spec": quota(cpu="5")}]
        config = await admin.configure(**spec)
        failed = await admin.status("FAILED", generation=config["metadata"]["generation"], timeout=120)
        assert "ClusterQueue q" in condition_of(failed, "ClusterQueuesSynced")["message"]
    finally:
        os.kill(pid, signal.SIGCONT)
    await admin.status("READY", generation=config["metadata"]["generation"], timeout=120)


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
        assert name in condition_of(found["status"], "NodePoolsSettled")["message"]
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


async def test_another_name_does_not_count(operator: Start, admin: Any, client: Client) -> None:
    """There is one KaiwoQueueConfig; another says so and does nothing."""
    await operator()
    await admin.status("READY")
    other = {
        "apiVersion": QUEUE_CONFIG.api_version,
        "kind": QUEUE_CONFIG.kind,
        "metadata": {"name": "other"},
        "spec": {"clusterQueues": [{"name": "never"}]},
    }
    await client.create(QUEUE_CONFIG, other)
    found = await admin.sees(QUEUE_CONFIG, "other", lambda obj: (obj or {}).get("status"))
    assert condition_of(found["status"], "Ready")["reason"] == "NotTheSingleton"
    assert "never" not in [obj["metadata"]["name"] async for obj in client.list(CLUSTER_QUEUE)]


async def _version(client: Client) -> str:
    """The version of Kueue's API that this control plane serves."""
    await client.find_version(RESOURCE_FLAVOR)
    return client.in_use(RESOURCE_FLAVOR).version
