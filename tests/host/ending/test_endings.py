"""Decisions to end workloads: recorded once, one at a time, and void when anything changed meanwhile."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.engine.errors import ChangedBack, Conflict, Forbidden, ServerUnavailable
from kaiwo.host.ending.endings import SETTLE_SECONDS, STUCK_SECONDS
from kaiwo.testing.builders import NOW
from kaiwo.workload.ending.decision import EndingDecision, EndingVictim
from kaiwo.workload.ending.record import Beneficiary, EndingRecord

if TYPE_CHECKING:
    from conftest import Server

URGENT = Beneficiary("KaiwoJob", "team", "urgent", "uid-of-urgent")


def victim(name: str = "one", version: str = "1") -> EndingVictim:
    """A workload that a rule chose."""
    return EndingVictim("KaiwoJob", "team", name, f"uid-of-{name}", "idle for a day", version, {"gpus": 8.0})


def decision(*victims: EndingVictim, beneficiary: Beneficiary | None = None) -> EndingDecision:
    """A decision about some workloads."""
    return EndingDecision("Underutilized", victims or (victim(),), NOW, beneficiary)


async def test_a_decision_is_in_the_status_before_anything_is_done(server: Server) -> None:
    """One write, one event, one transition; the record says all."""
    answer = await server.endings.decide(decision(beneficiary=URGENT))
    assert [item.name for item in answer.ended] == ["one"]
    assert not answer.refused
    status = server.known("one").full()["status"]
    assert (status["status"], status["reason"]) == ("TERMINATING", "GpuUtilizationLow")
    read = EndingRecord.read(status["termination"])
    assert read is not None
    assert (read.workload_uid, read.child_uid, read.figures) == ("uid-of-one", "child-one", {"gpus": 8})
    assert (read.beneficiary, read.decided_at, read.rule) == (URGENT, NOW, "Underutilized")
    assert server.writes == ["one"]
    assert server.events == [("one", "WorkloadTerminating")]
    [transition] = server.transitions
    assert (transition.before, transition.after) == ("RUNNING", "TERMINATING")


@pytest.mark.parametrize("version", ["1", ""])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"version": 2, "status": "COMPLETE"}, id="complete"),
        pytest.param({"version": 2, "status": "TERMINATING"}, id="ended by another rule"),
        pytest.param({"version": 2, "status": "TERMINATED"}, id="ended already"),
    ],
)
async def test_what_changed_since_the_rule_decided_is_left_alone(
    server: Server, change: dict[str, Any], version: str
) -> None:
    """All victims of the decision, since those that are left may not be enough."""
    server.put("two", **change)
    answer = await server.endings.decide(decision(victim("one"), victim("two", version)))
    assert answer.ended == ()
    assert "KaiwoJob team/two has changed" in answer.refused
    assert server.writes == []


async def test_a_workload_that_is_edited_at_the_last_second_is_left_alone(server: Server) -> None:
    """Its duration may be longer now: the rule decides again from the version that there is."""
    server.put("one", 2, status="RUNNING")
    answer = await server.endings.decide(decision(victim("one", "1")))
    assert "KaiwoJob team/one has changed" in answer.refused
    assert server.writes == []


async def test_what_the_cache_has_not_seen_yet_counts(server: Server) -> None:
    """The watch is behind: the API server has a newer version of one victim, so none is ended."""
    server.newer = {"two"}
    answer = await server.endings.decide(decision(victim("one"), victim("two")))
    assert "KaiwoJob team/two has changed" in answer.refused
    assert server.writes == []


@pytest.mark.parametrize("step", [timedelta(hours=1), timedelta(hours=-1)])
async def test_nobody_is_ended_while_the_clocks_disagree(server: Server, step: timedelta) -> None:
    """A clock was set by an hour: durations and the times of evidence are worthless until it is right."""
    server.server_now = step
    answer = await server.endings.decide(decision())
    assert "3600 s apart" in answer.refused
    assert server.writes == []
    server.server_now = timedelta(seconds=30)
    assert (await server.endings.decide(decision())).ended


async def test_a_workload_of_the_same_name_is_another_one(server: Server) -> None:
    """The uid decides."""
    other = dataclasses.replace(victim(), uid="uid-of-before", resource_version="")
    answer = await server.endings.decide(decision(other))
    assert answer.refused
    assert server.writes == []


async def test_two_rules_do_not_end_two_workloads_for_one_need(server: Server) -> None:
    """While a decision for somebody is carried out no other one for anybody is taken; others are."""
    await server.endings.decide(decision(beneficiary=URGENT))
    idle = EndingDecision("Idle", (victim("two"),), NOW, URGENT)
    answer = await server.endings.decide(idle)
    assert "KaiwoJob team/urgent is still being carried out" in answer.refused
    assert server.writes == ["one"]
    await server.endings.decide(decision(victim("two")))
    assert server.writes == ["one", "two"]


async def test_the_next_decision_waits_until_what_is_free_has_been_given(server: Server) -> None:
    """A moment after the victim is gone; a new process counts that from the status."""
    await server.endings.decide(decision(beneficiary=URGENT))
    server.seconds = 60
    ended = {**server.known("one").full()["status"], "status": "TERMINATED"}
    server.put("one", 9, **{**ended, "completionTime": "2026-01-02T03:05:05Z"})
    assert list(server.endings.under_way) == ["uid-of-one"]
    server.seconds += SETTLE_SECONDS
    assert server.endings.under_way == {}
    server.put("one", 10, **{**ended, "completionTime": "2026-01-02T03:05:05Z"})
    assert server.endings.under_way == {}


async def test_a_requeued_job_is_as_good_as_ended_for_the_next_decision(server: Server) -> None:
    """The next one waits for the same moment; how often it was requeued stays in its record."""
    chosen = dataclasses.replace(victim(), action="Requeue")
    await server.endings.decide(decision(chosen, beneficiary=URGENT))
    status = server.known("one").full()["status"]
    taken = EndingRecord.read(status["termination"])
    assert taken is not None
    requeued = dataclasses.replace(taken, requeued_at=NOW, requeues=1)
    server.put("one", 9, **{**status, "status": "PENDING", "termination": requeued.document()})
    assert list(server.endings.under_way) == ["uid-of-one"]
    server.seconds = SETTLE_SECONDS
    assert server.endings.under_way == {}
    server.put("one", 10, **{**server.known("one").full()["status"], "status": "RUNNING"})
    await server.endings.decide(decision(victim("one", "10")))
    again = EndingRecord.read(server.known("one").part("status", "termination"))
    assert again is not None
    assert (again.action, again.requeues, again.requeued_at) == ("Terminate", 1, None)
    assert [one.decision for one in again.earlier] == [taken.decision]


async def test_a_victim_that_does_not_end_stops_decisions_for_a_while_only(server: Server) -> None:
    """Its pods ignore SIGTERM on a node that is gone; others wait ten minutes at most."""
    await server.endings.decide(decision(beneficiary=URGENT))
    server.seconds = STUCK_SECONDS - 1
    assert server.endings.under_way
    server.seconds = STUCK_SECONDS
    assert not server.endings.under_way


async def test_a_new_process_knows_what_is_under_way(server: Server) -> None:
    """Nothing is kept only in memory; a clock that was set back does not make it longer."""
    await server.endings.decide(decision(beneficiary=URGENT))
    status = server.known("one").full()["status"]
    other = type(server)()
    other.seconds = -3600
    other.put("one", 2, **status)
    assert list(other.endings.under_way) == ["uid-of-one"]
    other.seconds += STUCK_SECONDS
    assert other.endings.under_way == {}


async def test_a_conflict_ends_nothing(server: Server) -> None:
    """Another operator, or the workload's own end, was faster."""
    server.fail = [Conflict(409, "Conflict", "the object has been modified")]
    answer = await server.endings.decide(decision())
    assert answer.ended == ()
    assert "modified" in answer.refused
    assert server.events == []


async def test_a_status_that_another_installation_replaces_ends_nothing(server: Server) -> None:
    """Two operators run one workload: others are decided about meanwhile."""
    server.fail = [ChangedBack("somebody replaces the status of KaiwoJob team/one after each write", 600.0)]
    answer = await server.endings.decide(decision())
    assert answer.ended == ()
    assert "somebody replaces the status" in answer.refused


@pytest.mark.parametrize(
    "error",
    [
        Forbidden(403, "Forbidden", 'admission webhook "w" denied the request'),
        ChangedBack("somebody replaces the status of KaiwoJob team/one after each write", 600.0),
    ],
)
async def test_of_several_nobody_is_ended_where_the_first_one_cannot_be(
    server: Server, error: Exception
) -> None:
    """The others alone are not enough for whom they would end; the answer says who is in the way."""
    server.refuses = {"one": error}
    both = dataclasses.replace(decision(), victims=(victim("one"), victim("two")))
    answer = await server.endings.decide(both)
    assert (answer.ended, answer.refused_uids, server.writes) == ((), ("uid-of-one",), [])


async def test_an_api_server_that_cannot_be_reached_ends_nothing(server: Server) -> None:
    """The rule decides again later."""
    server.fail = [ServerUnavailable(503, "ServiceUnavailable", "no")]
    with pytest.raises(ServerUnavailable):
        await server.endings.decide(decision())
    assert server.events == []


async def test_a_standby_process_decides_nothing(server: Server) -> None:
    """Only the one with the Lease."""
    server.leading = False
    answer = await server.endings.decide(decision())
    assert (answer.ended, server.writes) == ((), [])


async def test_a_record_that_the_api_server_drops_is_reported(server: Server) -> None:
    """The CRD is older than the operator: the workload is not ended, and the message says what to do."""
    server.drops = True
    answer = await server.endings.decide(decision())
    assert answer.ended == ()
    assert "Update the CRDs" in answer.refused
