"""What the queue system says of workloads that wait for quota, with Kueue's real rules."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from kaiwo.host.ending.quota_reliefs import QuotaReliefs
from kaiwo.plugin.queue_relief import ReliefRequest
from kaiwo_kueue.kinds import CLUSTER_QUEUE, WORKLOAD

if TYPE_CHECKING:
    from conftest import World
    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.plugin.kit.endings import QuotaService

GPU = "amd.com/gpu"


@pytest.fixture
def full(world: World) -> World:
    """One job holds the quota, another one waits."""
    world.quota(8, 8)
    world.runs("holder", "n0")
    world.waits("urgent")
    return world


def place_of(world: World, name: str) -> list[CachedObject]:
    """The place of a job in the queue."""
    service: QuotaService = world.quota_reliefs
    return service.objects("team", [f"child-of-{name}", "another"])


def test_a_workloads_places_in_the_queue_are_those_of_its_owners_in_its_namespace(full: World) -> None:
    """Whoever else has an object with such an owner elsewhere."""
    assert full.quota_reliefs.kinds == (WORKLOAD,)
    assert [entry.name for entry in place_of(full, "urgent")] == ["job-urgent"]
    assert full.quota_reliefs.objects("other", ["child-of-urgent"]) == []


def test_one_that_waits_differs_from_one_that_has_its_quota(full: World) -> None:
    """The former says what its pods request."""
    [waits], [holds] = place_of(full, "urgent"), place_of(full, "holder")
    found = full.quota_reliefs.waiting(waits)
    assert found is not None
    assert [(pods.count, pods.spec["containers"][0]["resources"]) for pods in found.pods] == [
        (1, {"requests": {GPU: "8"}})
    ]
    assert full.quota_reliefs.waiting(holds) is None


def test_what_is_given_back_is_computed_for_any_owner(full: World) -> None:
    """Uids are the caller's; nothing is tried."""
    waits = ReliefRequest(tuple(entry.full() for entry in place_of(full, "urgent")), GPU)
    found = full.quota_reliefs.reliefs({"me": waits}, {"them": place_of(full, "holder")})["me"]
    assert found.members == {"them"}
    assert found.place(frozenset()) is None
    assert found.place(frozenset({"them"})) == {}


def test_an_object_that_has_changed_is_noticed(full: World) -> None:
    """And one that is gone."""
    entries = place_of(full, "urgent")
    assert asyncio.run(full.quota_reliefs.unchanged(entries))
    full.server.newer = {"job-urgent"}
    assert not asyncio.run(full.quota_reliefs.unchanged(entries))


def test_nothing_is_known_while_a_kind_cannot_be_read(full: World) -> None:
    """A right of the operator is missing."""
    assert full.quota_reliefs.synced
    full.server.unreadable = {"": {CLUSTER_QUEUE: "forbidden"}}
    assert not full.quota_reliefs.synced


def test_without_a_queue_system_nobody_waits_for_quota(full: World) -> None:
    """And nothing hinders what needs none."""
    none = QuotaReliefs(full.server, None, lambda _: True)  # type: ignore[arg-type]  # what it needs of a manager
    assert (none.kinds, none.synced, none.objects("team", ["child-of-urgent"])) == ((), True, [])
    assert none.reliefs({"me": ReliefRequest((), GPU)}, {}) == {}
    assert none.waiting(place_of(full, "urgent")[0]) is None
