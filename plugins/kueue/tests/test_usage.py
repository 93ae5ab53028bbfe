"""The use of Kueue's queues, read from objects of both generations."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo.engine.quantity import parse_quantity
from kaiwo.plugin.queue_usage import UsageFacts
from kaiwo.workload.queues.estimate import start_estimates
from kaiwo.workload.queues.order import (
    find_pending,
    holders_of_needed,
    later_holders,
    workloads_ahead,
)
from kaiwo_kueue.kinds import CLUSTER_QUEUE, COHORT, LOCAL_QUEUE, PRIORITY_BOOST, WORKLOAD
from kaiwo_kueue.pending_order import usage_paths
from kaiwo_kueue.usage import flavor_labels, usage
from kaiwo_kueue.workload_usage import priority

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.plugin.queue_usage import QueueCapacity, QueueUsage

GPU = "amd.com/gpu"
NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def cluster_queue(name: str, nominal: str = "8", *, used: str = "0", cohort: str = "", **spec: Any) -> Object:
    """A ClusterQueue of one flavor."""
    limits: Object = {key: spec.pop(key) for key in ("borrowingLimit", "lendingLimit") if key in spec}
    quota = {"name": GPU, "nominalQuota": nominal, **limits}
    group = {"coveredResources": [GPU], "flavors": [{"name": "mi300x", "resources": [quota]}]}
    body = {"resourceGroups": [group], **({"cohortName": cohort} if cohort else {}), **spec}
    reserved = [{"name": "mi300x", "resources": [{"name": GPU, "total": used, "borrowed": "0"}]}]
    return {"metadata": {"name": name}, "spec": body, "status": {"flavorsReservation": reserved}}


def local_queue(namespace: str, queue: str, name: str = "") -> Object:
    """A LocalQueue."""
    metadata = {"namespace": namespace, "name": name or queue}
    return {"metadata": metadata, "spec": {"clusterQueue": queue}, "status": {"pendingWorkloads": 1}}


def workload(
    name: str,
    gpus: int,
    *,
    queue: str = "q",
    namespace: str = "team",
    minute: int = 0,
    priority: int = 0,
    admitted: bool = False,
    conditions: tuple[Object, ...] = (),
    kaiwo: bool = False,
    **spec: Any,
) -> Object:
    """A Workload of a Job, pending or admitted by the queue of its LocalQueue's name."""
    labels = {"kaiwo.silogen.ai/name": name, "kaiwo.silogen.ai/type": "job", "kaiwo.silogen.ai/run-id": "r"}
    template: Object = {"spec": {"containers": [{"resources": {"limits": {GPU: str(gpus)}}}]}}
    if kaiwo:
        template["metadata"] = {"labels": {**labels, "kaiwo.silogen.ai/user": "ada"}}
    status: Object = {"conditions": list(conditions)}
    if admitted:
        status["admission"] = {
            "clusterQueue": queue,
            "podSetAssignments": [
                {"name": "main", "flavors": {GPU: "mi300x"}, "resourceUsage": {GPU: str(gpus)}, "count": 1}
            ],
        }
        at = f"2026-01-01T11:{minute:02}:30Z"
        status["conditions"] += [
            {"type": kind, "status": "True", "lastTransitionTime": at}
            for kind in ("QuotaReserved", "Admitted")
        ]
    return {
        "metadata": {
            "name": f"job-{name}",
            "namespace": namespace,
            "uid": f"uid-{namespace}-{name}",
            "creationTimestamp": f"2026-01-01T11:{minute:02}:00Z",
            "ownerReferences": [{"kind": "Job", "name": name, "controller": True}],
        },
        "spec": {
            "queueName": queue,
            "priority": priority,
            "podSets": [{"name": "main", "count": 1, "template": template}],
            **spec,
        },
        "status": status,
    }


def read(
    *workloads: Object,
    queues: tuple[Object, ...] = (),
    cohorts: tuple[Object, ...] = (),
    locals_: tuple[Object, ...] = (),
    **facts: Any,
) -> QueueUsage:
    """The use of what is listed; LocalQueues of team exist for all queues."""
    objects: dict[Resource, tuple[Object, ...]] = {
        WORKLOAD: workloads,
        CLUSTER_QUEUE: queues,
        COHORT: cohorts,
        LOCAL_QUEUE: locals_ or tuple(local_queue("team", queue["metadata"]["name"]) for queue in queues),
    }
    objects.update(facts.pop("objects", {}))
    return usage(UsageFacts(objects=objects, now=NOW, namespace="team", **facts))


def capacity(found: QueueUsage, queue: str) -> QueueCapacity:
    """The only capacity of a queue."""
    state = found.queue(queue)
    assert state is not None
    (only,) = state.capacities
    return only


def amounts(item: QueueCapacity) -> dict[str, str]:
    """The amounts of a capacity as text."""
    names = ("nominal", "used", "borrowed", "lent", "free", "most", "pending")
    return {name: str(getattr(item, name)) for name in names}


def test_quota_used_borrowed_lent_and_pending_of_a_cohort() -> None:
    """One queue borrows what the other does not use; the lender cannot get it back by itself."""
    found = read(
        workload("wait", 6, queue="lender"),
        queues=(
            cluster_queue("borrower", "4", used="10", cohort="c"),
            cluster_queue("lender", "8", used="1", cohort="c"),
        ),
    )
    assert amounts(capacity(found, "borrower")) == {
        "nominal": "4", "used": "10", "borrowed": "6", "lent": "0", "free": "1", "most": "12", "pending": "0",
    }  # fmt: skip
    assert amounts(capacity(found, "lender")) == {
        "nominal": "8", "used": "1", "borrowed": "0", "lent": "6", "free": "1", "most": "12", "pending": "6",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("limits", "free", "most"),
    [
        pytest.param(({}, {}), "8", "12", id="no limits"),
        pytest.param(({"borrowingLimit": "1"}, {}), "1", "5", id="borrowing limit"),
        pytest.param(({}, {"lendingLimit": "3"}), "3", "7", id="lending limit"),
        pytest.param(({"borrowingLimit": "2"}, {"lendingLimit": "1"}), "1", "5", id="the smaller limit"),
    ],
)
def test_limits_of_borrowing_and_lending(limits: tuple[Object, Object], free: str, most: str) -> None:
    """A full queue may borrow as much as its own limit and the other's lending limit allow."""
    found = read(
        queues=(
            cluster_queue("full", "4", used="4", cohort="c", **limits[0]),
            cluster_queue("idle", "8", cohort="c", **limits[1]),
        )
    )
    item = capacity(found, "full")
    assert (str(item.free), str(item.most)) == (free, most)


@pytest.mark.parametrize("field", ["parentName", "parent"])
def test_quota_of_cohorts_and_of_their_parents_counts(field: str) -> None:
    """A Cohort has quota of its own, and belongs to another (v1alpha1 names it in ``parent``)."""
    quota = cluster_queue("x", "5")["spec"]["resourceGroups"]
    found = read(
        queues=(cluster_queue("q", "1", cohort="low"), cluster_queue("other", "2", cohort="high")),
        cohorts=(
            {"metadata": {"name": "low"}, "spec": {field: "high"}},
            {"metadata": {"name": "high"}, "spec": {"resourceGroups": quota}},
        ),
    )
    assert str(capacity(found, "q").most) == "8"
    assert {queue.cohort_root for queue in found.queues} == {"high"}


def test_both_generations_of_a_queue_are_read_alike() -> None:
    """v1beta1 names the cohort in ``cohort``."""
    older = cluster_queue("q", used="2")
    older["spec"]["cohort"] = "c"
    newer = cluster_queue("q", used="2", cohort="c")
    assert read(queues=(older,)) == read(queues=(newer,))


def test_holders_and_pending_in_order() -> None:
    """By priority, then by the time of creation; what waits knows what it lacks."""
    found = read(
        workload("holds", 8, admitted=True, kaiwo=True),
        workload("late", 2, minute=9),
        workload("early", 2, minute=5),
        workload("urgent", 2, minute=10, priority=100),
        queues=(cluster_queue("q", used="8"),),
    )
    (queue,) = found.queues
    assert [(item.position, item.subject.name) for item in queue.pending] == [
        (1, "urgent"),
        (2, "early"),
        (3, "late"),
    ]
    (holder,) = queue.holders
    assert (holder.subject.kind, holder.subject.name, holder.subject.user) == ("KaiwoJob", "holds", "ada")
    assert holder.subject.child == "Job holds"
    assert {key: str(value) for key, value in holder.amounts.items()} == {("mi300x", GPU): "8"}
    (late,) = find_pending(found, "Job", "team", "late")
    assert [(item.subject.name, item.reason) for item in workloads_ahead(found, late)] == [
        ("urgent", "higher priority (100, this one 0)"),
        ("early", "same priority, queued earlier (2026-01-01T11:05:00Z)"),
    ]
    (shortage,) = late.shortages
    assert (str(shortage.requested), str(shortage.free), shortage.never) == ("2", "0", False)
    assert [share.holder.subject.name for share in holders_of_needed(found, late)] == ["holds"]


def test_an_evicted_workload_goes_behind_and_knows_why() -> None:
    """After a timeout of its pods Kueue orders it by the eviction; after a preemption by its creation."""
    evicted = {"type": "Evicted", "status": "True", "lastTransitionTime": "2026-01-01T11:30:00Z"}
    found = read(
        workload("slow", 2, minute=1, conditions=({**evicted, "reason": "PodsReadyTimeout"},)),
        workload("next", 2, minute=9),
        workload("preempted", 2, minute=2, conditions=({**evicted, "reason": "Preempted"},)),
        queues=(cluster_queue("q", used="8"),),
    )
    (queue,) = found.queues
    assert [item.subject.name for item in queue.pending] == ["preempted", "next", "slow"]
    reasons = [item.reason for item in workloads_ahead(found, queue.pending[2])]
    assert reasons == ["this one was evicted at 2026-01-01T11:30:00Z and went behind it"] * 2


@pytest.mark.parametrize("held_by", ["LocalQueue", "back-off", "no back-off"])
def test_no_start_is_promised_to_what_the_queue_leaves_out(held_by: str) -> None:
    """The quota is free, and still neither a stopped LocalQueue nor a back-off lets it start."""
    stopped = {"stopPolicy": "Hold"} if held_by == "LocalQueue" else {}
    waits = {"type": "Requeued", "status": "False", "reason": "PodsReadyTimeout"}
    held = workload("held", 2, minute=1, conditions=() if stopped else (waits,))
    if held_by == "back-off":
        held["status"]["requeueState"] = {"requeueAt": "2026-01-01T12:09:00Z"}
    local = local_queue("team", "q")
    local["spec"] |= stopped
    found = read(held, workload("next", 2, minute=9), queues=(cluster_queue("q"),), locals_=(local,))
    (queue,) = found.queues
    estimates = {
        item.subject.name: start_estimates(found, queue, NOW)[item.subject.uid] for item in queue.pending
    }
    why = {
        "LocalQueue": "LocalQueue q is stopped",
        "back-off": "it was evicted and is queued again at 2026-01-01T12:09:00Z",
        "no back-off": "it was evicted and is not queued again yet",
    }[held_by]
    assert str(estimates["held"]) == f"no estimate: {why}, and the queue leaves it out"
    assert (estimates["next"].at is None) is (held_by == "LocalQueue")


def test_a_later_one_that_went_first_is_named_with_the_rule() -> None:
    """In a best-effort queue a small job passes a large one, and the large one's owner learns of it."""
    found = read(
        workload("large", 8, minute=1),
        workload("small", 1, minute=5, admitted=True),
        workload("before", 1, minute=0, admitted=True),
        queues=(cluster_queue("q", used="2"),),
    )
    (large,) = found.queues[0].pending
    assert [(item.subject.name, item.reason) for item in later_holders(found, large)] == [
        ("small", "queue is BestEffortFIFO: it requests no more, and fitted while this one did not")
    ]


def test_the_head_of_another_queue_of_the_cohort_competes() -> None:
    """What waits first there, with a higher priority, is named with its queue."""
    found = read(
        workload("mine", 4, queue="a", minute=1),
        workload("theirs", 4, queue="b", minute=2, priority=5),
        queues=(
            cluster_queue("a", "4", used="4", cohort="c"),
            cluster_queue("b", "4", used="4", cohort="c"),
        ),
    )
    (mine,) = find_pending(found, "Job", "team", "mine")
    assert [(item.subject.name, item.reason) for item in workloads_ahead(found, mine)] == [
        ("theirs", "queue b shares the cohort; higher priority (5, this one 0)")
    ]


def test_a_borrower_of_the_cohort_holds_what_the_lender_needs() -> None:
    """The lender's quota is in another queue's hands; holders within their own quota are not blamed."""
    found = read(
        workload("wait", 6, queue="lender"),
        workload("borrows", 10, queue="borrower", admitted=True),
        workload("own", 2, queue="honest", admitted=True),
        queues=(
            cluster_queue("borrower", "4", used="10", cohort="c"),
            cluster_queue("lender", "8", cohort="c"),
            cluster_queue("honest", "2", used="2", cohort="c"),
        ),
    )
    (wait,) = find_pending(found, "Job", "team", "wait")
    assert [share.holder.subject.name for share in holders_of_needed(found, wait)] == ["borrows"]


@pytest.mark.parametrize(
    ("holder", "wait", "strict", "says"),
    [
        pytest.param(
            {"maximumExecutionTimeSeconds": 7200}, {}, "BestEffortFIFO",
            "at the latest end of `maximumExecutionTimeSeconds` of Job team/holds", id="limited",
        ),
        pytest.param(
            {}, {}, "BestEffortFIFO",
            "no estimate: Job team/holds holds 8 amd.com/gpu without a known time limit", id="unlimited",
        ),
        pytest.param(
            {"maximumExecutionTimeSeconds": 7200}, {"gpus": 50}, "BestEffortFIFO",
            "no estimate: it requests 50 amd.com/gpu, and the queue can have at most 8", id="never",
        ),
        pytest.param(
            {"maximumExecutionTimeSeconds": 7200}, {"active": False}, "BestEffortFIFO",
            "no estimate: it is not active, and the queue leaves it out", id="inactive",
        ),
    ],
)  # fmt: skip
def test_estimates_and_their_basis(holder: Object, wait: Object, strict: str, says: str) -> None:
    """An estimate names whose time limit it follows from; without one it says why there is none."""
    gpus = wait.pop("gpus", 8)
    found = read(
        workload("holds", 8, admitted=True, **holder),
        workload("wait", gpus, minute=5, **wait),
        queues=(cluster_queue("q", used="8", queueingStrategy=strict),),
    )
    (queue,) = found.queues
    (estimate,) = start_estimates(found, queue, NOW).values()
    assert str(estimate) == says
    if estimate.at:
        assert estimate.at == datetime(2026, 1, 1, 13, 0, 30, tzinfo=UTC)


def test_one_that_is_refused_for_its_pods_has_no_estimate() -> None:
    """Its quota is free, and it does not start: Kueue compares its pods with the LimitRanges."""
    says = "resources didn't satisfy LimitRange constraints: requests must not be above the limitRange max"
    refused = workload("refused", 1)
    refused["status"] = {
        "conditions": [{"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": says}]
    }
    found = read(refused, queues=(cluster_queue("q"),))
    (queue,) = found.queues
    (estimate,) = start_estimates(found, queue, NOW).values()
    assert str(estimate) == f"no estimate: the queue refuses it, whatever quota is free: {says}"


def test_one_that_never_fits_blocks_a_strict_queue_only() -> None:
    """StrictFIFO waits for its head for ever; BestEffortFIFO goes around it."""
    for strategy, at in (("StrictFIFO", None), ("BestEffortFIFO", NOW)):
        found = read(
            workload("never", 50, minute=1),
            workload("small", 1, minute=2),
            queues=(cluster_queue("q", queueingStrategy=strategy),),
        )
        (queue,) = found.queues
        estimates = start_estimates(found, queue, NOW)
        assert estimates["uid-team-small"].at == at, strategy
        if at is None:
            assert str(estimates["uid-team-small"]) == (
                "no estimate: Job team/never is ahead, and its start is not known"
            )


def test_a_chain_of_time_limits_is_followed() -> None:
    """The third waits for the first's end and then for the second's, which runs as long as its own limit."""
    found = read(
        workload("first", 8, admitted=True, maximumExecutionTimeSeconds=7200),
        workload("second", 8, minute=1, maximumExecutionTimeSeconds=3600),
        workload("third", 8, minute=2),
        queues=(cluster_queue("q", used="8"),),
    )
    estimates = start_estimates(found, found.queues[0], NOW)
    assert estimates["uid-team-third"].at == datetime(2026, 1, 1, 14, 0, 30, tzinfo=UTC)
    assert estimates["uid-team-third"].basis == "after the time that Job team/second runs, which is ahead"


def test_a_chain_beyond_the_last_year_ends_at_it() -> None:
    """Whoever queues many jobs of 68 years keeps nobody from reading the queue."""
    limit = {"maximumExecutionTimeSeconds": 2**31 - 1}
    waiting = [workload(f"long-{number}", 8, minute=number % 60, **limit) for number in range(130)]
    first = workload("first", 8, admitted=True, **limit)
    found = read(first, *waiting, queues=(cluster_queue("q", used="8"),))
    ends = [estimate.at for estimate in start_estimates(found, found.queues[0], NOW).values()]
    assert len(ends) == len(waiting)
    assert max(end for end in ends if end is not None) == datetime.max.replace(tzinfo=UTC)


def test_pods_that_ended_hold_nothing_and_finished_workloads_are_left_out() -> None:
    """Reclaimable pods give their quota back while others of the Workload run."""
    part = workload("part", 4, admitted=True)
    part["status"]["admission"]["podSetAssignments"][0]["count"] = 4
    part["status"]["reclaimablePods"] = [{"name": "main", "count": 3}]
    done = workload("done", 4, admitted=True, conditions=({"type": "Finished", "status": "True"},))
    (queue,) = read(part, done, queues=(cluster_queue("q"),)).queues
    assert [(item.subject.name, str(item.amounts["mi300x", GPU])) for item in queue.holders] == [
        ("part", "1")
    ]


def test_a_user_of_one_namespace_sees_what_is_known_there() -> None:
    """Without the right to ClusterQueues and others' Workloads: no positions, and the rights are named."""
    facts: dict[str, Any] = {
        "narrowed": frozenset({WORKLOAD, LOCAL_QUEUE}),
        "hidden": frozenset({CLUSTER_QUEUE, COHORT}),
    }
    found = read(
        workload("mine", 2, minute=1),
        workload("holds", 4, admitted=True),
        locals_=(local_queue("team", "q"),),
        **facts,
    )
    (queue,) = found.queues
    assert (queue.readable, queue.pending[0].position, str(queue.capacities[0].used)) == (False, None, "4")
    assert queue.capacities[0].nominal is None
    assert [text.partition(":")[0] for text in found.unseen] == [
        "quotas and cohorts",
        "positions, and workloads of other namespaces",
        "who else may use a queue",
    ]
    assert str(start_estimates(found, queue, NOW)["uid-team-mine"]) == (
        "no estimate: the quota of queue q is not readable"
    )


@pytest.mark.parametrize(
    ("hidden", "said"),
    [
        ((), "no estimate: it requests 16 amd.com/gpu, and the queue can have at most 8"),
        ((COHORT,), "no estimate: the quota of cohort c is not readable"),
    ],
)
def test_what_a_cohort_may_have_beside_its_queues_is_unknown_to_who_may_not_read_it(
    hidden: tuple[Resource, ...], said: str
) -> None:
    """It is not said that a request can never be admitted: the cohort may have quota of its own."""
    found = read(
        workload("wait", 16),
        queues=(cluster_queue("q", "4", cohort="c"), cluster_queue("other", "4", cohort="c")),
        hidden=frozenset(hidden),
    )
    (queue,) = (one for one in found.queues if one.name == "q")
    assert str(start_estimates(found, queue, NOW)["uid-team-wait"]) == said
    assert (queue.capacities[0].most is None) == bool(hidden)
    assert any(item.never for item in queue.pending[0].shortages) != bool(hidden)
    alone = read(workload("wait", 16), queues=(cluster_queue("q", "4"),), hidden=frozenset(hidden))
    assert str(capacity(alone, "q").most) == "4"


@pytest.mark.parametrize(("least", "lacks"), [(None, "8 of 4"), (4, ""), (5, "5 of 4")])
def test_a_workload_that_may_start_with_fewer_pods_waits_for_these(least: int | None, lacks: str) -> None:
    """Kueue admits a part of a Job that permits that (``minCount``)."""
    podset: Object = groups(1)[0] | {"count": 8} | ({} if least is None else {"minCount": least})
    found = read(workload("wait", 0, podSets=[podset]), queues=(cluster_queue("q", "4"),))
    (wait,) = find_pending(found, "Job", "team", "wait")
    assert [f"{item.requested} of {item.most}" for item in wait.shortages] == ([lacks] if lacks else [])


def test_positions_come_from_the_visibility_interface() -> None:
    """Kueue's own interface shows the place among workloads of others, and with more rights these, too."""
    base = "/apis/visibility.kueue.x-k8s.io"
    facts: dict[str, Any] = {"narrowed": frozenset({WORKLOAD})}
    objects = {LOCAL_QUEUE: (local_queue("team", "q"),)}
    paths = usage_paths(UsageFacts(objects=objects, now=NOW, namespace="team", **facts))
    assert paths[0][0] == f"{base}/v1beta2/clusterqueues/q/pendingworkloads?limit=10000"
    assert paths[1][1] == f"{base}/v1beta1/namespaces/team/localqueues/q/pendingworkloads?limit=10000"
    mine = {
        "metadata": {"name": "job-mine", "namespace": "team", "uid": "uid-team-mine"},
        "localQueueName": "q",
        "positionInClusterQueue": 1,
        "priority": 0,
    }
    other = {
        "metadata": {
            "name": "job-x", "namespace": "other", "uid": "u",
            "ownerReferences": [{"kind": "Job", "name": "x"}],
        },
        "localQueueName": "q",
        "positionInClusterQueue": 0,
        "priority": 7,
    }  # fmt: skip
    for document, ahead in ((paths[0][1], ["Job other/x"]), (paths[1][0], [])):
        items = [other, mine] if ahead else [mine]
        found = read(
            workload("mine", 2), locals_=objects[LOCAL_QUEUE], documents={document: {"items": items}}, **facts
        )
        (wait,) = find_pending(found, "Job", "team", "mine")
        assert wait.position == 2
        assert wait.position_source.endswith("pendingworkloads.visibility.kueue.x-k8s.io")
        assert [str(item.subject) for item in workloads_ahead(found, wait)] == ahead
        assert not any("positions" in text for text in found.unseen)


def test_flavors_by_the_labels_of_their_nodes() -> None:
    """A flavor without labels selects nothing by them."""
    flavors: list[Object] = [
        {"metadata": {"name": "mi300x"}, "spec": {"nodeLabels": {"kaiwo/gpu-model": "mi300x"}}},
        {"metadata": {"name": "any"}},
    ]
    assert flavor_labels(flavors) == {"mi300x": {"kaiwo/gpu-model": "mi300x"}, "any": {}}


def test_stopped_queues_say_so_and_unknown_queues_lead_nowhere() -> None:
    """A queue on hold is named as the reason; a Workload whose LocalQueue is absent is kept apart."""
    found = read(
        workload("mine", 1),
        workload("stray", 1, queue="absent"),
        queues=(cluster_queue("q", stopPolicy="Hold"),),
    )
    assert found.queues[0].stopped == "its stopPolicy is Hold"
    assert [item.subject.name for item in found.unplaced] == ["stray"]


def test_a_queue_that_does_not_exist_is_not_called_hidden() -> None:
    """A LocalQueue may name a ClusterQueue that was deleted, or never made."""
    found = read(workload("mine", 1, queue="lost"), locals_=(local_queue("team", "lost"),))
    (queue,) = found.queues
    assert queue.stopped == "ClusterQueue lost does not exist"
    assert str(start_estimates(found, queue, NOW)["uid-team-mine"]) == (
        "no estimate: queue lost admits nothing: ClusterQueue lost does not exist"
    )


def test_an_uncovered_resource_never_fits() -> None:
    """Kueue names the resource in its message; one that it is configured to ignore, it does not name."""
    condition = {"type": "QuotaReserved", "status": "False", "message": "resource cpu unavailable in q"}
    cpu = workload("mine", 1, conditions=(condition,))
    cpu["status"]["resourceRequests"] = [{"name": "main", "resources": {"cpu": "2", "example.com/x": "1"}}]
    (shortage,) = read(cpu, queues=(cluster_queue("q"),)).queues[0].pending[0].shortages
    assert (shortage.resource, shortage.never, shortage.requested) == ("cpu", True, parse_quantity("2"))


@pytest.mark.parametrize("odd", [{}, {"spec": 1, "status": []}, {"metadata": None, "spec": {"podSets": "x"}}])
def test_odd_objects_are_no_crash(odd: Object) -> None:
    """What another version or a hand wrote is left out or counts as empty."""
    base = {"metadata": {"name": "odd", "namespace": "team"}}
    found = read(
        {**base, **odd}, queues=({**base, **odd},), locals_=({**base, **odd},), cohorts=({**base, **odd},)
    )
    assert not found.unplaced


amounts_of_gpus = st.integers(0, 12)
limits = st.none() | st.integers(0, 8)
members = st.lists(st.tuples(amounts_of_gpus, amounts_of_gpus, limits, limits), min_size=1, max_size=5)


@given(members)
def test_a_cohort_never_gives_more_than_it_has(cohort: list[tuple[int, int, int | None, int | None]]) -> None:
    """Whatever the limits: what is free for one queue is unused by all, what is lent by its owner."""
    queues = []
    for at, (nominal, used, borrowing, lending) in enumerate(cohort):
        bounds = {"borrowingLimit": borrowing, "lendingLimit": lending}
        spec: Any = {key: str(value) for key, value in bounds.items() if value is not None}
        queues.append(cluster_queue(f"q{at}", str(nominal), used=str(used), cohort="c", **spec))
    found = read(queues=tuple(queues))
    items = [(capacity(found, f"q{at}"), member) for at, member in enumerate(cohort)]
    unused = max(0, sum(nominal - min(nominal, used) for nominal, used, _, _ in cohort))
    for item, (nominal, used, borrowing, _) in items:
        assert item.nominal is not None
        assert item.free is not None
        assert item.most is not None
        free, lent, most = (amount.nano // 10**9 for amount in (item.free, item.lent, item.most))
        assert 0 <= free <= unused
        assert 0 <= lent <= max(0, nominal - used)
        assert most <= sum(nominal for nominal, _, _, _ in cohort)
        if borrowing is not None:
            assert most <= nominal + borrowing
        if used <= nominal:
            assert lent + free >= nominal - used


@given(
    st.lists(
        st.tuples(
            st.integers(1, 8), st.integers(0, 59), st.integers(0, 2), st.none() | st.integers(60, 9999)
        ),
        max_size=12,
    ),
    st.sampled_from(["StrictFIFO", "BestEffortFIFO"]),
)
def test_estimates_follow_the_order_of_the_queue(
    waiting: list[tuple[int, int, int, int | None]], strategy: str
) -> None:
    """Each has an estimate or a reason, and nobody starts before one that is ahead of it."""
    workloads = [
        workload(f"w{at}", gpus, minute=minute, priority=priority, maximumExecutionTimeSeconds=limit)
        for at, (gpus, minute, priority, limit) in enumerate(waiting)
    ]
    holder = workload("holds", 8, admitted=True, maximumExecutionTimeSeconds=7200)
    found = read(holder, *workloads, queues=(cluster_queue("q", used="8", queueingStrategy=strategy),))
    (queue,) = found.queues
    estimates = start_estimates(found, queue, NOW)
    times = [estimates[item.subject.uid].at for item in queue.pending]
    known = [moment for moment in times if moment is not None]
    assert known == sorted(known)
    assert times[: len(known)] == known  # behind one without an estimate there is none
    assert all(estimates[item.subject.uid].basis for item in queue.pending)


def two_flavors(*nominal: str) -> Object:
    """A ClusterQueue with flavors of one resource."""
    flavors = [
        {"name": f"f{at}", "resources": [{"name": GPU, "nominalQuota": amount}]}
        for at, amount in enumerate(nominal)
    ]
    return {
        "metadata": {"name": "q"},
        "spec": {"resourceGroups": [{"coveredResources": [GPU], "flavors": flavors}]},
        "status": {"flavorsReservation": []},
    }


def groups(*gpus: int) -> list[Object]:
    """Pod sets, as those of a Ray cluster."""
    return [
        {
            "name": f"g{at}",
            "count": 1,
            "template": {"spec": {"containers": [{"resources": {"limits": {GPU: str(amount)}}}]}},
        }
        for at, amount in enumerate(gpus)
    ]


@pytest.mark.parametrize(
    ("gpus", "nominal", "lacks"),
    [
        ((8, 8), ("8", "8"), ""),
        ((4, 4, 8), ("8", "8"), ""),
        ((8, 8, 8), ("8", "8"), "24 of 16"),
        ((8, 12), ("8", "8"), "12 of 8"),
        ((16,), ("8", "8"), "16 of 8"),
    ],
)
def test_each_pod_set_takes_a_flavor_of_its_own(
    gpus: tuple[int, ...], nominal: tuple[str, ...], lacks: str
) -> None:
    """Kueue admits the groups of a Ray cluster to several flavors; only the pods of one group share one."""
    found = read(workload("wait", 0, podSets=groups(*gpus)), queues=(two_flavors(*nominal),))
    (wait,) = find_pending(found, "Job", "team", "wait")
    never = [f"{item.requested} of {item.most}" for item in wait.shortages if item.never]
    assert never == ([lacks] if lacks else [])
    assert bool(wait.shortages) == bool(lacks)


def test_a_pod_set_waits_for_what_the_others_leave() -> None:
    """Of two groups of eight one fits now; the other lacks what a workload without a limit holds."""
    holds = workload("holds", 8, admitted=True)
    holds["status"]["admission"]["podSetAssignments"][0]["flavors"] = {GPU: "f1"}
    queue = two_flavors("8", "8")
    del queue["status"]["flavorsReservation"]
    found = read(holds, workload("wait", 0, podSets=groups(8, 8)), queues=(queue,))
    (wait,) = find_pending(found, "Job", "team", "wait")
    (lack,) = wait.shortages
    assert (str(lack.requested), str(lack.free), str(lack.most), lack.never) == ("8", "0", "8", False)


@pytest.mark.parametrize(
    ("boost", "more"),
    [("7", 7), ("-7", -7), ("+7", 7), ("9" * 5000, 0), ("--7", 0), ("\u0667", 0), ("7.0", 0), ("", 0)],
)
def test_a_priority_boost_that_is_no_number_of_kueues_counts_nothing(boost: str, more: int) -> None:
    """Whoever may annotate one Workload must not keep everybody from reading the queue."""
    annotations = {PRIORITY_BOOST: boost}
    assert priority({"metadata": {"annotations": annotations}, "spec": {"priority": 100}}) == 100 + more
