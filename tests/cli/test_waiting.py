"""``--wait`` ends when nothing more will come."""

from __future__ import annotations

from typing import Any, cast

import click
import pytest

from kaiwo.cli.failures import FAILED, TIMED_OUT, Failure
from kaiwo.cli.options import GlobalOptions
from kaiwo.cli.waiting import ERROR_SECONDS, wait_for


class World:
    """A cluster with one job, whose status is given for each second; the last one stays."""

    def __init__(self, *words: str) -> None:
        self.words = words
        self.now = 0.0

    def job(self) -> dict[str, Any]:
        """The job as it is now."""
        word = self.words[min(int(self.now), len(self.words) - 1)]
        return {
            "kind": "KaiwoJob",
            "metadata": {"name": "train", "namespace": "team", "uid": "u"},
            "status": {"status": word, "message": "why"},
        }

    def list(self, *_: object, **__: object) -> list[dict[str, Any]]:
        """As `Cluster.list`."""
        return [self.job()]

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def wait(self, timeout: float | None) -> None:
        """Wait for the job."""
        with click.Context(click.Command("submit"), obj=GlobalOptions(verbosity=-1)):
            wait_for(cast("Any", self), [self.job()], timeout, clock=lambda: self.now, sleep=self.sleep)


def test_a_job_that_stays_in_error_ends_the_wait() -> None:
    """ERROR may heal by itself, but without a time-out nobody waits for it for ever."""
    world = World("PENDING", "ERROR")
    with pytest.raises(Failure, match="job/train is in ERROR for 30 s: why") as failed:
        world.wait(None)
    assert failed.value.exit_code == FAILED
    assert ERROR_SECONDS <= world.now - 1 <= ERROR_SECONDS + 1


def test_an_error_that_heals_goes_on() -> None:
    """Only an unbroken ERROR counts."""
    world = World(*["ERROR"] * 20, "PENDING", *["ERROR"] * 20, "RUNNING", "COMPLETE")
    world.wait(None)
    assert world.now == 42


def test_a_timeout_is_the_users_choice() -> None:
    """Who says how long gets that long, also in ERROR."""
    world = World("ERROR")
    with pytest.raises(Failure, match=r"timed out waiting for job/train \(ERROR\)") as failed:
        world.wait(100)
    assert failed.value.exit_code == TIMED_OUT
    assert world.now >= 100
