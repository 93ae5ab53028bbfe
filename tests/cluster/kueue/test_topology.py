"""A Topology that follows the nodes, on the real Kueue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.engine.resource import POD
from kaiwo_kueue.kinds import CLUSTER_QUEUE, QUEUE_CONFIG, RESOURCE_FLAVOR, TOPOLOGY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("pristine")]

RACK, HOST = "kaiwo/topology-rack", "kubernetes.io/hostname"
RULES = [{"level": "rack", "pattern": r"-(\d+)$"}]


def levels(*wanted: str) -> Callable[[Object | None], bool]:
    """Whether a Topology has these levels."""
    return lambda obj: (
        obj is not None
        and not obj["metadata"].get("deletionTimestamp")
        and [level["nodeLabel"] for level in obj["spec"]["levels"]] == list(wanted)
    )


async def test_a_topology_is_kept_for_the_discovered_flavors(
    operator: Start, admin: Any, client: Client, lab: Any
) -> None:
    """A workload waits with a reason until a flavor has its level; levels follow the labels of the nodes."""
    await operator()
    await admin.status("READY")
    await lab.submit("early", requiredTopologyLabel=RACK, pods={"kaiwo-sandbox/forever": "true"})
    blocked = await lab.reaches("early", "ERROR", reason="NoTopology")
    assert "none of its flavors names a Topology" in blocked["message"]
    assert "defaultTopologyName" in blocked["message"]

    await admin.set(defaultTopologyName="halls", plugins={"node_pools": {"topologyRules": RULES}})
    await admin.sees(TOPOLOGY, "halls", levels(RACK, HOST))
    await lab.reaches("early", "RUNNING")
    (pod,) = [pod async for pod in client.list(POD, lab.namespace)]
    assert pod["metadata"]["annotations"]["kueue.x-k8s.io/podset-required-topology"] == RACK
    flavors = [flavor async for flavor in client.list(RESOURCE_FLAVOR)]
    assert {flavor["spec"]["topologyName"] for flavor in flavors} == {"halls"}
    assert not any("kaiwo/worker" in flavor["spec"]["nodeLabels"] for flavor in flavors)

    await admin.set(defaultTopologyName="halls")
    await admin.sees(TOPOLOGY, "halls", levels(HOST))
    await admin.status("READY")

    def in_use(obj: Object | None) -> bool:
        spec = (obj or {}).get("spec", {})
        listed = [flavor for group in spec.get("resourceGroups", ()) for flavor in group["flavors"]]
        return spec.get("stopPolicy", "None") == "None" and len(listed) == len(flavors)

    await admin.sees(CLUSTER_QUEUE, "kaiwo", in_use)
    await lab.submit("late", requiredTopologyLabel=RACK)
    blocked = await lab.reaches("late", "ERROR", reason="NoTopology")
    assert f"its levels: {HOST}" in blocked["message"]
    await lab.reaches("early", "RUNNING")

    await admin.set()
    await admin.sees(TOPOLOGY, "halls", lambda obj: obj is None)
    await admin.sees(QUEUE_CONFIG, "kaiwo", lambda obj: obj is not None)
    await admin.status("READY")
    flavors = [flavor async for flavor in client.list(RESOURCE_FLAVOR)]
    assert not any(flavor["spec"].get("topologyName") for flavor in flavors)


async def test_a_queue_of_somebody_else_keeps_the_topology_and_holds_no_other_queue(
    operator: Start, admin: Any, client: Client, lab: Any, quota: Callable[..., Object]
) -> None:
    """The nodes' new level comes when that queue drops the flavor; until then the default queue is open."""
    await admin.set(defaultTopologyName="halls")
    await operator()
    await admin.sees(TOPOLOGY, "halls", levels(HOST))
    await admin.status("READY")
    flavor = next(iter([obj["metadata"]["name"] async for obj in client.list(RESOURCE_FLAVOR)]))
    theirs = {
        "apiVersion": CLUSTER_QUEUE.api_version,
        "kind": CLUSTER_QUEUE.kind,
        "metadata": {"name": "theirs"},
        "spec": quota(flavor),
    }
    await client.create(CLUSTER_QUEUE, theirs)

    await admin.set(defaultTopologyName="halls", plugins={"node_pools": {"topologyRules": RULES}})
    status = await admin.status("PENDING", "TopologyInUse")
    found = admin.condition_of(status, "TopologiesSynced")
    assert (found["status"], found["reason"]) == ("False", "TopologyInUse")
    assert f"ResourceFlavor {flavor} uses it and ClusterQueue theirs lists it" in found["message"]
    queue = await client.get(CLUSTER_QUEUE, None, "kaiwo")
    assert queue["spec"].get("stopPolicy", "None") == "None"
    await lab.submit("runs")
    await lab.reaches("runs", "COMPLETE")

    await client.delete(CLUSTER_QUEUE, None, "theirs")
    await admin.sees(TOPOLOGY, "halls", levels(RACK, HOST))
    await admin.status("READY")
