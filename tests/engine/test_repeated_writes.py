"""Two controllers that undo each other's writes do not go on for ever at full speed."""

from __future__ import annotations

from dataclasses import dataclass

from kaiwo.engine.repeated_writes import MANY, RepeatedWrites


@dataclass
class Clock:
    """A clock that stands still."""

    now: float = 1000.0

    def __call__(self) -> float:
        """Seconds."""
        return self.now


def test_equal_writes_of_an_object_come_ever_more_rarely() -> None:
    """The first ones at once, so that edits by hand are undone at once; the last ten minutes apart."""
    clock = Clock()
    writes, pauses = RepeatedWrites(clock), []
    for count in range(1, 25):
        pauses.append(writes.pause("d", "a"))
        clock.now += pauses[-1]
        assert writes.pause("d", "a") == 0
        assert writes.record("d", "a") == count
    assert pauses[: MANY + 4] == [0] * MANY + [1, 2, 4, 8]
    assert max(pauses) == pauses[-1] == 600


def test_what_nobody_has_undone_is_written_at_once() -> None:
    """Another object, another content, and the same after twenty quiet minutes."""
    clock = Clock()
    writes = RepeatedWrites(clock)
    for _ in range(MANY + 5):
        writes.record("d", "a")
    assert writes.pause("d", "a") > 0
    assert writes.pause("e", "a") == 0
    assert writes.pause("d", "b") == 0
    clock.now += 1201
    assert writes.record("d", "a") == 1


def test_the_objects_that_are_remembered_have_a_bound() -> None:
    """Those of a whole cluster do, those of a flood do not; the one written last is known."""
    writes = RepeatedWrites(Clock())
    for number in range(200_000):
        writes.record(number, "a")
    assert writes.record(199_999, "a") == 2
    assert writes.record(0, "a") == 1


def test_many_objects_that_are_changed_back_in_turn_come_more_rarely_too() -> None:
    """A webhook that changes all children of ten thousand workloads: none is forgotten before its turn."""
    writes = RepeatedWrites(Clock())
    for _ in range(MANY):
        for number in range(30_000):
            writes.record(number, "a")
    assert all(writes.pause(number, "a") > 0 for number in range(30_000))


def test_objects_that_nobody_writes_any_more_are_forgotten() -> None:
    """A write is remembered for as long as the next one could be its repetition."""
    clock = Clock()
    writes = RepeatedWrites(clock)
    for number in range(1000):
        writes.record(number, "a")
    clock.now += 1201
    writes.record("d", "a")
    assert len(writes) == 1


def test_an_object_that_is_gone_is_forgotten() -> None:
    """Its successor of the same name begins anew."""
    writes = RepeatedWrites(Clock())
    for _ in range(MANY + 1):
        writes.record("d", "a")
    writes.forget("d")
    assert writes.pause("d", "a") == 0
