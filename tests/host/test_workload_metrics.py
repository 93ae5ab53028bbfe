"""Metrics about workloads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry

import kaiwo_batch_job.plugin
from kaiwo.api.crds import WORKLOADS
from kaiwo.engine.store import Cache
from kaiwo.engine.wire import encode
from kaiwo.host import workload_metrics
from kaiwo.host.workload_metrics import WorkloadMetrics
from kaiwo.plugin.lifecycle import Transition
from kaiwo.testing import job, plugins
from kaiwo.testing.builders import NOW

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object

KAIWO_JOB = WORKLOADS["KaiwoJob"]


class World:
    """A cache with jobs, and the metrics about them."""

    def __init__(self) -> None:
        cache = Cache()
        for kind in WORKLOADS.values():
            cache.register(kind)
        store = cache.store(KAIWO_JOB)
        assert store is not None
        self.store = store
        self.registry = CollectorRegistry()
        self.metrics = WorkloadMetrics(self.registry, cache, plugins(kaiwo_batch_job.plugin))

    def add(self, name: str, status: str, reason: str, queue: str = "", gpus: int = 0, pods: int = 1) -> None:
        """Add a job with a status."""
        allocation: Object = {"replicas": 1, "pods": pods, "gpusPerReplica": gpus}
        obj = job(name)
        obj["metadata"] |= {"uid": name, "resourceVersion": "1"}
        obj["status"] = {"status": status, "reason": reason, "allocation": {**allocation, "queue": queue}}
        self.store.observe("ADDED", self.store.decode(encode(obj)))

    def value(self, name: str, **labels: str) -> float | None:
        """A sample."""
        return self.registry.get_sample_value(name, labels)


@pytest.fixture
def world() -> World:
    """No jobs yet."""
    return World()


def test_gpus_are_shown_by_queue_and_state(world: World) -> None:
    """All pods of a workload count; what has ended or cannot run uses none."""
    world.add("a", "RUNNING", "Running", "q", gpus=4)
    world.add("b", "STARTING", "Admitted", "q", gpus=2, pods=3)
    world.add("c", "PENDING", "Pending", "q", gpus=8)
    world.add("d", "COMPLETE", "Completed", "q", gpus=8)
    assert world.value("kaiwo_gpus", queue="q", state="running") == 10
    assert world.value("kaiwo_gpus", queue="q", state="pending") == 8


def test_pending_workloads_are_counted_by_class_of_their_reason(world: World) -> None:
    """There are a few classes, whatever reasons controllers and plugins write."""
    for number, reason in enumerate(("Pending", "NoQuota", "Downloading", "WriteRefused", "SomethingNew")):
        world.add(f"p{number}", "PENDING", reason)
    for name, count in (("quota", 2), ("download", 1), ("api", 1), ("other", 1)):
        assert world.value("kaiwo_workloads_pending", kind="KaiwoJob", reason_class=name) == count


def test_preemptions_are_counted_by_queue(world: World) -> None:
    """A workload that waits for the first time was not preempted."""
    world.add("a", "RUNNING", "Running", "q")

    def moves(reason: str) -> None:
        how: dict[str, Any] = {
            "kind": "KaiwoJob",
            "namespace": "default",
            "name": "a",
            "uid": "a",
            "message": "",
        }
        world.metrics.transition(Transition(before="RUNNING", after="PENDING", reason=reason, at=NOW, **how))

    moves("Suspended")
    moves("Preempted")
    assert world.value("kaiwo_preemptions_total", kind="KaiwoJob", queue="q") == 1


def test_the_number_of_queues_in_labels_is_limited(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster with a queue for each user does not flood the monitoring."""
    monkeypatch.setattr(workload_metrics, "_MOST_QUEUES", 2)
    for number in range(5):
        world.add(f"j{number}", "RUNNING", "Running", f"q{number}", gpus=1)
    assert world.value("kaiwo_gpus", queue="other", state="running") == 3
