"""KaiwoQueueConfig against real Kueue: created, kept, healed, replaced, and reported."""

from __future__ import annotations

import os
import re
import signal
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_CONFIG
from kaiwo.engine.resource import NODE
from kaiwo_kueue.kinds import (
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    PRIORITY_CLASS,
    QUEUE_CONFIG,
    RESOURCE_FLAVOR,
    TOPOLOGY,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = [pytest.mark.cluster, pytest.mark.matrix, pytest.mark.usefixtures("pristine")]


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


async def test_an_applied_spec_stays_as_it_was_written(
    operator: Start, admin: Any, lab: Any, client: Client, quota: Callable[..., Object]
) -> None:
    """Quotas from the nodes are in Kueue's objects and in the status; a GitOps tool meets no conflict."""
    spec: Object = {
        "clusterQueues": [
            {"name": "own", "spec": {"cohort": "c"}},
            {"name": "kaiwo", "spec": quota(cohort="mine")},
        ],
    }
    await admin.set(dynamicallyUpdateDefaultClusterQueue=True)
    applied = await admin.configure(**spec)
    await operator()
    nodes_of = lambda obj: len((obj or {})["spec"]["resourceGroups"][0]["flavors"]) == 3  # noqa: E731
    queue = await admin.sees(CLUSTER_QUEUE, "kaiwo", lambda obj: obj and nodes_of(obj))
    assert queue["spec"].get("cohortName", queue["spec"].get("cohort")) == "mine"

    def computed(obj: Object | None) -> Object:
        found: Object = ((obj or {}).get("status") or {}).get("computed") or {}
        return found

    config = await admin.sees(QUEUE_CONFIG, "kaiwo", computed)
    assert config["spec"] == applied["spec"]
    assert config["metadata"]["generation"] == 1
    wrote_spec = [
        item["manager"] for item in config["metadata"]["managedFields"] if "f:spec" in item["fieldsV1"]
    ]
    assert wrote_spec == ["admin"]
    (entry,) = computed(config)["clusterQueues"]
    assert (entry["name"], list(entry["spec"])) == ("kaiwo", ["resourceGroups"])
    assert len(computed(config)["resourceFlavors"]) == 3
    wanted = {
        "apiVersion": QUEUE_CONFIG.api_version,
        "kind": QUEUE_CONFIG.kind,
        "metadata": {"name": "kaiwo"},
        "spec": {"clusterQueues": spec["clusterQueues"][:1]},
    }
    await client.apply(QUEUE_CONFIG, wanted, field_manager="admin", force=False)

    whole = lambda obj: "cohort" in computed(obj)["clusterQueues"][0]["spec"]  # noqa: E731
    config = await admin.sees(QUEUE_CONFIG, "kaiwo", whole)
    assert [item["name"] for item in config["spec"]["clusterQueues"]] == ["own"]
    await lab.submit("runs", gpus=8)
    await lab.reaches("runs", "COMPLETE")


async def test_a_default_queue_that_does_not_exist_is_reported_in_kaiwoconfig(
    operator: Start, admin: Any, quota: Callable[..., Object]
) -> None:
    """Workloads that name no queue would all fail; the condition goes when the queue is listed."""
    spec: Object = {"clusterQueues": [{"name": "team", "spec": quota()}], "resourceFlavors": [{"name": "f"}]}
    await admin.configure(**spec)
    await operator()
    await admin.status("READY")

    def reported(obj: Object | None) -> Object:
        conditions = ((obj or {}).get("status") or {}).get("conditions", ())
        return next((item for item in conditions if item["type"] == "DefaultQueueFound"), {})

    found = reported(await admin.sees(KAIWO_CONFIG, "kaiwo", reported))
    assert (found["status"], found["reason"]) == ("False", "QueueNotFound")
    assert found["message"].startswith('spec.defaultClusterQueueName: queue "kaiwo" does not exist')
    await admin.set(defaultClusterQueueName="team")
    await admin.sees(KAIWO_CONFIG, "kaiwo", lambda obj: obj and not reported(obj))
    await admin.set(defaultClusterQueueName="later")
    await admin.sees(KAIWO_CONFIG, "kaiwo", reported)
    spec["clusterQueues"].append({"name": "later", "spec": quota()})
    await admin.configure(**spec)
    await admin.sees(KAIWO_CONFIG, "kaiwo", lambda obj: obj and not reported(obj))


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
    assert set(re.findall("KaiwoQueueConfig kaiwo: (READY|FAILED)", process.log)) == {"READY"}

    await admin.configure(clusterQueues=[], resourceFlavors=[{"name": "g"}])
    await admin.sees(CLUSTER_QUEUE, "q", lambda obj: obj is None)
    await admin.sees(RESOURCE_FLAVOR, "f", lambda obj: obj is None)
    await admin.sees(PRIORITY_CLASS, "high", lambda obj: obj is None)
    await admin.sees(RESOURCE_FLAVOR, "before", lambda obj: obj and not obj["metadata"].get("labels"))
    assert (await client.get(RESOURCE_FLAVOR, None, "foreign"))["metadata"].get("labels") is None


async def test_what_somebody_adds_by_hand_is_taken_back(
    operator: Start, admin: Any, client: Client, quota: Callable[..., Object]
) -> None:
    """Stopped, or open to fewer namespaces: the queue is as listed again, and the status stays READY."""
    await admin.configure(
        clusterQueues=[{"name": "q", "spec": quota(cohort="c")}], resourceFlavors=[{"name": "f"}]
    )
    process = await operator()
    await admin.status("READY")
    listed = (await client.get(CLUSTER_QUEUE, None, "q"))["spec"]
    flavor = (await client.get(RESOURCE_FLAVOR, None, "f"))["spec"]
    limited = [dict(listed["resourceGroups"][0])]
    (only,) = limited[0]["flavors"]
    resources = [{**only["resources"][0], "borrowingLimit": "1"}, *only["resources"][1:]]
    limited[0]["flavors"] = [{**only, "resources": resources}]
    added: list[Object] = [
        {"stopPolicy": "Hold"},
        {"preemption": {"withinClusterQueue": "LowerPriority"}},
        {"namespaceSelector": {"matchLabels": {"team": "a"}}},
        {"resourceGroups": limited},
    ]
    for change in added:
        live = await client.merge_patch(CLUSTER_QUEUE, None, "q", {"spec": change})
        assert live["spec"] != listed
        await admin.sees(CLUSTER_QUEUE, "q", lambda obj: obj and obj["spec"] == listed)
    more = {"nodeLabels": {"zone": "a"}, "nodeTaints": [{"key": "k", "effect": "NoSchedule"}]}
    await client.merge_patch(RESOURCE_FLAVOR, None, "f", {"spec": more})
    await admin.sees(RESOURCE_FLAVOR, "f", lambda obj: obj and obj["spec"] == flavor)
    await admin.status("READY")
    assert "FAILED" not in re.findall("KaiwoQueueConfig kaiwo: (READY|FAILED)", process.log)


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
    text = admin.condition_of(status, "Ready")["message"]
    for word in ("wrong", "nominalQuota", "nowhere", "nope"):
        assert word in text, text
    assert admin.condition_of(status, "ClusterQueuesSynced")["status"] == "False"
    assert admin.condition_of(status, "LocalQueuesSynced")["reason"] == "NamespaceNotFound"
    assert admin.condition_of(status, "ResourceFlavorsSynced")["status"] == "True"
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
        assert "ClusterQueue q" in admin.condition_of(failed, "ClusterQueuesSynced")["message"]
    finally:
        os.kill(pid, signal.SIGCONT)
    await admin.status("READY", generation=config["metadata"]["generation"], timeout=120)


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
    assert admin.condition_of(found["status"], "Ready")["reason"] == "NotTheSingleton"
    assert "never" not in [obj["metadata"]["name"] async for obj in client.list(CLUSTER_QUEUE)]


async def _version(client: Client) -> str:
    """The version of Kueue's API that this control plane serves."""
    await client.find_version(RESOURCE_FLAVOR)
    return client.in_use(RESOURCE_FLAVOR).version
