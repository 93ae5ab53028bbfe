"""Queues that leave the list while workloads use them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo_kueue.draining import draining_condition, draining_queues
from kaiwo_kueue.kinds import (
    CLUSTER_QUEUE,
    CONFIG_UID_LABEL,
    DEFAULT_LABEL,
    DRAINING_LABEL,
    LOCAL_QUEUE,
    MANAGED_BY_LABEL,
)
from kaiwo_kueue.objects import ConfigOwner
from kaiwo_kueue.queue_events import queue_events
from kaiwo_kueue.queue_use import Holders
from kaiwo_kueue.sync import plan
from kaiwo_kueue.sync_actions import ApplyObject, DeleteObject, HoldObject, MigrateObject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kaiwo.engine.resource import Object
    from kaiwo_kueue.desired import DesiredObjects
    from kaiwo_kueue.objects import DesiredObject, LiveObject
    from kaiwo_kueue.sync_actions import Action

    Wants = Callable[..., DesiredObjects]
    Live = Callable[..., LiveObject]

OWNER = ConfigOwner("owner-uid")
LATER = ConfigOwner("later-uid")
DEFAULT = ConfigOwner("default-uid", is_default=True)
USERS = Holders(("a/runs",), 1)

TEAM: Object = {
    "name": "team",
    "namespaces": ["a"],
    "spec": {
        "resourceGroups": [
            {
                "coveredResources": ["cpu"],
                "flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "4"}]}],
            }
        ]
    },
}


@pytest.fixture
def objects(wants: Wants) -> tuple[DesiredObject, ...]:
    """A topology, its flavor, a queue and its LocalQueue."""
    spec = {
        "topologies": [{"name": "t", "levels": [{"nodeLabel": "kubernetes.io/hostname"}]}],
        "resourceFlavors": [{"name": "f", "topologyName": "t"}],
        "clusterQueues": [TEAM],
    }
    return wants(spec, namespaces={"a"}).objects


def planned(
    desired: Sequence[DesiredObject],
    live: Iterable[LiveObject],
    owner: ConfigOwner = OWNER,
    users: Holders = USERS,
) -> tuple[Action, ...]:
    """The actions while every queue has the same users."""
    there = list(live)
    draining = draining_queues(desired, there, lambda _: users, owner=owner)
    done = plan(desired, there, owner=owner, draining=draining)
    assert not done.problems
    return done.actions


def by_kind(live: Sequence[LiveObject], kind: Any) -> LiveObject:
    """The object of a kind."""
    return next(item for item in live if item.kind == kind)


def held(item: LiveObject) -> LiveObject:
    """A queue as it is after it was held."""
    body = item.held_body("v1beta2")
    return replace(
        item, labels=body["metadata"]["labels"], normal_spec={**item.normal_spec, "stopPolicy": "Hold"}
    )


def test_a_queue_in_use_is_held_with_all_that_it_needs_and_then_left_alone(
    objects: tuple[DesiredObject, ...], live: Live
) -> None:
    """Its flavor and topology stay, and a second reconciliation writes nothing."""
    there = [live(item) for item in objects]
    actions = planned((), there)
    assert {type(action) for action in actions} == {HoldObject}
    assert {action.live.kind for action in actions if action.live} == {CLUSTER_QUEUE, LOCAL_QUEUE}
    after = [held(item) if item.kind in (CLUSTER_QUEUE, LOCAL_QUEUE) else item for item in there]
    assert planned((), after) == ()


def test_a_held_queue_that_somebody_opens_is_held_again(
    objects: tuple[DesiredObject, ...], live: Live
) -> None:
    """It is not listed, so it admits nothing."""
    there = [live(item) for item in objects]
    after = [replace(held(item), normal_spec=item.normal_spec) for item in there]
    assert HoldObject in {type(action) for action in planned((), after)}


def test_an_empty_queue_goes_at_once(objects: tuple[DesiredObject, ...], live: Live) -> None:
    """As documented; the flavor follows when no queue lists it."""
    there = [live(item) for item in objects if item.kind in (CLUSTER_QUEUE, LOCAL_QUEUE)]
    actions = planned((), there, users=Holders())
    assert [type(action) for action in actions] == [DeleteObject, DeleteObject]


def test_a_queue_that_is_listed_again_is_opened_and_gets_the_new_uid(
    objects: tuple[DesiredObject, ...], live: Live
) -> None:
    """Its spec as listed, without the hold; then there is nothing to write."""
    there = [held(live(item)) for item in objects]
    actions = planned(objects, there, LATER)
    assert {type(action) for action in actions} == {ApplyObject}
    opened = next(a for a in actions if isinstance(a, ApplyObject) and a.desired.kind == CLUSTER_QUEUE)
    body = opened.desired.body("v1beta2", LATER)
    assert "stopPolicy" not in body["spec"]
    assert body["metadata"]["labels"] == {MANAGED_BY_LABEL: "kaiwo", CONFIG_UID_LABEL: "later-uid"}
    assert planned(objects, [live(item, owner="later-uid") for item in objects], LATER) == ()


def test_the_default_configuration_changes_no_queue_in_use_of_an_administrator(
    objects: tuple[DesiredObject, ...], wants: Wants, live: Live
) -> None:
    """It would admit pending workloads to other quotas; once nobody uses the queue, it is the default's."""
    there = [live(item) for item in objects]
    other = {**TEAM, "namespaces": None, "spec": {"cohort": "other"}}
    default = wants({"clusterQueues": [other], "resourceFlavors": [{"name": "f"}]}, kept={("a", "team")},
                    namespaces={"a"}).objects  # fmt: skip
    actions = planned(default, there, DEFAULT)
    assert [type(a) for a in actions if a.live and a.live.kind == CLUSTER_QUEUE] == [HoldObject]
    assert not [a for a in actions if a.live and a.live.kind.kind in ("ResourceFlavor", "Topology")]
    (applied,) = [
        a
        for a in planned(default, there, DEFAULT, Holders())
        if isinstance(a, ApplyObject) and a.desired.kind == CLUSTER_QUEUE
    ]
    assert applied.desired.spec["cohortName"] == "other"
    assert DEFAULT_LABEL in applied.desired.body("v1beta2", DEFAULT)["metadata"]["labels"]


def test_the_default_configuration_changes_its_own_queue_in_use(
    objects: tuple[DesiredObject, ...], wants: Wants, live: Live
) -> None:
    """One that an earlier default configuration listed has the quotas of the nodes, whoever uses it."""
    there = [live(item, labels={DEFAULT_LABEL: "true"}) for item in objects if item.kind == CLUSTER_QUEUE]
    default = wants({"clusterQueues": [{**TEAM, "spec": {"cohort": "other"}}]}).objects
    actions = planned([item for item in default if item.kind == CLUSTER_QUEUE], there, DEFAULT)
    assert [type(action) for action in actions] == [ApplyObject]


def test_owner_references_of_earlier_versions_are_replaced_by_labels(
    objects: tuple[DesiredObject, ...], live: Live
) -> None:
    """For listed objects, unlisted ones, and those that are described wrongly."""
    there = [live(item, referenced=True) for item in objects]
    for desired in (objects, ()):
        actions = planned(desired, there)
        migrated = [action.live.identity for action in actions if isinstance(action, MigrateObject)]
        assert migrated == [item.identity for item in there]
    unusable = {item.identity for item in there}
    done = plan((), there, owner=OWNER, unusable=unusable)
    assert {type(action) for action in done.actions} == {MigrateObject}


def test_events_reach_the_queue_and_each_namespace_once(
    objects: tuple[DesiredObject, ...], live: Live
) -> None:
    """Why it is held, who uses it, and what to do; also where the LocalQueue is not Kaiwo's."""
    there = [live(item) for item in objects]
    theirs = replace(by_kind(there, LOCAL_QUEUE), namespace="b", owner="", name="theirs")
    draining = draining_queues((), there, lambda _: USERS, owner=LATER)
    events = queue_events(
        planned((), there, LATER), [*there, theirs], draining, LATER, {"a": "uid-a", "b": "uid-b"}
    )
    about = [(event.about["kind"], event.about["metadata"]["name"], event.reason) for event in events]
    assert sorted(about) == [
        ("ClusterQueue", "team", "QueueDraining"),
        ("LocalQueue", "team", "QueueDraining"),
        ("Namespace", "a", "QueueDraining"),
        ("Namespace", "b", "QueueDraining"),
    ]
    message = next(event.message for event in events if event.about["kind"] == "ClusterQueue")
    assert message == (
        "ClusterQueue team is held: the KaiwoQueueConfig kaiwo that listed it was deleted. It has 2 "
        "workloads (1 admitted, 1 pending); admitted ones go on, pending ones wait. List it again to "
        "open it; it is deleted when no workload uses it"
    )
    opened = [held(item) for item in there]
    restored = queue_events(planned(objects, opened), opened, {}, OWNER, {"a": "uid-a"})
    assert {(event.reason, event.type) for event in restored} == {("QueueRestored", "Normal")}


def test_the_condition_names_each_queue_with_its_workloads() -> None:
    """A LocalQueue is named only where its ClusterQueue stays."""
    draining = {
        ("clusterqueues", "", "team"): USERS,
        ("localqueues", "a", "team"): USERS,
        ("localqueues", "a", "other"): Holders((), 0, 1),
    }
    (condition,) = draining_condition(draining, 3)
    assert (condition.type, condition.status, condition.reason) == ("Draining", "True", "QueuesInUse")
    assert "ClusterQueue team: 2 workloads (1 admitted, 1 pending)" in condition.message
    assert "LocalQueue a/other: 1 workload (0 admitted, 1 pending)" in condition.message
    assert "a/team" not in condition.message
    assert draining_condition({}, 3) == []


def test_a_held_queue_keeps_its_labels_and_a_stop_that_an_administrator_wrote(
    live: Live, wants: Wants
) -> None:
    """HoldAndDrain is stronger than Hold; opening it would be wrong."""
    (item,) = wants({"clusterQueues": [{"name": "q", "spec": {"stopPolicy": "HoldAndDrain"}}]}).objects
    body = live(item).held_body("v1beta2")
    assert body["spec"]["stopPolicy"] == "HoldAndDrain"
    assert body["metadata"]["labels"][DRAINING_LABEL] == "true"
