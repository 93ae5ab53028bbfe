from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo_kueue import sync
from kaiwo_kueue.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, TOPOLOGY
from kaiwo_kueue.objects import ConfigOwner
from kaiwo_kueue.sync_actions import (
    ApplyObject,
    DeleteObject,
    ReleaseObject,
    RetryWorkloads,
    TouchObject,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kaiwo.engine.resource import Object
    from kaiwo_kueue.desired import DesiredObjects
    from kaiwo_kueue.objects import DesiredObject, LiveObject
    from kaiwo_kueue.sync_actions import Action, SyncPlan

    Wants = Callable[..., DesiredObjects]
    Live = Callable[..., LiveObject]


plan = partial(sync.plan, owner=ConfigOwner("owner-uid"))


def queue(name: str = "q", *flavors: str, **entry: Any) -> Object:
    """An entry of clusterQueues."""
    resources = [{"name": "cpu", "nominalQuota": "4"}]
    group = {
        "coveredResources": ["cpu"],
        "flavors": [{"name": flavor, "resources": resources} for flavor in flavors],
    }
    spec = {"cohort": "c", **({"resourceGroups": [group]} if flavors else {})}
    return {"name": name, "spec": spec, **entry}


def flavor(name: str = "f", **entry: Any) -> Object:
    """An entry of resourceFlavors."""
    return {"name": name, "nodeLabels": {"pool": name}, **entry}


CONFIG: Object = {
    "topologies": [
        {"metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}}
    ],
    "resourceFlavors": [flavor("f"), flavor("g", topologyName="t")],
    "clusterQueues": [queue("q", "f", "g", namespaces=["a", "b"])],
    "workloadPriorityClasses": [{"metadata": {"name": "high"}, "value": 100, "description": "first"}],
}


def words(actions: Sequence[Action]) -> list[str]:
    """What is done, in short."""
    said = []
    for action in actions:
        if isinstance(action, ApplyObject):
            verb = "create" if action.live is None else "change"
            said.append(f"{verb} {action.desired.kind.kind} {action.desired.name}")
        else:
            verbs = {DeleteObject: "delete", TouchObject: "touch", RetryWorkloads: "retry"}
            verb = verbs.get(type(action), "release")
            said.append(f"{verb} {action.live.kind.kind} {action.live.name}")
    return said


@pytest.fixture
def objects(wants: Wants) -> tuple[DesiredObject, ...]:
    """The desired objects of the configuration."""
    asked = wants(CONFIG, namespaces={"a", "b"})
    assert not asked.problems
    return asked.objects


def by_kind(objects: Sequence[DesiredObject], kind: Any, name: str) -> DesiredObject:
    """One of them."""
    return next(item for item in objects if item.kind == kind and item.name == name)


def test_objects_are_made_in_the_order_in_which_they_refer_to_each_other(
    objects: tuple[DesiredObject, ...],
) -> None:
    """Kueue would otherwise report what is missing for a moment."""
    done = plan(objects, [])
    assert words(done.actions) == [
        "create Topology t",
        "create ResourceFlavor f",
        "create ResourceFlavor g",
        "create ClusterQueue q",
        "create LocalQueue q",
        "create LocalQueue q",
        "create WorkloadPriorityClass high",
    ]
    assert all(isinstance(action, ApplyObject) and action.owned for action in done.actions)


def test_nothing_is_written_when_nothing_changed(objects: tuple[DesiredObject, ...], live: Live) -> None:
    """Also after an upgrade of Kueue: the other version has the same in other fields."""
    there = [live(item) for item in objects]
    assert plan(objects, there).actions == ()


def test_an_edit_by_hand_is_undone_and_a_foreign_field_stays(
    objects: tuple[DesiredObject, ...], live: Live
) -> None:
    """Quotas are the administrator's through KaiwoQueueConfig only; what it does not list is not ours."""
    there = [live(item) for item in objects]
    at = next(i for i, item in enumerate(there) if item.kind == CLUSTER_QUEUE)
    there[at] = replace(there[at], normal_spec={**there[at].normal_spec, "fairSharing": {"weight": "2"}})
    assert plan(objects, there).actions == ()
    there[at] = replace(there[at], normal_spec={**there[at].normal_spec, "cohortName": "other"})
    assert words(plan(objects, there).actions) == ["change ClusterQueue q"]


def test_a_field_that_is_listed_no_more_is_noticed(
    objects: tuple[DesiredObject, ...], wants: Wants, live: Live
) -> None:
    """Everything wanted is there, yet the object is written: something of it is wanted no longer."""
    there = [live(item) for item in objects]
    less = {**CONFIG, "clusterQueues": [{**CONFIG["clusterQueues"][0]}]}
    less["clusterQueues"][0]["spec"] = {
        key: value for key, value in less["clusterQueues"][0]["spec"].items() if key != "cohort"
    }
    asked = wants(less, namespaces={"a", "b"})
    assert words(plan(asked.objects, there).actions) == ["change ClusterQueue q"]


def test_workloads_are_tried_again_when_a_flavor_lets_in_others(wants: Wants, live: Live) -> None:
    """Kueue does so when a queue changes: it is held for a moment, after the flavor, and opened again."""
    taint = {"key": "team", "effect": "NoSchedule"}
    tainted = {**CONFIG, "resourceFlavors": [flavor("f", taints=[taint]), flavor("g", topologyName="t")]}
    there = [live(item) for item in wants(tainted, namespaces={"a", "b"}).objects]
    now = wants(CONFIG, namespaces={"a", "b"}).objects
    actions = plan(now, there).actions
    assert words(actions) == ["change ResourceFlavor f", "retry ClusterQueue q"]
    retry = actions[-1]
    assert isinstance(retry, RetryWorkloads)
    assert retry.flavors == {"f"}
    held = [live(retry.desired if item.kind == CLUSTER_QUEUE else item) for item in now]
    assert words(plan(now, held).actions) == ["change ClusterQueue q"]
    wider = {
        **CONFIG,
        "resourceFlavors": [flavor("f", nodeLabels={"pool": "h"}), flavor("g", topologyName="t")],
    }
    assert words(plan(wants(wider, namespaces={"a", "b"}).objects, [live(item) for item in now]).actions) == [
        "change ResourceFlavor f"
    ]


def test_who_made_an_object_decides_what_becomes_of_it(
    objects: tuple[DesiredObject, ...], live: Live
) -> None:
    """Ours goes with its entry; one that was there before stays; one nobody listed is never touched."""
    mine, theirs = objects[1], objects[3]
    adopted = live(theirs, owner="", applied="")
    first = plan([theirs], [adopted])
    assert words(first.actions) == ["change ClusterQueue q"]
    (action,) = first.actions
    assert isinstance(action, ApplyObject)
    assert not action.owned
    body = action.desired.body("v1beta2", ConfigOwner(), uid="u")
    assert "ownerReferences" not in body["metadata"]
    assert body["metadata"]["labels"]["kaiwo.silogen.ai/managed"] == "true"

    foreign = live(objects[2], owner="", applied="")
    managed = live(theirs, owner="", managed=True, normal_spec={})
    later = plan([], [live(mine), managed, foreign])
    assert {type(action) for action in later.actions} == {ReleaseObject, DeleteObject}
    assert sorted(words(later.actions)) == ["delete ResourceFlavor f", "release ClusterQueue q"]


def test_a_flavor_that_cannot_change_is_replaced_by_way_of_its_queues(
    objects: tuple[DesiredObject, ...], live: Live
) -> None:
    """Dropped on hold, deleted, created again, restored: each step follows from the live objects."""
    there = {item.identity: live(item) for item in objects}
    item = by_kind(objects, RESOURCE_FLAVOR, "f")
    there[item.identity] = live(item, applied="old", normal_spec={"nodeLabels": {"pool": "old"}})
    refused = {(there[item.identity].uid, item.digest)}

    def step() -> SyncPlan:
        return plan(objects, there.values(), refused=refused)

    dropped = step()
    assert words(dropped.actions) == ["change ClusterQueue q"]
    (action,) = dropped.actions
    assert isinstance(action, ApplyObject)
    assert action.desired.spec["stopPolicy"] == "Hold"
    assert [f["name"] for f in action.desired.spec["resourceGroups"][0]["flavors"]] == ["g"]
    assert dropped.problems[0].severity == "PENDING"

    queued = live(action.desired)
    there[queued.identity] = queued
    assert words(step().actions) == ["delete ResourceFlavor f"]
    del there[item.identity]
    assert words(step().actions) == ["create ResourceFlavor f", "change ClusterQueue q"]
    there[item.identity] = live(item, uid="new")
    there[queued.identity] = live(by_kind(objects, CLUSTER_QUEUE, "q"))
    assert step().actions == ()
    assert step().problems == ()


def test_a_queue_of_somebody_else_keeps_a_flavor(objects: tuple[DesiredObject, ...], live: Live) -> None:
    """Then none of Kaiwo's objects is deleted in vain, and the status names the owner of the queue."""
    there = [live(item) for item in objects]
    item = by_kind(objects, RESOURCE_FLAVOR, "f")
    there = [live(item, applied="old") if found.name == "f" else found for found in there]
    theirs = live(replace(by_kind(objects, CLUSTER_QUEUE, "q"), name="their-queue"), owner="", applied="")
    done = plan(objects, [*there, theirs], refused={(live(item).uid, item.digest)})
    assert done.actions == ()
    (problem,) = done.problems
    assert (problem.reason, problem.severity) == ("FlavorInUse", "PENDING")
    assert "their-queue" in problem.message


def test_a_deleted_flavor_is_made_again(objects: tuple[DesiredObject, ...], live: Live) -> None:
    """Kueue holds it while our queue lists it; it is released and created again, and nothing failed."""
    there = [live(item, deleting=item.name == "f") for item in objects]
    done = plan(objects, there)
    assert words(done.actions) == ["change ClusterQueue q"]
    assert {problem.severity for problem in done.problems} == {"PENDING"}


def test_a_flavor_that_lingers_is_touched_and_its_queues_are_changed_as_found(
    objects: tuple[DesiredObject, ...], live: Live
) -> None:
    """Kueue may miss that nobody lists it any more, above all when the queue itself went meanwhile."""
    there = [live(item, deleting=item.name == "f") for item in objects]
    (change,) = plan(objects, there).actions
    assert isinstance(change, ApplyObject)
    assert change.if_unchanged
    body = change.desired.body("v1beta2", ConfigOwner(), uid="u", resource_version="77")
    assert body["metadata"]["resourceVersion"] == "77"
    reduced = [
        live(change.desired) if item.kind == CLUSTER_QUEUE else live(item, deleting=item.name == "f")
        for item in objects
    ]
    assert words(plan(objects, reduced).actions) == ["touch ResourceFlavor f"]
    gone = [item for item in reduced if item.kind != CLUSTER_QUEUE]
    assert "touch ResourceFlavor f" in words(plan((), gone).actions)


def test_a_deleted_queue_waits_for_its_workloads(objects: tuple[DesiredObject, ...], live: Live) -> None:
    """PENDING with the workloads that hold it; created again once it is gone."""
    there = [live(item, deleting=item.kind == CLUSTER_QUEUE) for item in objects]
    done = plan(objects, there, holders=lambda name: [f"ns/{name}-1"])
    assert done.actions == ()
    (problem,) = done.problems
    assert (problem.reason, problem.severity) == ("ClusterQueueTerminating", "PENDING")
    assert "ns/q-1" in problem.message


def test_a_topology_that_cannot_change_takes_its_flavors_along(
    objects: tuple[DesiredObject, ...], live: Live
) -> None:
    """First the flavor goes, then the topology, then both are created again."""
    there = {item.identity: live(item) for item in objects}
    item = by_kind(objects, TOPOLOGY, "t")
    refused = {(there[item.identity].uid, item.digest)}
    there[item.identity] = live(item, applied="old", normal_spec={"levels": []})
    first = plan(objects, there.values(), refused=refused)
    assert words(first.actions) == ["change ClusterQueue q"]
    (action,) = first.actions
    assert isinstance(action, ApplyObject)
    reduced = live(action.desired)
    there[reduced.identity] = reduced
    assert words(plan(objects, there.values(), refused=refused).actions) == ["delete ResourceFlavor g"]
    del there["resourceflavors", "", "g"]
    assert words(plan(objects, there.values(), refused=refused).actions) == ["delete Topology t"]
    del there[item.identity]
    assert words(plan(objects, there.values(), refused=refused).actions) == [
        "create Topology t",
        "create ResourceFlavor g",
        "change ClusterQueue q",
    ]


@pytest.mark.parametrize(
    "who", ["their queue", "their flavor", "a broken entry", "a flavor not listed", "away"]
)
def test_a_topology_that_others_keep_holds_no_queue(
    objects: tuple[DesiredObject, ...], live: Live, who: str
) -> None:
    """The replacement could not end, so that it is not begun, and the status says what is in the way."""
    item = by_kind(objects, TOPOLOGY, "t")
    there = [live(item, applied="old", normal_spec={"levels": []}) if o == item else live(o) for o in objects]
    refused = {(live(item).uid, item.digest)}
    queued, flavored = by_kind(objects, CLUSTER_QUEUE, "q"), by_kind(objects, RESOURCE_FLAVOR, "g")
    wanted, unusable = objects, set()
    if who == "their queue":
        there.append(live(replace(queued, name="theirs"), owner="", applied=""))
    elif who == "their flavor":
        there.append(live(replace(flavored, name="theirs"), owner="", applied=""))
    elif who == "a broken entry":
        other = replace(queued, name="broken")
        there.append(live(other))
        unusable = {other.identity}
    else:
        wanted = tuple(o for o in objects if o != flavored)
        unusable = {flavored.identity} if who == "away" else set()
    done = plan(wanted, there, refused=refused, unusable=unusable)
    assert done.actions == ()
    problem = next(problem for problem in done.problems if problem.kind == TOPOLOGY)
    assert (problem.reason, problem.severity) == ("TopologyInUse", "PENDING")
    assert problem.message.startswith("Topology t cannot be replaced while ResourceFlavor ")
    name = {"their queue": "theirs", "their flavor": "theirs", "a broken entry": "broken"}.get(who, "q")
    assert name in problem.message
    assert ("its nodes are away" in problem.message) == (who == "away")


def test_a_broken_entry_keeps_a_flavor_and_no_other_queue(
    objects: tuple[DesiredObject, ...], live: Live
) -> None:
    """A queue whose entry is wrong stays as it is, with its flavors; the others go on."""
    flavored, queued = by_kind(objects, RESOURCE_FLAVOR, "g"), by_kind(objects, CLUSTER_QUEUE, "q")
    broken = replace(queued, name="broken")
    there = [live(o, applied="old") if o == flavored else live(o) for o in objects]
    refused = {(live(flavored).uid, flavored.digest)}
    done = plan(objects, [*there, live(broken)], refused=refused, unusable={broken.identity})
    assert done.actions == ()
    (problem,) = done.problems
    assert (problem.reason, problem.severity) == ("FlavorInUse", "PENDING")
    assert "ClusterQueue broken lists it; its entry cannot be used" in problem.message


def test_what_is_not_ours_and_cannot_change_is_reported(
    objects: tuple[DesiredObject, ...], live: Live
) -> None:
    """Somebody else's topology is never deleted."""
    item = by_kind(objects, TOPOLOGY, "t")
    there = live(item, owner="", managed=True, applied="old")
    done = plan([item], [there], refused={(there.uid, item.digest)})
    assert done.actions == ()
    assert [(problem.reason, problem.severity) for problem in done.problems] == [("Immutable", "FAILED")]


def test_a_queue_that_cannot_change_is_reported_and_not_deleted(
    objects: tuple[DesiredObject, ...], live: Live
) -> None:
    """Its workloads would keep it from ending for days, admit nobody meanwhile, and no undoing would help."""
    item = by_kind(objects, CLUSTER_QUEUE, "q")
    there = [live(o, applied="old") if o == item else live(o) for o in objects]
    done = plan(objects, there, refused={(live(item).uid, item.digest)})
    assert done.actions == ()
    (problem,) = done.problems
    assert (problem.reason, problem.severity) == ("Immutable", "FAILED")
    assert "Undo the change" in problem.message


def test_local_queues_of_others_are_used_as_they_are(objects: tuple[DesiredObject, ...], live: Live) -> None:
    """One that points elsewhere is reported; one that points here is not touched."""
    item = next(item for item in objects if item.kind == LOCAL_QUEUE and item.namespace == "a")
    assert plan([item], [live(item, owner="", applied="")]) == plan([], [])
    done = plan([item], [live(item, owner="", applied="", normal_spec={"clusterQueue": "x"})])
    assert done.actions == ()
    assert done.problems[0].reason == "LocalQueueConflict"


def test_local_queues_follow_the_list_of_namespaces(wants: Wants, live: Live) -> None:
    """Exactly the listed ones; without a list those that workloads ask for, and those that were made."""
    listed = wants({"clusterQueues": [queue("q", namespaces=["a", "gone"])]}, namespaces={"a", "b"})
    assert [item.namespace for item in listed.objects if item.kind == LOCAL_QUEUE] == ["a"]
    assert [(p.reason, p.severity) for p in listed.problems] == [("NamespaceNotFound", "FAILED")]
    assert "gone" in listed.problems[0].message
    old = live(replace(next(i for i in listed.objects if i.kind == LOCAL_QUEUE), namespace="b"))
    there = [live(item) for item in listed.objects]
    assert words(plan(listed.objects, [*there, old]).actions) == ["delete LocalQueue q"]

    demanded = wants(
        {"clusterQueues": [queue("q")]},
        namespaces={"a", "b"},
        demand={("a", "q"), ("a", "other"), ("gone", "q")},
        kept={("b", "q")},
    )
    assert [item.namespace for item in demanded.objects if item.kind == LOCAL_QUEUE] == ["a", "b"]


@pytest.mark.parametrize(
    ("config", "reason", "word"),
    [
        ({"clusterQueues": [queue("q", "nope")], "resourceFlavors": [flavor("f")]}, "UnknownFlavor", "nope"),
        ({"clusterQueues": [queue("q"), queue("q")]}, "DuplicateName", "q"),
        ({"resourceFlavors": [flavor("f"), flavor("f")]}, "DuplicateName", "f"),
        (
            {"resourceFlavors": [flavor("f", nodeLabels={str(n): "x" for n in range(9)})]},
            "TooManyNodeLabels",
            "8",
        ),
        (
            {
                "clusterQueues": [queue("q", *(f"f{n}" for n in range(17)))],
                "resourceFlavors": [flavor(f"f{n}") for n in range(17)],
            },
            "TooManyFlavors",
            "16",
        ),
        ({"workloadPriorityClasses": [{"value": 1}]}, "NameMissing", "metadata.name"),
        (
            {
                "clusterQueues": [
                    {
                        "name": "q",
                        "spec": {
                            "resourceGroups": [
                                {
                                    "coveredResources": ["cpu"],
                                    "flavors": [
                                        {"name": "f", "resources": [{"name": "cpu", "nominalQuota": "lots"}]}
                                    ],
                                }
                            ]
                        },
                    }
                ],
                "resourceFlavors": [flavor("f")],
            },
            "InvalidQuantity",
            "spec.resourceGroups[0].flavors[f].resources[cpu].nominalQuota: 'lots'",
        ),
    ],
)
def test_a_mistake_is_reported_and_affects_only_itself(
    wants: Wants, config: Object, reason: str, word: str
) -> None:
    """What, which object, and what to do; everything else is made."""
    fine = {"name": "fine", "spec": {}}
    config = {**config, "clusterQueues": [*config.get("clusterQueues", []), fine]}
    asked = wants(config, flavor_limit=16)
    (problem,) = asked.problems
    assert (problem.reason, problem.severity) == (reason, "FAILED")
    assert word in problem.message
    assert by_kind(asked.objects, CLUSTER_QUEUE, "fine").spec["namespaceSelector"] == {}


def test_a_flavor_goes_after_the_queues_that_list_it(objects: tuple[DesiredObject, ...], live: Live) -> None:
    """Deleted before, it would be lost for a queue that Kueue does not let change, or that is not ours."""
    old = by_kind(objects, RESOURCE_FLAVOR, "f")
    queue_q = by_kind(objects, CLUSTER_QUEUE, "q")
    less = replace(queue_q, spec={**queue_q.spec, "resourceGroups": []})
    first = plan([less], [live(old), live(queue_q)])
    assert (words(first.actions), first.problems) == (["change ClusterQueue q"], ())
    assert words(plan([less], [live(old), live(less)]).actions) == ["delete ResourceFlavor f"]
    theirs = plan([], [live(old), live(queue_q, owner="")])
    assert theirs.actions == ()
    (problem,) = theirs.problems
    assert (problem.reason, problem.severity) == ("FlavorInUse", "PENDING")
    assert "ClusterQueue q" in problem.message
    assert words(plan([], [live(old), live(queue_q)]).actions) == ["delete ClusterQueue q"]


def test_a_mistake_in_an_entry_takes_nothing_away_that_works(
    objects: tuple[DesiredObject, ...], wants: Wants, live: Live
) -> None:
    """A typing error in a quota or a ninth label must not delete the queue and the flavor in use."""
    (entry,) = CONFIG["clusterQueues"]
    (group,) = entry["spec"]["resourceGroups"]
    lots = [
        {"name": flavor["name"], "resources": [{"name": "cpu", "nominalQuota": "lots"}]}
        for flavor in group["flavors"]
    ]
    spec = {**entry["spec"], "resourceGroups": [{**group, "flavors": lots}]}
    asked = wants(
        {
            **CONFIG,
            "clusterQueues": [{**entry, "spec": spec}],
            "resourceFlavors": [
                flavor("f", nodeLabels={str(n): "x" for n in range(9)}),
                flavor("g", topologyName="t"),
            ],
        },
        namespaces={"a", "b"},
        existing_flavors={"f": {}, "g": {}},
    )
    assert {problem.reason for problem in asked.problems} == {"InvalidQuantity", "TooManyNodeLabels"}
    there = [live(item) for item in objects]
    assert plan(asked.objects, there, unusable=asked.unusable).actions == ()
    adopted = [live(item, owner="", managed=True) for item in objects]
    assert plan(asked.objects, adopted, unusable=asked.unusable).actions == ()
