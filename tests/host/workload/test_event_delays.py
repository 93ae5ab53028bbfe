"""Which changes are reconciled at once, and which ones a moment later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from kaiwo.engine.cached_object import ObjectDecoder, Projection
from kaiwo.engine.resource import JOB, POD
from kaiwo.engine.store import CacheEvent
from kaiwo.host.workload.event_delays import (
    IGNORED,
    LONG_DELAY,
    NO_DELAY,
    NORMAL_DELAY,
    QUEUE_DELAY,
    SHORT_DELAY,
    StatusReads,
    of_any,
    of_child,
    of_pod,
    of_queue_object,
    of_workload,
)

if TYPE_CHECKING:
    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.resource import Object, Resource

RUNNING = {"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]}
WAITING = {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}]}
STARTS = {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}
UNSCHEDULABLE = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]}
ENDED = {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": {"exitCode": 0}}}]}


def entry(resource: Resource, status: Object | None, **metadata: Any) -> CachedObject | None:
    """An object with a status; None for None."""
    if status is None:
        return None
    obj = {"metadata": {"name": "it", "namespace": "ns", **metadata}, "status": status}
    return ObjectDecoder(resource, Projection()).decode(msgspec.json.encode(obj))


def change(resource: Resource, old: Object | None, new: Object | None) -> CacheEvent:
    """From one status to the next."""
    kind = "ADDED" if old is None else "DELETED" if new is None else "MODIFIED"
    return CacheEvent(kind, resource, entry(resource, old), entry(resource, new))  # type: ignore[arg-type]  # one of the three


@pytest.mark.parametrize(
    ("old", "new", "seconds"),
    [
        (None, {}, NORMAL_DELAY),
        ({}, RUNNING, NO_DELAY),
        (None, RUNNING, NO_DELAY),
        (WAITING, RUNNING, NO_DELAY),
        (RUNNING, {**RUNNING, "podIP": "10.0.0.1"}, NORMAL_DELAY),
        (RUNNING, ENDED, LONG_DELAY),
        (RUNNING, {**ENDED, "phase": "Failed"}, NORMAL_DELAY),
        ({}, WAITING, NORMAL_DELAY),
        (None, {"phase": "Pending"}, LONG_DELAY),
        ({"phase": "Pending"}, STARTS, LONG_DELAY),
        (STARTS, RUNNING, NO_DELAY),
        (None, UNSCHEDULABLE, NORMAL_DELAY),
        ({}, {**STARTS, "initContainerStatuses": [{"state": {"running": {}}}]}, LONG_DELAY),
        ({}, {**STARTS, "initContainerStatuses": [{"state": {"terminated": {}}}]}, NORMAL_DELAY),
        (RUNNING, None, NORMAL_DELAY),
        ({}, "odd", NORMAL_DELAY),
    ],
)
def test_a_pod_that_begins_to_run_is_reconciled_at_once(old: Any, new: Any, seconds: float) -> None:
    """People wait for RUNNING, and soon for what keeps a pod from it; a pod on its way says nothing new."""
    assert of_pod(change(POD, old, new)) == seconds


def conditions(**states: str) -> Object:
    """A status with conditions."""
    return {"conditions": [{"type": kind, "status": status} for kind, status in states.items()]}


@pytest.mark.parametrize(
    ("old", "new", "seconds"),
    [
        (None, {}, NORMAL_DELAY),
        ({}, None, NO_DELAY),
        ({}, conditions(Complete="True"), NO_DELAY),
        (conditions(Complete="False"), conditions(Complete="True"), NO_DELAY),
        (conditions(Complete="True"), conditions(Complete="True", Failed="False"), NORMAL_DELAY),
        (conditions(Failed="True"), {}, NO_DELAY),
        ({}, conditions(Suspended="True"), NORMAL_DELAY),
        ({"active": 1}, {"active": 0}, NORMAL_DELAY),
        ({}, {"conditions": "odd"}, NORMAL_DELAY),
    ],
)
def test_conditions_that_people_wait_for_are_reconciled_at_once(old: Any, new: Any, seconds: float) -> None:
    """Those that were named, when they come or go, and the end of the object."""
    assert of_child(("Complete", "Failed"))(change(JOB, old, new)) == seconds


def test_an_object_that_is_being_deleted_is_reconciled_at_once() -> None:
    """A child that goes ends its workload, or is made again."""
    going = entry(JOB, {}, deletionTimestamp="2026-01-01T00:00:00Z")
    assert of_child(())(CacheEvent("MODIFIED", JOB, entry(JOB, {}), going)) == NO_DELAY


def test_of_unknown_kinds_every_change_is_reconciled_soon() -> None:
    """Nobody knows which of them people wait for."""
    assert of_any(change(JOB, {}, {})) == SHORT_DELAY


COUNTED = {"ready": 1, "conditions": [{"type": "Suspended", "status": "False"}]}


@pytest.mark.parametrize(
    ("old", "new", "metadata", "seconds"),
    [
        (COUNTED, {**COUNTED, "ready": 0}, {}, IGNORED),
        (COUNTED, {**COUNTED, "ready": 0, "startTime": "2026-01-01T00:00:00Z"}, {}, NORMAL_DELAY),
        (COUNTED, {**COUNTED, "conditions": []}, {}, NORMAL_DELAY),
        (COUNTED, {**COUNTED, **conditions(Complete="True")}, {}, NO_DELAY),
        (COUNTED, {**COUNTED, "ready": 0}, {"generation": 2}, NORMAL_DELAY),
        (COUNTED, COUNTED, {"labels": {"team": "b"}}, NORMAL_DELAY),
        (COUNTED, COUNTED, {"annotations": {"team": "b"}}, NORMAL_DELAY),
        (
            COUNTED,
            COUNTED,
            {"ownerReferences": [{"kind": "KaiwoJob", "name": "it", "uid": "1"}]},
            NORMAL_DELAY,
        ),
        (COUNTED, COUNTED, {"deletionTimestamp": "2026-01-01T00:00:00Z"}, NO_DELAY),
        (None, COUNTED, {}, NORMAL_DELAY),
        (COUNTED, None, {}, NO_DELAY),
    ],
)
def test_counts_that_nobody_reads_start_no_reconciliation(
    old: Any, new: Any, metadata: Object, seconds: float
) -> None:
    """A Job counts its pods four times on its way; everything else that changes is looked at."""
    event = CacheEvent(
        "MODIFIED", JOB, entry(JOB, old, generation=1), entry(JOB, new, **{"generation": 1, **metadata})
    )
    assert of_child(("Complete",), StatusReads(frozenset({"startTime"})))(event) == seconds


def test_a_kind_without_generations_is_reconciled_whatever_changes() -> None:
    """Nothing tells whether its spec is the same."""
    assert (
        of_child(("Complete",), StatusReads(frozenset({"startTime"})))(
            change(JOB, {"ready": 1}, {"ready": 0})
        )
        == NORMAL_DELAY
    )


READS = StatusReads(frozenset({"startTime"}), frozenset({"Complete", "FailureTarget"}), frozenset({"ready"}))


@pytest.mark.parametrize(
    ("old", "new", "seconds"),
    [
        ({}, conditions(Suspended="True"), IGNORED),
        ({}, {"conditions": "odd"}, IGNORED),
        ({}, conditions(FailureTarget="True"), NORMAL_DELAY),
        (conditions(FailureTarget="True"), conditions(FailureTarget="False"), NORMAL_DELAY),
        ({}, conditions(Suspended="True", Complete="True"), NO_DELAY),
    ],
)
def test_conditions_that_nobody_reads_start_no_reconciliation(old: Any, new: Any, seconds: float) -> None:
    """A Job is suspended and resumed on its way through a queue; its spec says so before."""
    event = CacheEvent("MODIFIED", JOB, entry(JOB, old, generation=1), entry(JOB, new, generation=1))
    assert of_child(("Complete",), READS, lambda _: True)(event) == seconds


@pytest.mark.parametrize(
    ("old", "new", "has_pods", "seconds"),
    [
        ({}, {"ready": 1}, True, IGNORED),
        ({}, {"ready": 1}, False, NORMAL_DELAY),
        ({"ready": 1}, {"ready": 2}, False, NORMAL_DELAY),
        ({}, {"ready": 0}, False, IGNORED),
    ],
)
def test_the_count_of_ready_pods_matters_where_the_pods_are_not_known(
    old: Any, new: Any, has_pods: bool, seconds: float
) -> None:
    """The pods of a Job that a user made, or that another controller runs, are read from its status."""
    event = CacheEvent("MODIFIED", JOB, entry(JOB, old, generation=1), entry(JOB, new, generation=1))
    assert of_child(("Complete",), READS, lambda _: has_pods)(event) == seconds


@pytest.mark.parametrize(
    ("status", "generation", "has_pods", "seconds"),
    [
        ({"startTime": "2026-01-01T00:00:00Z"}, 1, False, LONG_DELAY),
        ({"startTime": "2026-01-01T00:00:00Z"}, 1, True, NORMAL_DELAY),
        ({"startTime": "2026-01-01T00:00:00Z", "ready": 1}, 1, False, NORMAL_DELAY),
        ({}, 2, False, LONG_DELAY),
        ({}, 2, True, NORMAL_DELAY),
        (conditions(Complete="True"), 2, False, NO_DELAY),
    ],
)
def test_a_child_that_begins_is_reconciled_with_its_first_pods(
    status: Any, generation: int, has_pods: bool, seconds: float
) -> None:
    """A Job that a queue resumes has nothing to report before it has pods; its end is reported at once."""
    new = entry(JOB, status, generation=generation)
    event = CacheEvent("MODIFIED", JOB, entry(JOB, {}, generation=1), new)
    assert of_child(("Complete",), READS, lambda _: has_pods)(event) == seconds


@pytest.mark.parametrize(
    ("status", "seconds"),
    [
        (None, QUEUE_DELAY),
        ({}, QUEUE_DELAY),
        ({"conditions": []}, QUEUE_DELAY),
        (conditions(QuotaReserved="False"), NORMAL_DELAY),
    ],
)
def test_a_new_place_in_a_queue_is_given_time_to_say_something(status: Any, seconds: float) -> None:
    """Kueue writes a Workload first, and its state later."""
    new = ObjectDecoder(JOB, Projection()).decode(
        msgspec.json.encode(
            {"metadata": {"name": "it"}, **({"status": status} if status is not None else {})}
        )
    )
    assert of_queue_object(("Admitted",))(CacheEvent("ADDED", JOB, None, new)) == seconds


@pytest.mark.parametrize(
    ("metadata", "seconds"),
    [({}, NORMAL_DELAY), ({"generation": 2}, NO_DELAY), ({"annotations": {"a": "b"}}, NO_DELAY)],
)
def test_a_workloads_own_status_hurries_nobody(metadata: Object, seconds: float) -> None:
    """The operator wrote it; a change of the spec is looked at at once."""
    old = entry(JOB, {"status": "PENDING"}, generation=1)
    new = entry(JOB, {"status": "RUNNING"}, **{"generation": 1, **metadata})
    assert of_workload(CacheEvent("MODIFIED", JOB, old, new)) == seconds


def test_a_new_workload_is_reconciled_at_once() -> None:
    """Somebody waits for it."""
    assert of_workload(change(JOB, None, {})) == NO_DELAY
