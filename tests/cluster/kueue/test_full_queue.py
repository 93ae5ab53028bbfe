"""Services and models in queues: where pods may go, and what happens when there is no room to spare."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_SERVICE
from kaiwo.engine.resource import EVENT, NODE, POD
from kaiwo.testing.operator import until
from kaiwo_sandbox.nodes import amd_node

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = [pytest.mark.cluster, pytest.mark.matrix, pytest.mark.usefixtures("pristine")]

PLUGINS = "batch_job,deployment,gpu_amd,gpu_nvidia,kueue,node_pools"
_TIMEOUT = 90.0


async def serve(client: Client, namespace: str, name: str, **spec: Any) -> None:
    """Create a KaiwoService."""
    body = {
        "apiVersion": KAIWO_SERVICE.api_version,
        "kind": "KaiwoService",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"image": "registry.example/serve:1", **spec},
    }
    await client.create(KAIWO_SERVICE, body)


async def ready(client: Client, namespace: str, name: str, generation: int = 1) -> Object:
    """Wait until a KaiwoService is READY; its status."""

    def holds(obj: Object | None) -> bool:
        status = (obj or {}).get("status") or {}
        return status.get("status") == "READY" and status.get("observedGeneration", 0) >= generation

    found = await until(client, KAIWO_SERVICE, namespace, name, holds, timeout=_TIMEOUT)
    assert found is not None
    status: Object = found["status"]
    return status


async def warnings(client: Client, namespace: str, name: str) -> set[str]:
    """Reasons of the warnings about an object."""
    return {
        event["reason"]
        async for event in client.list(EVENT, namespace)
        if event["involvedObject"].get("name") == name and event["type"] == "Warning"
    }


async def test_a_rollout_goes_on_in_a_full_queue(
    operator: Start, admin: Any, client: Client, lab: Any
) -> None:
    """With GPUs an old pod makes room for a new one, so that nothing waits for quota that never comes."""
    keys = {"cpu": "64", "memory": "1Ti", "amd.com/gpu": "2"}
    resources = [{"name": key, "nominalQuota": amount} for key, amount in keys.items()]
    group = {"coveredResources": list(keys), "flavors": [{"name": "f", "resources": resources}]}
    await admin.configure(
        clusterQueues=[{"name": "kaiwo", "spec": {"resourceGroups": [group]}}],
        resourceFlavors=[{"name": "f", "nodeLabels": {"kaiwo/gpu-model": "mi300x"}}],
    )
    await operator(plugins=PLUGINS)
    await admin.status("READY")
    await serve(client, lab.namespace, "chat", gpus=2, replicas=2)
    await ready(client, lab.namespace, "chat")
    change = {"spec": {"image": "registry.example/serve:2"}}
    await client.merge_patch(KAIWO_SERVICE, lab.namespace, "chat", change)
    await ready(client, lab.namespace, "chat", generation=2)
    images = {
        pod["spec"]["containers"][0]["image"]
        async for pod in client.list(POD, lab.namespace)
        if not pod["metadata"].get("deletionTimestamp")
    }
    assert images == {"registry.example/serve:2"}


async def test_a_workload_gets_the_model_that_it_requests(
    operator: Start, admin: Any, client: Client, lab: Any
) -> None:
    """Two models under one vendor: Kueue's flavor, the node and the model agree; storage has a quota, too."""
    other = amd_node("older-1")
    other["metadata"]["labels"]["amd.com/gpu.product-name"] = "AMD_Instinct_MI250X_OAM"
    await client.create(NODE, other)
    try:
        await operator()
        await admin.status("READY")
        await admin.sees(
            NODE, "older-1", lambda obj: obj and obj["metadata"]["labels"].get("kaiwo/gpu-model") == "mi250x"
        )
        disk = {"ephemeral-storage": "1Gi"}
        for model in ("mi250x", "mi300x"):
            await lab.submit(model, gpus=1, gpuModels=[model], resources={"requests": disk, "limits": disk})
        for model in ("mi250x", "mi300x"):
            await lab.reaches(model, "COMPLETE")
        nodes = {
            pod["metadata"]["labels"]["kaiwo.silogen.ai/name"]: pod["spec"]["nodeName"]
            async for pod in client.list(POD, lab.namespace)
        }
        assert nodes["mi250x"] == "older-1"
        assert nodes["mi300x"].startswith("amd-")
    finally:
        await client.delete(NODE, None, "older-1")


async def test_a_service_that_kueue_does_not_manage_runs_and_says_that_no_quota_counts_it(
    operator: Start, admin: Any, client: Client, quota: Callable[..., Object]
) -> None:
    """As where Kueue's integration is off: here in a namespace that its configuration leaves out."""
    namespace = "kueue-system"
    await admin.configure(clusterQueues=[{"name": "kaiwo", "spec": quota()}], resourceFlavors=[{"name": "f"}])
    await operator(plugins=PLUGINS)
    await admin.status("READY")
    await serve(client, namespace, "loose", clusterQueue="kaiwo")
    try:
        status = await ready(client, namespace, "loose")
        admitted = next(item for item in status["conditions"] if item["type"] == "Admitted")
        assert (admitted["status"], admitted["reason"]) == ("Unknown", "NotManagedByQueue")
        end = time.monotonic() + _TIMEOUT
        while "NotManagedByQueue" not in await warnings(client, namespace, "loose"):
            assert time.monotonic() < end  # events leave behind everything else
            await asyncio.sleep(0.5)
    finally:
        await client.delete(KAIWO_SERVICE, namespace, "loose", propagation="Background")
