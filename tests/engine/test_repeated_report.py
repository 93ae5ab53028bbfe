"""A status that somebody else replaces is written again, but not without an end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.engine.repeated_report import RETRY, RepeatedReport

if TYPE_CHECKING:
    import pytest

    from kaiwo.engine.resource import Object

DAY = 24 * 3600.0
OWN = ("Ready",)


def status(message: str, *, at: str = "", foreign: str = "") -> Object:
    """A status with an own condition and one of somebody else."""
    own = {"type": "Ready", "status": "True", "message": message, "lastTransitionTime": at}
    return {"conditions": [own, {"type": "Other", "message": foreign}], "plugins": [message]}


def test_what_is_new_is_written_at_once() -> None:
    """Whatever was written a moment ago, and about whichever object."""
    report = RepeatedReport("KaiwoConfig kaiwo", lambda: 0.0)
    for uid, text in (("u", "a"), ("u", "b"), ("v", "b"), ("u", "b")):
        assert report.wait(uid, status(text), OWN) == 0.0
        report.written(uid, status(text), OWN)


def test_times_and_the_conditions_of_others_make_no_new_report() -> None:
    """What another process adds beside it is no reason to write the same at once again."""
    report = RepeatedReport("KaiwoConfig kaiwo", lambda: 0.0)
    report.written("u", status("a"), OWN)
    assert 0.0 < report.wait("u", status("a", at="later", foreign="more"), OWN) <= RETRY[0]


def test_two_processes_that_disagree_write_ever_less_often(caplog: pytest.LogCaptureFixture) -> None:
    """In a day they write a few hundred times, not millions; the log says what to do."""
    now, seen, writes = 0.0, "", 0
    reports = {text: RepeatedReport("KaiwoConfig kaiwo", lambda: now) for text in ("a", "b")}
    while now < DAY:
        waits = []
        for text, report in reports.items():
            if seen != text and not (wait := report.wait("u", status(text), OWN)):
                report.written("u", status(text), OWN)
                seen, writes = text, writes + 1
            elif seen != text:
                waits.append(wait)
        now += max(min(waits, default=0.01), 0.01)
    assert 10 < writes < 2 * 2 * DAY / RETRY[1]
    assert "the same version and plugins" in caplog.text
