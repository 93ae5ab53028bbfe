"""What a controller remembers between two looks."""

from __future__ import annotations

from kaiwo.engine.resource import JOB
from kaiwo.engine.workqueue import Key
from kaiwo.host.workload.state import ReconcileState, ReconcileStates
from kaiwo.workload.model import ApiRejection

REFUSAL = ApiRejection(JOB, 422, "Invalid", "spec.template.spec.containers[0].image: Required value")


def test_a_refused_object_is_sent_again_later_and_later_but_at_once_after_an_edit() -> None:
    """No hot loop against the API server, and no waiting after the user corrected the spec."""
    memory = ReconcileState()
    memory.refused(REFUSAL, generation=1, clock=0.0)
    first = memory.retry_at
    assert memory.in_force(1, 1.0) == REFUSAL
    assert memory.in_force(2, 1.0) is None
    assert memory.in_force(1, first) is None
    memory.refused(REFUSAL, generation=1, clock=first)
    assert memory.retry_at - first == 2 * first
    for _ in range(20):
        memory.refused(REFUSAL, generation=1, clock=0.0)
    assert memory.retry_at == 600.0
    memory.refused(REFUSAL, generation=2, clock=0.0)
    assert memory.retry_at == first


def test_the_next_look_is_due_when_the_plan_or_a_refusal_asks_for_it() -> None:
    """The sooner of both; and no timer at all, rather than one that fires for ever, once neither does."""
    memory = ReconcileState()
    assert memory.wake_in(None, 0.0) is None
    assert memory.wake_in(30.0, 0.0) == 30.0
    memory.refused(REFUSAL, generation=1, clock=0.0)
    assert memory.wake_in(None, 10.0) == memory.retry_at - 10.0
    assert memory.wake_in(5.0, 10.0) == 5.0
    memory.accepted()
    assert memory.wake_in(None, 1000.0) is None
    assert memory.due is None


def test_nothing_new_needs_no_new_plan_until_something_is_due() -> None:
    """Echoes of own writes cost nothing; timers still fire."""
    memory = ReconcileState()
    assert not memory.same(("1",), 0.0)
    memory.seen = ("1",)
    assert memory.same(("1",), 0.0)
    assert not memory.same(("2",), 0.0)
    memory.due = 5.0
    assert memory.same(("1",), 4.9)
    assert not memory.same(("1",), 5.0)


def test_a_new_workload_of_an_old_name_starts_anew() -> None:
    """What was remembered of its predecessor does not leak."""
    states, key = ReconcileStates(), Key("team", "job")
    states.of(key, "uid-1").rejection = REFUSAL
    assert states.key_of("uid-1") == key
    assert states.of(key, "uid-2").rejection is None
    assert states.key_of("uid-1") is None
    states.forget(key)
    assert states.key_of("uid-2") is None


def test_only_waiting_workloads_are_woken_and_then_plan_anew() -> None:
    """A change in the cluster concerns those that wait for such."""
    states = ReconcileStates()
    waiting, running = Key("team", "waits"), Key("team", "runs")
    for key in (waiting, running):
        states.of(key, f"uid-{key.name}").seen = ("1",)
    states.waiting.add(waiting)
    assert states.wake() == {waiting}
    assert states.of(waiting, "uid-waits").seen == ()
    assert states.of(running, "uid-runs").seen == ("1",)
    states.forget(waiting)
    assert states.wake() == set()


def test_a_change_during_a_look_is_not_lost() -> None:
    """What a workload waits for may come while a look still writes the status: it is looked at again."""
    states, key = ReconcileStates(), Key("team", "waits")
    memory = states.of(key, "uid")
    since = states.wakes
    assert states.wake() == set(), "its first look has not ended, so nobody knows yet that it waits"
    memory.seen = ("planned from what was before",)
    assert states.waits(key, memory, since=since)
    assert memory.seen == ()

    since = states.wakes
    memory.seen = ("1",)
    assert not states.waits(key, memory, since=since)
    assert memory.seen == ("1",)
    assert states.wake() == {key}
