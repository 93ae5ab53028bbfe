"""The Topology of discovered flavors, and workloads whose queue has none."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.workload import Workload
from kaiwo.plugin.facts import Blocked
from kaiwo.plugin.queues import QueueAssignment, QueueFacts
from kaiwo.testing import job
from kaiwo_kueue import kinds
from kaiwo_kueue.default_topology import LEVELS, DefaultTopology, default_topology
from kaiwo_kueue.pools import LabelledNode, QuotaPool
from kaiwo_kueue.queue_assignment import assign
from kaiwo_kueue.status import pool_conditions

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo_kueue.desired import DesiredObjects

    Wants = Callable[..., DesiredObjects]

Object = dict[str, Any]
BLOCK, RACK, HOST = LEVELS
POOL = "amd-mi300x-8gpu-14core-57gi"


def node(name: str, *, counts: bool = True, pool: str = POOL, **labels: str) -> LabelledNode:
    """A node of a pool; ``rack="r1"`` is its label of that level."""
    names = {"block": BLOCK, "rack": RACK}
    own = {HOST: name, "kaiwo/nodepool": pool, **{names[key]: value for key, value in labels.items()}}
    return LabelledNode(name, own, counts=counts, size=(8, 14, 57), resources=())


def test_levels_are_the_labels_that_every_node_of_a_pool_carries() -> None:
    """From wide to narrow; nodes that add to no quota do not matter."""
    bare = [node("a"), node("b")]
    assert default_topology("", bare) is None
    assert default_topology("t", bare) == DefaultTopology("t", (HOST,))
    placed = [
        node("a", rack="1", block="x"),
        node("b", rack="2", block="x"),
        node("c", counts=False),
        node("d", pool=""),
    ]
    assert default_topology("t", placed) == DefaultTopology("t", LEVELS)


def test_a_level_that_some_nodes_lack_is_left_out_and_named() -> None:
    """With the nodes, and with what to do; a level that no node has is nothing to tell."""
    found = default_topology("t", [node("a", rack="1"), node("b"), node("c")])
    assert found == DefaultTopology("t", (HOST,), {RACK: ("b", "c")})
    assert found is not None
    assert found.left_out.startswith("Topology t has no level kaiwo/topology-rack: b, c are without")
    pools: Any = SimpleNamespace(merged={}, left_out=(), pending={})
    (condition,) = pool_conditions(pools, {}, found, 3)
    assert (condition.type, condition.status, condition.reason) == (
        "TopologyComplete", "False", "LevelLeftOut",
    )  # fmt: skip


def test_without_nodes_the_live_topology_stays() -> None:
    """All nodes cordoned is no reason to replace what running workloads were placed by."""
    assert default_topology("t", []) is None
    gone = [node("a", counts=False)]
    assert default_topology("t", gone, (RACK, HOST)) == DefaultTopology("t", (RACK, HOST))


def test_discovered_flavors_refer_to_the_topology(wants: Wants) -> None:
    """Without the worker label; flavors with labels of their own stay as they are listed."""
    pool = QuotaPool(POOL, POOL, "mi300x", (8, 14, 57), ("a",), {})
    around = {"pools": [pool], "nodes": [node("a")], "topology": DefaultTopology("t", (RACK, HOST))}
    topology, flavor = wants({}, **around).objects
    assert (topology.kind, topology.name) == (kinds.TOPOLOGY, "t")
    assert topology.spec == {"levels": [{"nodeLabel": RACK}, {"nodeLabel": HOST}]}
    assert flavor.spec == {
        "nodeLabels": {"kaiwo/nodepool": POOL, "kaiwo/gpu-model": "mi300x"},
        "topologyName": "t",
    }
    listed = [
        {"name": POOL, "nodeLabels": {"kaiwo/nodepool": POOL}},
        {"name": "own", "nodeLabels": {"a": "b"}},
        {"name": "vanished-0gpu-1core-1gi", "nodeLabels": {"kaiwo/nodepool": "vanished-0gpu-1core-1gi"}},
    ]
    _, first, own, vanished = wants({"resourceFlavors": listed}, **around).objects
    assert (first.spec["topologyName"], vanished.spec["topologyName"]) == ("t", "t")
    assert own.spec == {"nodeLabels": {"a": "b", "kaiwo/worker": "true"}}


def test_a_listed_topology_of_that_name_is_used_as_it_is_listed(wants: Wants) -> None:
    """An administrator's levels are not the operator's to decide."""
    listed = [{"name": "t", "levels": [{"nodeLabel": "zone"}]}]
    (topology,) = wants({"topologies": listed}, topology=default_topology("t", [], listed=True)).objects
    assert topology.spec == {"levels": [{"nodeLabel": "zone"}]}


def named(name: str, **spec: Any) -> Object:
    """An object of the cluster."""
    return {"metadata": {"name": name}, "spec": spec}


def queue(*flavors: str, **spec: Any) -> Object:
    """A ClusterQueue ``kaiwo`` with flavors."""
    groups = [{"flavors": [{"name": name} for name in flavors]}]
    return named("kaiwo", resourceGroups=groups, **spec)


def cluster() -> QueueFacts:
    """A queue with a flavor without a Topology and one whose Topology has racks."""
    objects = {
        kinds.QUEUE_CONFIG: (named("kaiwo", clusterQueues=[{"name": "kaiwo"}]),),
        kinds.LOCAL_QUEUE: (named("kaiwo", clusterQueue="kaiwo"),),
        kinds.CLUSTER_QUEUE: (queue("plain", "placed"),),
        kinds.RESOURCE_FLAVOR: (named("plain"), named("placed", topologyName="t")),
        kinds.TOPOLOGY: (named("t", levels=[{"nodeLabel": RACK}, {"nodeLabel": HOST}]),),
    }
    return QueueFacts(objects=objects, default_queue="kaiwo", now=datetime(2026, 1, 2, tzinfo=UTC))


def ask(facts: QueueFacts, **spec: Any) -> QueueAssignment | Blocked:
    """Ask for a job with that spec."""
    return assign(Workload.from_object(job(**spec)), facts)


def test_a_level_that_a_flavor_has_is_no_obstacle() -> None:
    """Neither is a workload without a topology label, nor flavors that the reader may not see."""
    assert isinstance(ask(cluster(), requiredTopologyLabel=RACK), QueueAssignment)
    assert isinstance(ask(cluster(), preferredTopologyLabel=HOST), QueueAssignment)
    assert isinstance(ask(cluster(), image="x"), QueueAssignment)
    hidden = cluster()
    hidden = QueueFacts(
        objects={kind: found for kind, found in hidden.objects.items() if kind != kinds.TOPOLOGY},
        default_queue="kaiwo", now=hidden.now,
    )  # fmt: skip
    assert isinstance(ask(hidden, requiredTopologyLabel=BLOCK), QueueAssignment)


@pytest.mark.parametrize("field", ["requiredTopologyLabel", "preferredTopologyLabel"])
def test_a_level_that_no_flavor_has_is_named_with_those_that_there_are(field: str) -> None:
    """Kueue never admits it, whether required or preferred; the settings are named."""
    answer = ask(cluster(), **{field: "kaiwo/topology-rak"})
    assert isinstance(answer, Blocked)
    assert (answer.reason, answer.condition, answer.status) == ("NoTopology", "Schedulable", "ERROR")
    assert answer.message == (
        f"spec.{field}: queue kaiwo has no topology level kaiwo/topology-rak; its levels: {RACK}, {HOST}. "
        f'did you mean "{RACK}"? Use one of its levels or another queue, or have the level added: '
        "defaultTopologyName in KaiwoConfig for discovered flavors, topologies and topologyName in "
        "KaiwoQueueConfig kaiwo for others; the workload starts by itself then"
    )


def with_kind(kind: Any, *found: Object) -> QueueFacts:
    """The cluster with other objects of a kind."""
    base = cluster()
    return QueueFacts(objects={**base.objects, kind: found}, default_queue="kaiwo", now=base.now)


def test_a_queue_without_any_topology_says_so() -> None:
    """Today's default: no KaiwoConfig names a Topology."""
    answer = ask(with_kind(kinds.CLUSTER_QUEUE, queue("plain")), requiredTopologyLabel=RACK)
    assert isinstance(answer, Blocked)
    assert answer.reason == "NoTopology"
    assert "none of its flavors names a Topology. Use one" in answer.message


@pytest.mark.parametrize(
    "facts",
    [
        with_kind(kinds.CLUSTER_QUEUE, queue(stopPolicy="Hold")),
        with_kind(kinds.TOPOLOGY),
        with_kind(kinds.RESOURCE_FLAVOR, named("plain")),
        with_kind(
            kinds.TOPOLOGY,
            {"metadata": {"name": "t", "deletionTimestamp": "x"}, "spec": {"levels": [{"nodeLabel": HOST}]}},
        ),
    ],
    ids=["held", "no topology yet", "no flavor yet", "topology going"],
)
def test_while_flavors_are_replaced_the_workload_waits(facts: QueueFacts) -> None:
    """A level that comes in a moment is no error."""
    answer = ask(facts, requiredTopologyLabel=RACK)
    assert isinstance(answer, Blocked)
    assert (answer.reason, answer.status) == ("QueuePreparing", "PENDING")
