"""Pods that their node ended stay for hours beside those that took their place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kaiwo.workload.observe import pod_status

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object

EVICTED = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
RUNNING = {"phase": "Running", "containerStatuses": [{"name": "main", "state": {"running": {}}}]}
NO_NODE = {
    "phase": "Pending",
    "conditions": [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/3 nodes are available: 3 Insufficient memory.",
        }
    ],
}


def pod(name: str, status: dict[str, Any]) -> Object:
    """A pod."""
    return {"metadata": {"name": name}, "status": status}


def test_an_evicted_pod_is_no_problem_once_another_one_runs_in_its_place() -> None:
    """A Job whose podFailurePolicy ignores evictions, or a service, goes on; the old pod stays."""
    assert pod_status.problem([pod("a", EVICTED), pod("b", RUNNING)]) is None
    alone = pod_status.problem([pod("a", EVICTED)])
    assert alone is not None
    assert (alone.reason, "low on resource" in alone.message) == ("Evicted", True)


def test_what_keeps_the_next_pod_from_running_is_the_problem() -> None:
    """Of an evicted pod and its successor that no node takes, the successor can be helped."""
    found = pod_status.problem([pod("a", EVICTED), pod("b", NO_NODE), pod("c", RUNNING)])
    assert found is not None
    assert (found.reason, "pod b" in found.message) == ("Unschedulable", True)
