"""Whom a change concerns, and what is remembered of a child that vanished."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import kaiwo_deployment.plugin
import kaiwo_kueue.plugin
import kaiwo_storage_s3_gcs_azure_git_hf.plugin
from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine.cached_object import ObjectDecoder, Projection
from kaiwo.engine.resource import JOB, POD
from kaiwo.engine.store import Cache, CacheEvent
from kaiwo.engine.workqueue import Key
from kaiwo.host.workload.ownership import PodOwners
from kaiwo.host.workload.state import ReconcileStates
from kaiwo.host.workload.watches import on_child_deleted, on_pod_deleted, workload_watches
from kaiwo.plugin.backends import Backend
from kaiwo.testing import job, plugins
from kaiwo.workload.model import Registry
from kaiwo_kueue.kinds import CLUSTER_QUEUE, WORKLOAD

if TYPE_CHECKING:
    from kaiwo.engine.controller import Watch
    from kaiwo.engine.resource import Object, Resource

UID = "11111111-2222-4333-8444-555555555555"
KEY = Key("default", "train")


def never(*_: Any) -> Any:
    """A callable that is not called here."""
    raise AssertionError


BACKEND = Backend(
    name="jobs", kind="KaiwoJob", child=JOB, fields=(), implementation=never
)  # fmt: skip


def watches_of(registry: Registry, states: ReconcileStates, cache: Cache) -> list[Watch]:
    """The watches of the KaiwoJob controller."""
    owners = PodOwners(cache, registry)
    return workload_watches("KaiwoJob", registry, states, cache, pod_owners=owners, namespaces=())


class World:
    """A cache, memories, and the watches of the KaiwoJob controller."""

    def __init__(self) -> None:
        self.cache = Cache()
        self.states = ReconcileStates()
        registry = Registry(backends=(BACKEND,))
        self.owners = PodOwners(self.cache, registry)
        self.watches = watches_of(registry, self.states, self.cache)
        for watch in self.watches:
            self.cache.register(watch.resource, watch.projection, label_selector=watch.label_selector)
        self.cache.subscribe(JOB, lambda event: on_child_deleted(event, "KaiwoJob", self.states, self.cache))
        self.cache.subscribe(POD, lambda event: on_pod_deleted(event, self.states, self.cache, self.owners))
        self.version = 0

    def see(self, resource: Resource, obj: Object, event: str = "ADDED") -> None:
        """A watch event."""
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        store = self.cache.store(resource)
        assert store is not None
        store.observe(event, store.decode(msgspec.json.encode(obj)))

    def keys(self, resource: Resource, obj: Object) -> set[Key]:
        """Whom an object's appearance concerns."""
        self.see(resource, obj)
        entry = self.cache.get(resource, obj["metadata"].get("namespace"), obj["metadata"]["name"])
        return {
            key
            for watch in self.watches
            if watch.resource == resource and watch.keys is not None
            for key in watch.keys(CacheEvent("ADDED", resource, None, entry))
        }


@pytest.fixture
def world() -> World:
    """Empty."""
    return World()


def child(
    name: str = "train", owner: str | None = "KaiwoJob", uid: str = UID, manager: str = "kaiwo"
) -> Object:
    """A batch Job, of which a field manager wrote the label of the run."""
    fields = {"f:metadata": {"f:labels": {"f:kaiwo.silogen.ai/run-id": {}}}}
    metadata: Object = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-of-{name}",
        "labels": {"kaiwo.silogen.ai/run-id": uid},
        "managedFields": [{"manager": manager, "operation": "Update", "fieldsV1": fields}],
    }
    if owner:
        reference = {"apiVersion": "kaiwo.silogen.ai/v1alpha1", "kind": owner, "name": name, "uid": uid}
        metadata["ownerReferences"] = [{**reference, "controller": True}]
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {}}


def test_a_child_concerns_its_owner_and_nobody_else(world: World) -> None:
    """Jobs of others are reconciled only by a workload that waits for their name."""
    assert world.keys(JOB, child()) == {KEY}
    assert world.keys(JOB, child("other", owner="KaiwoService")) == set()
    assert world.keys(JOB, child("plain", owner=None)) == set()
    waiting = Key("default", "wanted")
    world.states.waiting.add(waiting)
    assert world.keys(JOB, child("wanted", owner=None)) == {waiting}


@pytest.mark.parametrize(
    ("urgent", "seconds"),
    [((("Complete",),), 0.5), ((("Complete",), ("Failed",)), 0.5), ((("Complete",), ()), 0.02)],
)
def test_changes_of_a_child_are_delayed_only_where_all_its_backends_declare_what_is_urgent(
    urgent: tuple[tuple[str, ...], ...], seconds: float
) -> None:
    """A backend that says nothing loses nothing: any change may be one that people wait for."""
    backends = tuple(replace(BACKEND, name=f"b{n}", urgent=types) for n, types in enumerate(urgent))
    watches = watches_of(Registry(backends=backends), ReconcileStates(), Cache())
    (delay,) = [watch.delay for watch in watches if watch.resource == JOB and watch.keys is not None]
    form = ObjectDecoder(JOB, Projection())
    old, new = (form.decode(msgspec.json.encode({**child(), "spec": spec})) for spec in ({}, {"a": 1}))
    assert delay is not None
    assert delay(CacheEvent("MODIFIED", JOB, old, new)) == seconds


@pytest.mark.parametrize(
    ("reads", "field", "reconciled"),
    [
        ((("startTime",),), "ready", False),
        ((("startTime",), ("ready",)), "ready", True),
        ((("startTime",), ()), "ready", True),
        ((("startTime",),), "failed", True),
    ],
)
def test_a_change_of_an_unread_status_field_causes_no_reconciliation(
    reads: tuple[tuple[str, ...], ...], field: str, reconciled: bool
) -> None:
    """As far as every backend of the kind says what it reads; failures of a download Job always count."""
    backends = tuple(
        replace(BACKEND, name=f"b{n}", urgent=("Complete",), reads=fields) for n, fields in enumerate(reads)
    )
    watches = watches_of(Registry(backends=backends), ReconcileStates(), Cache())
    (delay,) = [watch.delay for watch in watches if watch.resource == JOB and watch.keys is not None]
    form = ObjectDecoder(JOB, Projection())
    metadata = {**child()["metadata"], "generation": 1}
    old, new = (
        form.decode(msgspec.json.encode({**child(), "metadata": metadata, "status": {field: n}}))
        for n in (0, 1)
    )
    assert delay is not None
    assert (delay(CacheEvent("MODIFIED", JOB, old, new)) < math.inf) is reconciled


def test_what_happens_around_an_ended_workload_concerns_nobody(world: World) -> None:
    """Its Job and its pods still change several times; a change of its own counts."""
    pod = {"metadata": {"name": "p", "namespace": "default", "labels": {"kaiwo.silogen.ai/run-id": UID}}}
    world.states.of(KEY, UID).end("7")
    assert world.keys(JOB, child()) == set()
    assert world.keys(POD, pod) == set()
    assert world.keys(KAIWO_JOB, job()) == {KEY}
    world.states.of(KEY, "uid-of-the-next-run")
    assert world.keys(POD, {"metadata": {**pod["metadata"], "name": "q"}}) == set()
    assert world.keys(JOB, child()) == {KEY}


def test_a_pod_concerns_its_run(world: World) -> None:
    """By the run's uid; pods of unknown runs cause no reconciliation."""
    pod = {"metadata": {"name": "p", "namespace": "default", "labels": {"kaiwo.silogen.ai/run-id": UID}}}
    assert world.keys(POD, pod) == set()
    world.states.of(KEY, UID)
    assert world.keys(POD, pod) == {KEY}
    pod["metadata"]["namespace"] = "another"
    assert world.keys(POD, pod) == set()


@pytest.mark.parametrize("seen", [True, False])
def test_a_vanished_child_is_remembered_with_whether_its_deletion_was_seen(
    world: World, *, seen: bool
) -> None:
    """A watch event is a witness; an object that a new list lacks is not."""
    world.see(KAIWO_JOB, job())
    world.see(JOB, child())
    if seen:
        world.see(JOB, child(), "DELETED")
    else:
        store = world.cache.store(JOB)
        assert store is not None
        store.replace([], str(world.version + 1))
    missing = world.states.of(KEY, UID).missing_child
    assert missing is not None
    assert missing.deletion_seen is seen
    assert missing.obj["metadata"]["name"] == "train"


def test_the_end_of_an_object_that_only_claims_to_be_the_child_is_nobodys(world: World) -> None:
    """An owner reference proves nothing: Kaiwo wrote the record, or the status has the uid."""
    world.see(KAIWO_JOB, job())
    world.see(JOB, child(manager="kubectl"))
    world.see(JOB, child(manager="kubectl"), "DELETED")
    assert world.states.find(KEY, UID) is None
    reported = {**job(), "status": {"childUID": "uid-of-train"}}
    world.see(KAIWO_JOB, reported, "MODIFIED")
    world.see(JOB, child(manager="kubectl"))
    world.see(JOB, child(manager="kubectl"), "DELETED")
    assert world.states.of(KEY, UID).missing_child is not None


def test_children_of_ended_and_of_other_workloads_are_forgotten(world: World) -> None:
    """A Job collected after its end, or of a previous run, takes no state."""
    ended = job()
    ended["status"] = {"status": "COMPLETE"}
    world.see(KAIWO_JOB, ended)
    for uid in (UID, "uid-of-a-previous-run"):
        world.see(JOB, child(uid=uid))
        world.see(JOB, child(uid=uid), "DELETED")
    assert world.states.find(KEY, UID) is None


def pod(name: str, **status: Any) -> Object:
    """A pod of the child."""
    owner = {"kind": "Job", "name": "train", "uid": "uid-of-train", "controller": True}
    metadata = {
        "name": name,
        "namespace": "default",
        "labels": {"kaiwo.silogen.ai/run-id": UID},
        "ownerReferences": [owner],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status}


def test_the_last_failed_pods_that_vanished_are_remembered(world: World) -> None:
    """A verdict that comes after the pod is gone is explained still; what went well explains nothing."""
    disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    world.see(KAIWO_JOB, {**job(), "status": {"childUID": "uid-of-train"}})
    state = world.states.of(KEY, UID)
    forged = pod("forged", phase="Running", conditions=[disrupted])
    forged["metadata"]["ownerReferences"] = []
    world.see(POD, forged)
    world.see(POD, forged, "DELETED")
    assert state.gone_pods == ()
    for number in range(6):
        world.see(POD, pod(f"lost-{number}", phase="Running", conditions=[disrupted]))
        world.see(POD, pod(f"lost-{number}", phase="Running", conditions=[disrupted]), "DELETED")
    world.see(POD, pod("fine", phase="Succeeded"))
    world.see(POD, pod("fine", phase="Succeeded"), "DELETED")
    assert [pod["metadata"]["name"] for pod in state.gone_pods] == ["lost-2", "lost-3", "lost-4", "lost-5"]
    state.end("7")
    ended = job()
    ended["status"] = {"status": "FAILED"}
    world.see(KAIWO_JOB, ended, "MODIFIED")
    world.see(POD, pod("late", phase="Running", conditions=[disrupted]))
    world.see(POD, pod("late", phase="Running", conditions=[disrupted]), "DELETED")
    assert state.gone_pods == ()


def test_a_queue_that_changes_concerns_what_waits_and_its_counts_do_not() -> None:
    """Whether a queue is active is in its status; how many wait in it is, too, and always changes."""
    registry = Registry.of(plugins(kaiwo_kueue.plugin))
    states, cache = ReconcileStates(), Cache()
    state = states.of(KEY, UID)
    states.set_waiting(KEY, state, waits=True, since=states.requeues)
    (watch,) = [item for item in watches_of(registry, states, cache) if item.resource == CLUSTER_QUEUE]
    assert watch.keys is not None

    def queue(count: int, reason: str) -> Any:
        conditions = [{"type": "Active", "status": "False", "reason": reason, "message": str(count)}]
        obj = {
            "metadata": {"name": "q", "uid": "u", "resourceVersion": "1", "generation": 1},
            "spec": {},
            "status": {"pendingWorkloads": count, "conditions": conditions},
        }
        return ObjectDecoder(CLUSTER_QUEUE, Projection()).decode(msgspec.json.encode(obj))

    stopped = queue(1, "Stopped")
    assert set(watch.keys(CacheEvent("MODIFIED", CLUSTER_QUEUE, stopped, queue(2, "Stopped")))) == set()
    assert set(watch.keys(CacheEvent("MODIFIED", CLUSTER_QUEUE, stopped, queue(1, "FlavorNotFound")))) == {
        KEY
    }


def test_what_the_queue_system_has_of_a_download_job_concerns_its_workload() -> None:
    """Also of a KaiwoService, whose own object is no Job: its status says why the download waits."""
    registry = Registry.of(
        plugins(kaiwo_deployment.plugin, kaiwo_kueue.plugin, kaiwo_storage_s3_gcs_azure_git_hf.plugin)
    )
    states, cache = ReconcileStates(), Cache()
    watches = workload_watches(
        "KaiwoService", registry, states, cache, pod_owners=PodOwners(cache, registry), namespaces=()
    )
    for watch in watches:
        cache.register(watch.resource, watch.projection, label_selector=watch.label_selector)
    (watch,) = [item for item in watches if item.resource == WORKLOAD]
    assert watch.keys is not None

    def seen(resource: Resource, name: str, owner: Object) -> Any:
        reference = {"controller": True, **owner}
        obj = {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-of-{name}",
                "resourceVersion": "1",
                "ownerReferences": [reference],
            }
        }
        store = cache.store(resource)
        assert store is not None
        entry = store.decode(msgspec.json.encode(obj))
        store.observe("ADDED", entry)
        return entry

    service = {"apiVersion": KAIWO_JOB.api_version, "kind": "KaiwoService", "name": "train", "uid": UID}
    seen(JOB, "train-download", service)
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "train-download",
        "uid": "uid-of-train-download",
    }
    of_job = seen(WORKLOAD, "job-train-download-x", owner)
    assert set(watch.keys(CacheEvent("ADDED", WORKLOAD, None, of_job))) == {KEY}
