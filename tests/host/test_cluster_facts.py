"""Facts of the cluster: worked out once per change, reported only when they changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from pydantic import BaseModel

from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.engine.resource import NODE, PRIORITY_CLASS, STORAGE_CLASS
from kaiwo.engine.store import Cache
from kaiwo.host.cluster_facts import (
    NODE_PROJECTION,
    PRIORITY_CLASS_PROJECTION,
    STORAGE_CLASS_PROJECTION,
    ClusterFacts,
)
from kaiwo.plugin.vendors import GpuVendor, NodeGpus
from kaiwo.testing import node
from kaiwo.workload.storage.classes import StorageClass

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object, Resource


def recognise(found: Object) -> tuple[NodeGpus, ...]:
    """Acme's GPUs."""
    count = int(found["status"]["allocatable"].get("acme.com/gpu", 0))
    return (NodeGpus("a1", count, "acme.com/gpu"),) if count else ()


def explode(found: Object) -> tuple[NodeGpus, ...]:
    """A plugin that cannot read any node."""
    raise ValueError(found["metadata"]["name"])


class World:
    """Nodes and priority classes in a cache."""

    def __init__(self) -> None:
        self.cache = Cache()
        self.cache.register(NODE, NODE_PROJECTION)
        self.cache.register(PRIORITY_CLASS, PRIORITY_CLASS_PROJECTION)
        self.cache.register(STORAGE_CLASS, STORAGE_CLASS_PROJECTION)
        self.config = ResolvedConfig.defaults()
        vendors = (
            GpuVendor("bad", ("bad.com/gpu",), explode),
            GpuVendor("acme", ("acme.com/gpu",), recognise),
        )
        self.facts = ClusterFacts(self.cache, vendors, lambda: self.config)
        self.changes = 0
        self.version = 0
        self.facts.on_change(self.changed)

    def changed(self) -> None:
        """Count."""
        self.changes += 1

    def see(self, resource: Resource, obj: Object, event: str = "MODIFIED") -> None:
        """A watch event."""
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        store = self.cache.store(resource)
        assert store is not None
        store.observe(event, store.decode(msgspec.json.encode(obj)))


@pytest.fixture
def world() -> World:
    """Empty."""
    return World()


def test_nodes_come_change_and_go(world: World) -> None:
    """GPUs, cordons, vanished nodes are seen at once; a vendor that raises does not hide another's GPUs."""
    world.see(NODE, node("n1", gpus={"acme.com/gpu": 8}))
    [fact] = world.facts.nodes
    assert (fact.name, fact.usable, [g.gpus.count for g in fact.gpus]) == ("n1", True, [8])
    world.see(NODE, node("n1", gpus={"acme.com/gpu": 8}, cordoned=True))
    assert world.facts.nodes[0].usable is False
    world.see(NODE, node("n1"), event="DELETED")
    assert world.facts.nodes == ()
    assert world.changes == 3


def test_a_heartbeat_is_no_change(world: World) -> None:
    """What a kubelet writes every few seconds causes no reconciliation."""
    beat: dict[str, Any] = node("n1", gpus={"acme.com/gpu": 8})
    world.see(NODE, beat)
    beat["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-01-02T03:05:05Z"
    beat["metadata"]["annotations"] = {"beat": "2"}
    before = world.facts.nodes
    world.see(NODE, beat)
    assert world.changes == 1
    assert world.facts.nodes is before


def test_expected_nodes_follow_the_configuration(world: World) -> None:
    """An edit of nodes.expectedGpus counts without any node event."""
    entry = {"vendor": "acme", "gpusPerNode": 4, "maxNodes": 2}
    world.config = ResolvedConfig.from_object({"spec": {"nodes": {"expectedGpus": [entry]}}})
    assert {fact.gpus[0].gpus.count for fact in world.facts.nodes} == {4}
    assert sum(fact.count for fact in world.facts.nodes) == 2


def test_priority_classes_are_known_by_name(world: World) -> None:
    """A new or removed class is notified; a changed value is not."""
    high = {"metadata": {"name": "high", "uid": "1"}, "value": 10}
    world.see(PRIORITY_CLASS, high)
    world.see(PRIORITY_CLASS, {**high, "value": 11})
    assert world.facts.priority_classes == {"high"}
    assert world.changes == 1
    world.see(PRIORITY_CLASS, high, event="DELETED")
    assert world.facts.priority_classes == frozenset()
    assert world.changes == 2


def test_storage_classes_are_known_with_what_a_claim_depends_on(world: World) -> None:
    """Whether volumes wait for a pod, may grow, and which is the default; notified only when that changes."""
    fast: Object = {
        "metadata": {
            "name": "fast",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "example.com/fast",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": True,
    }
    world.see(STORAGE_CLASS, fast)
    assert world.facts.storage_classes == {
        "fast": StorageClass("fast", waits=True, expands=True, default=True)
    }
    world.see(STORAGE_CLASS, {**fast, "metadata": {**fast["metadata"], "labels": {"a": "b"}}})
    assert world.changes == 1
    world.see(STORAGE_CLASS, fast, "DELETED")
    assert world.facts.storage_classes == {}
    assert world.changes == 2


class Mig(BaseModel):
    """Settings of a vendor's plugin."""

    factor: int = 1


def test_settings_of_a_vendor_count_at_once_and_change_what_nodes_have() -> None:
    """All nodes are read again, and who waits is reported; without settings the defaults count."""

    def shared(found: Object, settings: Mig) -> tuple[NodeGpus, ...]:
        return tuple(
            NodeGpus(gpus.model, gpus.count * settings.factor, gpus.resource_key) for gpus in recognise(found)
        )

    current: list[Mig | None] = [None]
    vendor = GpuVendor("acme", ("acme.com/gpu",), shared, settings=Mig)
    cache = Cache()
    for kind in (NODE, PRIORITY_CLASS, STORAGE_CLASS):
        store = cache.register(kind, NODE_PROJECTION if kind == NODE else PRIORITY_CLASS_PROJECTION)
        if kind == NODE:
            nodes = store
    facts = ClusterFacts(cache, (vendor.with_settings(lambda: current[0]),), ResolvedConfig.defaults)
    reported: list[int] = []
    facts.on_change(lambda: reported.append(1))
    nodes.observe("ADDED", nodes.decode(msgspec.json.encode(node("a", gpus={"acme.com/gpu": 2}))))
    assert [gpus.gpus.count for gpus in facts.nodes[0].gpus] == [2]
    current[0] = Mig(factor=3)
    facts.read_nodes()
    assert [gpus.gpus.count for gpus in facts.nodes[0].gpus] == [6]
    assert len(reported) == 2
    facts.read_nodes()
    assert len(reported) == 2
    assert vendor.gpus_of(node("a", gpus={"acme.com/gpu": 2}))[0].count == 2
