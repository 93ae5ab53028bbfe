from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kaiwo.engine.store import Cache
from kaiwo_kueue.inactive_queues import inactive_condition, inactive_queues
from kaiwo_kueue.kinds import CLUSTER_QUEUE

NOW = datetime(2026, 11, 24, 12, 0, tzinfo=UTC)
MISSING = "Can't admit new workloads: references missing AdmissionCheck(s): dry."


def queue(**active: Any) -> dict[str, Any]:
    """A ClusterQueue that is inactive since noon less a minute; keyword arguments say what is different."""
    condition = {
        "type": "Active", "status": "False", "reason": "AdmissionCheckNotFound", "message": MISSING,
        "observedGeneration": 2, "lastTransitionTime": "2026-11-24T11:59:00Z", **active,
    }  # fmt: skip
    return {
        "apiVersion": CLUSTER_QUEUE.api_version,
        "kind": CLUSTER_QUEUE.kind,
        "metadata": {"name": "q", "uid": "u", "resourceVersion": "2", "generation": 2},
        "status": {"conditions": [condition]},
    }


def found(obj: dict[str, Any], listed: frozenset[str] = frozenset({"q"})) -> Any:
    """The inactive queues, and the time to wait."""
    cache = Cache()
    cache.register(CLUSTER_QUEUE).replace([], "1")
    cache.assume(CLUSTER_QUEUE, obj)
    return inactive_queues(cache.list(CLUSTER_QUEUE), listed, NOW)


def test_a_queue_that_kueue_keeps_inactive_is_named_with_the_reason() -> None:
    """It is as listed, so that KaiwoQueueConfig is READY, and nothing in it is ever admitted."""
    queues, wait = found(queue())
    assert wait is None
    [condition] = inactive_condition(queues, 7)
    assert (condition.type, condition.status, condition.reason) == (
        "QueuesActive", "False", "AdmissionCheckNotFound",
    )  # fmt: skip
    assert f"ClusterQueue q: {MISSING.rstrip('.')}. Their workloads wait" in condition.message


@pytest.mark.parametrize(
    "active",
    [
        pytest.param({"status": "True", "reason": "Ready"}, id="active"),
        pytest.param({"reason": "Stopped"}, id="stopped by an administrator"),
        pytest.param({"reason": "Terminating"}, id="being deleted"),
        pytest.param({"observedGeneration": 1}, id="said of an earlier generation"),
    ],
)
def test_a_queue_that_is_as_somebody_wants_it_is_not_named(active: dict[str, Any]) -> None:
    """Nor is one of which Kueue has not considered the last change."""
    queues, wait = found(queue(**active))
    assert (queues, wait) == ({}, None)
    assert inactive_condition(queues, 7) == []


def test_a_queue_of_others_is_not_named() -> None:
    """Only listed ones are KaiwoQueueConfig's."""
    assert found(queue(), frozenset()) == ({}, None)


def test_a_queue_that_has_just_become_inactive_has_time() -> None:
    """Kueue learns of a new flavor or check after the queue that names it."""
    assert found(queue(lastTransitionTime="2026-11-24T11:59:58Z")) == ({}, 3.0)
