"""KaiwoConfig while the operator runs: deleted, nonsensical, edited, misnamed."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_CONFIG
from kaiwo.engine.errors import Invalid, NotFound
from kaiwo.engine.repeated_writes import MANY
from kaiwo.engine.resource import EVENT, STORAGE_CLASS
from kaiwo.testing.operator import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster


@pytest.fixture(autouse=True)
async def pristine(client: Client) -> AsyncIterator[None]:
    """The KaiwoConfig is the whole cluster's: begin without one, and leave none behind."""
    await clear(client)
    yield
    await clear(client)


async def clear(client: Client) -> None:
    """Delete every KaiwoConfig."""
    for config in [config async for config in client.list(KAIWO_CONFIG)]:
        await client.delete(KAIWO_CONFIG, None, config["metadata"]["name"])


def is_ready(generation: int) -> Callable[[Object | None], bool]:
    """Whether that generation is reported as in force."""

    def holds(obj: Object | None) -> bool:
        status = (obj or {}).get("status", {})
        ready = [c for c in status.get("conditions", []) if c["type"] == "Ready"]
        return bool(ready) and ready[0]["status"] == "True" and status["observedGeneration"] >= generation

    return holds


async def test_a_missing_config_is_made_with_defaults_and_made_again(operator: Start, client: Client) -> None:
    """Deleting it is no outage; the queue's name comes from the process setting."""
    with pytest.raises(NotFound):
        await client.get(KAIWO_CONFIG, None, "kaiwo")
    await operator(env={"DEFAULT_CLUSTER_QUEUE_NAME": "research"})
    first = await until(client, KAIWO_CONFIG, None, "kaiwo", is_ready(1))
    assert first is not None
    assert first["spec"]["defaultClusterQueueName"] == "research"
    assert {"batch_job": "loaded"}.items() <= {
        plugin["name"]: plugin["state"] for plugin in first["status"]["plugins"]
    }.items()

    await client.delete(KAIWO_CONFIG, None, "kaiwo")

    def again(obj: Object | None) -> bool:
        return obj is not None and obj["metadata"]["uid"] != first["metadata"]["uid"] and is_ready(1)(obj)

    await until(client, KAIWO_CONFIG, None, "kaiwo", again)


async def test_nonsense_is_refused_with_the_field_and_the_last_values_stay(
    operator: Start, lab: Any, client: Client
) -> None:
    """A typo in the configuration does not stop any workload."""
    await operator()
    await until(client, KAIWO_CONFIG, None, "kaiwo", is_ready(1))
    for nonsense, field in (
        ({"ray": {"headPodMemory": "banana"}}, "spec.ray.headPodMemory"),
        ({"resourceMonitoring": {"profile": "cpu"}}, "spec.resourceMonitoring.profile"),
        ({"scheduling": {"kubeSchedulerName": "Bad Name!"}}, "spec.scheduling.kubeSchedulerName"),
        ({"ray": {"defaultRayImage": "not an image"}}, "spec.ray.defaultRayImage"),
        ({"storage": {"downloadImage": "UPPER//case"}}, "spec.storage.downloadImage"),
        ({"nodes": {"expectedGpus": [{"vendor": "amd", "gpusPerNode": -1, "maxNodes": 1}]}}, "gpusPerNode"),
    ):
        with pytest.raises(Invalid) as caught:
            await client.merge_patch(KAIWO_CONFIG, None, "kaiwo", {"spec": nonsense})
        assert field in str(caught.value)
    await lab.submit("goes-on")
    await lab.reaches("goes-on", "COMPLETE")


async def test_an_object_with_another_name_is_reported_as_ignored(operator: Start, client: Client) -> None:
    """Nobody wonders why the edits of the wrong object have no effect."""
    await operator()
    wrong = {
        "apiVersion": KAIWO_CONFIG.api_version,
        "kind": "KaiwoConfig",
        "metadata": {"name": "mine"},
        "spec": {},
    }
    await client.create(KAIWO_CONFIG, wrong)

    def refused(obj: Object | None) -> bool:
        conditions = (obj or {}).get("status", {}).get("conditions", [])
        return any((c["status"], c["reason"]) == ("False", "NotTheSingleton") for c in conditions)

    await until(client, KAIWO_CONFIG, None, "mine", refused)


async def test_a_taint_that_no_plugin_writes_is_reported(operator: Start, client: Client) -> None:
    """The condition comes and goes with the setting and names the plugin: event, gauge, one log line."""
    process = await operator()
    await until(client, KAIWO_CONFIG, None, "kaiwo", is_ready(1))

    def conditions(obj: Object | None) -> dict[str, Object]:
        return {item["type"]: item for item in (obj or {}).get("status", {}).get("conditions", [])}

    edit = {"spec": {"nodes": {"addTaintsToGpuNodes": True}}}
    await client.merge_patch(KAIWO_CONFIG, None, "kaiwo", edit)
    found = await until(client, KAIWO_CONFIG, None, "kaiwo", lambda obj: "GpuNodesTainted" in conditions(obj))
    condition = conditions(found)["GpuNodesTainted"]
    assert (condition["status"], condition["reason"]) == ("False", "NodePoolsNotLoaded")
    assert "add node_pools" in condition["message"]
    assert conditions(found)["Ready"]["status"] == "True"
    await asyncio.to_thread(process.wait_log, "GpuNodesTainted: NodePoolsNotLoaded")
    metrics = await asyncio.to_thread(process.metrics)
    labels = 'condition="GpuNodesTainted",kind="KaiwoConfig",status="False"'
    assert metrics[f"kaiwo_config_condition{{{labels}}}"] == 1

    edit["spec"]["nodes"]["addTaintsToGpuNodes"] = False
    await client.merge_patch(KAIWO_CONFIG, None, "kaiwo", edit)
    await until(client, KAIWO_CONFIG, None, "kaiwo", lambda obj: "GpuNodesTainted" not in conditions(obj))
    await asyncio.to_thread(process.wait_log, "KaiwoConfig kaiwo: GpuNodesTainted: the problem is over")
    assert len([line for line in process.lines if "GpuNodesTainted: NodePoolsNotLoaded" in line]) == 1
    uid = (await client.get(KAIWO_CONFIG, None, "kaiwo"))["metadata"]["uid"]
    async with asyncio.timeout(30):
        while await events(client, uid) != {("Warning", "NodePoolsNotLoaded"), ("Normal", "GpuNodesTainted")}:
            await asyncio.sleep(0.2)


async def events(client: Client, uid: str) -> set[tuple[str, str]]:
    """Type and reason of the Events about an object."""
    found = client.list(EVENT, "default", field_selector=f"involvedObject.uid={uid}")
    return {(event["type"], event["reason"]) async for event in found}


async def test_values_without_effect_are_conditions_and_heal(operator: Start, client: Client) -> None:
    """Each names its field; the StorageClass that is created later takes its condition away by itself."""
    await operator()
    await until(client, KAIWO_CONFIG, None, "kaiwo", is_ready(1))
    name = f"later-{secrets.token_hex(4)}"
    edit = {
        "plugins": {"batch_jbo": {"size": 3}},
        "storage": {"defaultStorageClass": name},
        "ray": {"headPodMemory": "500000Gi"},
        "resourceMonitoring": {"terminateUnderutilized": True},
    }
    await client.merge_patch(KAIWO_CONFIG, None, "kaiwo", {"spec": edit})

    def conditions(obj: Object | None) -> dict[str, Object]:
        return {item["type"]: item for item in (obj or {}).get("status", {}).get("conditions", [])}

    found = conditions(
        await until(
            client, KAIWO_CONFIG, None, "kaiwo", lambda obj: "DefaultStorageClassFound" in conditions(obj)
        )
    )
    assert found["Ready"]["status"] == "True"
    for kind, reason, field in (
        ("PluginSettingsUsed", "UnknownPlugin", "spec.plugins.batch_jbo"),
        ("DefaultStorageClassFound", "StorageClassNotFound", "spec.storage.defaultStorageClass"),
        ("RayHeadFits", "NoNodeFits", "spec.ray.headPodMemory"),
        ("ResourceMonitoringOn", "MonitoringOff", "spec.resourceMonitoring.terminateUnderutilized"),
    ):
        assert (found[kind]["status"], found[kind]["reason"]) == ("False", reason)
        assert found[kind]["message"].startswith(f"{field}: ")

    made = {
        "apiVersion": STORAGE_CLASS.api_version,
        "kind": STORAGE_CLASS.kind,
        "metadata": {"name": name},
        "provisioner": "example.com/none",
    }
    await client.create(STORAGE_CLASS, made)
    try:
        await until(
            client, KAIWO_CONFIG, None, "kaiwo", lambda obj: "DefaultStorageClassFound" not in conditions(obj)
        )
    finally:
        await client.delete(STORAGE_CLASS, None, name)


async def test_an_edit_starts_waiting_workloads_and_changes_no_existing_child(
    operator: Start, lab: Any, client: Client
) -> None:
    """Expected nodes make a waiting workload schedulable; a running one keeps what it was made with."""
    await operator()
    await until(client, KAIWO_CONFIG, None, "kaiwo", is_ready(1))
    await lab.submit("runs", pods={"kaiwo-sandbox/forever": "true"})
    await lab.submit("waits", gpus=64)
    await lab.reaches("waits", "ERROR")
    await lab.reaches("runs", "RUNNING")
    [before] = await lab.jobs()

    edit = {
        "nodes": {"expectedGpus": [{"vendor": "amd", "gpusPerNode": 64, "maxNodes": 1}]},
        "scheduling": {"kubeSchedulerName": "another-scheduler"},
    }
    await client.merge_patch(KAIWO_CONFIG, None, "kaiwo", {"spec": edit})

    await lab.reaches("waits", "PENDING", "STARTING")
    jobs = {job["metadata"]["name"]: job for job in await lab.jobs()}
    assert jobs["waits"]["spec"]["template"]["spec"]["schedulerName"] == "another-scheduler"
    assert jobs["runs"]["spec"] == before["spec"]


async def test_operators_that_disagree_about_its_status_do_not_write_without_an_end(
    operator: Start, client: Client
) -> None:
    """Two installations with other plugins write ever less often, and say what to do."""
    await operator(env={"KAIWO_PLUGINS": "batch_job"})
    await until(client, KAIWO_CONFIG, None, "kaiwo", is_ready(1))
    other = await operator(env={"KAIWO_PLUGINS": "batch_job,deployment"})
    config = await client.get(KAIWO_CONFIG, None, "kaiwo")
    version, writes = config["metadata"]["resourceVersion"], 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(20):
            async for _ in client.watch(KAIWO_CONFIG, resource_version=version):
                writes += 1
    assert 1 <= writes <= 2 * (MANY + 6), writes  # of each ten at once, and then after 1, 2, 4 and 8 seconds
    await asyncio.to_thread(other.wait_log, "the same version and plugins")
