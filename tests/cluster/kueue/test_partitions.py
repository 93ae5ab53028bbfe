"""Parts of GPUs and shared ones, and nodes that come and go, on the real Kueue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.engine.resource import NODE, POD
from kaiwo_kueue.kinds import CLUSTER_QUEUE, QUEUE_CONFIG
from kaiwo_sandbox.nodes import cpu_node, node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = [pytest.mark.cluster, pytest.mark.matrix, pytest.mark.usefixtures("pristine")]

H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "8"}
SHARED = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-SHARED", "nvidia.com/gpu.replicas": "4"}
MI300X = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}


@pytest.fixture
async def odd_nodes(client: Client) -> AsyncIterator[list[str]]:
    """A node with MIG slices beside no whole GPU, one that shares its GPUs, one with compute partitions."""
    made = [
        node(
            "odd-mig",
            cpu=128,
            memory="2Ti",
            labels=H100,
            extended={"nvidia.com/gpu": 0, "nvidia.com/mig-1g.10gb": 7},
        ),
        node("odd-shared", cpu=128, memory="2Ti", labels=SHARED, extended={"nvidia.com/gpu": 32}),
        node("odd-cpx", cpu=128, memory="2Ti", labels=MI300X, extended={"amd.com/cpx_nps4": 64}),
        cpu_node("odd-tainted"),
    ]
    made[-1]["spec"] = {"taints": [{"key": "db", "value": "only", "effect": "NoSchedule"}]}
    names = [one["metadata"]["name"] for one in made]
    for one in made:
        await client.create(NODE, one)
    yield names
    for name in names:
        if [entry async for entry in client.list(NODE, field_selector=f"metadata.name={name}")]:
            await client.delete(NODE, None, name)


def groups(obj: Object | None) -> list[Object]:
    """The resource groups of a ClusterQueue."""
    found: list[Object] = ((obj or {}).get("spec") or {}).get("resourceGroups") or []
    return found


async def test_parts_of_gpus_are_queued_and_follow_their_nodes(
    operator: Start, admin: Any, client: Client, lab: Any, odd_nodes: list[str]
) -> None:
    """Workloads get the part that they name, from the quota of its flavor; nodes that go take it along."""
    await admin.set(dynamicallyUpdateDefaultClusterQueue=True)
    await operator()
    await admin.status("READY")

    def covers(*keys: str) -> Callable[[Object | None], bool]:
        return lambda obj: bool(groups(obj)) and set(groups(obj)[0]["coveredResources"]) >= set(keys)

    await admin.sees(CLUSTER_QUEUE, "kaiwo", covers("nvidia.com/mig-1g.10gb", "amd.com/cpx_nps4"))
    await lab.submit("slice", gpus=2, gpuVendor="nvidia", gpuModels=["mig-1g.10gb"])
    await lab.submit("part", gpus=16, gpuModels=["cpx_nps4"])
    await lab.submit("shared", gpus=20, gpuVendor="nvidia")
    for name, on in (("slice", "odd-mig"), ("part", "odd-cpx"), ("shared", "odd-shared")):
        await lab.reaches(name, "COMPLETE")
        pods = [
            pod
            async for pod in client.list(POD, lab.namespace, label_selector=f"kaiwo.silogen.ai/name={name}")
        ]
        assert [pod["spec"]["nodeName"] for pod in pods] == [on]

    for name in odd_nodes:
        await client.delete(NODE, None, name)
    gone = lambda obj: bool(groups(obj)) and not covers("amd.com/cpx_nps4")(obj)  # noqa: E731
    await admin.sees(CLUSTER_QUEUE, "kaiwo", gone)
    config = await client.get(QUEUE_CONFIG, None, "kaiwo")
    await admin.status("READY", generation=config["metadata"]["generation"])
    await lab.submit("late", gpus=2, gpuVendor="nvidia", gpuModels=["mig-1g.10gb"])
    blocked = await lab.reaches("late", "ERROR", reason="NoGPUs")
    assert "nvidia.com/mig-1g.10gb" in blocked["message"]
