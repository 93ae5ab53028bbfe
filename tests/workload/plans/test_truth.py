"""What a status claims is what happened: causes of failures, starts of runs, and no state that never was."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.workload import Workload
from kaiwo.plugin.observation import Outcome
from kaiwo.plugin.queues import Admission, QueueAssignment, QueueSystem
from kaiwo.testing import service
from kaiwo.testing.builders import NOW
from kaiwo.workload.model import ChildRecord, Plan
from kaiwo.workload.observe import pod_status
from kaiwo.workload.status import with_status

if TYPE_CHECKING:
    from conftest import World
    from kaiwo.engine.resource import Object

BEGUN = "2026-01-02T03:04:10Z"
STARTED = "2026-01-02T03:04:15Z"
LATER = "2026-01-02T03:04:45Z"
ENDED = "2026-01-02T03:05:15Z"
LIMIT = "Job has reached the specified backoff limit"


def container(**state: Any) -> Object:
    """The status of the container."""
    return {"name": "workload", "state": state}


def reported(world: World) -> tuple[str, str]:
    """Plan, write, and say status and reason."""
    plan = world.plan()
    assert not plan.writes
    world.events += plan.events
    if plan.statuses:
        world.obj = {**world.obj, "status": plan.statuses[-1]}
    assert world.plan().statuses == ()
    return world.status["status"], world.status["reason"]


def runs(world: World, at: str = STARTED) -> Object:
    """Let the Job's container run."""
    world.live(status={"startTime": BEGUN, "active": 1})
    pod = world.pod(phase="Running", containerStatuses=[container(running={"startedAt": at})])
    world.set(pods=(pod,))
    assert reported(world) == ("RUNNING", "Running")
    return pod


def judged(world: World, kind: str, reason: str = "BackoffLimitExceeded") -> None:
    """Let the Job controller say that the Job fails or has failed."""
    condition = {
        "type": kind, "status": "True", "reason": reason, "message": LIMIT, "lastTransitionTime": ENDED
    }  # fmt: skip
    world.live(status={"startTime": BEGUN, "conditions": [condition]})


@pytest.mark.parametrize("reason", ["DeletionByTaintManager", "DeletionByPodGC"])
def test_a_failed_node_is_the_cause_though_the_pod_is_gone_at_the_end(world: World, reason: str) -> None:
    """The Job controller decides when the pods are gone: their previous state is reported at the end."""
    world.settle()
    pod = runs(world)
    disrupted = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "node is gone"}
    pod = {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": ENDED}}
    pod["status"] = {**pod["status"], "conditions": [disrupted]}
    world.set(pods=(pod,))
    assert reported(world) == ("RUNNING", "Running"), "until somebody judges, its container runs"
    judged(world, "FailureTarget")
    assert reported(world) == ("RUNNING", "NodeLost")
    world.set(pods=())
    assert reported(world) == ("RUNNING", "NodeLost")
    judged(world, "Failed")
    assert reported(world) == ("FAILED", "NodeLost")
    assert "node is gone" in world.status["message"]


def test_a_failed_node_is_the_cause_though_the_failed_job_is_observed_first(world: World) -> None:
    """A busy operator may see the pod go and the Job fail at once: the pod's last state explains it."""
    world.settle()
    pod = runs(world)
    disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    pod["status"] = {**pod["status"], "conditions": [{**disrupted, "message": "node is gone"}]}
    world.set(pods=(), gone_pods=(pod,))
    judged(world, "Failed")
    assert reported(world) == ("FAILED", "NodeLost")
    assert "node is gone" in world.status["message"]


def test_an_exit_code_outlives_the_restart_that_the_job_does_not_wait_for(world: World) -> None:
    """A container that is restarted in place has its last exit code while the Job ends."""
    world.settle()
    pod = runs(world)
    crashed = {
        **container(waiting={"reason": "CrashLoopBackOff"}),
        "lastState": {"terminated": {"exitCode": 3, "startedAt": STARTED}},
    }
    pod = {**pod, "status": {**pod["status"], "containerStatuses": [crashed]}}
    world.set(pods=(pod,))
    assert reported(world) == ("STARTING", "CrashLoopBackOff")
    assert [(event.type, event.reason) for event in world.events[-2:]] == [
        ("Normal", "WorkloadStarting"),
        ("Warning", "CrashLoopBackOff"),
    ]
    judged(world, "FailureTarget")
    assert reported(world) == ("STARTING", "CrashLoopBackOff"), "a pod that stays tells it at the end too"
    world.set(pods=({**pod, "metadata": {**pod["metadata"], "deletionTimestamp": ENDED}},))
    assert reported(world) == ("STARTING", "ExitCode")
    world.set(pods=())
    judged(world, "Failed")
    assert reported(world) == ("FAILED", "ExitCode")
    assert "exited with code 3" in world.status["message"]
    assert world.status["startTime"] == STARTED


def test_a_deadline_does_not_pass_through_another_start(world: World) -> None:
    """While the pods are stopped the job neither starts nor ends."""
    world.settle()
    pod = runs(world)
    judged(world, "FailureTarget", "DeadlineExceeded")
    killed = container(terminated={"exitCode": 137, "startedAt": STARTED})
    pod = {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": ENDED}}
    world.set(pods=({**pod, "status": {"phase": "Failed", "containerStatuses": [killed]}},))
    assert reported(world) == ("RUNNING", "Running")
    judged(world, "Failed", "DeadlineExceeded")
    world.set(pods=())
    assert reported(world) == ("FAILED", "DeadlineExceeded")


def test_the_pods_that_a_failed_job_stops_are_not_its_cause(world: World) -> None:
    """Of parallel pods one fails, and the Job controller stops the others, which end with its signal."""
    world.settle()
    pod = runs(world)
    broken = {"exitCode": 2, "startedAt": STARTED, "finishedAt": LATER}
    failed = {"phase": "Failed", "containerStatuses": [container(terminated=broken)]}
    failed = {**pod, "metadata": {**pod["metadata"], "name": "train-b"}, "status": failed}
    judged(world, "FailureTarget")
    killed = {"exitCode": 143, "startedAt": STARTED, "finishedAt": ENDED}
    going = {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": ENDED}}
    going["status"] = {"phase": "Failed", "containerStatuses": [container(terminated=killed)]}
    world.set(pods=(going, failed))
    assert reported(world) == ("RUNNING", "Running")
    judged(world, "Failed")
    assert reported(world) == ("FAILED", "ExitCode")
    assert "train-b exited with code 2" in world.status["message"]


def test_what_never_ran_has_no_start(world: World) -> None:
    """An image that could not be pulled until the deadline: an end, and no start that is made up."""
    world.settle()
    world.live(status={"startTime": BEGUN, "active": 1})
    stuck = container(waiting={"reason": "ImagePullBackOff"})
    world.set(pods=(world.pod(phase="Pending", containerStatuses=[stuck]),))
    assert reported(world) == ("STARTING", "ImagePullBackOff")
    judged(world, "Failed", "DeadlineExceeded")
    world.set(pods=())
    assert reported(world) == ("FAILED", "DeadlineExceeded")
    assert "its pods before: container" in world.status["message"]
    assert "cannot be pulled" in world.status["message"]
    assert "startTime" not in world.status
    assert world.status["completionTime"] == ENDED


def test_a_container_that_the_runtime_could_not_start_has_no_start(world: World) -> None:
    """A kubelet reports 1970 for it; the run would have lasted 56 years."""
    world.settle()
    epoch = "1970-01-01T00:00:00Z"
    text = 'exec: "/bin/bash": stat /bin/bash: no such file or directory'
    ended = {"exitCode": 128, "reason": "StartError", "startedAt": epoch, "message": text}
    pod = world.pod(phase="Failed", containerStatuses=[container(terminated=ended)])
    pod["metadata"]["creationTimestamp"] = BEGUN
    world.set(pods=(pod,))
    judged(world, "Failed")
    assert reported(world) == ("FAILED", "ExitCode")
    assert world.status["message"].endswith(f" could not be started (StartError): {text}")
    assert "startTime" not in world.status
    assert world.status["completionTime"] == ENDED


def test_a_start_by_the_clock_of_a_node_that_is_behind_is_kept(world: World) -> None:
    """Clocks of nodes differ by seconds from that of the API server."""
    world.settle()
    pod = runs(world, at=BEGUN)
    pod["metadata"]["creationTimestamp"] = STARTED
    world.set(pods=(pod,))
    reported(world)
    assert world.status["startTime"] == BEGUN


def test_a_new_child_is_a_new_run_and_older_pods_are_not_its(world: World) -> None:
    """Its start is its own container's; what the old one left running for a moment counts for nothing."""
    world.settle()
    old = runs(world)
    assert world.facts.live is not None
    metadata = {**world.facts.live["metadata"], "uid": "another", "creationTimestamp": LATER}
    world.live(metadata=metadata, status={})
    world.set(made=frozenset({"another"}))
    old["metadata"].pop("ownerReferences")
    world.set(pods=(old,))
    assert reported(world)[0] == "STARTING"
    assert "startTime" not in world.status
    new = world.pod(phase="Running", containerStatuses=[container(running={"startedAt": LATER})])
    new["metadata"]["creationTimestamp"] = LATER
    world.set(pods=(old, new))
    assert reported(world)[0] == "RUNNING"
    assert world.status["startTime"] == LATER


def test_the_first_of_several_containers_alone_costs_no_write(world: World) -> None:
    """Its start is reported with the next state; nothing else changed for the user."""
    world.settle()
    world.live(status={"startTime": BEGUN, "active": 1})
    waits = world.pod(phase="Pending", containerStatuses=[container(waiting={"reason": "ContainerCreating"})])
    ended = container(terminated={"exitCode": 0, "startedAt": STARTED})
    world.set(pods=(waits, world.pod(phase="Succeeded", containerStatuses=[ended])))
    assert world.plan().statuses == ()
    running = world.pod(phase="Running", containerStatuses=[container(running={"startedAt": LATER})])
    world.set(pods=(running, world.facts.pods[1]))
    assert reported(world) == ("RUNNING", "Running")
    assert world.status["startTime"] == STARTED


def test_an_error_that_heals_does_not_start_again() -> None:
    """States that were passed before the first good state are not reported a second time."""
    status = {"status": "ERROR", "reason": "ApplicationUnhealthy", "childUID": "u", "startTime": STARTED}
    workload = Workload.from_object({**service(ray=True), "status": status})
    outcome = Outcome("READY", "Ready", "it serves", started=NOW, passed=("STARTING",))
    plan = with_status(workload, Plan(outcome, ChildRecord("u")), NOW)
    assert [step["status"] for step in plan.statuses] == ["READY"]


def test_a_state_that_still_holds_stays_reported_whichever_pod_comes_first() -> None:
    """Several pods with the same trouble do not take turns in the message."""
    pods = [
        {
            "metadata": {"name": name},
            "status": {"containerStatuses": [container(waiting={"reason": "CreateContainerConfigError"})]},
        }
        for name in ("a", "b")
    ]
    first = pod_status.problem(pods)
    assert first is not None
    assert pod_status.problem(reversed(pods), first) == first
    assert pod_status.problem(pods[1:], first) != first


def queued(world: World, admission: Admission) -> None:
    """Load a queue system that gives everything to one queue and says this of it."""
    system = QueueSystem(
        "q",
        assign=lambda _, __: QueueAssignment("team", {"queue": "team"}),
        admission=lambda _, __: admission,
    )
    world.registry = dataclasses.replace(world.registry, queue=system)


def unschedulable(world: World, name: str, text: str) -> Object:
    """A pod that no node takes."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text}
    pod = world.pod(phase="Pending", conditions=[condition])
    return {**pod, "metadata": {**pod["metadata"], "name": name}}


def test_nodes_that_come_and_go_are_no_news_of_a_pod_that_fits_none(world: World) -> None:
    """A scheduler counts nodes for each reason; only another reason is written, whichever pod it is about."""
    world.settle()
    few = "0/3 nodes are available: 1 Insufficient amd.com/gpu, 2 node(s) had untolerated taint {a: b}."
    many = "0/12 nodes are available: 11 node(s) had untolerated taint {a: b}, 1 Insufficient amd.com/gpu."
    world.set(pods=(unschedulable(world, "b", few), unschedulable(world, "a", few)))
    assert reported(world) == ("STARTING", "Unschedulable")
    world.set(pods=(unschedulable(world, "a", many), unschedulable(world, "b", many)))
    assert world.plan().statuses == ()
    other = "0/12 nodes are available: 12 node(s) were unschedulable."
    world.set(pods=(unschedulable(world, "a", other), unschedulable(world, "b", other)))
    assert reported(world) == ("STARTING", "Unschedulable")
    assert other in world.status["message"]


def test_an_eviction_is_one_change(world: World) -> None:
    """The condition Admitted changes together with the state, not a moment before the pods are stopped."""
    queued(world, Admission("admitted", "Admitted", "The workload is admitted"))
    world.settle()
    assert world.facts.live is not None
    world.live(spec={**world.facts.live["spec"], "suspend": False})
    runs(world)
    queued(world, Admission("evicted", "Preempted", "made room"))
    assert world.plan().statuses == ()
    world.set(pods=())
    assert reported(world) == ("PENDING", "Preempted")
    assert (world.condition("Admitted")["status"], world.condition("Admitted")["reason"]) == (
        "False",
        "Preempted",
    )


def test_the_queue_that_was_not_named_is_in_the_status(world: World) -> None:
    """The default queue, as the command line shows it."""
    queued(world, Admission("pending", "Pending", "insufficient quota"))
    world.settle()
    assert "clusterQueue" not in world.obj["spec"]
    assert world.status["allocation"]["queue"] == "team"


def test_a_queues_first_word_is_waited_for_a_moment(world: World) -> None:
    """The first status already has the reason of the wait; a missing reason is reported after two seconds."""
    said = Admission("pending", "Queued", "waits in queue team", NOW.isoformat(), undecided=True)
    queued(world, said)
    world.settle()
    assert (world.obj.get("status"), world.plan().requeue_after) == (None, 2.0)
    queued(world, Admission("admitted", "Admitted", "The workload is admitted"))
    assert world.facts.live is not None
    world.live(spec={**world.facts.live["spec"], "suspend": False})
    assert [status["status"] for status in world.plan().statuses] == ["PENDING", "STARTING"]
    queued(world, said)
    world.live(spec={**world.facts.live["spec"], "suspend": True})
    world.at(NOW + timedelta(seconds=2))
    assert reported(world) == ("PENDING", "Queued")


def test_a_queue_without_a_new_message_causes_no_further_reconciliation(world: World) -> None:
    """Told that it waits, a workload waits for events alone, though the queue began anew."""
    silent = Admission("pending", "Queued", "waits in queue team", NOW.isoformat(), undecided=True)
    queued(world, silent)
    world.settle()
    world.at(NOW + timedelta(seconds=2))
    assert reported(world) == ("PENDING", "Queued")
    queued(world, dataclasses.replace(silent, since=(NOW + timedelta(seconds=2)).isoformat()))
    assert (world.plan().statuses, world.plan().requeue_after) == ((), None)


def test_a_job_without_pods_by_its_own_spec_says_so(world: World) -> None:
    """Parallelism 0 is a pause, and a Job that another controller runs has its pods elsewhere."""
    world.settle()
    assert world.facts.live is not None
    spec = world.facts.live["spec"]
    world.live(spec={**spec, "parallelism": 0}, status={"startTime": BEGUN})
    world.at(NOW + timedelta(minutes=5))
    assert reported(world) == ("PENDING", "Suspended")
    assert "parallelism" in world.status["message"]
    world.live(spec={**spec, "managedBy": "kueue.x-k8s.io/multikueue"})
    assert reported(world) == ("STARTING", "Starting")
    assert "multikueue" in world.status["message"]
    world.live(status={"startTime": BEGUN, "active": 1, "ready": 1})
    assert reported(world) == ("RUNNING", "Running")
    assert world.status["startTime"] == BEGUN


def test_a_pod_that_is_evicted_does_not_start_again(world: World) -> None:
    """Until the Job controller has decided, a job that ran keeps its status: it starts no second time."""
    world.settle()
    pod = runs(world)
    ended = container(terminated={"exitCode": 137, "startedAt": STARTED, "finishedAt": ENDED})
    evicted = {"phase": "Failed", "reason": "Evicted", "message": "low on memory"}
    world.at(NOW + timedelta(seconds=70))
    world.set(pods=({**pod, "status": {**evicted, "containerStatuses": [ended]}},))
    assert reported(world) == ("RUNNING", "Running")
    judged(world, "Failed")
    assert world.plan().statuses[-1]["status"] == "FAILED"


def test_a_pod_that_its_node_rejects_is_reported_while_nothing_runs() -> None:
    """A device plugin without a healthy GPU fails one pod after the other; the node says why on each."""
    rejected = {
        "metadata": {"name": "a"},
        "status": {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no healthy devices"},
    }
    found = pod_status.problem([rejected])
    assert found is not None
    assert (found.reason, "no healthy devices" in found.message) == ("UnexpectedAdmissionError", True)
    odd = pod_status.problem([{"status": {"phase": "Failed", "reason": "OutOfamd.com/gpu"}}])
    assert odd is not None
    assert odd.reason == "OutOfamdcomgpu"
    running = {"status": {"phase": "Running", "containerStatuses": [container(running={})]}}
    assert pod_status.problem([rejected, running]) is None
