"""The benchmark's own arithmetic: what it counts, and what it calls met."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from bench.access import FLOOR, LOAD
from bench.audit import AuditLog
from bench.fanout import FanOut, Progress, middle
from bench.idle import milliseconds
from bench.report import Figure, Target, number

if TYPE_CHECKING:
    from pathlib import Path


def _line(user: str, verb: str, resource: str, name: str, second: float, *, code: int = 201) -> str:
    resource, _, subresource = resource.partition("/")
    return json.dumps(
        {
            "kind": "Event",
            "verb": verb,
            "user": {"username": user, "groups": []},
            "objectRef": {
                "resource": resource,
                "subresource": subresource,
                "namespace": "team-a",
                "name": name,
            },
            "responseStatus": {"metadata": {}, "code": code},
            "requestReceivedTimestamp": f"2026-01-01T00:00:{second:09.6f}Z",
            "stageTimestamp": f"2026-01-01T00:00:{second + 0.5:09.6f}Z",
        }
    )


STORY = [
    _line(LOAD, "create", "kaiwojobs", "a", 1.0),
    _line(LOAD, "create", "kaiwojobs", "b", 2.0),
    _line(FLOOR, "create", "jobs", "a", 3.0),
    _line(FLOOR, "create", "jobs", "b", 4.0, code=409),
    _line(FLOOR, "patch", "kaiwojobs/status", "a", 5.0, code=200),
]


def test_a_line_that_is_still_being_written_is_read_when_it_is_complete(tmp_path: Path) -> None:
    """No write is lost or counted twice, wherever the reader meets the growing file."""
    path = tmp_path / "audit.log"
    log = AuditLog(path)
    assert log.read() == []
    text = "\n".join(STORY) + "\n"
    path.write_text(text[:100])
    assert log.read() == []
    path.write_text(text)
    assert [write.object_ref.name for write in log.read()] == ["a", "b", "a", "b", "a"]
    assert log.read() == []


def test_a_fan_out_ends_when_every_job_and_status_was_accepted(tmp_path: Path) -> None:
    """Refused writes are shown apart and do not complete anything."""
    path = tmp_path / "audit.log"
    path.write_text("\n".join(STORY) + "\n")
    progress = Progress(FLOOR)
    progress.add(AuditLog(path).read())
    assert progress.complete(1)
    assert not progress.complete(2)
    assert progress.writes == {"create jobs": 1, "create jobs (409)": 1, "patch kaiwojobs/status": 1}
    assert progress.last_answer - progress.first_request == pytest.approx(4.5)


def test_a_lease_that_is_renewed_is_no_work(tmp_path: Path) -> None:
    """A subject that only renews its Lease stands still: a lost answer is not waited for."""
    path = tmp_path / "audit.log"
    progress = Progress(FLOOR)
    log = AuditLog(path)
    path.write_text(STORY[2] + "\n")
    assert progress.add(log.read())
    with path.open("a") as file:
        file.write(_line(FLOOR, "update", "leases", "floor", 6.0, code=200) + "\n" + STORY[0] + "\n")
    assert not progress.add(log.read())


def test_latency_runs_from_the_users_request_to_the_last_answer(tmp_path: Path) -> None:
    """Both ends are the API server's own times; a KaiwoJob without its Job is not counted."""
    path = tmp_path / "audit.log"
    path.write_text("\n".join(STORY) + "\n")
    assert milliseconds(AuditLog(path).read(), FLOOR, "create jobs") == pytest.approx([2500.0])


def test_events_and_the_lease_are_no_writes_per_job() -> None:
    """They are counted apart, as the targets say."""
    writes = Counter(
        {
            "create jobs": 10,
            "patch kaiwojobs/status": 10,
            "create events": 30,
            "update leases": 4,
            "patch kaiwoconfigs/status": 1,
        }
    )
    assert FanOut(rate=1, cpu_ms=1, memory=1, writes=writes).writes_per_job == 2


def test_the_middle_of_several_runs_is_their_median() -> None:
    """One disturbed run does not move the figure."""
    runs = [FanOut(rate, rate, rate, Counter()) for rate in (100.0, 3.0, 110.0)]
    assert middle(runs).rate == 100.0


@pytest.mark.parametrize(
    ("target", "value", "floor", "met"),
    [
        (Target(4), 4.0, None, True),
        (Target(4), 4.1, 1.0, False),
        (Target(85, "at least"), 85.0, None, True),
        (Target(0.7, "at least", of_floor=True), 70.0, 100.0, True),
        (Target(0.7, "at least", of_floor=True), 69.0, 100.0, False),
        (Target(0.7, "at least", of_floor=True), 69.0, None, None),
    ],
)
def test_a_target_says_whether_a_figure_holds(
    target: Target, value: float, floor: float | None, met: bool | None
) -> None:
    """Absolute targets need no floor; a share of the floor cannot be judged without one."""
    assert target.met(value, floor) is met


def test_a_missed_target_stands_out_in_the_table() -> None:
    """Figure, floor, ratio and target are on one line."""
    figure = Figure("rate", 60.0, "Jobs/s", 120.0, Target(0.7, "at least", of_floor=True))
    assert figure.row() == "| rate | 60 Jobs/s | 120 Jobs/s | 0.50 | ≥ 70% of the floor | **no** |"


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (0.123, "0.12"), (12.345, "12.3"), (1234.5, "1234"), (110.0, "110")]
)
def test_figures_have_about_three_digits(value: float, text: str) -> None:
    """More digits would claim a precision that one machine's run has not."""
    assert number(value) == text
