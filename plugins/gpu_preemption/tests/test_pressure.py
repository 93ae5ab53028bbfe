"""What a workload waits for, where there is room for it, and whose idle GPUs would be enough."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.plugin.kit.kinds import JOB
from kaiwo.plugin.queue_relief import QueueRelief, QuotaPods, QuotaWait
from kaiwo.testing import node
from kaiwo.testing.builders import NOW
from kaiwo_gpu_amd.plugin import kaiwo_gpu_vendors
from kaiwo_gpu_preemption.assessment import Assessment, Timing
from kaiwo_gpu_preemption.owners import OwnerMetadata, Root
from kaiwo_gpu_preemption.pods import GpuPodFacts, WaitingPods, requested_gpus
from kaiwo_gpu_preemption.policy import TrackingPolicy
from kaiwo_gpu_preemption.pressure import Rooms, pressure_of, victims_for
from kaiwo_gpu_preemption.queued import waiting_pods
from kaiwo_gpu_preemption.tracked import Tracked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaiwo.plugin.kit.kinds import Object

KEY = "amd.com/gpu"
TWO_SMALL = node("n0", gpus={KEY: 2}), node("n1", gpus={KEY: 2})


def tracked(name: str, *pods: GpuPodFacts) -> Tracked:
    """A plain Job."""
    owner = OwnerMetadata(JOB, "team", name, f"uid-{name}", "1", {}, None)
    return Tracked(Root(owner, f"Job/{name}"), TrackingPolicy(), list(pods))


def pod(name: str, gpus: int = 2, on: str = "n0", **changes: Any) -> GpuPodFacts:
    """A running pod."""
    facts = GpuPodFacts("team", name, f"uid-{name}", {KEY: gpus}, on, over=False, running=True)
    return replace(facts, **changes)


def pending(name: str, gpus: int = 2, minutes: float = 5, **changes: Any) -> GpuPodFacts:
    """A pod that waits for GPUs."""
    since = NOW - timedelta(minutes=minutes)
    return pod(name, gpus, on="", running=False, lacks=KEY, since=since, place={}, **changes)


def idle(name: str, gpus: int = 2, hours: float = 1, on: str = "n0") -> Tracked:
    """A workload whose idle GPUs may be taken back."""
    one, since = tracked(name, pod(f"{name}-0", gpus, on)), NOW - timedelta(hours=hours)
    one.assessment = Assessment("Idle", since, (), current=True)
    one.timing = Timing(due=True, since=since)
    return one


def queued(name: str, gpus: int = 2, count: int = 1) -> Tracked:
    """A workload that a queue holds."""
    one = tracked(name)
    one.queued = [WaitingPods(KEY, count, gpus, NOW - timedelta(minutes=5), {}, "quota")]
    return one


def rooms(pods: Sequence[GpuPodFacts] = (), *nodes: Object, place: Object | None = None) -> Any:
    """Free GPUs; without other nodes of one that has four."""
    found = nodes or (node("n0", gpus={KEY: 4}),)
    return Rooms(found, pods, tuple(kaiwo_gpu_vendors())).of(place or {}, KEY)


@pytest.mark.parametrize(
    ("init", "gpus"), [({}, {KEY: 2}), ({"restartPolicy": "Always"}, {KEY: 3})], ids=["init", "sidecar"]
)
def test_a_pod_has_the_gpus_that_the_scheduler_counts(init: Object, gpus: Mapping[str, int]) -> None:
    """A sidecar runs beside the containers, another init container before them."""
    one, two = ({"resources": {"limits": {KEY: count, "cpu": "1"}}} for count in ("1", "2"))
    spec = {"containers": [two, {"resources": {"limits": {"cpu": "1"}}}], "initContainers": [{**one, **init}]}
    assert requested_gpus(spec, (KEY,)) == gpus
    assert requested_gpus({"containers": [{"resources": {"claims": []}}]}, (KEY,)) == {}


def test_a_vendor_that_cannot_read_a_node_spoils_no_other() -> None:
    """A plugin may raise for labels that it does not expect; what is free elsewhere is still found."""
    (known,) = kaiwo_gpu_vendors()

    def recognise(one: Object) -> Any:
        if one["metadata"]["name"] == "odd":
            raise KeyError("label")
        return known.recognise(one)

    nodes = [node(name, gpus={KEY: 4}) for name in ("odd", "n0")]
    found = Rooms(nodes, (), (replace(known, recognise=recognise),)).of({}, KEY)
    assert [(room.name, room.free) for room in found] == [("n0", 4)]


def relief(*members: str, needs: int, labels: Mapping[str, str] | None = None) -> QueueRelief:
    """A queue that admits the waiting one when so many of these have ended."""
    own = frozenset(f"uid-{name}" for name in members)

    def place(ended: frozenset[str]) -> Mapping[str, str] | None:
        return (labels or {}) if len(ended & own) >= needs else None

    return QueueRelief("q", frozenset({"q"}), own, place)


def chosen(
    waiting: Tracked, candidates: list[Tracked], given: QueueRelief | None, *nodes: Object
) -> tuple[list[str], str]:
    """Names of those that are ended for a waiting one, or why nobody is."""
    pressure = pressure_of(waiting)
    assert pressure is not None
    pods = [found for one in candidates for found in one.pods]
    victims, why = victims_for(pressure.demand, candidates, rooms(pods, *nodes), given)
    return [one.owner.name for one in victims], why


def test_a_workload_waits_for_what_most_of_its_gpus_are_asked_with() -> None:
    """Three pods of two GPUs, not one of four; since the first of them waits."""
    one = tracked("w", pending("a"), pending("b", minutes=7), pending("c"), pending("d", 4), pod("e", 8))
    found = pressure_of(one)
    assert found is not None
    demand = found.demand
    assert (demand.pods, demand.gpus_per_pod, demand.cause) == (3, 2, "nodes")
    assert demand.since == NOW - timedelta(minutes=7)


def test_gated_pods_and_pods_that_are_not_made_yet_wait_for_quota() -> None:
    """The former are held by a queue one by one."""
    gated = pressure_of(tracked("w", pending("a", gated=True)))
    held = pressure_of(queued("w", 4, count=3))
    assert gated is not None
    assert held is not None
    assert (gated.demand.cause, gated.demand.gpus) == ("quota", 2)
    assert (held.demand.cause, held.demand.pods, held.demand.gpus) == ("quota", 3, 12)
    assert queued("w", 4, count=3).gpus == {KEY: 12}


def test_nothing_is_asked_for_where_nothing_is_missing() -> None:
    """All its pods run."""
    assert pressure_of(tracked("w", pod("a"))) is None


def test_the_longest_idle_holder_of_quota_ends_and_no_more_than_it_takes() -> None:
    """Of three, one is enough."""
    candidates = [idle("young"), idle("old", hours=9), idle("middle", hours=3)]
    given = relief("young", "old", "middle", needs=1)
    four = node("n0", gpus={KEY: 6})
    assert chosen(queued("w"), candidates, given, four) == (["old"], "")
    assert chosen(queued("w"), candidates, relief("young", "old", "middle", needs=2), four) == (
        ["old", "middle"], ""
    )  # fmt: skip


def test_idle_gpus_without_quota_of_the_queue_give_nothing_to_one_that_it_holds() -> None:
    """However long they have been idle; for one that waits for a node they count."""
    outside, inside = idle("outside", hours=9), idle("inside")
    assert chosen(queued("w"), [outside, inside], relief("inside", needs=1)) == (["inside"], "")
    assert chosen(queued("w"), [outside], relief("inside", needs=1)) == ([], "NoCandidates")
    assert chosen(tracked("w", pending("a")), [outside, inside], None) == (["outside"], "")


@pytest.mark.parametrize(
    ("waiting", "needs", "nodes"),
    [
        pytest.param(queued("w"), 3, (), id="their quota is not enough"),
        pytest.param(queued("w", 4, count=2), 1, (), id="there is no room for all pods"),
        pytest.param(queued("w", 3), 1, TWO_SMALL, id="too small"),
        pytest.param(
            queued("w"), 1, (node("n0", gpus={KEY: 4}, cordoned=True),), id="the node takes no pods"
        ),
    ],
)
def test_nobody_ends_where_it_would_not_help(waiting: Tracked, needs: int, nodes: tuple[Object, ...]) -> None:
    """Quota without nodes is not enough, nor are nodes without quota."""
    candidates = [idle("a"), idle("b", on="n1" if len(nodes) > 1 else "n0")]
    assert chosen(waiting, candidates, relief("a", "b", needs=needs), *nodes) == ([], "WouldNotHelp")


def test_nobody_ends_while_the_queue_and_the_nodes_have_enough() -> None:
    """Something else holds it up."""
    four = node("n0", gpus={KEY: 4})
    assert chosen(queued("w"), [idle("a")], relief("a", needs=0), four) == ([], "NotNeeded")


def test_only_nodes_of_the_flavor_that_the_queue_gives_count() -> None:
    """Kueue sends the pods to these."""
    nodes = node("n0", gpus={KEY: 4}, labels={"pool": "a"}), node("n1", gpus={KEY: 8}, labels={"pool": "b"})
    held = [idle("a", gpus=4)]
    assert chosen(queued("w", 4), held, relief("a", needs=1, labels={"pool": "a"}), *nodes) == (["a"], "")
    assert chosen(queued("w", 8), held, relief("a", needs=1, labels={"pool": "a"}), *nodes)[0] == []
    assert chosen(queued("w", 8), held, relief("a", needs=1, labels={"pool": "b"}), *nodes) == (["a"], "")


def test_a_workload_never_ends_for_itself() -> None:
    """Some of its pods run idle, others wait."""
    one = idle("w")
    one.pods.append(pending("b", 4))
    assert chosen(one, [one], None) == ([], "NoCandidates")


def test_free_gpus_are_those_of_nodes_that_the_pods_may_use_less_those_of_all_pods() -> None:
    """Pods that have ended hold nothing."""
    nodes = (
        node("n0", gpus={KEY: 4}, labels={"pool": "a"}),
        node("n1", gpus={KEY: 4}, labels={"pool": "b"}),
        node("none"),
    )
    found = rooms([pod("a", 3), pod("b", 1, over=True)], *nodes, place={"nodeSelector": {"pool": "a"}})
    assert [(room.name, room.free) for room in found] == [("n0", 1)]


SPEC = {
    "containers": [{"resources": {"requests": {KEY: "2", "cpu": "1"}}}],
    "nodeSelector": {"pool": "a"},
    "hostNetwork": True,
}


@pytest.mark.parametrize(
    ("wait", "found"),
    [
        (QuotaWait((QuotaPods(3, SPEC),), NOW), [(3, 2)]),
        (QuotaWait((QuotaPods(3, SPEC),), NOW, frozenset({KEY, "cpu"})), [(3, 2)]),
        (QuotaWait((QuotaPods(3, SPEC), QuotaPods(1, SPEC)), NOW), [(3, 2), (1, 2)]),
        (QuotaWait((QuotaPods(3, SPEC),), NOW, frozenset({"cpu"})), []),
        (QuotaWait((QuotaPods(3, SPEC),), None), []),
        (QuotaWait((QuotaPods(0, SPEC),), NOW), []),
        (QuotaWait((QuotaPods(3, {"containers": [{}]}),), NOW), []),
    ],
)
def test_only_pods_that_lack_gpu_quota_wait_for_it(wait: QuotaWait, found: list[tuple[int, int]]) -> None:
    """Not those that lack CPU, that nobody has looked at, or that ask for no GPUs."""
    pods = list(waiting_pods(wait, (KEY,)))
    assert [(one.count, one.gpus) for one in pods] == found
    assert all(one.place == {"nodeSelector": {"pool": "a"}} for one in pods)
