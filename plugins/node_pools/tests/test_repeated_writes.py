"""A node that somebody else changes back is no reason for writes without an end."""

from __future__ import annotations

from kaiwo_node_pools.repeated_writes import MANY, RepeatedWrites

TAINT = {"spec": {"taints": [{"key": "kaiwo.silogen.ai/gpu"}]}}


def test_a_node_that_is_changed_back_again_and_again_is_written_ever_more_rarely() -> None:
    """At once for the first times, then at longer and longer intervals, up to five minutes."""
    writes, now, pauses = RepeatedWrites(), 1000.0, []
    for count in range(1, 20):
        pause = writes.pause("gpu-1", TAINT, now)
        pauses.append(pause)
        now += pause
        assert writes.pause("gpu-1", TAINT, now) == 0
        assert writes.record("gpu-1", TAINT, now) == count
    assert pauses[:MANY] == [0, 0, 0]
    assert pauses[MANY : MANY + 3] == [1, 2, 4]
    assert max(pauses) == pauses[-1] == 300


def test_other_values_other_nodes_and_new_ones_are_written_at_once() -> None:
    """What nobody has changed back does not wait, nor a node that comes again under its name."""
    writes = RepeatedWrites()
    for _ in range(9):
        writes.record("gpu-1", TAINT, 0)
    assert writes.pause("gpu-1", TAINT, 0) > 0
    assert writes.pause("gpu-1", {"spec": {"taints": []}}, 0) == 0
    assert writes.pause("gpu-2", TAINT, 0) == 0
    assert writes.record("gpu-1", TAINT, 3600) == 1
    for _ in range(9):
        writes.record("gpu-1", TAINT, 0)
    writes.forget("gpu-1")
    assert writes.pause("gpu-1", TAINT, 0) == 0
