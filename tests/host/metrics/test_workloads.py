"""Metrics about workloads."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry

import kaiwo_batch_job.plugin
from docs.generate import meanings
from kaiwo.api.crds import WORKLOADS
from kaiwo.engine.cached_object import CachedObject
from kaiwo.engine.store import Cache
from kaiwo.engine.timestamps import format_time
from kaiwo.engine.wire import encode
from kaiwo.host.metrics import gpu_time, workloads
from kaiwo.host.metrics.gpu_time_record import GpuTimeRecord
from kaiwo.host.metrics.reason_classes import CLASSES, reason_class
from kaiwo.host.metrics.workloads import WorkloadMetrics
from kaiwo.plugin.lifecycle import Transition
from kaiwo.testing import job, plugins
from kaiwo.testing.builders import NOW

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object

KAIWO_JOB = WORKLOADS["KaiwoJob"]
ADMITTED = {"type": "Admitted", "status": "True", "reason": "Admitted"}


MINUTE = 60.0


class World:
    """A cache with jobs, and the metrics about them."""

    def __init__(self, **options: Any) -> None:
        cache = Cache()
        for kind in WORKLOADS.values():
            cache.register(kind)
        store = cache.store(KAIWO_JOB)
        assert store is not None
        self.store = store
        self.version = 0
        self.seconds = 0.0
        self.registry = CollectorRegistry()
        self.metrics = WorkloadMetrics(
            self.registry, cache, plugins(kaiwo_batch_job.plugin), clock=lambda: self.seconds, **options
        )

    def put(
        self, name: str, status: str, reason: str, queue: str = "", gpus: int = 0, pods: int = 1, **more: Any
    ) -> Object:
        """Add a job with a status, or change it; one that runs holds its GPUs."""
        allocation: Object = {"replicas": 1, "pods": pods, "gpusPerReplica": gpus, "queue": queue}
        self.version += 1
        obj = job(name, user=more.pop("user", "ada"))
        obj["metadata"] |= {"uid": name, "resourceVersion": str(self.version)}
        obj["metadata"]["creationTimestamp"] = format_time(NOW)
        obj["status"] = {"status": status, "reason": reason, "allocation": allocation, **more}
        if status in {"RUNNING", "READY", "COMPLETE"}:
            obj["status"].setdefault("startTime", format_time(NOW))
        self.store.observe("MODIFIED", self.store.decode(encode(obj)))
        return obj

    def delete(self, obj: Object) -> None:
        """Delete a job."""
        self.store.observe("DELETED", self.store.decode(encode(obj)))

    def moves(self, name: str, before: str, after: str, reason: str, seconds: float = 0.0) -> None:
        """Report a transition."""
        at = NOW + timedelta(seconds=seconds)
        self.metrics.transition(Transition("KaiwoJob", "default", name, name, before, after, reason, "", at))

    def value(self, name: str, **labels: str) -> float | None:
        """A sample."""
        return self.registry.get_sample_value(name, labels)


@pytest.fixture
def world() -> World:
    """No jobs yet."""
    return World()


def test_gpus_are_shown_by_queue(world: World) -> None:
    """All pods of a workload count; what has ended holds none."""
    world.put("a", "RUNNING", "Running", "q", gpus=4)
    world.put("b", "STARTING", "Admitted", "q", gpus=2, pods=3, conditions=[ADMITTED])
    world.put("c", "PENDING", "Pending", "q", gpus=8)
    world.put("d", "COMPLETE", "Completed", "q", gpus=8)
    assert world.value("kaiwo_gpus_reserved", queue="q", user="") == 10
    assert world.value("kaiwo_gpus_pending", queue="q", user="") == 8


def test_used_and_idle_gpus_come_from_the_utilization_where_it_is_known(world: World) -> None:
    """A workload that is not measured is neither used nor idle, nor is one with an absurd figure."""
    world.put("a", "RUNNING", "Running", "q", gpus=4, utilization={"percent": 25})
    world.put("b", "RUNNING", "Running", "q", gpus=8)
    world.put("c", "RUNNING", "Running", "q", gpus=8, utilization={"percent": -3})
    assert world.value("kaiwo_gpus_used", queue="q", user="") == 1
    assert world.value("kaiwo_gpus_idle", queue="q", user="") == 3
    assert world.value("kaiwo_gpus_reserved", queue="q", user="") == 20


def test_a_setting_says_which_labels_gpus_have() -> None:
    """Names of users are in the metrics only where an administrator wants them."""
    for labels, queue, user in (("none", "", ""), ("queue", "q", ""), ("user", "q", "ada")):
        world = World(gpu_labels=labels)
        world.put("a", "RUNNING", "Running", "q", gpus=4)
        assert world.value("kaiwo_gpus_reserved", queue=queue, user=user) == 4


def test_workloads_are_counted_by_status_class_of_reason_and_queue(world: World) -> None:
    """There are a few classes, whatever reasons controllers and plugins write."""
    for number, reason in enumerate(("Pending", "NoQuota", "Downloading", "WriteRefused", "SomethingNew")):
        world.put(f"p{number}", "PENDING", reason, "q")
    for name, count in (("quota", 2), ("download", 1), ("api", 1), ("other", 1)):
        labels = {"kind": "KaiwoJob", "status": "PENDING", "reason_class": name, "queue": "q"}
        assert world.value("kaiwo_workloads", **labels) == count


def test_counts_follow_changes_and_deletions(world: World) -> None:
    """A workload counts once, and not any more when it is gone."""
    labels = {"kind": "KaiwoJob", "reason_class": "running", "queue": "q"}
    world.put("a", "PENDING", "Pending", "q", gpus=4)
    obj = world.put("a", "RUNNING", "Running", "q", gpus=4)
    assert world.value("kaiwo_workloads", status="RUNNING", **labels) == 1
    assert world.value("kaiwo_gpus_pending", queue="q", user="") == 0
    world.delete(obj)
    assert world.value("kaiwo_workloads", status="RUNNING", **labels) is None
    assert world.value("kaiwo_gpus_reserved", queue="q", user="") == 0


def test_a_scrape_decodes_no_object(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cost does not grow with the number and size of workloads."""
    for number in range(20):
        world.put(f"j{number}", "RUNNING", "Running", "q", gpus=1)

    def decoded(*_: object) -> None:
        pytest.fail("an object was decoded")

    for name in ("part", "full", "readable", "clean"):
        monkeypatch.setattr(CachedObject, name, decoded)
    assert world.value("kaiwo_gpus_reserved", queue="q", user="") == 20


def test_preemptions_are_counted_by_queue(world: World) -> None:
    """A workload that waits for the first time was not preempted."""
    world.put("a", "RUNNING", "Running", "q")
    world.moves("a", "RUNNING", "PENDING", "Suspended")
    world.moves("a", "RUNNING", "PENDING", "Preempted")
    assert world.value("kaiwo_preemptions_total", kind="KaiwoJob", queue="q") == 1
    world.moves("a", "TERMINATING", "PENDING", "PreemptedAndRequeued")
    assert world.value("kaiwo_preemptions_total", kind="KaiwoJob", queue="q") == 2


def test_ends_are_counted_by_what_ended_them(world: World) -> None:
    """A rise of failures is seen by its class, also when the workloads are deleted at once."""
    world.put("a", "RUNNING", "Running", "q")
    world.moves("a", "RUNNING", "FAILED", "OOMKilled")
    labels = {"kind": "KaiwoJob", "status": "FAILED", "reason_class": "memory", "queue": "q"}
    assert world.value("kaiwo_workloads_ended_total", **labels) == 1


def reached(world: World, stage: str) -> tuple[float | None, float | None]:
    """How many workloads reached a stage, and after how many seconds in all."""
    name = "kaiwo_workload_since_creation_seconds"
    labels = {"kind": "KaiwoJob", "reached": stage}
    return world.value(f"{name}_count", **labels), world.value(f"{name}_sum", **labels)


def test_each_stage_is_measured_once(world: World) -> None:
    """A stage that was passed unseen counts with the next one; a second run does not count again."""
    world.put("a", "PENDING", "Pending")
    world.moves("a", "PENDING", "STARTING", "Admitted", 10)
    world.put("a", "RUNNING", "Running")
    world.moves("a", "STARTING", "RUNNING", "Running", 30)
    world.put("a", "PENDING", "Preempted")
    world.moves("a", "RUNNING", "PENDING", "Preempted", 40)
    world.moves("a", "PENDING", "RUNNING", "Running", 400)
    assert (reached(world, "admitted"), reached(world, "running")) == ((1, 10), (1, 30))
    world.put("b", "PENDING", "Pending")
    world.moves("b", "PENDING", "RUNNING", "Running", 5)
    assert (reached(world, "admitted"), reached(world, "running")) == ((2, 15), (2, 35))


def test_what_was_reached_before_the_start_of_the_process_does_not_count(world: World) -> None:
    """A restart does not measure old workloads again."""
    world.put("a", "PENDING", "Preempted", startTime=format_time(NOW))
    world.moves("a", "PENDING", "RUNNING", "Running", 4000)
    assert reached(world, "running") == (None, None)


def test_downloads_are_measured_from_their_condition(world: World) -> None:
    """The times are those of the status, so that a restart meanwhile does not matter."""
    begun = {"type": "DownloadJobSucceeded", "status": "False", "lastTransitionTime": format_time(NOW)}
    ended = {**begun, "status": "True", "lastTransitionTime": format_time(NOW + timedelta(seconds=90))}
    world.put("a", "PENDING", "Downloading", conditions=[begun])
    world.put("a", "PENDING", "Creating", conditions=[ended])
    world.put("a", "STARTING", "Starting", conditions=[ended])
    assert world.value("kaiwo_workload_download_seconds_sum", kind="KaiwoJob") == 90
    assert world.value("kaiwo_workload_download_seconds_count", kind="KaiwoJob") == 1


def test_a_process_that_stands_by_measures_nothing() -> None:
    """Two replicas do not count one workload twice."""
    world = World(leading=lambda: False)
    begun = {"type": "DownloadJobSucceeded", "status": "False", "lastTransitionTime": format_time(NOW)}
    world.put("a", "PENDING", "Downloading", conditions=[begun])
    world.put("a", "PENDING", "Creating", conditions=[{**begun, "status": "True"}])
    assert world.value("kaiwo_workload_download_seconds_count", kind="KaiwoJob") is None
    assert world.value("kaiwo_gpu_reserved_seconds_total", queue="q", user="") is None


def test_gpu_time_is_added_up_and_survives_the_deletion_of_workloads(world: World) -> None:
    """What was held counts until the moment at which it was given back."""
    world.metrics.gpu_time.begin(None)
    obj = world.put("a", "RUNNING", "Running", "q", gpus=4, utilization={"percent": 50})
    world.seconds += MINUTE
    world.delete(obj)
    world.seconds += MINUTE
    owner = {"queue": "q", "user": ""}
    assert world.value("kaiwo_gpu_reserved_seconds_total", **owner) == 240
    assert world.value("kaiwo_gpu_used_seconds_total", **owner) == 120
    assert world.value("kaiwo_gpu_idle_seconds_total", **owner) == 120


def test_a_later_process_continues_the_gpu_time(world: World) -> None:
    """What an administrator left unreadable in the record counts as nothing."""
    world.metrics.gpu_time.begin(None)
    world.put("a", "RUNNING", "Running", "q", gpus=4)
    world.seconds += MINUTE
    record = json.loads(json.dumps(world.metrics.gpu_time.record()))
    later = World()
    later.put("a", "RUNNING", "Running", "q", gpus=4)
    later.metrics.gpu_time.begin([*record, ["q", "", 1], ["q", "", "a", 1, 1], 7, ["q", "", -1, 0, 0]])
    later.seconds += MINUTE
    assert later.value("kaiwo_gpu_reserved_seconds_total", queue="q", user="") == 480
    later.metrics.gpu_time.stop()
    assert later.value("kaiwo_gpu_reserved_seconds_total", queue="q", user="") is None


def test_the_number_of_queues_and_owners_in_labels_is_limited(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster with a queue for each user does not flood the monitoring."""
    monkeypatch.setattr(workloads, "MOST_QUEUES", 2)
    monkeypatch.setattr(gpu_time, "MOST_OWNERS", 2)
    for number in range(5):
        world.put(f"j{number}", "RUNNING", "Running", f"q{number}", gpus=1)
    labels = {"kind": "KaiwoJob", "status": "RUNNING", "reason_class": "running"}
    assert world.value("kaiwo_workloads", queue="other", **labels) == 3
    assert world.value("kaiwo_gpus_reserved", queue="other", user="other") == 3


def test_a_queue_that_nobody_names_any_more_makes_room_for_another(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names that one user makes up do not hide the queues of others until a restart."""
    monkeypatch.setattr(workloads, "MOST_QUEUES", 2)
    monkeypatch.setattr(gpu_time, "MOST_OWNERS", 2)
    labels = {"kind": "KaiwoJob", "status": "PENDING", "reason_class": "quota"}
    junk = [world.put(f"j{number}", "PENDING", "NoQuota", f"junk{number}", gpus=1) for number in range(5)]
    train = world.put("train", "PENDING", "NoQuota", "research", gpus=4)
    assert world.value("kaiwo_gpus_pending", queue="research", user="") is None
    for obj in junk:
        world.delete(obj)
    assert world.value("kaiwo_gpus_pending", queue="other", user="other") == 4
    world.delete(train)
    world.put("train", "PENDING", "NoQuota", "research", gpus=4)
    assert world.value("kaiwo_gpus_pending", queue="research", user="") == 4
    assert world.value("kaiwo_workloads", queue="research", **labels) == 1
    assert world.value("kaiwo_workloads", queue="other", **labels) is None


def test_a_transition_of_a_workload_that_is_gone_is_not_remembered(world: World) -> None:
    """The watch may bring its end before the answer to its last status has come."""
    for number in range(10):
        world.delete(world.put(f"j{number}", "PENDING", "Pending"))
        world.moves(f"j{number}", "PENDING", "RUNNING", "Running")
    assert world.metrics._reached == {}


def _held(world: World, user: str, minutes: float, gpus: int = 1) -> None:
    """Let a user hold GPUs for a while."""
    obj = world.put(user, "RUNNING", "Running", "q", gpus=gpus, user=user)
    world.seconds += minutes * MINUTE
    world.delete(obj)


def test_made_up_users_do_not_hide_others_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each held a GPU for a moment. Who has time keeps it, a new one is shown, and no sum goes back."""
    monkeypatch.setattr(gpu_time, "MOST_OWNERS", 4)
    world = World(gpu_labels="user")
    world.metrics.gpu_time.begin(None)

    def shown(user: str, queue: str = "q") -> float | None:
        return world.value("kaiwo_gpu_reserved_seconds_total", queue=queue, user=user)

    def total() -> float:
        return sum(account.seconds[0] for _, account in world.metrics.gpu_time.accounts())

    _held(world, "ada", 60)
    _held(world, "grace", 30)
    before = total()
    for number in range(50):
        _held(world, f"junk{number}", 0.1)
        assert total() == pytest.approx(before + 6)
        before = total()
    assert len(list(world.metrics.gpu_time.accounts())) == 5
    assert (shown("ada"), shown("grace")) == (3600, 1800)
    world.put("new", "RUNNING", "Running", "q", gpus=2, user="new")
    for number in range(50):
        _held(world, f"more{number}", 0.1)
    assert shown("new") == pytest.approx(2 * 50 * 6)
    assert (shown("ada"), shown("grace")) == (3600, 1800)
    record = json.loads(json.dumps(world.metrics.gpu_time.record()))
    later = World(gpu_labels="user")
    later.metrics.gpu_time.begin(record)
    assert later.metrics.gpu_time.record() == record


@pytest.mark.parametrize("letter", ["\x01", "\U0001f600", "a"])
def test_the_record_of_all_owners_fits_into_a_config_map(letter: str) -> None:
    """A tenant with long names must not keep the time of all others from being recorded."""
    counted = gpu_time.GpuTime("user", lambda: 0.0)
    queue = "q" * 253
    for number in range(600):
        counted.add_reserved(queue, f"{number:03}".rjust(gpu_time.LONGEST_USER, letter), 1e9 + 1 / 7)
        counted.add_reserved(queue, f"{number:03}".rjust(1024, letter), 1.0)
    manager: Any = None
    text = GpuTimeRecord(manager, counted, "ops", "kaiwo")._written()
    assert len(text.encode()) < 1 << 20
    found = counted.record()
    assert len(found) == 501
    assert sum(seconds[2] for seconds in found) == pytest.approx(600 * (1e9 + 1 / 7) + 600)


def test_users_who_only_wait_leave_room_for_those_who_hold_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting costs nothing, so anybody can wait under many names."""
    monkeypatch.setattr(gpu_time, "MOST_OWNERS", 4)
    world = World(gpu_labels="user")
    world.metrics.gpu_time.begin(None)
    for number in range(50):
        world.put(f"junk{number}", "PENDING", "NoQuota", "q", gpus=1, user=f"junk{number}")
    assert world.value("kaiwo_gpus_pending", queue="other", user="other") == 48
    world.put("a", "RUNNING", "Running", "q", gpus=2, user="ada")
    world.put("g", "RUNNING", "Running", "q", gpus=3, user="grace")
    world.seconds += MINUTE
    for user, gpus in (("ada", 2), ("grace", 3)):
        assert world.value("kaiwo_gpus_reserved", queue="q", user=user) == gpus
        assert world.value("kaiwo_gpu_reserved_seconds_total", queue="q", user=user) == gpus * MINUTE
    world.put("l", "RUNNING", "Running", "q", gpus=5, user="linus")
    assert world.value("kaiwo_gpus_reserved", queue="other", user="other") == 5


def test_counters_of_queues_that_nobody_names_any_more_make_room_for_another(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs that ended in made-up queues must not take the counters of others until a restart."""
    monkeypatch.setattr(workloads, "MOST_QUEUES", 2)
    labels = {"kind": "KaiwoJob", "status": "COMPLETE", "reason_class": reason_class("Completed")}
    for number in range(3):
        junk = world.put(f"j{number}", "COMPLETE", "Completed", f"junk{number}")
        world.moves(f"j{number}", "RUNNING", "COMPLETE", "Completed")
        world.delete(junk)
    for name in ("a", "b", "c"):
        world.put(name, "COMPLETE", "Completed", f"queue-{name}")
        world.moves(name, "RUNNING", "COMPLETE", "Completed")
    counted = {
        queue: world.value("kaiwo_workloads_ended_total", queue=queue, **labels)
        for queue in ("junk0", "junk1", "junk2", "queue-a", "queue-b", "queue-c", "other")
    }
    assert counted == {
        "junk0": None, "junk1": None, "junk2": None, "queue-a": 1, "queue-b": 1, "queue-c": None, "other": 1,
    }  # fmt: skip


def test_malformed_objects_count_as_nothing(world: World) -> None:
    """Whatever somebody writes into a status, the metrics of the others stay right."""
    for number, status in enumerate(
        ([], {"status": [], "allocation": 7}, {"status": "RUNNING", "conditions": 1})
    ):
        obj = job(f"odd-{number}")
        obj["metadata"] |= {"uid": f"odd-{number}", "resourceVersion": str(900 + number)}
        obj["status"] = status
        world.store.observe("ADDED", world.store.decode(encode(obj)))
    world.put("a", "RUNNING", "Running", "q", gpus=4)
    assert world.value("kaiwo_gpus_reserved", queue="q", user="") == 4


def test_classes_name_reasons_that_exist() -> None:
    """A reason that is renamed is renamed here too."""
    known = {reason for group in meanings.GROUPS.values() for reason in group}
    named = {reason for reasons in CLASSES.values() for reason in reasons}
    assert named - known <= {
        "Inadmissible", "Preempted", "PreemptedByScheduler", "BackoffLimitExceeded", "NodeLost",
    }  # fmt: skip
