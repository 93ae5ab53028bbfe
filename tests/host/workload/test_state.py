"""State kept between two reconciliations."""

from __future__ import annotations

import pytest

from kaiwo.engine.errors import WriteCause
from kaiwo.engine.resource import JOB
from kaiwo.engine.workqueue import Key
from kaiwo.host.workload.snapshot import Fingerprint
from kaiwo.host.workload.state import ReconcileState, ReconcileStates
from kaiwo.workload.model import ApiRejection

ONE = Fingerprint("1", {}, (), "")
TWO = Fingerprint("2", {}, (), "")
OLD = Fingerprint("0", {}, (), "")
REJECTION = ApiRejection(JOB, 422, "Invalid", "spec.template.spec.containers[0].image: Required value")


def test_a_rejected_object_is_sent_again_later_and_later_but_at_once_after_an_edit() -> None:
    """No hot loop against the API server, and no waiting after the user corrected the spec."""
    state = ReconcileState()
    state.record_rejection(REJECTION, generation=1, clock=0.0)
    first = state.retry_at
    assert state.rejection_in_force(1, 1.0) == REJECTION
    assert state.rejection_in_force(2, 1.0) is None
    assert state.rejection_in_force(1, first) is None
    state.record_rejection(REJECTION, generation=1, clock=first)
    assert state.retry_at - first == 2 * first
    for _ in range(20):
        state.record_rejection(REJECTION, generation=1, clock=0.0)
    assert state.retry_at == 600.0
    state.record_rejection(REJECTION, generation=2, clock=0.0)
    assert state.retry_at == first


def test_an_object_that_somebody_changes_back_is_sent_again_when_its_pause_is_over() -> None:
    """Its pause grows with the number of writes; a rejection that follows waits as long as any other."""
    state = ReconcileState()
    state.record_rejection(REJECTION, generation=1, clock=10.0, retry_after=4.0)
    assert state.retry_at == 14.0
    state.record_rejection(REJECTION, generation=1, clock=14.0)
    assert state.retry_at == 14.0 + 60.0


def test_the_next_reconciliation_is_due_when_the_plan_or_a_rejection_needs_it() -> None:
    """The sooner of both; and no timer at all, rather than one that fires for ever, once neither does."""
    state = ReconcileState()
    assert state.requeue_after(None, 0.0) is None
    assert state.requeue_after(30.0, 0.0) == 30.0
    state.record_rejection(REJECTION, generation=1, clock=0.0)
    assert state.requeue_after(None, 10.0) == state.retry_at - 10.0
    assert state.requeue_after(5.0, 10.0) == 5.0
    state.clear_rejection()
    assert state.requeue_after(None, 1000.0) is None
    assert state.due is None


def test_nothing_new_needs_no_new_plan_until_something_is_due() -> None:
    """Echoes of own writes cost nothing; timers still fire."""
    state = ReconcileState()
    assert not state.is_current(ONE, 0.0)
    state.seen = ONE
    assert state.is_current(ONE, 0.0)
    assert not state.is_current(TWO, 0.0)
    state.due = 5.0
    assert state.is_current(ONE, 4.9)
    assert not state.is_current(ONE, 5.0)


def test_a_version_that_the_api_server_no_longer_has_is_asked_for_ever_more_rarely() -> None:
    """Until the watch brings the next one; nothing is planned meanwhile."""
    state = ReconcileState()
    first = state.record_outdated("1", 100.0)
    assert state.outdated_version == "1"
    assert 1.0 <= first <= 2.0
    assert state.outdated_for(100.0) == pytest.approx(first)
    assert state.outdated_for(100.1 + first) == 0.0
    assert state.record_outdated("1", 200.0) > 1.9


def test_a_new_workload_of_an_old_name_starts_anew() -> None:
    """The state of its predecessor is not used."""
    states, key = ReconcileStates(), Key("team", "job")
    states.of(key, "uid-1").rejection = REJECTION
    assert states.key_of("uid-1") == key
    assert states.of(key, "uid-2").rejection is None
    assert states.key_of("uid-1") is None
    states.forget(key)
    assert states.key_of("uid-2") is None


def test_only_waiting_workloads_are_requeued_and_then_plan_again() -> None:
    """A change in the cluster concerns those that wait for such."""
    states = ReconcileStates()
    waiting, running = Key("team", "waits"), Key("team", "runs")
    for key in (waiting, running):
        states.of(key, f"uid-{key.name}").seen = ONE
    states.waiting.add(waiting)
    assert states.requeue_waiting() == {waiting}
    assert states.of(waiting, "uid-waits").seen is None
    assert states.of(running, "uid-runs").seen == ONE
    states.forget(waiting)
    assert states.requeue_waiting() == set()


def test_a_change_during_a_reconciliation_is_not_missed() -> None:
    """What a workload waits for may come while its status is still written: it is reconciled again."""
    states, key = ReconcileStates(), Key("team", "waits")
    state = states.of(key, "uid")
    since = states.requeues
    assert states.requeue_waiting() == set(), "it is not known yet that it waits"
    state.seen = OLD
    assert states.set_waiting(key, state, waits=True, since=since)
    assert state.seen is None

    since = states.requeues
    state.seen = ONE
    assert not states.set_waiting(key, state, waits=True, since=since)
    assert state.seen == ONE
    assert states.requeue_waiting() == {key}


def test_a_rejection_whose_cause_has_ended_is_not_in_force() -> None:
    """The object is sent again although nothing about the workload has changed."""
    state, cause = ReconcileState(seen=ONE), WriteCause("Forbidden", "create", "jobs.batch", "team")
    state.record_rejection(REJECTION, generation=1, clock=0.0, cause=cause)
    assert state.write_cause == cause
    state.end_cause()
    assert state.rejection_in_force(1, 0.1) is None
    assert not state.is_current(ONE, 0.1)
    state.record_rejection(REJECTION, generation=1, clock=0.1)
    assert state.write_cause is None


def test_workloads_of_a_namespace_that_have_not_ended_are_found() -> None:
    """A change of the namespace's defaults concerns these, and no others."""
    states = ReconcileStates()
    runs, ended, gone, other = (Key("a", "runs"), Key("a", "ended"), Key("a", "gone"), Key("b", "other"))
    for key in (runs, ended, gone, other):
        states.of(key, f"uid-{key.name}")
    states.of(ended, "uid-ended").end("7")
    states.forget(gone)
    states.forget(other)
    assert states.active_in("a") == [runs]
    assert states.active_in("b") == []


def test_a_workload_that_always_conflicts_is_tried_ever_more_seldom() -> None:
    """A cache that stands still makes each write a conflict; a thousand workloads must not repeat theirs."""
    state = ReconcileState()
    pauses = [state.record_conflict() for _ in range(20)]
    assert 1 <= pauses[0] <= 2
    assert all(60 <= seconds <= 120 for seconds in pauses[6:])
