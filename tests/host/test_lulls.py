"""Which changes are looked at at once, and which ones together a moment later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from kaiwo.engine.cache import Event
from kaiwo.engine.entry import Projection
from kaiwo.engine.form import Form
from kaiwo.engine.resource import JOB, POD
from kaiwo.host.lulls import AT_ONCE, LATER, TOGETHER, of_conditions, of_pod, together

if TYPE_CHECKING:
    from kaiwo.engine.entry import Entry
    from kaiwo.engine.resource import Object, Resource

RUNNING = {"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]}
WAITING = {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}]}
ENDED = {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": {"exitCode": 0}}}]}


def entry(resource: Resource, status: Object | None, **metadata: Any) -> Entry | None:
    """An object with a status; None for None."""
    if status is None:
        return None
    obj = {"metadata": {"name": "it", "namespace": "ns", **metadata}, "status": status}
    return Form(resource, Projection()).decode(msgspec.json.encode(obj))


def change(resource: Resource, old: Object | None, new: Object | None) -> Event:
    """From one status to the next."""
    kind = "ADDED" if old is None else "DELETED" if new is None else "MODIFIED"
    return Event(kind, resource, entry(resource, old), entry(resource, new))  # type: ignore[arg-type]  # one of the three


@pytest.mark.parametrize(
    ("old", "new", "seconds"),
    [
        (None, {}, LATER),
        ({}, RUNNING, AT_ONCE),
        (None, RUNNING, AT_ONCE),
        (WAITING, RUNNING, AT_ONCE),
        (RUNNING, {**RUNNING, "podIP": "10.0.0.1"}, LATER),
        (RUNNING, ENDED, LATER),
        ({}, WAITING, LATER),
        (RUNNING, None, LATER),
        ({}, "odd", LATER),
    ],
)
def test_a_pod_that_begins_to_run_is_looked_at_at_once(old: Any, new: Any, seconds: float) -> None:
    """People wait for RUNNING; everything else of a pod comes together with something."""
    assert of_pod(change(POD, old, new)) == seconds


def conditions(**states: str) -> Object:
    """A status with conditions."""
    return {"conditions": [{"type": kind, "status": status} for kind, status in states.items()]}


@pytest.mark.parametrize(
    ("old", "new", "seconds"),
    [
        (None, {}, LATER),
        ({}, None, AT_ONCE),
        ({}, conditions(Complete="True"), AT_ONCE),
        (conditions(Complete="False"), conditions(Complete="True"), AT_ONCE),
        (conditions(Complete="True"), conditions(Complete="True", Failed="False"), LATER),
        (conditions(Failed="True"), {}, AT_ONCE),
        ({}, conditions(Suspended="True"), LATER),
        ({"active": 1}, {"active": 0}, LATER),
        ({}, {"conditions": "odd"}, LATER),
    ],
)
def test_conditions_that_people_wait_for_are_looked_at_at_once(old: Any, new: Any, seconds: float) -> None:
    """Those that were named, when they come or go, and the end of the object."""
    assert of_conditions(("Complete", "Failed"))(change(JOB, old, new)) == seconds


def test_an_object_that_is_being_deleted_is_looked_at_at_once() -> None:
    """A child that goes ends its workload, or is made again."""
    going = entry(JOB, {}, deletionTimestamp="2026-01-01T00:00:00Z")
    assert of_conditions(())(Event("MODIFIED", JOB, entry(JOB, {}), going)) == AT_ONCE


def test_of_unknown_kinds_every_change_is_looked_at_soon() -> None:
    """Nobody knows which of them people wait for."""
    assert together(change(JOB, {}, {})) == TOGETHER
