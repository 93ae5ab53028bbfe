"""Conditions are shared: ours change, those of others stay, and nothing is written at rest."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from kaiwo.api.conditions import MAX_MESSAGE, Condition, find_condition, merge_conditions

THEN = datetime(2026, 1, 31, 9, tzinfo=UTC)
NOW = datetime(2026, 1, 31, 10, tzinfo=UTC)
FOREIGN = {"type": "Audited", "status": "True", "reason": "Yes", "message": "", "lastTransitionTime": "x"}

conditions = st.lists(
    st.builds(
        Condition,
        type=st.sampled_from(["Schedulable", "Admitted", "StorageReady"]),
        status=st.sampled_from(["True", "False", "Unknown"]),
        reason=st.sampled_from(["A", "B"]),
        message=st.text(max_size=5),
        observed_generation=st.none() | st.integers(0, 3),
    ),
    unique_by=lambda condition: condition.type,
)


def test_a_new_condition_carries_the_time_of_the_decision() -> None:
    """The first time a condition appears, its transition is now."""
    merged = merge_conditions([], [Condition("Schedulable", "True", "Fits", "fits one node", 3)], NOW)
    assert merged == [
        {
            "type": "Schedulable",
            "status": "True",
            "reason": "Fits",
            "message": "fits one node",
            "lastTransitionTime": "2026-01-31T10:00:00Z",
            "observedGeneration": 3,
        }
    ]


def test_the_time_moves_only_with_the_status() -> None:
    """A new reason for the same status is no transition; a new status is one."""
    live = merge_conditions([], [Condition("Schedulable", "False", "NoGPUs")], THEN)
    other_reason = merge_conditions(live, [Condition("Schedulable", "False", "GPUsExceedNode")], NOW)
    other_status = merge_conditions(live, [Condition("Schedulable", "True", "Fits")], NOW)
    assert other_reason[0]["reason"] == "GPUsExceedNode"
    assert other_reason[0]["lastTransitionTime"] == "2026-01-31T09:00:00Z"
    assert other_status[0]["lastTransitionTime"] == "2026-01-31T10:00:00Z"


def test_conditions_of_others_stay_in_place() -> None:
    """Somebody else's condition is neither changed nor moved."""
    merged = merge_conditions([FOREIGN], [Condition("Admitted", "True", "Quota")], NOW)
    assert merged[0] is FOREIGN
    assert [item["type"] for item in merged] == ["Audited", "Admitted"]


def test_only_own_types_are_dropped() -> None:
    """What no longer applies goes when it is ours to drop."""
    live = merge_conditions([FOREIGN], [Condition("Admitted", "True", "Quota")], THEN)
    assert merge_conditions(live, [], NOW, drop=["Admitted"]) == [FOREIGN]
    assert merge_conditions(live, [], NOW) == live


def test_a_message_is_cut_at_what_the_api_server_takes() -> None:
    """A stack trace as message does not make the status write fail."""
    merged = merge_conditions([], [Condition("Schedulable", "False", "Long", "x" * 100_000)], NOW)
    assert len(merged[0]["message"]) == MAX_MESSAGE


def test_a_condition_is_found_by_type() -> None:
    """None where there is none."""
    assert find_condition([FOREIGN], "Audited") is FOREIGN
    assert find_condition([FOREIGN], "Admitted") is None


@given(conditions)
def test_merging_the_same_again_changes_nothing(own: list[Condition]) -> None:
    """At rest the list equals the live one, so nothing is written."""
    live = merge_conditions([FOREIGN], own, THEN)
    assert merge_conditions(live, own, NOW) == live
