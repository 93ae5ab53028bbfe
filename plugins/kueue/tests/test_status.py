"""The status of a KaiwoQueueConfig: one condition for each kind of Kueue, and what they come to."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from kaiwo_kueue.kinds import CLUSTER_QUEUE, RESOURCE_FLAVOR, SYNCED, TOPOLOGY
from kaiwo_kueue.objects import SyncProblem
from kaiwo_kueue.status import CONDITIONS, OWN, QUOTA, not_the_singleton, pool_conditions, status

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
WRONG = SyncProblem(CLUSTER_QUEUE, "q", "Invalid", "ClusterQueue q: cpu: expected a quantity")
WAITS = SyncProblem(RESOURCE_FLAVOR, "f", "Replacing", "ResourceFlavor f waits for its queues", "PENDING")
BEYOND = SyncProblem(CLUSTER_QUEUE, "q", "QuotaWithoutNodes", "no node has the GPUs of q", "INFO")


def of(*problems: SyncProblem, before: Any = (), **more: Any) -> tuple[str, dict[str, tuple[str, str]]]:
    """The word of a status, and the status and reason of its conditions."""
    document = status(before, problems, generation=7, now=NOW, **more)
    assert document["observedGeneration"] == 7
    return document["status"], {c["type"]: (c["status"], c["reason"]) for c in document["conditions"]}


def test_without_problems_every_kind_is_synced() -> None:
    """READY, and each condition True."""
    word, conditions = of()
    assert word == "READY"
    assert conditions == {
        "Ready": ("True", "Synced"),
        **{CONDITIONS[kind]: ("True", "Synced") for kind in SYNCED},
        QUOTA: ("True", "WithinCapacity"),
    }


@pytest.mark.parametrize(
    ("problems", "word", "reason", "kind"),
    [
        ((WRONG,), "FAILED", "Invalid", CLUSTER_QUEUE),
        ((WAITS,), "PENDING", "Replacing", RESOURCE_FLAVOR),
        ((WAITS, WRONG), "FAILED", "Invalid", CLUSTER_QUEUE),
        ((replace(WAITS, kind=CLUSTER_QUEUE), WRONG), "FAILED", "Invalid", CLUSTER_QUEUE),
    ],
)
def test_a_problem_is_reported_for_its_kind_and_the_worst_one_for_all(
    problems: tuple[SyncProblem, ...], word: str, reason: str, kind: Any
) -> None:
    """FAILED goes before PENDING; kinds without a problem stay True."""
    found, conditions = of(*problems)
    assert (found, conditions["Ready"]) == (word, ("False", reason))
    assert conditions[CONDITIONS[kind]] == ("False", reason)
    assert conditions[CONDITIONS[TOPOLOGY]] == ("True", "Synced")


def test_quota_that_no_node_serves_is_no_failure() -> None:
    """READY with the condition QuotaWithinCapacity False."""
    word, conditions = of(BEYOND)
    assert word == "READY"
    assert conditions[QUOTA] == ("False", "QuotaWithoutNodes")
    assert conditions[CONDITIONS[CLUSTER_QUEUE]] == ("True", "Synced")


def test_a_kind_that_is_not_served_is_unknown() -> None:
    """A missing Topology stops nothing; a missing ClusterQueue means that Kueue is not installed."""
    word, conditions = of(missing=[TOPOLOGY])
    assert (word, conditions[CONDITIONS[TOPOLOGY]]) == ("READY", ("Unknown", "NotServed"))
    assert conditions[CONDITIONS[CLUSTER_QUEUE]] == ("True", "Synced")
    word, conditions = of(WRONG, missing=[CLUSTER_QUEUE])
    assert (word, conditions["Ready"]) == ("PENDING", ("False", "KueueNotInstalled"))


def test_conditions_of_the_past_go_and_those_of_others_stay() -> None:
    """What is no longer reported does not stay True for ever."""
    before = [{"type": name, "status": "True", "reason": "Old"} for name in (*OWN, "Theirs")]
    _, conditions = of(before=before)
    assert conditions["Theirs"] == ("True", "Old")
    assert "GpusOutsideQueues" not in conditions
    ignored = not_the_singleton(before, 3, NOW, "kaiwo")
    assert {c["type"]: c["reason"] for c in ignored["conditions"]} == {
        "Ready": "NotTheSingleton",
        "Theirs": "Old",
    }


@pytest.mark.parametrize(("number", "end"), [(2, "n0001 (old)"), (5000, "n0019 (old) and 4980 more")])
def test_the_conditions_of_pools_stay_readable(number: int, end: str) -> None:
    """They name some of the pools and nodes, and what to do comes after them."""
    names = [f"n{at:04}" for at in range(number)]
    pools: Any = SimpleNamespace(
        merged=dict.fromkeys(names, "new"), left_out=names, pending=dict.fromkeys(names, "old")
    )
    merged, pending = pool_conditions(pools, {}, None, 1)
    assert pending.message.endswith(f", {end}")
    assert merged.message.endswith(". List these in another ClusterQueue of the cohort")
    assert len(merged.message) < 1000
