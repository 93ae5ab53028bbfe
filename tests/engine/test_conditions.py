"""Merging own conditions beside those of others."""

from __future__ import annotations

from kaiwo.engine.conditions import merge

OLD, NEW = "2026-01-01T00:00:00Z", "2026-02-02T00:00:00Z"


def condition(type_: str, status: str, time: str, reason: str = "R") -> dict[str, str]:
    """A condition."""
    return {"type": type_, "status": status, "reason": reason, "lastTransitionTime": time}


def test_conditions_of_others_stay() -> None:
    """Another controller's condition survives our patch, in its place."""
    other = condition("Other", "True", OLD)
    merged = merge([other, condition("Mine", "False", OLD)], [condition("Mine", "True", NEW)])
    assert merged == [other, condition("Mine", "True", NEW)]


def test_transition_time_moves_only_with_the_status() -> None:
    """A new reason alone is no transition."""
    merged = merge([condition("Mine", "True", OLD)], [condition("Mine", "True", NEW, "Other")])
    assert merged == [condition("Mine", "True", OLD, "Other")]


def test_own_types_no_longer_given_are_removed() -> None:
    """A condition of ours that no longer applies goes; one of others does not."""
    live = [condition("Mine", "True", OLD), condition("Other", "True", OLD)]
    assert merge(live, [], ["Mine"]) == [condition("Other", "True", OLD)]


def test_inputs_are_left_alone() -> None:
    """The caller's lists can be used again."""
    own = [condition("Mine", "True", NEW)]
    merge([condition("Mine", "True", OLD)], own)
    assert own == [condition("Mine", "True", NEW)]
