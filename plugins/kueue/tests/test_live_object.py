"""A cached object of Kueue in the form in which it is compared: whose it is."""

from __future__ import annotations

from typing import Any

import pytest

from kaiwo.engine.store import Cache
from kaiwo_kueue.kinds import CLUSTER_QUEUE, MANAGED_LABEL, PRIORITY_CLASS
from kaiwo_kueue.objects import CONFIG_UID_LABEL, LiveObject, live_object


def live(kind: Any = CLUSTER_QUEUE, content: dict[str, Any] | None = None, **metadata: Any) -> LiveObject:
    """An object as the cluster has it."""
    cache = Cache()
    cache.register(kind).replace([], "1")
    own = {"name": "q", "uid": "u", "resourceVersion": "3", "generation": 2, **metadata}
    cache.assume(
        kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": own, **(content or {})}
    )
    found = cache.get(kind, "", "q")
    assert found is not None
    return live_object(found)


def owner(kind: str = "KaiwoQueueConfig", *, controller: bool = True) -> dict[str, Any]:
    """An owner reference."""
    return {"apiVersion": "v1", "kind": kind, "name": "kaiwo", "uid": "config", "controller": controller}


@pytest.mark.parametrize(
    ("metadata", "uid", "referenced"),
    [
        ({}, "", False),
        ({"labels": {CONFIG_UID_LABEL: "labelled"}}, "labelled", False),
        ({"ownerReferences": [owner()]}, "config", True),
        ({"ownerReferences": [owner()], "labels": {CONFIG_UID_LABEL: "labelled"}}, "labelled", True),
        ({"ownerReferences": [owner(controller=False)]}, "", False),
        ({"ownerReferences": [owner("Deployment")]}, "", False),
    ],
)
def test_whose_an_object_is(metadata: dict[str, Any], uid: str, *, referenced: bool) -> None:
    """Kaiwo's label says it, or the controller reference of earlier versions; no other owner counts."""
    found = live(**metadata)
    assert (found.owner, found.is_owned, found.referenced) == (uid, bool(uid), referenced)


def test_what_is_managed_and_was_not_created_is_no_property() -> None:
    """The label of adopted objects makes no owner."""
    found = live(labels={MANAGED_LABEL: "true"})
    assert (found.managed, found.is_owned) == (True, False)
    assert not live(labels={MANAGED_LABEL: "false"}).managed


def test_a_priority_class_is_compared_by_its_value_and_description() -> None:
    """It has no spec."""
    found = live(PRIORITY_CLASS, {"value": 5, "description": "d", "spec": {"x": 1}})
    assert found.spec == {"value": 5, "description": "d"}


def test_an_object_that_is_being_deleted_is_known_as_such() -> None:
    """With its generation and version."""
    found = live(deletionTimestamp="2026-01-02T03:04:05Z")
    assert (found.deleting, found.generation, found.resource_version) == (True, 2, "3")
    assert not live().deleting
