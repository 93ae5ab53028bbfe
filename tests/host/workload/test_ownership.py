"""Which pods belong to a child: by the chain of controllers, in one namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from kaiwo.engine.cached_object import Projection
from kaiwo.engine.resource import POD
from kaiwo.engine.store import Cache
from kaiwo.host.workload import ownership
from kaiwo.host.workload.ownership import PodOwners, is_made_by_kaiwo
from kaiwo.plugin.loader import load
from kaiwo.workload.labels import RECORD
from kaiwo.workload.model import Registry
from kaiwo_ray_service.kinds import APP_WRAPPER, RAY_CLUSTER, RAY_SERVICE

if TYPE_CHECKING:
    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.resource import Object, Resource

NAMESPACE = "research"


class World:
    """A cache with whatever a test puts into it, and the controllers of pods."""

    def __init__(self) -> None:
        self.cache = Cache()
        for resource in (APP_WRAPPER, RAY_SERVICE, RAY_CLUSTER, POD):
            self.cache.register(resource, Projection(owned_fields=(RECORD,)))
        self.owners = PodOwners(self.cache, Registry.of(load()))
        self.cache.subscribe(RAY_CLUSTER, self.owners.on_deleted)

    def put(
        self,
        resource: Resource,
        name: str,
        owner: CachedObject | None = None,
        event: str = "ADDED",
        **more: Any,
    ) -> CachedObject:
        """Let an object be there, controlled by another one."""
        metadata: Object = {"name": name, "namespace": NAMESPACE, "uid": f"uid-of-{name}", **more}
        if owner is not None:
            reference = {"kind": owner.resource.kind, "name": owner.name, "uid": owner.uid}
            metadata["ownerReferences"] = [{**reference, "controller": True}]
        store = self.cache.store(resource)
        assert store is not None
        entry = store.decode(msgspec.json.encode({"metadata": metadata}))
        store.observe(event, entry)
        return entry


@pytest.fixture
def world() -> World:
    """An empty world."""
    return World()


def test_a_pod_belongs_to_the_child_through_all_controllers_between(world: World) -> None:
    """AppWrapper, RayService, RayCluster, pod."""
    child = world.put(APP_WRAPPER, "chat")
    service = world.put(RAY_SERVICE, "chat-service", child)
    cluster = world.put(RAY_CLUSTER, "chat-cluster", service)
    pod = world.put(POD, "chat-head", cluster)
    assert world.owners.belongs(pod, {child.uid})
    assert not world.owners.belongs(pod, {"uid-of-another"})
    assert not world.owners.belongs(world.put(POD, "alone"), {child.uid})


def test_a_chain_counts_once_all_of_it_is_known(world: World) -> None:
    """The watch of pods may be faster than that of their controllers; what is known shows in the root."""
    child = world.put(APP_WRAPPER, "chat")
    service = world.put(RAY_SERVICE, "chat-service", child)
    store = world.cache.store(RAY_CLUSTER)
    assert store is not None
    cluster = store.decode(
        msgspec.json.encode({"metadata": {"name": "late", "namespace": NAMESPACE, "uid": "uid-of-late"}})
    )
    pod = world.put(POD, "chat-head", cluster)
    before = world.owners.root(pod)
    assert not world.owners.belongs(pod, {child.uid})
    world.put(RAY_CLUSTER, "late", service)
    assert world.owners.belongs(pod, {child.uid})
    assert world.owners.root(pod) != before


def test_a_controller_of_the_same_name_is_another_one(world: World) -> None:
    """Owner references are followed by uid."""
    child = world.put(APP_WRAPPER, "chat")
    cluster = world.put(RAY_CLUSTER, "cluster", child)
    pod = world.put(POD, "head", cluster)
    world.put(RAY_CLUSTER, "cluster", child, "MODIFIED", uid="uid-of-its-successor", resourceVersion="9")
    forged = world.put(POD, "forged", world.put(RAY_CLUSTER, "other", None))
    assert not world.owners.belongs(forged, {child.uid})
    assert world.owners.belongs(pod, {child.uid})  # its own controller is remembered


def test_pods_outlive_their_controllers(world: World) -> None:
    """A cluster is deleted before its pods, and why they failed is still asked for."""
    child = world.put(APP_WRAPPER, "chat")
    cluster = world.put(RAY_CLUSTER, "cluster", child)
    pod = world.put(POD, "head", cluster)
    world.put(RAY_CLUSTER, "cluster", child, "DELETED")
    assert world.owners.belongs(pod, {child.uid})


def test_a_namespace_that_deletes_thousands_makes_no_other_forget(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own oldest ones are forgotten, and the memory is bounded."""
    monkeypatch.setattr(ownership, "_MOST_DELETED", 8)
    child = world.put(APP_WRAPPER, "chat")
    pod = world.put(POD, "head", world.put(RAY_CLUSTER, "cluster", child))
    world.put(RAY_CLUSTER, "cluster", child, "DELETED")
    pods = []
    for number in range(20):
        owner = world.put(APP_WRAPPER, f"many-{number}", namespace="noisy")
        cluster = world.put(RAY_CLUSTER, f"cluster-{number}", owner, namespace="noisy")
        pods.append(world.put(POD, f"many-{number}", cluster, namespace="noisy"))
        world.put(RAY_CLUSTER, f"cluster-{number}", owner, "DELETED", namespace="noisy")
    assert world.owners.belongs(pod, {child.uid})
    known = [world.owners.belongs(pod, {f"uid-of-many-{number}"}) for number, pod in enumerate(pods)]
    assert known == [False] * 13 + [True] * 7


@pytest.mark.parametrize(("manager", "made"), [("kaiwo", True), ("kubectl-create", False), ("", False)])
def test_what_kaiwo_made_has_a_label_that_its_field_manager_wrote(
    world: World, manager: str, made: bool
) -> None:
    """The label alone may have been written by anybody."""
    fields = {"f:metadata": {"f:labels": {f"f:{RECORD[-1]}": {}}}}
    managed = [{"manager": manager, "fieldsV1": fields}] if manager else []
    entry = world.put(APP_WRAPPER, "chat", labels={RECORD[-1]: "uid"}, managedFields=managed)
    assert is_made_by_kaiwo(entry) is made
