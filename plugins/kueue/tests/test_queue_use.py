"""The workloads that use a queue, counted from Kueue's Workloads and from the queue's own status."""

from __future__ import annotations

from typing import Any

import pytest

from kaiwo.engine.store import Cache
from kaiwo_kueue.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from kaiwo_kueue.objects import live_object
from kaiwo_kueue.queue_use import Holders, QueueUse


@pytest.fixture
def cache() -> Cache:
    """A cache with a ClusterQueue "all" and the LocalQueue "mine" of it in the namespace "team"."""
    made = Cache()
    for kind in (WORKLOAD, CLUSTER_QUEUE, LOCAL_QUEUE):
        made.register(kind).replace([], "1")
    put(made, CLUSTER_QUEUE, "all")
    put(made, LOCAL_QUEUE, "mine", "team", spec={"clusterQueue": "all"})
    return made


def put(cache: Cache, kind: Any, name: str, namespace: str = "", **content: Any) -> None:
    """Let the cache have an object."""
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": "2"}
    metadata |= {"namespace": namespace} if namespace else {}
    cache.assume(kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **content})


def workload(
    cache: Cache, name: str, queue: str | None = "mine", *, by: str = "", finished: bool = False
) -> None:
    """Let the cache have a Workload of the namespace "team", admitted by a ClusterQueue if one is given."""
    status: dict[str, Any] = {"admission": {"clusterQueue": by}} if by else {}
    if finished:
        status["conditions"] = [{"type": "Finished", "status": "True"}]
    put(cache, WORKLOAD, name, "team", spec={"queueName": queue} if queue else {}, status=status)


def holders(cache: Cache, kind: Any, name: str, namespace: str | None = None) -> Holders:
    """The use of one queue."""
    entry = cache.get(kind, namespace, name)
    assert entry is not None
    return QueueUse(cache).of(live_object(entry))


def test_admitted_and_pending_workloads_use_both_of_their_queues(cache: Cache) -> None:
    """A LocalQueue and its ClusterQueue are used by the same workloads; one without a queue uses none."""
    workload(cache, "runs", by="all")
    workload(cache, "waits")
    workload(cache, "nowhere", queue=None)
    expected = Holders(("team/runs",), 1, 0)
    assert holders(cache, LOCAL_QUEUE, "mine", "team") == expected
    assert holders(cache, CLUSTER_QUEUE, "all") == expected
    assert QueueUse(cache).admitted("all") == ("team/runs",)
    assert str(expected) == "2 workloads (1 admitted, 1 pending)"


def test_a_finished_workload_uses_nothing(cache: Cache) -> None:
    """Although Kueue leaves its admission in the status."""
    workload(cache, "done", by="all", finished=True)
    assert holders(cache, CLUSTER_QUEUE, "all") == Holders()
    assert QueueUse(cache).admitted("all") == ()


def test_quota_is_held_where_it_was_given(cache: Cache) -> None:
    """A workload that another ClusterQueue admitted before its LocalQueue was moved still uses that one."""
    workload(cache, "moved", by="old")
    put(cache, CLUSTER_QUEUE, "old")
    assert holders(cache, CLUSTER_QUEUE, "old").admitted == ("team/moved",)
    assert holders(cache, CLUSTER_QUEUE, "all").number == 0


def test_the_count_of_kueue_counts_where_it_is_larger(cache: Cache) -> None:
    """An operator of one namespace does not see the Workloads of the others."""
    put(cache, CLUSTER_QUEUE, "big", status={"pendingWorkloads": 3, "reservingWorkloads": 2})
    found = holders(cache, CLUSTER_QUEUE, "big")
    assert (found.counted, found.number) == (5, 5)
    put(cache, CLUSTER_QUEUE, "odd", status={"pendingWorkloads": "many"})
    assert holders(cache, CLUSTER_QUEUE, "odd").number == 0
