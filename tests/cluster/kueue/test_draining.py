"""Queues that leave the list, or whose KaiwoQueueConfig is deleted, while workloads use them."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine.errors import NotFound
from kaiwo.engine.resource import CONFIG_MAP, EVENT
from kaiwo_kueue.kinds import (
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    PRIORITY_CLASS,
    QUEUE_CONFIG,
    RESOURCE_FLAVOR,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = [pytest.mark.cluster, pytest.mark.matrix, pytest.mark.usefixtures("pristine")]

FOREVER = {"kaiwo-sandbox/forever": "true"}
_COLLECTED_SECONDS = 60.0  # for Kubernetes' garbage collector to learn of a kind whose CRD is new


def cpu(amount: str) -> Object:
    """Resources of a job that requests CPU only."""
    wanted = {"cpu": amount, "memory": "1Gi"}
    return {"requests": wanted, "limits": wanted}


def is_held(obj: Object | None) -> bool:
    """Whether a queue admits nothing, and stays."""
    return (
        obj is not None
        and obj["spec"].get("stopPolicy") == "Hold"
        and "deletionTimestamp" not in obj["metadata"]
    )


def is_open(obj: Object | None) -> bool:
    """Whether a queue admits workloads."""
    return obj is not None and obj["spec"].get("stopPolicy", "None") == "None"


def draining(obj: Object | None) -> Object:
    """The condition of a KaiwoQueueConfig about queues that drain; empty without one."""
    found = ((obj or {}).get("status") or {}).get("conditions", ())
    return next((item for item in found if item["type"] == "Draining"), {})


async def reasons(client: Client, kind: str, name: str) -> set[str]:
    """Reasons of the events about an object."""
    selector = f"involvedObject.kind={kind},involvedObject.name={name}"
    return {event["reason"] async for event in client.list(EVENT, field_selector=selector)}


async def sees_event(client: Client, kind: str, name: str, reason: str) -> None:
    """Wait until there is an event about an object."""
    end = time.monotonic() + 30
    while reason not in (found := await reasons(client, kind, name)):
        assert time.monotonic() < end, (kind, name, reason, found)
        await asyncio.sleep(0.2)


async def identities(client: Client, namespace: str) -> dict[str, str]:
    """The uids of the test's queue objects."""
    objects = (
        (CLUSTER_QUEUE, None, "team"),
        (CLUSTER_QUEUE, None, "kaiwo"),
        (LOCAL_QUEUE, namespace, "team"),
        (LOCAL_QUEUE, namespace, "kaiwo"),
        (RESOURCE_FLAVOR, None, "f"),
    )
    return {
        f"{kind.kind} {name}": (await client.get(kind, within, name))["metadata"]["uid"]
        for kind, within, name in objects
    }


async def test_queues_in_use_outlive_their_configuration(
    operator: Start, admin: Any, lab: Any, client: Client, quota: Callable[..., Object]
) -> None:
    """Deleted by mistake and applied again: queues are held meanwhile, then as before, and no job is lost."""
    spec: Object = {
        "clusterQueues": [
            {"name": "team", "spec": quota(cohort="c"), "namespaces": [lab.namespace]},
            {"name": "kaiwo", "spec": quota(cpu="3")},
            {"name": "idle", "spec": quota(), "namespaces": [lab.namespace]},
        ],
        "resourceFlavors": [{"name": "f"}, {"name": "unused"}],
        "workloadPriorityClasses": [{"metadata": {"name": "high"}, "value": 7}],
    }
    await admin.configure(**spec)
    await operator()
    await admin.status("READY")
    await lab.submit("runs", clusterQueue="team", resources=cpu("3"), pods=FOREVER)
    await lab.submit("default", resources=cpu("2"), pods=FOREVER)
    await lab.reaches("runs", "RUNNING")
    await lab.submit("waits", clusterQueue="team", resources=cpu("2"))
    await lab.reaches("default", "RUNNING")
    await lab.reaches("waits", "PENDING", reason="Pending")
    before = await identities(client, lab.namespace)
    default_queue = (await client.get(CLUSTER_QUEUE, None, "kaiwo"))["spec"]

    first = await client.get(QUEUE_CONFIG, None, "kaiwo")
    await client.delete(QUEUE_CONFIG, None, "kaiwo")
    for name in ("team", "kaiwo"):
        await admin.sees(CLUSTER_QUEUE, name, is_held)
    await admin.sees(CLUSTER_QUEUE, "idle", lambda obj: obj is None)
    await admin.sees(RESOURCE_FLAVOR, "unused", lambda obj: obj is None)
    await admin.sees(PRIORITY_CLASS, "high", lambda obj: obj is None)
    found = await admin.sees(QUEUE_CONFIG, "kaiwo", lambda obj: draining(obj).get("status") == "True")
    assert found["metadata"]["uid"] != first["metadata"]["uid"], "the default one was not made"
    text = draining(found)["message"]
    assert "ClusterQueue team: 2 workloads (1 admitted, 1 pending)" in text
    assert "ClusterQueue kaiwo: 1 workload (1 admitted, 0 pending)" in text
    assert await identities(client, lab.namespace) == before
    held = (await client.get(CLUSTER_QUEUE, None, "kaiwo"))["spec"]
    assert {**held, "stopPolicy": "None"} == {**default_queue, "stopPolicy": "None"}
    for kind, name, reason in (
        ("ClusterQueue", "team", "QueueDraining"),
        ("ClusterQueue", "idle", "QueueDeleted"),
        ("LocalQueue", "team", "QueueDraining"),
        ("LocalQueue", "idle", "QueueDeleted"),
        ("Namespace", lab.namespace, "QueueDraining"),
        ("Namespace", lab.namespace, "QueueDeleted"),
    ):
        await sees_event(client, kind, name, reason)
    assert (await client.get(KAIWO_JOB, lab.namespace, "runs"))["status"]["status"] == "RUNNING"
    assert (await client.get(KAIWO_JOB, lab.namespace, "waits"))["status"]["status"] == "PENDING"

    config = await admin.configure(**spec)
    for name in ("team", "kaiwo", "idle"):
        await admin.sees(CLUSTER_QUEUE, name, is_open)
    await admin.status("READY", generation=config["metadata"]["generation"])
    await admin.sees(QUEUE_CONFIG, "kaiwo", lambda obj: not draining(obj))
    assert await identities(client, lab.namespace) == before
    assert (await client.get(CLUSTER_QUEUE, None, "kaiwo"))["spec"] == default_queue
    await sees_event(client, "ClusterQueue", "team", "QueueRestored")
    assert (await client.get(KAIWO_JOB, lab.namespace, "runs"))["status"]["status"] == "RUNNING"
    await client.delete(KAIWO_JOB, lab.namespace, "runs")
    await lab.reaches("waits", "COMPLETE", timeout=120)


async def test_a_queue_that_leaves_the_list_goes_when_it_is_empty(
    operator: Start, admin: Any, lab: Any, client: Client, quota: Callable[..., Object]
) -> None:
    """Held with its flavor while a job runs in it; both go after the job, and the others never notice."""
    spec: Object = {
        "clusterQueues": [
            {"name": "kaiwo", "spec": quota("g"), "namespaces": ["default", lab.namespace]},
            {"name": "team", "spec": quota("f")},
        ],
        "resourceFlavors": [{"name": "f"}, {"name": "g"}],
    }
    await admin.configure(**spec)
    await operator()
    await admin.status("READY")
    await lab.submit("runs", clusterQueue="team", resources=cpu("1"), pods=FOREVER)
    await lab.submit("other", resources=cpu("1"), pods=FOREVER)
    await lab.reaches("runs", "RUNNING")
    await lab.reaches("other", "RUNNING")

    listed = {**spec["clusterQueues"][0], "namespaces": ["default"]}
    config = await admin.configure(clusterQueues=[listed], resourceFlavors=[{"name": "g"}])
    await admin.sees(CLUSTER_QUEUE, "team", is_held)
    await admin.sees(LOCAL_QUEUE, "kaiwo", is_held, lab.namespace)
    await admin.status("READY", generation=config["metadata"]["generation"])
    assert is_open(await client.get(CLUSTER_QUEUE, None, "kaiwo"))
    assert is_open(await client.get(LOCAL_QUEUE, "default", "kaiwo"))
    assert "deletionTimestamp" not in (await client.get(RESOURCE_FLAVOR, None, "f"))["metadata"]
    text = draining(await client.get(QUEUE_CONFIG, None, "kaiwo"))["message"]
    assert f"LocalQueue {lab.namespace}/kaiwo: 1 workload" in text

    for name in ("runs", "other"):
        await client.delete(KAIWO_JOB, lab.namespace, name)
    await admin.sees(CLUSTER_QUEUE, "team", lambda obj: obj is None)
    await admin.sees(LOCAL_QUEUE, "team", lambda obj: obj is None, lab.namespace)
    await admin.sees(LOCAL_QUEUE, "kaiwo", lambda obj: obj is None, lab.namespace)
    await admin.sees(RESOURCE_FLAVOR, "f", lambda obj: obj is None)
    await admin.sees(QUEUE_CONFIG, "kaiwo", lambda obj: not draining(obj))
    await sees_event(client, "ClusterQueue", "team", "QueueDeleted")


async def test_the_default_queue_stays_open_when_its_configuration_is_made_again(
    operator: Start, admin: Any, lab: Any, client: Client
) -> None:
    """Deleting the default KaiwoQueueConfig, for example to read the nodes anew, stops nobody."""
    await operator()
    await admin.status("READY")
    await lab.submit("runs", resources=cpu("1"), pods=FOREVER)
    await lab.reaches("runs", "RUNNING")
    queue = await client.get(CLUSTER_QUEUE, None, "kaiwo")
    config = await client.get(QUEUE_CONFIG, None, "kaiwo")
    await admin.cordon("amd-1")
    try:
        await client.delete(QUEUE_CONFIG, None, "kaiwo")
        again = lambda obj: obj and obj["metadata"]["uid"] != config["metadata"]["uid"]  # noqa: E731
        await admin.sees(QUEUE_CONFIG, "kaiwo", again)
        changed = lambda obj: obj and obj["spec"]["resourceGroups"] != queue["spec"]["resourceGroups"]  # noqa: E731
        after = await admin.sees(CLUSTER_QUEUE, "kaiwo", changed)
    finally:
        await admin.cordon("amd-1", cordoned=False)
    assert after["metadata"]["uid"] == queue["metadata"]["uid"]
    assert is_open(after)
    await admin.status("READY")
    assert not draining(await client.get(QUEUE_CONFIG, None, "kaiwo"))


async def test_queues_with_an_owner_reference_are_migrated(
    operator: Start, admin: Any, lab: Any, client: Client, quota: Callable[..., Object]
) -> None:
    """Objects of an earlier version outlive their KaiwoQueueConfig too, which garbage collection follows."""
    spec = {"clusterQueues": [{"name": "team", "spec": quota()}], "resourceFlavors": [{"name": "f"}]}
    config = await admin.configure(**spec)
    owner = {
        "apiVersion": QUEUE_CONFIG.api_version,
        "kind": QUEUE_CONFIG.kind,
        "name": "kaiwo",
        "uid": config["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    for kind, body in ((RESOURCE_FLAVOR, {"name": "f"}), (CLUSTER_QUEUE, {"name": "team"})):
        await client.find_version(kind)
        obj = {
            "apiVersion": client.in_use(kind).api_version,
            "kind": kind.kind,
            "metadata": {**body, "ownerReferences": [owner]},
            "spec": quota() if kind == CLUSTER_QUEUE else {"nodeLabels": {"kaiwo/worker": "true"}},
        }
        await client.apply(kind, obj, field_manager="kaiwo")
    collected = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "collected", "namespace": lab.namespace, "ownerReferences": [owner]},
    }
    await client.create(CONFIG_MAP, collected)
    process = await operator()
    await admin.status("READY")
    for kind, name in ((RESOURCE_FLAVOR, "f"), (CLUSTER_QUEUE, "team")):
        found = await admin.sees(kind, name, lambda obj: obj and not obj["metadata"].get("ownerReferences"))
        labels = found["metadata"]["labels"]
        assert labels["app.kubernetes.io/managed-by"] == "kaiwo"
        assert labels["kaiwo.silogen.ai/queue-config-uid"] == config["metadata"]["uid"]

    await asyncio.to_thread(process.close)
    await client.delete(QUEUE_CONFIG, None, "kaiwo")
    end = time.monotonic() + _COLLECTED_SECONDS
    while await _exists(client, lab.namespace):
        assert time.monotonic() < end, "the garbage collector did not run"
        await asyncio.sleep(0.5)
    for kind, name in ((RESOURCE_FLAVOR, "f"), (CLUSTER_QUEUE, "team")):
        assert "deletionTimestamp" not in (await client.get(kind, None, name))["metadata"]


async def _exists(client: Client, namespace: str) -> bool:
    try:
        await client.get(CONFIG_MAP, namespace, "collected")
    except NotFound:
        return False
    return True
