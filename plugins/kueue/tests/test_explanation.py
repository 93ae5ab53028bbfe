"""The chain of a child through Kueue: its Workload, the queue, the flavors that it may use, the cohort."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.plugin.queues import QueueFacts
from kaiwo_kueue import kinds
from kaiwo_kueue.explanation import explain

if TYPE_CHECKING:
    from kaiwo.engine.resource import Resource

Object = dict[str, Any]
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CHILD: Object = {
    "kind": "Job",
    "metadata": {"name": "train", "uid": "u", "labels": {"kueue.x-k8s.io/queue-name": "blue"}},
    "spec": {"suspend": True},
}


def _workload(*conditions: Object) -> Object:
    container = {"resources": {"requests": {"amd.com/gpu": "2", "memory": "64Gi"}}}
    podset = {"template": {"spec": {"containers": [container]}}}
    return {
        "metadata": {"name": "job-train", "creationTimestamp": "2026-01-02T03:04:00Z"},
        "spec": {"queueName": "blue", "podSets": [podset]},
        "status": {"conditions": list(conditions)},
    }


def _queue(name: str, used: str, **status: Any) -> Object:
    def flavor(name: str, gpus: str) -> Object:
        return {
            "name": name,
            "resources": [
                {"name": "amd.com/gpu", "nominalQuota": gpus},
                {"name": "memory", "nominalQuota": "1024Gi"},
            ],
        }

    reserved = {"name": "mi300x", "resources": [{"name": "amd.com/gpu", "total": used}]}
    group = {"flavors": [flavor("cpu-only", "0"), flavor("mi300x", "8")]}
    return {
        "metadata": {"name": name},
        "spec": {"cohort": "all", "resourceGroups": [group]},
        "status": {"flavorsReservation": [reserved], **status},
    }


def facts(
    *workloads: Object, without: Resource | None = None, cohorts: tuple[Object, ...] = (), **queue: Any
) -> QueueFacts:
    """A full queue blue and a queue red that has room, in one cohort."""
    objects: dict[Resource, tuple[Object, ...]] = {
        kinds.WORKLOAD: workloads,
        kinds.LOCAL_QUEUE: ({"metadata": {"name": "blue"}, "spec": {"clusterQueue": "blue"}},),
        kinds.CLUSTER_QUEUE: (_queue("blue", "8", **queue), _queue("red", "5")),
        kinds.RESOURCE_FLAVOR: ({"metadata": {"name": "mi300x"}}, {"metadata": {"name": "cpu-only"}}),
        kinds.COHORT: cohorts,
    }
    return QueueFacts(
        objects={kind: found for kind, found in objects.items() if kind != without},
        default_queue="",
        now=NOW,
    )


def test_a_full_flavor_and_its_cohort_are_shown_with_their_use() -> None:
    """Flavors that lack a requested resource are left out; memory is in Gi."""
    pending = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "2 more needed"}
    found = explain(CHILD, facts(_workload(pending)))
    assert found is not None
    assert [(link.kind, link.name, link.state, link.message) for link in found.links] == [
        ("Workload", "job-train", "waits", "2 more needed"),
        ("LocalQueue", "blue", "ok", ""),
        ("ClusterQueue", "blue", "ok", ""),
        ("ResourceFlavor", "mi300x", "waits", "amd.com/gpu 8 of 8 used, memory 0Gi of 1024Gi used"),
        ("Cohort", "all", "ok", "amd.com/gpu 13 of 16 used (blue 8, red 5), memory 0Gi of 4096Gi used"),
    ]
    assert found.finding is not None
    assert (found.finding.reason, found.finding.message) == ("Pending", "2 more needed")
    assert found.evidence[-1] == "ResourceFlavor mi300x: amd.com/gpu 8 of 8 used, memory 0Gi of 1024Gi used"


def _cohort(name: str, gpus: str = "", parent: str = "") -> Object:
    quota = {"name": "amd.com/gpu", "nominalQuota": gpus}
    groups = [{"flavors": [{"name": "mi300x", "resources": [quota]}]}] if gpus else []
    return {"metadata": {"name": name}, "spec": {"parentName": parent, "resourceGroups": groups}}


def _cohort_links(**around: Any) -> list[tuple[str, str, str]]:
    found = explain(CHILD, facts(_workload(), **around))
    assert found is not None
    links = [(link.name, link.state, link.message) for link in found.links if link.kind == "Cohort"]
    return [(name, state, text.partition(", memory")[0]) for name, state, text in links]


def test_the_own_quota_of_a_cohort_and_of_those_above_it_counts() -> None:
    """Of an object Cohort, whose quota no queue lists; a circle of cohorts ends."""
    used = "(blue 8, red 5)"
    own = _cohort_links(cohorts=(_cohort("all", "4"),))
    assert own == [("all", "ok", f"amd.com/gpu 13 of 20 used {used}")]
    above = (_cohort("all", parent="top"), _cohort("top", "32", parent="all"))
    assert _cohort_links(cohorts=above) == [
        ("all", "ok", f"amd.com/gpu 13 of 48 used {used}"),
        ("top", "ok", f"amd.com/gpu 13 of 48 used {used}"),
    ]
    apart = (_cohort("all", "4", parent="top"), _cohort("top", "32"), _cohort("other", "64"))
    assert _cohort_links(cohorts=apart) == [
        ("all", "ok", f"amd.com/gpu 13 of 20 used {used}"),
        ("top", "ok", f"amd.com/gpu 13 of 52 used {used}"),
    ]


def test_of_a_cohort_that_may_not_be_read_only_the_use_is_said() -> None:
    """It may have quota of its own, so that nobody knows whether it is full."""
    assert _cohort_links(without=kinds.COHORT) == [("all", "unknown", "amd.com/gpu 13 used (blue 8, red 5)")]


def test_a_workload_that_kueue_has_not_considered_learns_how_many_wait() -> None:
    """Kueue gives a reason to the head of the queue only."""
    found = explain(CHILD, facts(_workload(), pendingWorkloads=4))
    assert found is not None
    assert found.finding is not None
    assert found.finding.message == (
        "waits in queue blue, where 3 other workloads wait; Kueue has not considered it yet"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metadata": {"name": "blue", "deletionTimestamp": "x"}}, "is being deleted"),
        ({"spec": {"stopPolicy": "Hold"}}, "admits nothing: its stopPolicy is Hold"),
        (
            {"status": {"conditions": [{"type": "Active", "status": "False", "message": "no flavor"}]}},
            "is not active: no flavor",
        ),
    ],
)
def test_a_queue_that_admits_nothing_is_the_failing_link(change: Object, message: str) -> None:
    """Deleted, held, or without its flavors."""
    known = facts(_workload())
    objects = {**known.objects, kinds.CLUSTER_QUEUE: ({**_queue("blue", "0"), **change},)}
    found = explain(CHILD, QueueFacts(objects=objects, default_queue="", now=NOW))
    assert found is not None
    [link] = [link for link in found.links if link.state == "failed"]
    assert (link.kind, link.message) == ("ClusterQueue", message)


def test_what_may_not_be_read_is_no_link() -> None:
    """That a queue does not exist is said only of a kind that was read."""
    found = explain(CHILD, facts(_workload(), without=kinds.CLUSTER_QUEUE))
    assert found is not None
    assert [link.kind for link in found.links] == ["Workload", "LocalQueue"]
    gone = facts(_workload())
    objects = {**gone.objects, kinds.LOCAL_QUEUE: (), kinds.CLUSTER_QUEUE: ()}
    missing = explain(CHILD, QueueFacts(objects=objects, default_queue="", now=NOW))
    assert missing is not None
    assert [(link.name, link.message) for link in missing.links[1:]] == [("blue", "does not exist")]


def test_an_admitted_child_has_links_and_no_finding() -> None:
    """Nothing is wrong with it, as far as the queue goes."""
    admitted = {"type": "Admitted", "status": "True", "message": "The workload is admitted"}
    found = explain(CHILD, facts(_workload(admitted)))
    assert found is not None
    assert (found.finding, found.evidence, found.links[0].state) == (None, (), "ok")
    assert explain({"metadata": {"name": "train"}}, facts()) is None
