"""GPU time of workloads: overlaps with the window, what runs now, evictions, and clocks that differ."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.engine.timestamps import format_time
from kaiwo.workload.gpu_hours import GpuHours, gpu_hours

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object

ZERO = datetime(2026, 1, 1, tzinfo=UTC)


def at(hour: float | None) -> str | None:
    """An hour after ZERO as the API writes it."""
    return None if hour is None else format_time(ZERO + timedelta(hours=hour))


def workload(
    created: float,
    *,
    started: float | None = None,
    completed: float | None = None,
    admitted: tuple[bool, float] | None = None,
    word: str = "",
    gpus: int = 1,
    **status: Any,
) -> Object:
    """A KaiwoJob by the hours of its life."""
    word = word or ("COMPLETE" if completed is not None else "RUNNING" if started is not None else "PENDING")
    conditions = []
    if admitted is not None:
        state = str(admitted[0])
        conditions = [{"type": "Admitted", "status": state, "lastTransitionTime": at(admitted[1])}]
    times = {"startTime": at(started), "completionTime": at(completed)}
    return {
        "metadata": {"creationTimestamp": at(created)},
        "spec": {"gpus": gpus},
        "status": {
            "status": word, "conditions": conditions,
            **{name: time for name, time in times.items() if time}, **status,
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("obj", "reserved", "waiting", "unclear"),
    [  # hours from 0 o'clock
        pytest.param(workload(12, started=13, completed=15), 2, 1, 0, id="inside the window"),
        pytest.param(workload(2, started=3, completed=11), 1, 0, 0, id="began before"),
        pytest.param(workload(2, started=3, completed=9), 0, 0, 0, id="ended before"),
        pytest.param(workload(18, started=19), 1, 1, 0, id="runs now"),
        pytest.param(workload(16), 0, 4, 0, id="waits now"),
        pytest.param(workload(12, started=15, completed=16, admitted=(True, 13)), 3, 1, 0, id="admission"),
        pytest.param(workload(12, started=13, admitted=(False, 14)), 1, 7, 0, id="evicted and waits again"),
        pytest.param(workload(12, started=13, admitted=(True, 16)), 4, 1, 3, id="evicted and admitted again"),
        pytest.param(workload(12, admitted=(True, 14), word="PENDING"), 6, 2, 0, id="never started"),
        pytest.param(workload(12, started=11, completed=13), 1, 0, 0, id="started before it was created"),
        pytest.param(workload(12, started=14, completed=13), 0, 1, 0, id="ended before it started"),
        pytest.param(workload(30), 0, 0, 0, id="created in the future"),
        pytest.param(workload(12, started=13, completed=40), 7, 1, 0, id="ends in the future"),
        pytest.param(workload(12, started=13, word="FAILED", duration=3600), 1, 1, 0, id="by its duration"),
        pytest.param(workload(12, started=13, word="FAILED"), 0, 1, 0, id="ended, nobody knows when"),
        pytest.param(workload(12, started=13, completed=15, gpus=0), 0, 0, 0, id="no GPUs"),
        pytest.param(workload(12, started=13, completed=15, gpus=8), 16, 8, 0, id="eight GPUs"),
        pytest.param({"metadata": {}, "spec": {"gpus": 1}}, 0, 0, 0, id="never seen by an API server"),
    ],
)  # fmt: skip
def test_the_hours_of_one_workload(obj: Object, reserved: float, waiting: float, unclear: float) -> None:
    """In a window from 10 to 20 o'clock, read at 20 o'clock."""
    start, end = ZERO + timedelta(hours=10), ZERO + timedelta(hours=20)
    assert gpu_hours(obj, start, end, end) == GpuHours(reserved, waiting, unclear)


def test_the_allocation_counts_before_the_request() -> None:
    """Two replicas of four GPUs each."""
    obj = workload(10, started=10, gpus=1, allocation={"replicas": 2, "pods": 2, "gpusPerReplica": 4})
    start, end = ZERO + timedelta(hours=10), ZERO + timedelta(hours=11)
    assert gpu_hours(obj, start, end, end).reserved == 8


hours = st.floats(-50, 100).map(lambda value: round(value, 2))
maybe = st.none() | hours
workloads = st.builds(
    workload,
    hours,
    started=maybe,
    completed=maybe,
    admitted=st.none() | st.tuples(st.booleans(), hours),
    word=st.sampled_from(["", "PENDING", "RUNNING", "COMPLETE", "FAILED", "TERMINATED"]),
    gpus=st.integers(0, 16),
)


@given(workloads, st.tuples(hours, hours, hours), hours)
def test_windows_add_up(obj: Object, marks: tuple[float, float, float], now: float) -> None:
    """Two windows that meet have the hours of the one that covers both, whatever the clocks say."""
    first, middle, last = (ZERO + timedelta(hours=hour) for hour in sorted(marks))
    moment = ZERO + timedelta(hours=now)
    whole = gpu_hours(obj, first, last, moment)
    parts = gpu_hours(obj, first, middle, moment) + gpu_hours(obj, middle, last, moment)
    for name in ("reserved", "waiting", "unclear"):
        assert getattr(whole, name) == pytest.approx(getattr(parts, name), abs=1e-6)


@given(workloads, hours, hours, hours)
def test_no_hour_is_negative_or_counted_twice(obj: Object, one: float, other: float, now: float) -> None:
    """All kinds together are at most the window times the GPUs, and nothing after the time of reading."""
    start, end = ZERO + timedelta(hours=min(one, other)), ZERO + timedelta(hours=max(one, other))
    moment = ZERO + timedelta(hours=now)
    found = gpu_hours(obj, start, end, moment)
    parts = (found.reserved, found.waiting, found.unclear)
    assert min(parts) >= 0
    window = max(timedelta(), min(end, moment) - start) / timedelta(hours=1)
    assert sum(parts) <= obj["spec"]["gpus"] * window + 1e-6


@given(workloads, hours)
def test_longer_is_never_less(obj: Object, now: float) -> None:
    """What runs on holds more an hour later, what has ended the same."""
    start, end = ZERO - timedelta(hours=100), ZERO + timedelta(hours=1000)
    moment = ZERO + timedelta(hours=now)
    before = gpu_hours(obj, start, end, moment)
    after = gpu_hours(obj, start, end, moment + timedelta(hours=1))
    assert after.reserved >= before.reserved - 1e-6
    assert after.waiting >= before.waiting - 1e-6
