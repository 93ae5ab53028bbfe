"""The duration of a workload: a condition at the exact moment, and no earlier."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from kaiwo.engine.timestamps import parse_time
from kaiwo.testing import job
from kaiwo.workload.ending.duration import deadline_of

if TYPE_CHECKING:
    from conftest import World

STARTED = datetime.fromisoformat("2026-01-02T03:04:15+00:00")
HOUR = timedelta(hours=1)


@pytest.fixture
def running(world: World) -> World:
    """A job with a duration of an hour whose pod runs."""
    world.obj = job(image="image:1", entrypoint="sleep 1", duration="1h")
    world.settle()
    run(world)
    world.at(STARTED + timedelta(seconds=1))
    world.settle()
    assert world.status["status"] == "RUNNING"
    world.writes.clear()
    world.events.clear()
    return world


def run(world: World) -> None:
    """Let the container run since `STARTED`."""
    state = {"name": "workload", "state": {"running": {"startedAt": "2026-01-02T03:04:15Z"}}}
    world.live(status={"startTime": "2026-01-02T03:04:10Z", "active": 1})
    world.set(pods=(world.pod(phase="Running", containerStatuses=[state]),))


def test_a_timer_is_set_for_the_exact_moment(running: World) -> None:
    """No polling: one requeue, at the end of the duration."""
    assert running.plan().requeue_after == 3599.0
    assert running.condition("Preemptable") == {}
    running.at(STARTED + HOUR - timedelta(microseconds=1))
    running.settle()
    assert running.condition("Preemptable") == {}
    assert running.plan().requeue_after == pytest.approx(1e-6)


def test_the_condition_becomes_true_when_the_duration_has_passed(running: World) -> None:
    """With one event; the workload runs on, and nothing more is written."""
    running.at(STARTED + HOUR)
    running.settle()
    condition = running.condition("Preemptable")
    assert (condition["status"], condition["reason"]) == ("True", "DurationExceeded")
    assert "2026-01-02T04:04:15Z" in condition["message"]
    assert running.status["status"] == "RUNNING"
    assert [event.reason for event in running.events] == ["DurationExceeded"]
    running.at(STARTED + 5 * HOUR)
    assert running.plan().statuses == ()
    assert running.plan().requeue_after is None
    assert running.writes == []


def test_a_longer_duration_takes_the_condition_away(running: World) -> None:
    """Also at the last second; the running Job is untouched."""
    running.at(STARTED + HOUR)
    running.settle()
    running.edit(duration="2h")
    plan = running.settle()
    assert running.condition("Preemptable") == {}
    assert plan.requeue_after == 3600.0
    assert running.condition("SpecApplied")["status"] == "True"
    running.edit(duration=None)
    running.settle()
    assert running.plan().requeue_after is None
    assert [set(write.body) for write in running.writes] == [{"metadata"}, {"metadata"}]  # the record on it


def test_a_clock_that_is_set_back_takes_it_away_again(running: World) -> None:
    """The deadline is compared with the time of each reconciliation; nothing is added up."""
    running.at(STARTED + HOUR)
    running.settle()
    running.at(STARTED)
    assert running.settle().requeue_after == 3600.0
    assert running.condition("Preemptable") == {}


def test_an_evicted_workload_begins_anew(running: World) -> None:
    """Its start time is gone while it waits, and so is the deadline."""
    running.at(STARTED + HOUR)
    running.settle()
    assert running.facts.live is not None
    suspended = [{"type": "Suspended", "status": "True"}]
    running.live(spec={**running.facts.live["spec"], "suspend": True}, status={"conditions": suspended})
    running.set(pods=())
    running.settle()
    assert running.status["status"] == "PENDING"
    assert running.condition("Preemptable") == {}
    assert "startTime" not in running.status


@pytest.mark.parametrize(
    ("duration", "deadline"),
    [
        pytest.param("90m", STARTED + 1.5 * HOUR, id="Go duration"),
        pytest.param(None, None, id="none"),
        pytest.param("", None, id="empty"),
        pytest.param("2540400h", STARTED + timedelta(hours=2540400), id="290 years"),
        pytest.param("soon", None, id="no duration"),
    ],
)
def test_the_deadline_is_start_and_duration(duration: str | None, deadline: datetime | None) -> None:
    """Whatever the text."""
    assert deadline_of(duration, STARTED) == deadline
    assert deadline_of(duration, None) is None
    assert deadline_of("1h", parse_time("9999-12-31T23:59:59Z")) is None
