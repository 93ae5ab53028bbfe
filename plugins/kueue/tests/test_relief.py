"""Whether Kueue would admit a pending workload if others ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.plugin.queue_relief import QueueRelief, QuotaPods, ReliefFacts, ReliefRequest
from kaiwo_kueue.kinds import CLUSTER_QUEUE, COHORT, LOCAL_QUEUE, RESOURCE_FLAVOR
from kaiwo_kueue.relief import relief, waiting

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object

GPU = "amd.com/gpu"
LABELS = {"f": {"pool": "f"}, "old": {"pool": "old", "kaiwo/gpu-model": "mi250"}}


def queue(name: str, nominal: int, used: int, *, cohort: str = "", flavor: str = "f", **more: Any) -> Object:
    """A ClusterQueue with one flavor."""
    limits = {key: more.pop(key) for key in ("borrowingLimit", "lendingLimit") if key in more}
    resources = [{"name": GPU, "nominalQuota": nominal, **limits}, {"name": "cpu", "nominalQuota": 100}]
    group = {"coveredResources": [GPU, "cpu"], "flavors": [{"name": flavor, "resources": resources}]}
    reserved = [{"name": flavor, "resources": [{"name": GPU, "total": str(used)}]}]
    spec = {"resourceGroups": [group], **({"cohortName": cohort} if cohort else {}), **more}
    return {"metadata": {"name": name}, "spec": spec, "status": {"flavorsReservation": reserved}}


def workload(name: str, gpus: int, *, held_in: str = "", flavor: str = "f", **status: Any) -> Object:
    """A Workload in namespace team, queued through the LocalQueue q."""
    template = {"spec": {"containers": [{"resources": {"requests": {GPU: gpus, "cpu": 1}}}]}}
    found: Object = {
        "metadata": {"name": name, "namespace": "team", "creationTimestamp": "2026-01-02T03:04:05Z"},
        "spec": {
            "queueName": "q", "priority": 7, "podSets": [{"name": "m", "count": 1, "template": template}]
        },
        "status": status,
    }  # fmt: skip
    if held_in:
        flavors = {GPU: flavor, "cpu": flavor}
        usage = {GPU: str(gpus), "cpu": "1"}
        assigned = {"name": "m", "count": 1, "flavors": flavors, "resourceUsage": usage}
        found["status"]["admission"] = {"clusterQueue": held_in, "podSetAssignments": [assigned]}
    return found


def ask(
    waiting: Object, held: list[Object], *queues: Object, models: Any = None, stop: str = "", **flavor: Any
) -> QueueRelief | None:
    """What ending those that hold quota gives to the one that waits."""
    entrance: Object = {"metadata": {"name": "q", "namespace": "team"}, "spec": {"clusterQueue": "main"}}
    entrance["spec"] |= {"stopPolicy": stop} if stop else {}
    flavors = [
        {"metadata": {"name": name}, "spec": {"nodeLabels": said, **flavor}} for name, said in LABELS.items()
    ]
    labels = {"kaiwo/gpu-model": frozenset(models)} if models else {}
    objects = {CLUSTER_QUEUE: queues, LOCAL_QUEUE: (entrance,), RESOURCE_FLAVOR: tuple(flavors), COHORT: ()}
    by_uid = {item["metadata"]["name"]: (item,) for item in held}
    waits = ReliefRequest((waiting,), GPU, labels)
    # Another one that waits has no influence on the answer.
    both = {"w": waits, "other": ReliefRequest((waiting,), GPU)}
    alone = relief(ReliefFacts({"w": waits}, by_uid, objects)).get("w")
    found = relief(ReliefFacts(both, by_uid, objects))
    if alone is not None:
        found["other"].place(frozenset(by_uid))
        for ended in (frozenset(by_uid), frozenset()):
            assert found["w"].place(ended) == alone.place(ended)
    return found.get("w")


def place(found: QueueRelief | None, *ended: str) -> Any:
    """Where it runs when these have ended."""
    assert found is not None
    return found.place(frozenset(ended))


def test_quota_that_is_given_back_counts() -> None:
    """A full queue: one of two holders is not enough, both are; the labels are those of the flavor."""
    held = [workload("a", 4, held_in="main"), workload("b", 4, held_in="main")]
    found = ask(workload("w", 8), held, queue("main", 8, 8))
    assert place(found) is None
    assert place(found, "a") is None
    assert place(found, "a", "b") == {"pool": "f"}
    assert place(found, "a") is None
    assert found is not None
    assert (found.queue, found.members, found.priority) == ("main", {"a", "b"}, 7)


def test_quota_of_the_cohort_counts_as_far_as_it_is_lent_and_borrowed() -> None:
    """Ending a workload of another queue helps within the limits only; another cohort is not concerned."""
    held = [workload("a", 8, held_in="lender"), workload("x", 8, held_in="far")]
    far = queue("far", 8, 8)
    lent = queue("lender", 8, 8, cohort="all")
    found = ask(workload("w", 8), held, queue("main", 0, 0, cohort="all"), lent, far)
    assert found is not None
    assert found.sharing == {"main", "lender"}
    assert found.members == {"a"}
    assert (place(found), place(found, "a"), place(found, "x")) == (None, {"pool": "f"}, None)
    kept = queue("lender", 8, 8, cohort="all", lendingLimit=4)
    assert place(ask(workload("w", 8), held, queue("main", 0, 0, cohort="all"), kept), "a") is None
    bound = queue("main", 0, 0, cohort="all", borrowingLimit=4)
    assert place(ask(workload("w", 8), held, bound, lent), "a") is None


def test_a_queue_that_is_over_its_quota_gives_nothing_at_first() -> None:
    """Its quota was lowered: what ends first only brings it back within it."""
    held = [workload("a", 8, held_in="main"), workload("b", 8, held_in="main")]
    found = ask(workload("w", 8), held, queue("main", 8, 16))
    assert place(found, "a") is None
    assert place(found, "a", "b") == {"pool": "f"}


def test_every_resource_has_to_fit() -> None:
    """GPUs alone are not enough."""
    waiting = workload("w", 1)
    [pod_set] = waiting["spec"]["podSets"]
    pod_set["count"] = 8
    pod_set["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "20"
    assert place(ask(waiting, [workload("a", 8, held_in="main")], queue("main", 8, 8)), "a") is None
    pod_set["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"] = "1Gi"
    assert place(ask(waiting, [workload("a", 8, held_in="main")], queue("main", 80, 0)), "a") is None


def test_a_flavor_of_another_model_does_not_count() -> None:
    """Its nodes cannot run the pods."""
    held = [workload("a", 8, held_in="main", flavor="old")]
    full = queue("main", 8, 8, flavor="old")
    assert place(ask(workload("w", 8), held, full), "a") == LABELS["old"]
    assert place(ask(workload("w", 8), held, full, models=["mi300x"]), "a") is None
    assert place(ask(workload("w", 8), held, full, models=["mi250"]), "a") == LABELS["old"]


def test_what_has_finished_holds_nothing() -> None:
    """Its admission stays in the status."""
    finished = [{"type": "Finished", "status": "True"}]
    held = [workload("a", 8, held_in="main", conditions=finished)]
    found = ask(workload("w", 8), held, queue("main", 8, 8))
    assert found is not None
    assert found.members == frozenset()


@pytest.mark.parametrize(
    ("waiting", "full"),
    [
        pytest.param(workload("w", 8), queue("main", 8, 8, stopPolicy="Hold"), id="the queue is stopped"),
        pytest.param(workload("w", 8), queue("other", 8, 8), id="the queue does not exist"),
        pytest.param(
            workload("w", 8, conditions=[{"type": "Finished", "status": "True"}]), queue("main", 8, 8),
            id="it has finished",
        ),
    ],
)  # fmt: skip
def test_nobody_is_ended_for_a_workload_that_kueue_would_not_admit(waiting: Object, full: Object) -> None:
    """Whoever ends, Kueue would not admit it."""
    assert ask(waiting, [workload("a", 8, held_in="main")], full) is None


def reserved(message: str) -> Object:
    """What Kueue says of a Workload that it has found no quota for."""
    at = "2026-01-02T03:04:06Z"
    return {"type": "QuotaReserved", "status": "False", "message": message, "lastTransitionTime": at}


@pytest.mark.parametrize(
    "condition",
    [
        pytest.param(reserved("Workload namespace doesn't match ClusterQueue selector"), id="its namespace"),
        pytest.param(
            reserved("resources didn't satisfy LimitRange constraints: spec.podSets[0]: Invalid value"),
            id="its pods",
        ),
        pytest.param({"type": "Requeued", "status": "False", "reason": "PodsReadyTimeout"}, id="a back-off"),
    ],
)
def test_nobody_ends_for_one_that_kueue_refuses_whatever_is_free(condition: Object) -> None:
    """It would still wait, and the others would have ended in vain."""
    held = [workload("a", 8, held_in="main")]
    assert ask(workload("w", 8, conditions=[condition]), held, queue("main", 8, 8)) is None
    assert place(ask(workload("w", 8, conditions=[]), held, queue("main", 8, 8)), "a") == LABELS["f"]


def test_nobody_ends_for_one_in_a_stopped_local_queue() -> None:
    """Kueue leaves out all workloads of a LocalQueue that its team has stopped."""
    held = [workload("a", 8, held_in="main")]
    assert ask(workload("w", 8), held, queue("main", 8, 8), stop="Hold") is None


ELSEWHERE: Object = {
    "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["f"]}]}]
}


@pytest.mark.parametrize(
    ("pod", "flavor", "fits"),
    [
        pytest.param({}, {}, True, id="anywhere"),
        pytest.param({"nodeSelector": {"pool": "f"}}, {}, True, id="its pool"),
        pytest.param({"nodeSelector": {"pool": "g"}}, {}, False, id="another pool"),
        pytest.param({"nodeSelector": {"zone": "a"}}, {}, True, id="a label that no flavor has"),
        pytest.param(
            {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ELSEWHERE}}},
            {}, False, id="an affinity to others",
        ),
        pytest.param({}, {"nodeTaints": [{"key": "t", "effect": "NoSchedule"}]}, False, id="a taint"),
        pytest.param({}, {"nodeTaints": [{"key": "t", "effect": "PreferNoSchedule"}]}, True, id="soft"),
        pytest.param(
            {"tolerations": [{"key": "t", "operator": "Exists"}]},
            {"nodeTaints": [{"key": "t", "value": "v", "effect": "NoSchedule"}]}, True, id="tolerated",
        ),
        pytest.param(
            {},
            {
                "nodeTaints": [{"key": "t", "value": "v", "effect": "NoSchedule"}],
                "tolerations": [{"key": "t", "value": "v", "effect": "NoSchedule"}],
            },
            True, id="tolerated by the flavor",
        ),
    ],
)  # fmt: skip
def test_quota_of_a_flavor_whose_nodes_the_pods_may_not_use_is_of_no_use(
    pod: Object, flavor: Object, *, fits: bool
) -> None:
    """By node selector, affinity and tolerations, as far as Kueue looks at them."""
    waits = workload("w", 8)
    waits["spec"]["podSets"][0]["template"]["spec"] |= pod
    found = ask(waits, [workload("a", 8, held_in="main")], queue("main", 8, 8), **flavor)
    assert place(found, "a") == (LABELS["f"] if fits else None)


def test_one_that_is_admitted_waits_for_nodes_of_its_flavor() -> None:
    """Its pods find no node: quota is no question any more."""
    waiting = workload("w", 8, held_in="main", flavor="old")
    found = ask(waiting, [workload("a", 8, held_in="main")], queue("main", 8, 8))
    assert place(found) == place(found, "a") == LABELS["old"]


@pytest.mark.parametrize(
    ("strategy", "strict"),
    [({}, False), ({"queueingStrategy": "StrictFIFO"}, True)],
    ids=["default", "strict"],
)
def test_a_strict_queue_differs_from_one_that_serves_whoever_fits(strategy: Any, strict: bool) -> None:
    """In the former nobody gets anything before the first one."""
    found = ask(workload("w", 8), [], queue("main", 8, 8, **strategy))
    assert found is not None
    assert found.strict is strict


@pytest.mark.parametrize(
    ("message", "lacks"),
    [
        (
            "insufficient unused quota for amd.com/gpu in flavor f, insufficient unused quota for cpu in f",
            {GPU, "cpu"},
        ),
        ("insufficient quota for amd.com/gpu in flavor f, request > maximum capacity (16 > 8)", {GPU}),
        ("The workload is not admitted yet", set()),
    ],
)
def test_one_that_waits_says_for_what_and_since_when(message: str, lacks: set[str]) -> None:
    """Its pods with what they request, and the resources that Kueue names."""
    asked = workload("w", 8, conditions=[reserved(message)])
    found = waiting(asked)
    assert found is not None
    assert found.pods == (QuotaPods(1, asked["spec"]["podSets"][0]["template"]["spec"]),)
    assert found.since is not None
    assert found.since.isoformat() == "2026-01-02T03:04:06+00:00"
    assert found.lacks == lacks


def test_one_that_kueue_has_not_considered_waits_since_no_known_moment() -> None:
    """Whether there is quota for it is not known."""
    found = waiting(workload("w", 8))
    assert found is not None
    assert (found.since, found.lacks) == (None, frozenset())


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(workload("w", 8, held_in="main"), id="it has its quota"),
        pytest.param(workload("w", 8, conditions=[{"type": "Finished", "status": "True"}]), id="it is over"),
        pytest.param({**workload("w", 8), "spec": {"active": False}}, id="it is not to run"),
    ],
)
def test_one_that_does_not_wait(given: Object) -> None:
    """Ending others has no meaning for it."""
    assert waiting(given) is None
