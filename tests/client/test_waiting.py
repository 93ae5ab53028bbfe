"""A wait ends when nothing more will come."""

from __future__ import annotations

from typing import Any

import pytest

from kaiwo.client.errors import InvalidArgument, WaitTimeout, WorkloadFailed
from kaiwo.client.waiting import ERROR_SECONDS, WaitState, check_timeout
from kaiwo.client.workloads import record


def job(word: str, **metadata: Any) -> dict[str, Any]:
    """A job with a status."""
    return {
        "kind": "KaiwoJob",
        "metadata": {"name": "train", "namespace": "team", "uid": "u", **metadata},
        "status": {"status": word, "message": "why"},
    }


def wait(*words: str, **how: Any) -> float:
    """Wait for a job whose status is given for each second, the last one staying; when the wait ended."""
    state = WaitState([job(words[0])], **how)
    now = 0.0
    state.check_time(now)
    while True:
        state.observe({"u": job(words[min(int(now), len(words) - 1)])}, now)
        if state.done:
            state.raise_failures()
            return now
        assert state.seconds_left(now) > 0
        now += min(1.0, state.seconds_left(now))


def test_a_job_that_stays_in_error_ends_the_wait() -> None:
    """ERROR may heal by itself, but without a timeout nobody waits for it for ever."""
    with pytest.raises(WorkloadFailed, match="job/train is in ERROR for 30 s: why") as failed:
        wait("PENDING", "ERROR")
    assert failed.value.exit_code == 1
    assert failed.value.next_step == "kaiwo status job/train -n team shows why"


def test_an_error_that_heals_goes_on() -> None:
    """Only an unbroken ERROR counts."""
    assert wait(*["ERROR"] * 20, "PENDING", *["ERROR"] * 20, "RUNNING", "COMPLETE") == 42


def test_a_workload_in_error_is_read_again_when_its_time_is_over() -> None:
    """Nothing changes while it stays in ERROR, so the watch alone would never end the wait."""
    state = WaitState([job("ERROR")])
    state.observe({"u": job("ERROR")}, 100.0)
    assert state.seconds_left(110.0) == ERROR_SECONDS - 10


@pytest.mark.parametrize("seconds", ["1s", -1, float("nan"), True])
def test_a_timeout_that_is_no_number_of_seconds_is_refused(seconds: object) -> None:
    """A duration as on the command line is named, before anything is waited for or deleted."""
    with pytest.raises(InvalidArgument, match="timeout: expected seconds as a number"):
        check_timeout(seconds)


def test_a_wait_that_is_over_at_once_names_the_status_that_was_read() -> None:
    """Time-out 0 asks once; the workload is not called unobserved."""
    with pytest.raises(WaitTimeout, match=r"job/train \(RUNNING\)"):
        wait("RUNNING", timeout=0)


def test_a_record_is_short_on_the_page_of_a_notebook() -> None:
    """A list of workloads is shown by a notebook as it is."""
    shown = repr(record({**job("RUNNING"), "spec": {"image": "x" * 1000}}))
    assert shown.startswith("WorkloadRecord(kind='KaiwoJob', name='train', namespace='team'")
    assert "status='RUNNING'" in shown
    assert len(shown) < 500


def test_a_timeout_is_the_users_choice() -> None:
    """Who says how long gets that long, also in ERROR."""
    with pytest.raises(WaitTimeout, match=r"timed out waiting for job/train \(ERROR\)") as late:
        wait("ERROR", timeout=100)
    assert late.value.exit_code == 4
    assert isinstance(late.value, TimeoutError)


def test_a_status_of_an_older_spec_does_not_count() -> None:
    """After a change the operator's last word is about what the workload was before."""
    state = WaitState([job("COMPLETE")])
    changed = job("COMPLETE", generation=2)
    changed["status"]["observedGeneration"] = 1
    state.observe({"u": changed}, 0.0)
    assert not state.done


def test_an_end_that_was_not_waited_for_is_a_failure() -> None:
    """A job that has ended will never be RUNNING, so waiting longer is pointless."""
    with pytest.raises(WorkloadFailed, match="job/train is COMPLETE"):
        wait("PENDING", "COMPLETE", until=("RUNNING",))
    assert wait("PENDING", "RUNNING", until=("RUNNING",)) == 1


def test_a_deleted_workload_ends_the_wait() -> None:
    """Another workload of the same name is another one."""
    state = WaitState([job("RUNNING")])
    state.observe({"other": job("COMPLETE", uid="other")}, 0.0)
    with pytest.raises(WorkloadFailed, match="job/train was deleted"):
        state.raise_failures()


def test_each_change_is_reported_once() -> None:
    """A changed message alone is no change of state."""
    seen: list[str] = []
    wait(
        "PENDING",
        "PENDING",
        "RUNNING",
        "COMPLETE",
        on_change=lambda obj: seen.append(obj["status"]["status"]),
    )
    assert seen == ["PENDING", "RUNNING", "COMPLETE"]
