"""A ClusterQueue of an administrator that has the name of the default queue is not changed unannounced."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kaiwo_kueue.existing_queues import EXISTING_MANAGED, existing_condition, existing_queues, unannounced
from kaiwo_kueue.kinds import CLUSTER_QUEUE
from kaiwo_kueue.objects import ConfigOwner

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo_kueue.desired import DesiredObjects
    from kaiwo_kueue.objects import DesiredObject, LiveObject

    Wants = Callable[..., DesiredObjects]
    Live = Callable[..., LiveObject]

DEFAULT = ConfigOwner("config-uid", is_default=True)


@pytest.fixture
def listed(wants: Wants) -> tuple[DesiredObject, ...]:
    """The objects of a list with one queue."""
    return wants({"clusterQueues": [{"name": "kaiwo", "spec": {"cohort": "c"}}]}).objects


def test_a_queue_that_existed_before_is_named_before_it_is_changed(
    listed: tuple[DesiredObject, ...], live: Live
) -> None:
    """The condition stays for as long as the queue is managed without having been asked for."""
    (item,) = (one for one in listed if one.kind == CLUSTER_QUEUE)
    found = existing_queues(listed, [live(item, owner="", managed=False)], DEFAULT)
    (condition,) = existing_condition(found, 3)
    assert (condition.type, condition.status, condition.reason) == (EXISTING_MANAGED, "True", "ExistedBefore")
    assert "ClusterQueue kaiwo existed before" in condition.message
    assert unannounced(found, []) == found
    said = {"type": EXISTING_MANAGED, "message": condition.message}
    assert unannounced(found, [said]) == []
    managed = existing_queues(listed, [live(item, owner="", managed=True)], DEFAULT)
    assert existing_condition(managed, 3) == [condition]
    assert unannounced(managed, []) == [], "a queue that was managed before is not left alone meanwhile"


def test_queues_of_kaiwo_and_queues_that_somebody_listed_are_not_announced(
    listed: tuple[DesiredObject, ...], live: Live
) -> None:
    """Whoever lists a queue that exists asks for it."""
    (item,) = (one for one in listed if one.kind == CLUSTER_QUEUE)
    assert existing_queues(listed, [live(item)], DEFAULT) == []
    theirs = live(item, owner="", managed=False)
    assert existing_queues(listed, [theirs], ConfigOwner("config-uid")) == []
    assert existing_queues([], [theirs], DEFAULT) == []
    assert existing_condition([], 3) == []
