"""Plans while the operator may not list a kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kaiwo_batch_job.plugin
import kaiwo_gpu_amd.plugin
import kaiwo_ray_job.plugin
from kaiwo.engine.resource import (
    CONFIG_MAP,
    JOB,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    PRIORITY_CLASS,
    STORAGE_CLASS,
    Resource,
)
from kaiwo.testing import job, plugins
from kaiwo.workload.model import Registry

if TYPE_CHECKING:
    from conftest import World

RAY_JOB = Resource("ray.io", "v1", "RayJob", "rayjobs")
WORKLOAD = Resource("kueue.x-k8s.io", "v1beta2", "Workload", "workloads")
WORDS = 'User "kaiwo-operator" cannot list it'


@pytest.fixture
def both(world: World) -> World:
    """Two backends."""
    world.registry = Registry.of(plugins(kaiwo_batch_job.plugin, kaiwo_ray_job.plugin, kaiwo_gpu_amd.plugin))
    return world


def test_a_kind_of_another_backend_does_not_matter(both: World) -> None:
    """One missing right does not stop the whole operator."""
    both.set(unreadable={RAY_JOB: WORDS})
    both.settle()
    assert both.status["status"] == "STARTING"


def test_a_kind_of_the_backend_stops_it(both: World) -> None:
    """Nothing is created beside a child that cannot be seen; the message has the API server's words."""
    both.obj = job(image="image:1", ray=True, entrypoint="python main.py")
    both.set(unreadable={RAY_JOB: WORDS})
    both.settle()
    assert not both.writes
    assert (both.status["status"], both.status["reason"]) == ("ERROR", "BackendUnavailable")
    assert "ray_job" in both.status["message"]
    assert WORDS in both.status["message"]
    both.set(unreadable={})
    both.settle()
    assert both.writes


def test_a_kind_that_all_need_stops_all(both: World) -> None:
    """Without pods no state can be known; it is the operator's rights that are named, not a backend."""
    both.set(unreadable={POD: WORDS})
    both.settle()
    assert not both.writes
    assert (both.status["status"], both.status["reason"]) == ("ERROR", "Forbidden")


OF_STORAGE = pytest.mark.parametrize("kind", [PERSISTENT_VOLUME_CLAIM, CONFIG_MAP, STORAGE_CLASS], ids=str)


@OF_STORAGE
def test_kinds_of_storage_are_nothing_to_a_workload_without_storage(both: World, kind: Resource) -> None:
    """It has neither a volume nor the description of a download."""
    both.set(unreadable={kind: WORDS})
    both.settle()
    assert both.status["status"] == "STARTING"


@OF_STORAGE
def test_kinds_of_storage_stop_a_workload_that_downloads(both: World, kind: Resource) -> None:
    """Nothing is created beside a volume that cannot be seen; it is the operator's rights that are named."""
    git = {"repository": "https://git.example.com/r.git", "targetPath": "src"}
    data = {"storageSize": "1Gi", "download": {"git": [git]}}
    both.obj = job(image="image:1", storage={"storageEnabled": True, "data": data})
    both.set(unreadable={kind: WORDS})
    both.settle()
    assert not both.writes
    assert (both.status["status"], both.status["reason"]) == ("ERROR", "Forbidden")
    assert WORDS in both.status["message"]


def test_a_child_that_cannot_be_seen_is_not_gone(both: World) -> None:
    """After a restart without the right the workload keeps its status and does not run twice."""
    both.settle()
    before = both.status
    writes = list(both.writes)
    both.set(live=None, unreadable={JOB: WORDS})
    both.settle()
    assert both.writes == writes
    assert (both.status["status"], both.status["childUID"]) == (before["status"], before["childUID"])
    assert both.condition("SpecApplied")["reason"] == "BackendUnavailable"


@pytest.mark.parametrize(("fields", "word"), [({}, "STARTING"), ({"priorityClass": "high"}, "ERROR")])
def test_priority_classes_matter_to_a_workload_that_names_one(
    both: World, fields: dict[str, str], word: str
) -> None:
    """Others run without the right to list them."""
    both.obj = job(image="image:1", **fields)
    both.set(unreadable={PRIORITY_CLASS: WORDS})
    both.settle()
    assert both.status["status"] == word


def test_what_controls_pods_of_another_backend_does_not_matter(both: World) -> None:
    """A Job's pods have no RayCluster."""
    [ray] = [backend for backend in both.registry.backends if backend.name == "ray_job"]
    owners = [kind for kind in ray.pod_owners if kind != JOB]
    assert owners
    both.set(unreadable=dict.fromkeys(owners, WORDS))
    both.settle()
    assert both.status["status"] == "STARTING"


FAILS = "ServerUnavailable: conversion webhook failed"


def test_a_kind_whose_list_fails_stops_the_backend_that_needs_it_and_no_other(both: World) -> None:
    """The message has the API server's words; nobody's rights are to blame."""
    both.set(failing={RAY_JOB: FAILS})
    both.settle()
    assert both.status["status"] == "STARTING"
    both.set(live=None)
    both.obj = job("ray", image="image:1", ray=True, entrypoint="python main.py")
    writes = list(both.writes)
    both.settle()
    assert both.writes == writes
    assert (both.status["status"], both.status["reason"]) == ("ERROR", "BackendUnavailable")
    assert both.status["message"] == (
        f"backend ray_job cannot run: the API server cannot list rayjobs.ray.io: {FAILS}. It goes on when "
        "that works; see what serves them"
    )
    both.set(failing={})
    both.settle()
    assert both.writes != writes


def test_a_kind_of_the_queue_system_whose_list_fails_holds_what_would_be_queued(both: World) -> None:
    """Nothing starts beside a queue that cannot be seen; what runs keeps its status."""
    both.set(failing={WORKLOAD: FAILS})
    both.settle()
    assert not both.writes
    assert (both.status["status"], both.status["reason"]) == ("PENDING", "QueueUnavailable")
    both.set(failing={})
    both.settle()
    before = both.status
    both.set(failing={WORKLOAD: FAILS})
    both.settle()
    assert (both.status["status"], both.status["childUID"]) == (before["status"], before["childUID"])
