"""For whom a decision is taken, in which order, and what is said of those that get none."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.plugin.kit.api_errors import EngineError
from kaiwo.plugin.kit.cache import Cache
from kaiwo.plugin.kit.endings import EndingAnswer, EndingDecision
from kaiwo.plugin.kit.kinds import JOB, NODE
from kaiwo.plugin.queue_relief import QueueRelief
from kaiwo.testing import node
from kaiwo.testing.builders import NOW
from kaiwo_gpu_amd.plugin import kaiwo_gpu_vendors
from kaiwo_gpu_preemption.assessment import Assessment, Timing
from kaiwo_gpu_preemption.decisions import MOST_ENDED, MOST_ORDERS, MOST_WAITING, Decisions
from kaiwo_gpu_preemption.dependencies import Dependencies
from kaiwo_gpu_preemption.kinds import APP_WRAPPER, CRON_JOB, FOREIGN_ROOTS, JOB_SET, REPLICA_SET
from kaiwo_gpu_preemption.owners import OwnerMetadata, Root
from kaiwo_gpu_preemption.plugin import kaiwo_controllers
from kaiwo_gpu_preemption.pods import GpuPodFacts, WaitingPods
from kaiwo_gpu_preemption.policy import TrackingPolicy
from kaiwo_gpu_preemption.quota_pressure import QuotaPressure
from kaiwo_gpu_preemption.taking import Taking, denied_text
from kaiwo_gpu_preemption.tracked import Tracked

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from kaiwo.plugin.kit.kinds import Object

KEY = "amd.com/gpu"


@dataclass
class Queue:
    """A queue in which every workload waits for the GPUs of one idle workload.

    Attributes:
        order: names of those that wait, the first one first; those that are not tracked, too.
        fails: whether asking it fails.
        changed: names of those that have changed meanwhile.
        kinds: none is watched here.
        synced: whether all is known.
    """

    order: tuple[str, ...] = ()
    fails: bool = False
    changed: tuple[str, ...] = ()
    kinds: tuple[Any, ...] = ()
    synced: bool = True

    def all(self) -> list[Any]:
        """The objects of all that wait."""
        return [self._object(name) for name in self.order]

    def objects(self, _: str, owners: set[str]) -> list[Any]:
        """The object of a workload."""
        return [self._object(name) for name in self.order if f"uid-{name}" in owners]

    def _object(self, name: str) -> Any:
        return SimpleNamespace(uid=f"queued-{name}", name=name, readable=lambda: {"name": name})

    def reliefs(self, waiting: Mapping[str, Any], held: Mapping[str, Any]) -> dict[str, QueueRelief]:
        """Anybody gets quota when one of those has ended."""
        if self.fails:
            raise TimeoutError
        found = {}
        for uid, request in waiting.items():
            for obj in request.objects:
                at = NOW + timedelta(seconds=self.order.index(obj["name"]))
                found[uid] = QueueRelief(
                    "q", frozenset({"q"}), frozenset(held), lambda ended: {} if ended else None, 0, at
                )
        return found

    async def unchanged(self, entries: list[Any]) -> bool:
        """Whether none of them has changed."""
        if self.fails:
            raise EngineError
        return not {entry.name for entry in entries} & set(self.changed)


@dataclass
class Room:
    """Takes decisions.

    Attributes:
        under_way: what is being carried out.
        taken: decisions so far.
        refuses: uids of victims that cannot be ended.
    """

    under_way: dict[str, Any] = field(default_factory=dict)
    taken: list[EndingDecision] = field(default_factory=list)
    refuses: frozenset[str] = frozenset()

    async def decide(self, decision: EndingDecision) -> EndingAnswer:
        """Take it."""
        if refused := tuple(sorted({victim.uid for victim in decision.victims} & self.refuses)):
            return EndingAnswer(refused="has changed", refused_uids=refused)
        self.taken.append(decision)
        return EndingAnswer(decision.victims)

    @property
    def said(self) -> list[tuple[str, list[str]]]:
        """For whom who is ended."""
        return [
            (one.beneficiary.name if one.beneficiary else "", [victim.name for victim in one.victims])
            for one in self.taken
        ]


def tracked(name: str, phase: Any, *pods: GpuPodFacts) -> Tracked:
    """A plain Job with its GpuWorkload."""
    owner = OwnerMetadata(JOB, "team", name, f"uid-{name}", "1", {}, None)
    one = Tracked(Root(owner, f"Job/{name}"), TrackingPolicy(), list(pods), owner_uids={owner.uid})
    one.entry = SimpleNamespace(readable_part=lambda *_: {})  # type: ignore[assignment]  # all that is read
    one.assessment = Assessment(
        phase, NOW - timedelta(hours=1) if phase == "Idle" else None, (), current=True
    )
    return one


def idle(name: str = "idle") -> Tracked:
    """A workload with two idle GPUs that may be taken back."""
    pod = GpuPodFacts("team", f"{name}-0", f"uid-{name}-0", {KEY: 2}, "n0", over=False, running=True)
    one = tracked(name, "Idle", pod)
    one.timing = Timing(due=True, since=NOW - timedelta(hours=1))
    return one


def queued(name: str, minutes: float = 5) -> Tracked:
    """A workload that the queue holds."""
    one = tracked(name, "PendingGpu")
    one.queued = [WaitingPods(KEY, 1, 2, NOW - timedelta(minutes=minutes), {}, "quota")]
    return one


def decide(
    queue: Queue, room: Room, *found: Tracked, passes: int = 1, unknown: str = "", gpus: int = 2
) -> dict[str, tuple[str, str]]:
    """Look for decisions; what is said of each workload. Reading ``rights`` or ``pods`` may fail."""

    async def allowed(*_: Any) -> Object:
        if unknown == "rights":
            raise EngineError
        return {"status": {"allowed": True}}

    async def pods(*_: Any) -> AsyncIterator[Object]:
        if unknown == "pods":
            raise EngineError
        yield {}

    cache = Cache()
    store = cache.register(NODE)
    store.replace([store.decode(encoded(node("n0", gpus={KEY: gpus})))], "1")
    manager: Any = SimpleNamespace(
        cache=cache, client=SimpleNamespace(create=allowed, list=pods), event_recorder=SimpleNamespace()
    )
    host: Any = SimpleNamespace(manager=manager, vendors=tuple(kaiwo_gpu_vendors()), namespaces=())
    host.namespaces = ("team",) if unknown == "pods" else ()
    endings: Any = room
    dependencies = Dependencies(
        manager, endings, SimpleNamespace(), lambda _: TrackingPolicy(),  # type: ignore[arg-type]  # not asked
        clock=lambda: 0.0, now=lambda: NOW,
    )  # fmt: skip
    service: Any = queue
    decisions = Decisions(
        host, Taking(dependencies), lambda: [pod for one in found for pod in one.pods], (KEY,),
        QuotaPressure(service, service), clock=itertools.count(1.0).__next__, now=lambda: NOW,
    )  # fmt: skip
    for _ in range(passes):
        asyncio.run(decisions.decide(list(found)))
    return {
        one.owner.name: (condition.status, condition.reason) for one in found for condition in one.conditions
    }


def encoded(obj: Object) -> bytes:
    """An object as the API server sends it."""
    import json

    return json.dumps({**obj, "metadata": {"uid": "u", "resourceVersion": "1", **obj["metadata"]}}).encode()


def test_one_decision_is_taken_for_the_one_that_the_queue_serves_first() -> None:
    """Not for the one that has waited the longest, if it is behind in the queue."""
    room = Room()
    said = decide(Queue(("first", "second")), room, idle(), queued("second", 9), queued("first"))
    assert room.said == [("first", ["idle"])]
    assert said["first"] == ("True", "VictimsChosen")
    assert said["second"] == ("False", "OthersFirst")


@pytest.mark.parametrize(("policy", "count"), [("OnPressure", 1), ("Always", MOST_ENDED)])
def test_those_that_are_refused_each_time_give_way_to_others(policy: Any, count: int) -> None:
    """A workload that changes all the time is not ended; the next ones are, after some tries."""
    names = [f"idle-{number:02}" for number in range(count + 1)]
    room = Room(refuses=frozenset(f"uid-{name}" for name in names[:-1]))
    ones = [idle(name) for name in names]
    for one in ones:
        one.policy = replace(one.policy, policy=policy)
    waiting = [queued("first")] if policy == "OnPressure" else []
    decide(Queue(("first",)), room, *ones, *waiting, passes=11, gpus=2 * len(ones))
    assert room.said == [("first" if waiting else "", names[-1:])]


def test_nobody_ends_if_one_that_is_not_tracked_would_get_the_quota() -> None:
    """It is before the tracked one in the queue."""
    room = Room()
    said = decide(Queue(("untracked", "mine")), room, idle(), queued("mine"))
    assert room.said == []
    assert said == {"mine": ("False", "OthersFirst")}
    assert decide(Queue(("mine", "untracked")), room, idle(), queued("mine"))["mine"][0] == "True"


def test_the_order_of_a_queue_is_read_for_a_few_in_turn() -> None:
    """Each time all that the queue holds is read; the one that the queue serves first has its turn, too."""
    names = [f"w{number}" for number in range(MOST_ORDERS + 1)]
    waiting = [queued(name, minutes=100 - at) for at, name in enumerate(names)]
    once, twice = Room(), Room()
    said = decide(Queue((names[-1], *names)), once, idle(), *waiting)
    assert once.said == []
    assert [name for name in names if said.get(name) == ("False", "OthersFirst")] == names[:MOST_ORDERS]
    decide(Queue((names[-1], *names)), twice, idle(), *waiting, passes=2)
    assert twice.said == [(names[-1], ["idle"])]


@pytest.mark.parametrize("queue", [Queue(), Queue(("mine",), fails=True), Queue(("mine",), synced=False)])
def test_nobody_ends_while_nothing_is_known_of_the_queue(queue: Queue) -> None:
    """It is stopped, its plugin fails, or not all has been read."""
    room = Room()
    assert decide(queue, room, idle(), queued("mine")) == {"mine": ("False", "QueueHolds")}
    assert room.said == []


def test_nobody_ends_for_one_that_was_admitted_meanwhile() -> None:
    """The API server has another state of it than the cache."""
    room = Room()
    decide(Queue(("mine",), changed=("mine",)), room, idle(), queued("mine"))
    assert room.said == []


def test_one_decision_at_a_time() -> None:
    """The one before is still being carried out, whichever rule it was."""
    room = Room(under_way={"uid": SimpleNamespace(beneficiary="somebody")})
    decide(Queue(("mine",)), room, idle(), queued("mine"))
    assert room.said == []


def test_without_idle_gpus_the_cause_is_said() -> None:
    """Also of one that waits for a node."""
    waiting = GpuPodFacts(
        "team", "w-0", "uid-w-0", {KEY: 2}, "", over=False, running=False, lacks=KEY, since=NOW, place={}
    )
    said = decide(Queue(("mine",)), Room(), queued("mine"), tracked("other", "PendingGpu", waiting))
    assert said == {"mine": ("False", "NoCandidates"), "other": ("False", "NoCandidates")}


def without_figure(name: str, *conditions: Object) -> Tracked:
    """A workload with idle GPUs of which the last scrape said nothing, with recorded conditions."""
    one = idle(name)
    one.assessment = Assessment("Idle", NOW - timedelta(hours=1), ())
    one.timing = Timing(wait=0.0)
    return recorded(one, *conditions)


def recorded(one: Tracked, *conditions: Object) -> Tracked:
    """The workload with conditions in its GpuWorkload."""
    one.entry = SimpleNamespace(readable_part=lambda *_: {"conditions": [*conditions]})  # type: ignore[assignment]
    return one


@pytest.mark.parametrize(
    ("type_", "reason"), [("PreemptionDecided", "ReportOnly"), ("DeletionPermitted", "Forbidden")]
)
def test_a_scrape_without_a_figure_changes_no_word_about_an_idle_workload(type_: str, reason: str) -> None:
    """Else each scrape that fails would cost two writes."""
    said = {"type": type_, "status": "False", "reason": reason, "message": "m"}
    assert decide(Queue(), Room(), without_figure("idle", said)) == {"idle": ("False", reason)}


def test_a_scrape_without_a_figure_changes_no_word_about_who_waits() -> None:
    """Whether anybody could make room is not known then."""
    said = {"type": "PreemptionDecided", "status": "False", "reason": "OthersFirst", "message": "m"}
    waiting = [recorded(queued("mine"), said), queued("new")]
    found = decide(Queue(("mine", "new")), Room(), without_figure("idle"), *waiting)
    assert found == {"mine": ("False", "OthersFirst")}


@pytest.mark.parametrize("unknown", ["rights", "pods"])
def test_nobody_ends_while_rights_or_free_gpus_cannot_be_read(unknown: str) -> None:
    """What was said stays; the pass goes on with everything else."""
    room, said = (
        Room(),
        {"type": "PreemptionDecided", "status": "False", "reason": "WouldNotHelp", "message": ""},
    )
    found = decide(Queue(("mine",)), room, idle(), recorded(queued("mine"), said), unknown=unknown)
    assert room.said == []
    assert found["mine"][1] == ("WouldNotHelp" if unknown == "pods" else "NoCandidates")


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        (
            JOB_SET,
            (
                "the operator has no right to delete jobsets.jobset.x-k8s.io, so JobSet/train is not ended; "
                "add the right to the operator's role"
            ),
        ),
        (
            CRON_JOB,
            (
                "the operator has no right to delete cronjobs.batch, so CronJob/train is not ended. Its "
                "schedule would end with it: delete the Job of a run by hand, or annotate the CronJob with "
                "kaiwo.silogen.ai/gpu-preemption.enabled=false"
            ),
        ),
    ],
)
def test_who_may_not_be_deleted_is_named_with_what_to_do(kind: Any, advice: str) -> None:
    """Nobody is told to let the operator delete a schedule for the sake of one run."""
    assert denied_text(OwnerMetadata(kind, "team", "train", "uid", "1", {}, None)) == advice


def test_every_owner_that_is_walked_through_may_be_read_in_the_rendered_roles() -> None:
    """Whoever is above a pod with GPUs; of another kind the condition says that it is not known."""
    (controller,) = kaiwo_controllers()
    readable = {
        (group, resource)
        for rule in controller.rules
        if "get" in rule.verbs
        for group in rule.groups
        for resource in rule.resources
    }
    walked = (*FOREIGN_ROOTS, REPLICA_SET, APP_WRAPPER, CRON_JOB, JOB_SET)
    assert {(kind.group, kind.plural) for kind in walked} <= readable


def test_a_pass_considers_those_that_have_waited_the_longest() -> None:
    """A pass takes no longer, however many wait."""
    names = [f"w{number:03}" for number in range(MOST_WAITING + 5)]
    found = [queued(name, minutes=1000 - at) for at, name in enumerate(names)]
    said = decide(Queue(tuple(names)), Room(), *found)
    assert sorted(said) == names[:MOST_WAITING]


def test_many_that_cannot_be_helped_hide_nobody() -> None:
    """Whoever lets a crowd wait for what the queue never gives keeps others from no decision."""
    room = Room()
    crowd = [queued(f"w{number:03}", minutes=1000) for number in range(MOST_WAITING)]
    decide(Queue(("mine",)), room, idle(), *crowd, queued("mine"), passes=2)
    assert room.said == [("mine", ["idle"])]
