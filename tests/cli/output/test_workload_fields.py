"""What a table shows of a workload."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from kaiwo.cli.output import workload_times
from kaiwo.client import workload_fields

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    Build = Callable[..., dict[str, Any]]


def test_a_duration_is_live_while_it_runs_and_fixed_afterwards(workload: Build, now: datetime) -> None:
    """The recorded times win once the workload ended."""
    assert workload_times.duration(workload(), now) == "90s"
    assert workload_times.duration(workload(), now + timedelta(seconds=10)) == "100s"
    ended = workload(
        status={
            "status": "COMPLETE",
            "startTime": "2026-01-31T11:58:30Z",
            "completionTime": "2026-01-31T11:58:45Z",
        }
    )
    assert workload_times.duration(ended, now) == "15s"
    assert workload_times.duration(workload(status={"status": "PENDING"}), now) == ""


def test_what_is_being_deleted_says_so(workload: Build) -> None:
    """Whatever status was written last."""
    doomed = workload()
    doomed["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    assert workload_fields.word(doomed) == "TERMINATING"


def test_gpus_are_those_that_were_allocated(workload: Build) -> None:
    """Before that, the requested ones."""
    assert workload_fields.gpus(workload(spec={"gpus": 9})) == "9"
    assert workload_fields.gpus(workload(spec={"replicas": 2, "gpusPerReplica": 4})) == "8"
    allocated = {"status": "RUNNING", "allocation": {"replicas": 3, "gpusPerReplica": 3}}
    assert workload_fields.gpus(workload(spec={"gpus": 9}, status=allocated)) == "9"


def test_one_user_may_be_written_in_several_ways() -> None:
    """An address and the label made of it are one user."""
    assert workload_fields.same_user("jane.doe+x@Amd.com", "jane.doe-x-amd.com")
    assert not workload_fields.same_user("jane", "joe")
    assert not workload_fields.same_user("", "joe")


def test_the_queue_is_the_requested_or_the_assigned_one(workload: Build) -> None:
    """Without a queue in the spec, the default one that the operator chose."""
    given = {"status": "PENDING", "allocation": {"queue": "kaiwo"}}
    assert workload_fields.queue(workload(spec={}, status=given)) == "kaiwo"
    assert workload_fields.queue(workload(spec={"clusterQueue": "team"}, status=given)) == "team"
    assert workload_fields.queue(workload(spec={}, status={})) == ""
