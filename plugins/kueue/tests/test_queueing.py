from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kaiwo import testing
from kaiwo.api.workload import Workload
from kaiwo.engine.resource import NAMESPACE, Resource
from kaiwo.plugin.facts import Blocked
from kaiwo.plugin.queues import Admission, QueueAssignment, QueueFacts
from kaiwo.testing import job
from kaiwo_kueue import kinds, plugin
from kaiwo_kueue.admission import admission, is_over, is_stopping
from kaiwo_kueue.queue_assignment import assign, manages
from kaiwo_kueue.settings import KueueSettings

Object = dict[str, Any]
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def named(name: str, *, owned: bool = False, draining: bool = False, **more: Any) -> Object:
    """An object of the namespace."""
    metadata: Object = {"name": name, "namespace": "default"}
    labels = {kinds.CONFIG_UID_LABEL: "uid"} if owned else {}
    if labels or draining:
        metadata["labels"] = {**labels, kinds.DRAINING_LABEL: "true"} if draining else labels
    return {"metadata": metadata, **more}


def facts(**changes: Any) -> QueueFacts:
    """A cluster with queue kaiwo, open to all, made in this namespace, and queue team for namespace a."""
    objects = {
        kinds.QUEUE_CONFIG: (
            named(
                "kaiwo",
                spec={"clusterQueues": [{"name": "kaiwo"}, {"name": "team", "namespaces": ["a"]}]},
            ),
        ),
        kinds.LOCAL_QUEUE: (named("kaiwo", owned=True, spec={"clusterQueue": "kaiwo"}),),
        kinds.CLUSTER_QUEUE: (named("kaiwo"), named("unlisted")),
        kinds.PRIORITY_CLASS: (named("high"),),
        kinds.WORKLOAD: (),
        NAMESPACE: ({"metadata": {"name": "default", "labels": {"kueue-managed": "true"}}},),
        **changes.pop("objects", {}),
    }
    return QueueFacts(objects=objects, default_queue="kaiwo", now=NOW, **changes)


def ask(around: QueueFacts, **spec: Any) -> QueueAssignment | Blocked:
    """Ask for a job with that spec."""
    return assign(Workload.from_object(job(**spec)), around)


def test_the_queue_system_keeps_the_contract() -> None:
    """Pure, total, with labels that an object can have; a child that Kueue has not seen is not admitted."""
    queue = testing.plugins(plugin).queue_system
    assert queue is not None
    testing.assert_queue_contract(
        queue, [job(), job(clusterQueue="kaiwo")], objects=facts().objects, default_queue="kaiwo"
    )


def test_a_default_queue_that_only_the_status_lists_can_be_used() -> None:
    """The operator computes it from the nodes and does not write it into an administrator's spec."""
    computed = {"computed": {"clusterQueues": [{"name": "kaiwo"}]}}
    config = named("kaiwo", spec={"clusterQueues": [{"name": "own"}]}, status=computed)
    known = facts(objects={kinds.QUEUE_CONFIG: (config,)})
    assert isinstance(ask(known, clusterQueue="kaiwo"), QueueAssignment)
    assert isinstance(ask(known, clusterQueue="team"), Blocked)


def test_a_workload_goes_to_its_queue_or_the_default_one() -> None:
    """The child carries the queue's label and waits; a WorkloadPriorityClass becomes a label as well."""
    plain = ask(facts())
    assert plain == QueueAssignment("kaiwo", {"kueue.x-k8s.io/queue-name": "kaiwo"})
    high = ask(facts(), clusterQueue="kaiwo", priorityClass="high")
    assert isinstance(high, QueueAssignment)
    assert (high.labels["kueue.x-k8s.io/priority-class"], high.knows_priority) == ("high", True)
    other = ask(facts(), priorityClass="kubernetes-own")
    assert isinstance(other, QueueAssignment)
    assert (dict(other.labels), other.knows_priority) == ({"kueue.x-k8s.io/queue-name": "kaiwo"}, False)
    assert other.priorities == ("high",)


@pytest.mark.parametrize(
    ("around", "spec", "reason", "words"),
    [
        (facts(), {"clusterQueue": "kaivo"}, "ClusterQueueNotFound", ("kaivo", 'did you mean "kaiwo"?')),
        (facts(), {"clusterQueue": "team"}, "WrongQueueNamespace", ("team", "a only", "default")),
        (facts(), {"clusterQueue": "unlisted"}, "ClusterQueueNotFound", ("LocalQueue", "unlisted")),
        (
            facts(objects={kinds.CLUSTER_QUEUE: (named("old", owned=True, draining=True),)}),
            {"clusterQueue": "old"},
            "ClusterQueueNotFound",
            ("old is draining", "list it again"),
        ),
        (facts(objects={kinds.LOCAL_QUEUE: ()}), {}, "QueuePreparing", ("LocalQueue", "default")),
        (
            facts(objects={NAMESPACE: ({"metadata": {"name": "default"}},)}),
            {},
            "QueuePreparing",
            ("kueue-managed",),
        ),
        (facts(missing=frozenset({kinds.CLUSTER_QUEUE})), {}, "QueueUnavailable", ("install Kueue",)),
    ],
)
def test_why_a_workload_cannot_be_queued(
    around: QueueFacts, spec: Object, reason: str, words: tuple[str, ...]
) -> None:
    """What, why and what to do; it starts by itself when the cause is gone."""
    answer = ask(around, **spec)
    assert isinstance(answer, Blocked)
    assert answer.reason == reason
    assert answer.status == ("PENDING" if reason.startswith("Queue") else "ERROR")
    for word in words:
        assert word in answer.message


def test_a_queue_that_cannot_be_prepared_says_why() -> None:
    """Its LocalQueue or the label of its namespace; the KaiwoQueueConfig has the API server's words."""
    failed = {
        "type": "LocalQueuesSynced",
        "status": "False",
        "message": "LocalQueue kaiwo: denied by\npolicy p",
    }
    spec = {"clusterQueues": [{"name": "kaiwo"}]}
    for condition, words in (
        (failed, "KaiwoQueueConfig kaiwo says: LocalQueue kaiwo: denied by policy p"),
        ({**failed, "status": "True"}, "the workload starts by itself then"),
    ):
        config = named("kaiwo", spec=spec, status={"conditions": [condition]})
        for preparing in ({kinds.LOCAL_QUEUE: ()}, {NAMESPACE: ({"metadata": {"name": "default"}},)}):
            answer = ask(facts(objects={kinds.QUEUE_CONFIG: (config,), **preparing}))
            assert isinstance(answer, Blocked)
            assert answer.reason == "QueuePreparing"
            assert answer.message.endswith(words)


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        ([{"name": "team"}], "queues for namespace default: team. Use one of them or add it"),
        ([], "queues for namespace default: none. Add it"),
    ],
)
def test_an_unknown_default_queue_is_not_blamed_on_the_workload(listed: list[Object], words: str) -> None:
    """The message names the setting that has the name, and offers only what there is."""
    config = named("kaiwo", spec={"clusterQueues": listed})
    around = facts(objects={kinds.QUEUE_CONFIG: (config,), kinds.LOCAL_QUEUE: (), kinds.CLUSTER_QUEUE: ()})
    answer = ask(around)
    assert isinstance(answer, Blocked)
    assert answer.message == (
        "spec.clusterQueue: none is named, and the default queue kaiwo (KaiwoConfig "
        f"spec.defaultClusterQueueName) is unknown; {words} to KaiwoQueueConfig kaiwo; the workload starts "
        "by itself then"
    )


def test_a_local_queue_of_somebody_else_is_used_as_it_is() -> None:
    """Also when no ClusterQueue has its name, and when the list of namespaces has others."""
    theirs = (named("own", spec={"clusterQueue": "elsewhere"}), named("team", spec={"clusterQueue": "team"}))
    around = facts(objects={kinds.LOCAL_QUEUE: theirs})
    assert isinstance(ask(around, clusterQueue="own"), QueueAssignment)
    assert isinstance(ask(around, clusterQueue="team"), QueueAssignment)


def test_nothing_is_checked_without_a_cluster() -> None:
    """A plan from a laptop shows the labels and refuses nothing."""
    around = QueueFacts(objects={}, default_queue="kaiwo")
    assert isinstance(ask(around, clusterQueue="anything"), QueueAssignment)


def test_a_plan_that_nobody_carries_out_waits_for_nothing() -> None:
    """The LocalQueue and the namespace's label come with the first workload; a plan shows what follows."""
    bare = {kinds.LOCAL_QUEUE: (), NAMESPACE: ({"metadata": {"name": "default"}},)}
    around = replace(facts(objects=bare), now=None)
    assert isinstance(ask(around), QueueAssignment)
    assert isinstance(ask(around, clusterQueue="kaivo"), Blocked)


def test_labelling_may_be_switched_off() -> None:
    """Then the namespace is the administrator's business, and nobody waits for a label."""
    around = facts(
        objects={NAMESPACE: ({"metadata": {"name": "default"}},)},
        settings=KueueSettings(label_namespaces=False),
    )
    assert isinstance(ask(around), QueueAssignment)


@pytest.mark.parametrize(
    ("listed", "managed"), [(None, False), (["ray.io/RayService"], True), (["ray.io/rayjob"], False)]
)
def test_the_administrator_says_what_kueue_queues_by_itself(listed: Any, managed: bool) -> None:
    """Only then a service on Ray may do without its wrapper."""
    service = Resource("ray.io", "v1", "RayService", "rayservices")
    settings = KueueSettings.model_validate({"integrations": listed})
    assert manages(service, facts(settings=settings)) is managed
    assert manages(service, facts()) is False


def child(age: float = 0.0, *, kind: str = "Job", queue: str = "kaiwo") -> Object:
    """A child of that age in seconds."""
    created = (NOW - timedelta(seconds=age)).isoformat()
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    return {
        "kind": kind,
        "metadata": {
            "name": "train",
            "namespace": "default",
            "uid": "u",
            "labels": labels,
            "creationTimestamp": created,
        },
        "spec": {"suspend": True} if kind == "Job" else {},
    }


def condition(kind: str, status: str, reason: str, message: str = "") -> Object:
    """A condition."""
    since = "2026-01-02T03:00:00Z"
    return {
        "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since
    }  # fmt: skip


def workload(*conditions: Object, requests: Object | None = None) -> Object:
    """Kueue's Workload of the child."""
    pod = {"containers": [{"resources": {"requests": requests or {}}}]}
    return {
        "metadata": {"name": "job-train", "creationTimestamp": "2026-01-02T03:00:00Z"},
        "spec": {"queueName": "kaiwo", "podSets": [{"template": {"spec": pod}}]},
        "status": {"conditions": list(conditions)},
    }


WAITS = condition("QuotaReserved", "False", "Pending", "couldn't assign flavors to pod set main")
LIMITED = condition(
    "QuotaReserved",
    "False",
    "Pending",
    "resources didn't satisfy LimitRange constraints: spec.podSets[0].template.spec.containers[0]: Invalid "
    'value: ["memory"]: requests must not be above the limitRange max',
)
ABSENT = condition("QuotaReserved", "False", "Inadmissible", "ClusterQueue kaiwo is inactive")
RESERVED = condition("QuotaReserved", "True", "QuotaReserved", "Quota reserved in ClusterQueue kaiwo")
ADMITTED = condition("Admitted", "True", "Admitted", "The workload is admitted")
WHY = "Preempted to accommodate a workload"
EVICTED = condition("Evicted", "True", "Preempted", WHY)
BACK = condition("Evicted", "False", "QuotaReserved", f"Previously: {WHY}")
FINISHED = condition("Finished", "True", "Succeeded", "Reached expected number of succeeded pods")
NOT_RESERVED = condition("Admitted", "False", "NoReservation", "The workload has no reservation")


@pytest.mark.parametrize(
    ("conditions", "state", "reason", "message"),
    [
        ((), "pending", "Queued", "waits in queue kaiwo"),
        (({**WAITS, "message": None},), "pending", "Pending", "waits in queue kaiwo"),
        ((WAITS,), "pending", "Pending", WAITS["message"]),
        ((ABSENT,), "pending", "Inadmissible", ABSENT["message"]),
        ((LIMITED,), "pending", "Inadmissible", LIMITED["message"]),
        ((RESERVED,), "pending", "QuotaReserved", RESERVED["message"]),
        ((RESERVED, ADMITTED), "admitted", "Admitted", "The workload is admitted"),
        ((RESERVED, ADMITTED, EVICTED), "evicted", "Preempted", WHY),
        ((WAITS, NOT_RESERVED, EVICTED), "evicted", "Preempted", f"{WHY}; {WAITS['message']}"),
        ((RESERVED, ADMITTED, BACK), "admitted", "Admitted", "The workload is admitted"),
        ((RESERVED, ADMITTED, FINISHED), "finished", "Succeeded", FINISHED["message"]),
        ((RESERVED, ADMITTED, EVICTED, FINISHED), "finished", "Succeeded", FINISHED["message"]),
    ],
)
def test_admission_is_read_in_order(
    conditions: tuple[Object, ...], state: str, reason: str, message: str
) -> None:
    """Finished, then evicted, then admitted, then reserved: conditions stay after what they tell of."""
    answer = admission(child(), facts(objects={kinds.WORKLOAD: (workload(*conditions),)}))
    assert answer is not None
    assert (answer.state, answer.reason, answer.message) == (state, reason, message)
    assert answer.since == "2026-01-02T03:00:00Z"


def test_a_namespace_that_the_queue_does_not_select_is_named() -> None:
    """Kueue names neither the queue nor the namespace, and no quota would help."""
    said = "Workload namespace doesn't match ClusterQueue selector"
    waits = workload(condition("QuotaReserved", "False", "Pending", said))
    waits["metadata"]["namespace"] = "team"
    answer = admission(child(), facts(objects={kinds.WORKLOAD: (waits,)}))
    assert answer is not None
    assert (answer.state, answer.reason) == ("pending", "Inadmissible")
    assert answer.message.startswith(
        "the namespaceSelector of ClusterQueue kaiwo does not select namespace team;"
    )
    assert answer.message.endswith(f"({said})")


def test_a_preempted_child_names_what_preempted_it() -> None:
    """Kueue's message has a uid; one that is not known leaves the message as it is."""
    why = f"{WHY} (UID: u-1, JobUID: j-1) due to prioritization in the ClusterQueue"
    there: dict[Any, Any] = {kinds.WORKLOAD: (workload(RESERVED, {**EVICTED, "message": why}),)}
    known = {"u-1": "Job other/urgent"}
    answer = admission(child(), facts(objects=there, owner_of=lambda uid: known.get(uid, "")))
    assert answer is not None
    assert answer.message == f"preempted by Job other/urgent: {why}"
    answer = admission(child(), facts(objects=there))
    assert answer is not None
    assert answer.message == why


STOPPED = condition("Evicted", "True", "ClusterQueueStopped", "The ClusterQueue is stopped")
DEACTIVATED = condition("Evicted", "True", "Deactivated", "The workload is deactivated")
REJECTED = condition(
    "Evicted", "True", "DeactivatedDueToAdmissionCheck", "The workload is deactivated due to"
)
TIMED_OUT = condition("Evicted", "True", "PodsReadyTimeout", "Exceeded the PodsReady timeout a/job-train")


@pytest.mark.parametrize(
    ("conditions", "reason", "message"),
    [
        (
            (STOPPED, ABSENT),
            "ClusterQueueStopped",
            "The ClusterQueue is stopped; ClusterQueue kaiwo is inactive",
        ),
        (
            (STOPPED, WAITS),
            "Pending",
            "couldn't assign flavors to pod set main (it was evicted before: The ClusterQueue is stopped)",
        ),
        (
            (DEACTIVATED, WAITS),
            "Pending",
            "couldn't assign flavors to pod set main (it was evicted before: The workload is deactivated)",
        ),
        ((REJECTED, WAITS), "Pending", None),
        ((TIMED_OUT, WAITS), "PodsReadyTimeout", None),
        (
            (DEACTIVATED, {**DEACTIVATED, "type": "QuotaReserved", "status": "False"}),
            "Deactivated",
            "The workload is deactivated",
        ),
    ],
    ids=["stopped", "open", "active", "checked", "timed-out", "reactivated"],
)
def test_an_eviction_is_no_reason_any_more_when_its_cause_is_gone(
    conditions: tuple[Object, ...], reason: str, message: str | None
) -> None:
    """Kueue keeps the condition until the next admission, also when the queue is open or active is true."""
    answer = admission(child(), facts(objects={kinds.WORKLOAD: (workload(*conditions),)}))
    assert answer is not None
    assert answer.reason == reason
    assert message in (answer.message, None)


def test_a_queue_that_is_open_again_is_no_reason_while_another_one_is_inactive() -> None:
    """The ClusterQueue was stopped and is not any more; now the LocalQueue is."""
    closed = condition("QuotaReserved", "False", "Inadmissible", "LocalQueue kaiwo is inactive")
    requeued = condition("Requeued", "True", "ClusterQueueRestarted", "The ClusterQueue was restarted")
    answer = admission(child(), facts(objects={kinds.WORKLOAD: (workload(STOPPED, requeued, closed),)}))
    assert answer is not None
    assert (answer.state, answer.reason) == ("pending", "Inadmissible")
    assert answer.message == (
        "LocalQueue kaiwo is inactive (it was evicted before: The ClusterQueue is stopped)"
    )


def test_a_workload_that_is_not_active_says_what_ends_that() -> None:
    """Nothing that happens in the queue ends it: somebody has to set a field."""
    held = workload(DEACTIVATED, {**DEACTIVATED, "type": "QuotaReserved", "status": "False"})
    held["spec"]["active"] = False
    answer = admission(child(), facts(objects={kinds.WORKLOAD: (held,)}))
    assert answer is not None
    assert answer.message == (
        "The workload is deactivated; it stays so until spec.active of Workload job-train is true: remove "
        "the cause, then set it, or submit the workload again"
    )


@pytest.mark.parametrize(
    "conditions",
    [(WAITS,), (), (EVICTED, WAITS), (STOPPED, WAITS)],
    ids=["waits", "new", "preempted", "stopped"],
)
def test_a_workload_that_was_made_inactive_while_it_waited_says_so(conditions: tuple[Object, ...]) -> None:
    """Kueue leaves the conditions as they are, and with them a message about quota that is of no use."""
    held = workload(*conditions)
    held["spec"]["active"] = False
    answer = admission(child(), facts(objects={kinds.WORKLOAD: (held,)}))
    assert answer is not None
    assert (answer.state, answer.reason) == ("pending", "Deactivated")
    assert answer.message.startswith("Workload job-train is not active; it stays so until spec.active")


def test_an_admission_check_that_evicts_is_named() -> None:
    """Kueue up to 0.16 does not name it, and resets all checks at once; later it names it itself."""
    why = "At least one admission check is false"
    held = workload(
        condition("Evicted", "True", "AdmissionCheck", why),
        condition("QuotaReserved", "False", "Pending", why),
    )
    reset = "Reset to Pending after eviction. Previously: "
    held["status"]["admissionChecks"] = [
        {"name": "budget", "state": "Pending", "message": f"{reset}Ready"},
        {"name": "nodes", "state": "Pending", "message": f"{reset}Retry"},
    ]
    answer = admission(child(), facts(objects={kinds.WORKLOAD: (held,)}))
    assert answer is not None
    assert (answer.state, answer.reason) == ("evicted", "AdmissionCheck")
    assert answer.message == f"{why}: nodes"
    why = 'Evicted due to AdmissionCheck in Retry state: "nodes" (no capacity)'
    for item in held["status"]["conditions"]:
        item["message"] = why
    answer = admission(child(), facts(objects={kinds.WORKLOAD: (held,)}))
    assert answer is not None
    assert answer.message == why


def test_a_back_off_has_the_time_of_its_end() -> None:
    """After its pods were not ready in time, Kueue waits before it queues the Workload again."""
    waits = condition("Requeued", "False", "PodsReadyTimeout", str(TIMED_OUT["message"]))
    held = workload(TIMED_OUT, waits, {**TIMED_OUT, "type": "QuotaReserved", "status": "False"})
    held["status"]["requeueState"] = {"count": 1, "requeueAt": "2026-01-02T03:20:00Z"}
    answer = admission(child(), facts(objects={kinds.WORKLOAD: (held,)}))
    assert answer is not None
    assert answer.message == f"{TIMED_OUT['message']}; Kueue queues it again at 2026-01-02T03:20:00Z"
    assert answer.not_ready
    held["status"]["conditions"][1] = condition("Requeued", "True", "BackoffFinished", "finished")
    answer = admission(child(), facts(objects={kinds.WORKLOAD: (held,)}))
    assert answer is not None
    assert answer.message == TIMED_OUT["message"]


@pytest.mark.parametrize(
    ("local", "cluster", "message", "why"),
    [
        ({}, {"spec": {"stopPolicy": "Hold"}}, "ClusterQueue team is inactive", "its stopPolicy is Hold"),
        (
            {"spec": {"stopPolicy": "HoldAndDrain"}},
            {},
            "LocalQueue kaiwo is inactive",
            "its stopPolicy is HoldAndDrain",
        ),
        (
            {},
            {"conditions": "Can't admit new workloads: references missing ResourceFlavor(s): f."},
            "ClusterQueue team is inactive",
            "Can't admit new workloads: references missing ResourceFlavor(s): f",
        ),
        (
            {"labels": {kinds.DRAINING_LABEL: "true"}, "spec": {"stopPolicy": "Hold"}},
            {},
            "LocalQueue kaiwo is inactive",
            "KaiwoQueueConfig kaiwo does not list it any more",
        ),
        ({}, {}, "ClusterQueue team is inactive", ""),
        ({}, {"spec": {"stopPolicy": "Hold"}}, "ClusterQueue team doesn't exist", ""),
    ],
    ids=["held", "local", "flavor", "draining", "unknown", "absent"],
)
def test_an_inactive_queue_says_why(local: Object, cluster: Object, message: str, why: str) -> None:
    """Kueue's message about a Workload has only the name of the queue; the queue itself knows more."""

    def queue(name: str, given: Object, **spec: Any) -> Object:
        active = {"type": "Active", "status": "False", "message": given.get("conditions")}
        return {
            "metadata": {"name": name, "labels": given.get("labels", {})},
            "spec": {**spec, **given.get("spec", {})},
            "status": {"conditions": [active] if given.get("conditions") else []},
        }

    there: dict[Any, Any] = {
        kinds.WORKLOAD: (workload({**ABSENT, "message": message}),),
        kinds.LOCAL_QUEUE: (queue("kaiwo", local, clusterQueue="team"),),
        kinds.CLUSTER_QUEUE: (queue("team", cluster),),
    }
    answer = admission(child(), facts(objects=there))
    assert answer is not None
    assert answer.reason == "Inadmissible"
    assert answer.message.startswith(f"{message}: {why}" if why else message)
    assert bool(why) == (answer.message != message)


def cluster_queue(key: str, quota: str, **spec: Any) -> Object:
    """Spec of a ClusterQueue with some of one resource."""
    group = {
        "coveredResources": ["cpu", key],
        "flavors": [
            {
                "name": "f",
                "resources": [{"name": "cpu", "nominalQuota": "1"}, {"name": key, "nominalQuota": quota}],
            }
        ],
    }
    return {"resourceGroups": [group], **spec}


@pytest.mark.parametrize(
    ("queues", "reason"),
    [
        ({"kaiwo": cluster_queue("amd.com/gpu", "8")}, "NoQuota"),
        ({"kaiwo": cluster_queue("nvidia.com/gpu", "0")}, "NoQuota"),
        ({"kaiwo": cluster_queue("nvidia.com/gpu", "8")}, "Pending"),
        (
            {
                "kaiwo": cluster_queue("nvidia.com/gpu", "0", cohort="c"),
                "lender": cluster_queue("nvidia.com/gpu", "8", cohortName="c"),
            },
            "Pending",
        ),
    ],
)
def test_no_quota_is_distinguished_from_waiting(queues: dict[str, Object], reason: str) -> None:
    """A key that the queue does not cover, or that nobody in the cohort has, is never admitted."""
    text = "insufficient quota for nvidia.com/gpu in flavor f, request > maximum capacity (8 > 0)"
    waiting = workload(
        condition("QuotaReserved", "False", "Pending", text), requests={"nvidia.com/gpu": "8", "cpu": "1"}
    )
    objects = {
        kinds.WORKLOAD: (waiting,),
        kinds.CLUSTER_QUEUE: tuple(named(name, spec=spec) for name, spec in queues.items()),
    }
    answer = admission(child(), facts(objects=objects))
    assert answer is not None
    assert (answer.state, answer.reason) == ("pending", reason)
    if reason == "NoQuota":
        for word in ("kaiwo", "nvidia.com/gpu", "cpu"):
            assert word in answer.message


NEVER = (
    "insufficient quota for nvidia.com/gpu in flavor f, previously considered podsets requests (0) + "
    "current podset request (8)"
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("insufficient unused quota for nvidia.com/gpu in flavor f, 2 more needed", "Pending"),
        ("insufficient quota for nvidia.com/gpu in flavor f, request > maximum capacity (8 > 4)", "Pending"),
        (
            f"{NEVER} > maximum capacity (4)",
            "Pending",
        ),
        (
            f"{NEVER} > maximum capacity (0), insufficient unused quota for cpu in flavor g, 2 more needed",
            "NoQuota",
        ),
    ],
)
def test_quota_of_the_cohort_itself_is_quota(text: str, reason: str) -> None:
    """A Cohort may have resources of its own, which no queue lists: then Kueue's numbers tell."""
    waiting = workload(
        condition("QuotaReserved", "False", "Pending", f"couldn't assign flavors to pod set main: {text}"),
        requests={"nvidia.com/gpu": "8"},
    )
    spec = cluster_queue("nvidia.com/gpu", "0", cohortName="c")
    objects = {kinds.WORKLOAD: (waiting,), kinds.CLUSTER_QUEUE: (named("kaiwo", spec=spec),)}
    answer = admission(child(), facts(objects=objects))
    assert answer is not None
    assert (answer.state, answer.reason) == ("pending", reason)


def test_a_limit_alone_asks_for_quota_as_well() -> None:
    """Nobody writes requests of GPUs in a pod template, and no default fills them in there."""
    text = "couldn't assign flavors to pod set main: resource nvidia.com/gpu unavailable in ClusterQueue"
    waiting = workload(condition("QuotaReserved", "False", "Pending", text))
    pod = waiting["spec"]["podSets"][0]["template"]["spec"]
    pod["containers"] = [{"resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "1"}}}]
    spec = cluster_queue("amd.com/gpu", "8")
    objects = {kinds.WORKLOAD: (waiting,), kinds.CLUSTER_QUEUE: (named("kaiwo", spec=spec),)}
    answer = admission(child(), facts(objects=objects))
    assert answer is not None
    assert (answer.state, answer.reason) == ("pending", "NoQuota")
    assert "does not cover nvidia.com/gpu" in answer.message


def test_a_job_that_kueue_ignores_is_reported_after_half_a_minute() -> None:
    """Until then it waits, and is requeued at the right moment; the label to set is named."""
    fresh = admission(child(10), facts())
    assert fresh is not None
    waits = "waits in queue kaiwo"
    assert fresh == Admission("pending", "Queued", waits, fresh.since, 20.0, undecided=True)
    ignored = admission(child(31), facts(objects={NAMESPACE: ({"metadata": {"name": "default"}},)}))
    assert ignored is not None
    assert (ignored.state, ignored.reason) == ("unmanaged", "NotManagedByQueue")
    assert "label the namespace default kueue-managed=true" in ignored.message
    assert admission(child(31, queue=""), facts()) is None


def test_a_job_without_a_queue_that_kueue_holds_says_which_setting_does_it() -> None:
    """manageJobsWithoutQueueName: no queue ever admits it, and to resume it is undone at once."""
    held = workload(condition("QuotaReserved", "False", "Inadmissible", "LocalQueue  doesn't exist"))
    del held["spec"]["queueName"]
    answer = admission(child(queue=""), facts(objects={kinds.WORKLOAD: (held,)}))
    assert answer is not None
    assert (answer.state, answer.reason) == ("pending", "Suspended")
    assert answer.message.startswith(
        "Kueue holds Job train: it names no queue, and manageJobsWithoutQueueName"
    )
    assert "Exclude namespace default in managedJobsNamespaceSelector" in answer.message
    assert "kubectl label job train -n default kueue.x-k8s.io/queue-name=QUEUE" in answer.message


def test_a_job_that_got_its_queue_just_now_waits_in_it() -> None:
    """What Kueue says of the Workload is still about the Job without a queue."""
    held = workload(condition("QuotaReserved", "False", "Inadmissible", "LocalQueue  doesn't exist"))
    del held["spec"]["queueName"]
    answer = admission(child(), facts(objects={kinds.WORKLOAD: (held,)}))
    assert answer is not None
    assert (answer.state, answer.reason, answer.message) == ("pending", "Queued", "waits in queue kaiwo")
    assert answer.undecided


def test_pods_without_a_queue_that_kueue_holds_are_to_be_deleted_then() -> None:
    """A Deployment is not suspended: each of its pods has a gate, which stays."""
    held = workload(WAITS)
    del held["spec"]["queueName"]
    answer = admission(child(kind="Deployment", queue=""), facts(objects={kinds.WORKLOAD: (held,)}))
    assert answer is not None
    assert "to false, then delete its pods; or give it a queue" in answer.message


def test_a_job_without_a_queue_whose_label_was_removed_is_not_blamed_on_a_setting() -> None:
    """Its Workload still names the queue."""
    assert admission(child(queue=""), facts(objects={kinds.WORKLOAD: (workload(WAITS),)})) is None


def test_a_label_that_is_there_is_not_asked_for() -> None:
    """Kueue does not run, or is minutes behind: deleting the Job, as for a missing label, would not help."""
    waiting = admission(child(31), facts())
    assert waiting is not None
    assert (waiting.state, waiting.reason) == ("unmanaged", "NotManagedByQueue")
    assert "label the namespace" not in waiting.message
    assert "delete" not in waiting.message
    assert "does not run, has not come to this Job yet" in waiting.message


def pod(*gates: str, **labels: str) -> Object:
    """A pod with scheduling gates."""
    return {
        "metadata": {"labels": labels},
        "spec": {"schedulingGates": [{"name": gate} for gate in gates]},
    }


def test_pods_that_run_outside_quota_are_reported_at_once() -> None:
    """A Deployment's pods without Kueue's gate are nobody's; gated ones wait."""
    free = admission(child(1, kind="Deployment"), facts(pods=(pod(),)))
    assert free is not None
    assert (free.state, free.reason) == ("unmanaged", "NotManagedByQueue")
    gated = admission(child(1, kind="Deployment"), facts(pods=(pod("kueue.x-k8s.io/admission"),)))
    assert gated is not None
    assert gated.state == "pending"


def test_pods_that_are_queued_one_by_one_give_one_answer() -> None:
    """Admitted as soon as one is; else how many wait, and why the first does."""
    two = facts(objects={kinds.WORKLOAD: (workload(WAITS), workload(RESERVED, ADMITTED))})
    answer = admission(child(kind="Deployment"), two)
    assert answer is not None
    assert (answer.state, answer.reason) == ("admitted", "Admitted")
    assert answer.message == f"some pods wait: {WAITS['message']}"
    assert answer.pods_wait
    new = facts(objects={kinds.WORKLOAD: (workload(), workload(RESERVED, ADMITTED))})
    answer = admission(child(kind="Deployment"), new)
    assert answer is not None
    assert answer.message == ADMITTED["message"]
    none = facts(objects={kinds.WORKLOAD: (workload(WAITS), workload(WAITS), workload(FINISHED))})
    answer = admission(child(kind="Deployment"), none)
    assert answer is not None
    assert answer.state == "pending"
    assert answer.message.startswith("2 of 3 pods wait: couldn't")
    equal = facts(objects={kinds.WORKLOAD: (workload(), workload(WAITS))})
    answer = admission(child(kind="Deployment"), equal)
    assert answer is not None
    assert answer.message == f"2 of 2 pods wait: {WAITS['message']}"


def test_a_finished_workload_holds_no_queue() -> None:
    """It stays admitted for ever, as Kueue writes it; a queue that is being deleted does not wait for it."""
    admitted = {"type": "Admitted", "status": "True"}
    assert not is_over([admitted])
    assert not is_over([admitted, {"type": "Finished", "status": "False"}])
    assert is_over([admitted, {"type": "Finished", "status": "True"}])


def test_a_job_is_left_alone_until_kueue_has_suspended_it() -> None:
    """Kueue marks a Job from the first to the last of the writes with which it suspends it."""
    assert not is_stopping(child())
    metadata = {**child()["metadata"], "annotations": {"kueue.x-k8s.io/stopping": "true"}}
    assert is_stopping({**child(), "metadata": metadata})
    assert not is_stopping({"metadata": {"annotations": "odd"}})
