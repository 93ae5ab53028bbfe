from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar

import pytest
from pydantic import BaseModel, RootModel

from kaiwo.engine.resource import PERSISTENT_VOLUME_CLAIM
from kaiwo.plugin.diagnosis import DiagnosisRule
from kaiwo.plugin.observation import Finding, Observation
from kaiwo.plugin.queues import Admission, QueueAssignment, QueueSystem
from kaiwo.testing.builders import NOW
from kaiwo_batch_job.backend import BatchJobBackend

if TYPE_CHECKING:
    from conftest import World
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.facts import Allocation, Blocked
    from kaiwo.plugin.observation import Outcome
    from kaiwo.plugin.rendering import AllocationInput, Rendered, RenderInput

BEGUN = "2026-01-02T03:04:10Z"
STARTED = "2026-01-02T03:04:15Z"
ENDED = "2026-01-02T03:05:15Z"
RUNNING = {"name": "workload", "state": {"running": {"startedAt": STARTED}}}
EXITED = {"name": "workload", "state": {"terminated": {"exitCode": 0, "startedAt": STARTED}}}


def states(world: World) -> list[str]:
    """Plan once, write all statuses, and return their words."""
    plan = world.plan()
    assert not plan.writes
    world.events += plan.events
    if plan.statuses:
        world.obj = {**world.obj, "status": plan.statuses[-1]}
    assert world.plan().statuses == ()
    return [status["status"] for status in plan.statuses]


def run(world: World) -> None:
    """Let the Job's container run."""
    world.live(status={"startTime": BEGUN, "active": 1})
    world.set(pods=(world.pod(phase="Running", containerStatuses=[RUNNING]),))


def complete(world: World) -> None:
    """Let the Job end well."""
    conditions = [{"type": "Complete", "status": "True", "lastTransitionTime": ENDED}]
    world.live(status={"startTime": BEGUN, "completionTime": ENDED, "conditions": conditions})
    world.set(pods=(world.pod(phase="Succeeded", containerStatuses=[EXITED]),))


def test_a_job_that_is_watched_takes_one_status_for_each_step(world: World) -> None:
    """STARTING, RUNNING, COMPLETE, with the times of what really happened and one event each."""
    world.settle()
    run(world)
    assert states(world) == ["RUNNING"]
    assert world.status["startTime"] == STARTED
    assert "completionTime" not in world.status
    complete(world)
    assert states(world) == ["COMPLETE"]
    assert (world.status["completionTime"], world.status["duration"]) == (ENDED, 60)
    assert [event.reason for event in world.events] == [
        "WorkloadStarting",
        "WorkloadRunning",
        "WorkloadComplete",
    ]


def test_a_job_does_not_seem_to_start_again_just_before_it_ends(world: World) -> None:
    """Between the end of its container and the Job's own verdict a job stays RUNNING, for seconds only."""
    world.settle()
    run(world)
    states(world)
    finished = {**EXITED["state"]["terminated"], "finishedAt": ENDED}
    pod = {"name": "workload", "state": {"terminated": finished}}
    world.set(pods=(world.pod(phase="Succeeded", containerStatuses=[pod]),))
    world.set(now=datetime.fromisoformat(ENDED) + timedelta(seconds=2))
    assert states(world) == []
    assert world.plan().requeue_after == pytest.approx(8)
    world.set(now=datetime.fromisoformat(ENDED) + timedelta(seconds=11))
    assert states(world) == ["STARTING"]


def test_missed_steps_are_written_in_order(world: World) -> None:
    """A job that ran unobserved still passes through the statuses that recorded facts prove."""
    world.settle()
    complete(world)
    plan = world.plan()
    assert [status["status"] for status in plan.statuses] == ["RUNNING", "COMPLETE"]
    assert plan.statuses[0]["startTime"] == STARTED
    assert "completionTime" not in plan.statuses[0]
    assert [event.reason for event in plan.events] == ["WorkloadRunning", "WorkloadComplete"]


def test_a_finished_job_without_pods_still_has_its_times(world: World) -> None:
    """When the pods are gone the Job's own start is the next best."""
    world.settle()
    complete(world)
    world.set(pods=())
    states(world)
    assert (world.status["startTime"], world.status["duration"]) == (BEGUN, 65)


def failed(world: World, reason: str, container: Object) -> None:
    """Let the Job end badly."""
    condition = {
        "type": "Failed",
        "status": "True",
        "reason": reason,
        "message": "Job has reached the specified backoff limit",
        "lastTransitionTime": ENDED,
    }
    world.live(status={"startTime": BEGUN, "conditions": [condition]})
    state = {"terminated": {"startedAt": STARTED, **container}}
    pod = world.pod(phase="Failed", containerStatuses=[{"name": "workload", "state": state}])
    world.set(pods=(pod,) if container else ())


@pytest.mark.parametrize(
    ("reason", "container", "expected", "words"),
    [
        ("BackoffLimitExceeded", {"exitCode": 3}, "ExitCode", "exited with code 3"),
        ("BackoffLimitExceeded", {"exitCode": 137, "reason": "OOMKilled"}, "OOMKilled", "OOMKilled"),
        ("DeadlineExceeded", {"exitCode": 143}, "DeadlineExceeded", "activeDeadlineSeconds"),
        ("BackoffLimitExceeded", {}, "BackoffLimitExceeded", "backoff limit"),
    ],
)
def test_a_failed_job_says_how(
    world: World, reason: str, container: Object, expected: str, words: str
) -> None:
    """Exit code, memory or deadline stand in the message, and the job is never run again."""
    world.settle()
    failed(world, reason, container)
    assert states(world)[-1] == "FAILED"
    assert world.status["reason"] == expected
    assert words in world.status["message"]
    assert world.status["completionTime"] == ENDED
    world.set(live=None, pods=())
    assert states(world) == []


def waiting(reason: str, message: str = "") -> Object:
    """Status of a pod whose container waits."""
    state = {"waiting": {"reason": reason, "message": message}}
    return {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "True"}],
        "containerStatuses": [{"name": "workload", "image": "no/such:1", "state": state}],
    }


@pytest.mark.parametrize(
    "reason", ["ImagePullBackOff", "ErrImagePull", "CreateContainerConfigError", "CrashLoopBackOff"]
)
def test_a_container_that_cannot_start_is_the_reason(world: World, reason: str) -> None:
    """The trouble of the pod is the workload's reason at once, with a warning, and RUNNING is not claimed."""
    world.settle()
    world.set(pods=(world.pod(**waiting(reason, "Secret not found")),))
    assert states(world) == ["STARTING"]
    assert world.status["reason"] == reason
    assert "workload" in world.status["message"]
    assert (world.events[-1].type, world.events[-1].reason) == ("Warning", reason)


def test_a_kubelet_that_alternates_between_two_reasons_is_reported_once(world: World) -> None:
    """ErrImagePull and ImagePullBackOff take turns; that writes nothing."""
    world.settle()
    world.set(pods=(world.pod(**waiting("ErrImagePull", "rpc error")),))
    states(world)
    world.set(pods=(world.pod(**waiting("ImagePullBackOff", "Back-off pulling image")),))
    assert states(world) == ["STARTING"]
    for _ in range(3):
        world.set(pods=(world.pod(**waiting("ErrImagePull", "not found")),))
        assert states(world) == []
        world.set(pods=(world.pod(**waiting("ImagePullBackOff", "Back-off pulling image")),))
        assert states(world) == []


def test_the_cause_of_a_failed_pull_stays_while_the_kubelet_waits(world: World) -> None:
    """A kubelet before Kubernetes 1.31 says only that it waits; the try before has said why."""
    world.settle()
    world.set(pods=(world.pod(**waiting("ErrImagePull", "x: not found")),))
    states(world)
    world.set(pods=(world.pod(**waiting("ImagePullBackOff", 'Back-off pulling image "no/such:1"')),))
    assert states(world) == ["STARTING"]
    assert world.status["reason"] == "ImagePullBackOff"
    assert world.status["message"].endswith(
        "ImagePullBackOff: image 'no/such:1' cannot be pulled; it does not exist there"
    )


@pytest.mark.parametrize("reason", ["RegistryUnavailable", "SignatureValidationFailed", "PostStartHookError"])
def test_what_newer_kubelets_report_is_the_reason(world: World, reason: str) -> None:
    """Signatures of images, registries that do not answer, and hooks that fail have reasons of their own."""
    world.settle()
    world.set(pods=(world.pod(**waiting(reason, "it failed")),))
    assert states(world) == ["STARTING"]
    assert world.status["reason"] == reason


def unschedulable(text: str, reason: str = "Unschedulable") -> Object:
    """Status of a pod that the scheduler cannot place."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": text}
    return {"phase": "Pending", "conditions": [condition]}


@pytest.mark.parametrize(
    ("kubelet", "why"),
    [
        ("failed to resolve reference registry/x:1: registry/x:1: not found", "; it does not exist there"),
        ("reading manifest 1 in registry/x: manifest unknown", "; it does not exist there"),
        ("pull access denied for x, repository does not exist", "; access was denied"),
        ("401 Unauthorized", "; access was denied"),
        ("unexpected status from GET request to https://ghcr.io/token: 403 Forbidden", "; access was denied"),
        ("Head https://1.dkr.ecr.aws/v2/a: no basic auth credentials", "; access was denied"),
        (
            "failed to pull and unpack image x: no match for platform in manifest: not found",
            "; it is not built for the node's architecture",
        ),
        (
            'no image found in image index for architecture "arm64", variant "v8", OS "linux"',
            "; it is not built for the node's architecture",
        ),
        (
            "429 Too Many Requests - Server message: toomanyrequests: You have reached your pull rate limit",
            "; the registry allows no more pulls for now",
        ),
        (
            'error getting credentials: exec: "docker-credential-ecr-login": executable file not found',
            "; the node lacks the program for the registry's credentials",
        ),
        (
            "dial tcp: lookup r.example on 10.96.0.10:53: no such host",
            "; the name of the registry is unknown to the node",
        ),
        (
            "tls: failed to verify certificate: x509: certificate signed by unknown authority",
            "; the node does not trust the registry's certificate",
        ),
        (
            "http: server gave HTTP response to HTTPS client",
            "; the registry serves HTTP, and the node expects HTTPS",
        ),
        ("failed to extract layer: write /x: no space left on device", "; the node's disk is full"),
        (
            'failed to do request: Head "https://r.example/v2/x": dial tcp 10.0.0.9:443: i/o timeout',
            "; the node does not reach the registry",
        ),
        (
            "proxyconnect tcp: dial tcp 10.0.0.9:3128: connect: connection refused",
            "; the node does not reach the registry",
        ),
        (
            "dial tcp: lookup r.example on 10.96.0.10:53: server misbehaving",
            "; the node does not reach the registry",
        ),
        (
            "failed to copy: read tcp 10.0.0.5:4412->10.0.0.9:443: read: connection reset by peer",
            "; the connection to the registry broke off",
        ),
        (
            'Container image "no/such:1" is not present with pull policy of Never',
            "; the node does not have it, and its imagePullPolicy is Never",
        ),
        (
            'couldn\'t parse image name "No/x": invalid reference format: repository name must be lowercase',
            "; its name has upper case letters",
        ),
        (
            'Failed to apply default image tag "x:": couldn\'t parse image name "x:": invalid reference',
            "; no image can have this name",
        ),
        ("failed to copy: context canceled", ""),
    ],
)
def test_an_image_that_cannot_be_pulled_is_reported_with_the_cause(
    world: World, kubelet: str, why: str
) -> None:
    """A missing tag and a missing right need different steps; the kubelet's own text changes all the time."""
    world.settle()
    world.set(pods=(world.pod(**waiting("ImagePullBackOff", kubelet)),))
    states(world)
    assert world.status["message"].endswith(f"image 'no/such:1' cannot be pulled{why}")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0/3 nodes are available: 3 Insufficient cpu.", "Unschedulable"),
        ("pod has unbound immediate PersistentVolumeClaims", "VolumeNotBound"),
    ],
)
def test_the_schedulers_text_is_the_message(world: World, text: str, reason: str) -> None:
    """The reason why a pod has no node is reported with the scheduler's message."""
    world.settle()
    world.set(pods=(world.pod(**unschedulable(text)),))
    states(world)
    assert world.status["reason"] == reason
    assert text in world.status["message"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded',
            "VolumeNotBound",
        ),
        ('running Reserve plugin "GangScheduling": no quorum', "Unschedulable"),
    ],
)
def test_a_node_that_was_chosen_in_vain_is_reported(world: World, text: str, reason: str) -> None:
    """A scheduler's own failure has the reason SchedulerError, mostly since a disk is made too slowly."""
    world.settle()
    world.set(pods=(world.pod(**unschedulable(text, "SchedulerError")),))
    states(world)
    assert world.status["reason"] == reason
    assert text in world.status["message"]


def test_a_missing_scheduler_is_noticed_after_half_a_minute(world: World) -> None:
    """A pod that no scheduler processes names its scheduler, exactly after the timeout."""
    world.settle()
    world.set(pods=(world.pod(phase="Pending"),))
    assert world.plan().requeue_after == 30.0
    world.at(NOW + timedelta(seconds=30))
    states(world)
    assert world.status["reason"] == "SchedulerMissing"
    assert "'kaiwo-scheduler'" in world.status["message"]
    assert world.plan().requeue_after is None


def test_a_job_that_gets_no_pod_is_noticed_after_half_a_minute(world: World) -> None:
    """A quota that refuses the pods of a Job shows nowhere else in its state."""
    world.settle()
    assert world.plan().requeue_after is None
    world.live(status={"startTime": BEGUN})
    assert world.plan().requeue_after == 7.0
    assert not world.plan().needs_events
    world.at(NOW + timedelta(seconds=7))
    assert (world.plan().requeue_after, world.plan().needs_events) == (27.0, world.facts.live)
    world.at(NOW + timedelta(seconds=34))
    states(world)
    assert (world.status["status"], world.status["reason"]) == ("STARTING", "NoPods")
    run(world)
    assert states(world) == ["RUNNING"]


def test_a_job_whose_pods_are_refused_says_what_refused_them(world: World) -> None:
    """The Job controller's event is reported as soon as it is known, until there is a pod."""
    world.settle()
    world.live(status={"startTime": BEGUN})
    world.at(NOW + timedelta(seconds=7))
    world.set(
        warning_event=Finding("FailedCreate", "Error creating: exceeded quota: team"),
        warning_event_uid="uid-of-train",
    )
    states(world)
    assert (world.status["status"], world.status["reason"]) == ("STARTING", "FailedCreate")
    assert world.status["message"] == "Job train has no pod: Error creating: exceeded quota: team"
    assert world.events[-1].type == "Warning"
    assert not world.plan().needs_events
    run(world)
    assert states(world) == ["RUNNING"]
    assert "quota" not in world.status["message"]


def test_a_running_job_with_a_stuck_pod_says_so(world: World) -> None:
    """One of two pods runs: RUNNING, and the problem of the other is reported."""
    world.settle()
    run(world)
    world.set(pods=(*world.facts.pods, world.pod(**waiting("ImagePullBackOff"))))
    states(world)
    assert (world.status["status"], world.status["reason"]) == ("RUNNING", "ImagePullBackOff")
    assert world.status["message"].startswith("1 of 2 pods run")


def test_a_suspended_job_without_a_queue_waits_for_its_owner(world: World) -> None:
    """Who suspends a Job sees PENDING, and our fields do not fight it."""
    world.settle()
    assert world.facts.live is not None
    world.live(spec={**world.facts.live["spec"], "suspend": True})
    assert states(world) == ["PENDING"]
    assert world.status["reason"] == "Suspended"


def test_pods_of_another_run_do_not_count(world: World) -> None:
    """A terminating pod, or one of an earlier Job, does not make a job RUNNING."""
    world.settle()
    terminating = world.pod(phase="Running", containerStatuses=[RUNNING])
    terminating["metadata"]["deletionTimestamp"] = STARTED
    other = world.pod(phase="Running", containerStatuses=[RUNNING])
    other["metadata"]["ownerReferences"][0]["uid"] = "other"
    world.set(pods=(terminating, other))
    assert states(world) == []


def queue(world: World, admission: Admission | None) -> None:
    """Load a queue system that says this of every child."""
    system = QueueSystem(
        "q",
        assign=lambda workload, _: QueueAssignment(
            workload.spec.cluster_queue or "main", {"queue": workload.spec.cluster_queue or "main"}
        ),
        admission=lambda _, __: admission,
    )
    world.registry = dataclasses.replace(world.registry, queue=system)


def test_a_job_without_a_queue_that_the_queue_system_holds_has_its_words(world: World) -> None:
    """It was made without a queue; the cluster queues it all the same."""
    world.settle()
    assert world.facts.live is not None
    world.live(spec={**world.facts.live["spec"], "suspend": True})
    queue(world, Admission("pending", "Inadmissible", "no queue admits it"))
    assert states(world) == ["PENDING"]
    assert (world.status["reason"], world.status["message"]) == ("Inadmissible", "no queue admits it")


def test_neither_configuration_nor_nodes_touch_a_running_job(world: World) -> None:
    """What was resolved stays: an edit of KaiwoConfig or a lost node changes no child and no status."""
    world.obj["spec"]["gpus"] = 8
    world.settle()
    world.set(
        nodes=(),
        config=dataclasses.replace(world.facts.config, kube_scheduler_name="x", default_ray_image="y"),
    )
    plan = world.plan()
    assert (plan.writes, plan.statuses) == ((), ())


def test_a_claim_that_is_gone_beside_its_child_says_what_brings_it_back(world: World) -> None:
    """The pods of the child would wait for it for ever, and it is made for a new child alone."""
    world.obj["spec"]["storage"] = {"storageEnabled": True, "data": {"storageSize": "10Gi"}}
    world.settle()
    world.set(auxiliaries={})
    world.settle()
    ready = world.condition("StorageReady")
    assert (ready["status"], ready["reason"]) == ("False", "VolumeMissing")
    assert ready["message"] == (
        "PersistentVolumeClaim train-data is not there; delete Job train, and it is created again after the "
        "volume"
    )


def test_the_state_of_volumes_is_reported(world: World) -> None:
    """A volume that is not bound is named with its class; that is no error of the workload."""
    world.obj["spec"]["storage"] = {"storageEnabled": True, "data": {"storageSize": "10Gi"}}
    world.settle()
    key = (PERSISTENT_VOLUME_CLAIM, "train-data")
    pending = {**world.facts.auxiliaries[key], "status": {"phase": "Pending"}}
    world.set(auxiliaries={key: pending})
    states(world)
    assert world.condition("StorageReady")["reason"] == "VolumePending"
    assert world.status["status"] == "STARTING"
    world.set(auxiliaries={})
    states(world)
    assert world.condition("StorageReady")["reason"] == "VolumeMissing"


def test_the_cause_of_an_unbound_volume_stands_before_its_effect(world: World) -> None:
    """The claim first, then the pod; a scheduler that counts anew changes nothing."""
    world.obj["spec"]["storage"] = {"storageEnabled": True, "data": {"storageSize": "10Gi"}}
    world.settle()
    key = (PERSISTENT_VOLUME_CLAIM, "train-data")
    pending = {**world.facts.auxiliaries[key], "status": {"phase": "Pending"}}
    text = "0/{} nodes are available: pod has unbound immediate PersistentVolumeClaims"
    world.set(auxiliaries={key: pending}, pods=(world.pod(**unschedulable(text.format(3))),))
    states(world)
    assert world.status["reason"] == "VolumeNotBound"
    claim, _, effect = world.status["message"].partition("; pod ")
    assert claim.startswith("PersistentVolumeClaim train-data is Pending")
    assert effect.endswith(text.format(3))
    world.set(pods=(world.pod(**unschedulable(text.format(4))),))
    assert not world.plan().statuses


def test_admission_decides_while_a_queue_manages_the_job(world: World) -> None:
    """Waiting with the queue's own text, then admitted, then evicted with a new start time."""
    queue(world, Admission("pending", "Pending", "insufficient quota for cpu"))
    world.settle()
    assert (world.status["status"], world.status["message"]) == ("PENDING", "insufficient quota for cpu")
    assert world.condition("Admitted")["status"] == "False"
    queue(world, Admission("admitted", "Admitted", "The workload is admitted"))
    assert world.facts.live is not None
    world.live(spec={**world.facts.live["spec"], "suspend": False})
    run(world)
    assert states(world) == ["STARTING", "RUNNING"]
    assert world.condition("Admitted")["status"] == "True"
    queue(world, Admission("evicted", "Preempted", "made room"))
    world.set(pods=())
    assert states(world) == ["PENDING"]
    assert "startTime" not in world.status


def test_what_was_wrong_with_the_pods_outlives_an_eviction_for_it(world: World) -> None:
    """A queue that waits no longer for pods takes them away, and with them why they were not ready."""
    queue(world, Admission("admitted", "Admitted", "The workload is admitted"))
    world.settle()
    assert world.facts.live is not None
    world.live(spec={**world.facts.live["spec"], "suspend": False}, status={"startTime": BEGUN})
    waiting = {"name": "workload", "image": "x:1", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    world.set(pods=(world.pod(phase="Pending", containerStatuses=[waiting]),))
    states(world)
    assert world.status["reason"] == "ImagePullBackOff"
    cause = world.status["message"]
    world.set(pods=())
    for reason, text in (
        ("PodsReadyTimeout", "too late"),
        ("PodsReadyTimeout", "too late; couldn't assign"),
        ("DeactivatedDueToRequeuingLimitExceeded", "too often"),
    ):
        queue(world, Admission("evicted", reason, text, not_ready=True))
        states(world)
        assert (world.status["status"], world.status["reason"]) == ("PENDING", reason)
        assert world.status["message"] == f"{text}; its pods before: {cause}"
    queue(world, Admission("pending", "Pending", "insufficient quota"))
    states(world)
    assert world.status["message"] == "insufficient quota"


def test_a_job_that_its_queue_ignores_is_reported(world: World) -> None:
    """Suspended it waits with the reason; started by hand it runs outside quota. One warning says it."""
    queue(world, Admission("unmanaged", "NotManagedByQueue", "nobody manages it"))
    plan = world.settle()
    assert (world.status["status"], world.status["reason"]) == ("PENDING", "NotManagedByQueue")
    assert world.condition("Admitted")["status"] == "Unknown"
    (warning,) = (event for event in plan.events if event.type == "Warning")
    assert (warning.reason, warning.message) == ("NotManagedByQueue", "nobody manages it")
    assert world.facts.live is not None
    world.live(spec={**world.facts.live["spec"], "suspend": False})
    run(world)
    assert states(world) == ["STARTING", "RUNNING"]
    assert world.condition("Admitted")["status"] == "Unknown"


def test_a_diagnosis_rule_explains_after_the_hosts_own(world: World) -> None:
    """A plugin's finding replaces the plain reason, not a known one; a rule that raises is passed over."""

    def broken(_: object) -> Finding:
        raise RuntimeError

    rules = (
        DiagnosisRule("broken", broken),
        DiagnosisRule("xid", lambda _: Finding("XidError", "GPU fell off")),
    )
    world.registry = dataclasses.replace(world.registry, diagnosis=rules)
    world.settle()
    assert world.status["reason"] == "XidError"
    world.set(pods=(world.pod(**waiting("ImagePullBackOff")),))
    states(world)
    assert world.status["reason"] == "ImagePullBackOff"


class Threshold(BaseModel):
    """Settings of a plugin with a diagnosis rule."""

    restarts: int = 3


def test_a_diagnosis_rule_has_the_settings_of_its_plugin(world: World) -> None:
    """By the plugin's name, whatever the rule and a backend are called; an edit counts at once."""

    def tired(seen: Observation) -> Finding:
        assert isinstance(seen.settings, Threshold)
        return Finding("Tired", f"{seen.settings.restarts} restarts")

    rule = DiagnosisRule("batch_job", tired, settings=Threshold, plugin="acme")
    world.registry = dataclasses.replace(world.registry, diagnosis=(rule,))
    world.set(settings={"batch_job": RootModel[int](1), "acme": Threshold()})
    world.settle()
    assert (world.status["reason"], world.status["message"]) == ("Tired", "3 restarts")
    world.set(settings={"acme": Threshold(restarts=5)})
    states(world)
    assert world.status["message"] == "5 restarts"


class Watching(BatchJobBackend):
    """A backend that records the settings with which its methods are called."""

    seen: ClassVar[list[tuple[str, BaseModel | None]]] = []

    def allocate(self, inp: AllocationInput) -> Allocation | Blocked:
        """Record and allocate."""
        self.seen.append(("allocate", inp.settings))
        return super().allocate(inp)

    def render(self, inp: RenderInput) -> Rendered:
        """Record and render."""
        self.seen.append(("render", inp.settings))
        return super().render(inp)

    def observe(self, observation: Observation) -> Outcome:
        """Record and observe."""
        self.seen.append(("observe", observation.settings))
        return super().observe(observation)


def test_a_backend_has_the_settings_of_its_plugin_in_every_method(world: World) -> None:
    """A backend that is called otherwise than its plugin, too."""
    (backend,) = world.registry.backends
    own = dataclasses.replace(backend, implementation=Watching, plugin="acme")
    world.registry = dataclasses.replace(world.registry, backends=(own,))
    world.set(settings={"acme": Threshold(), backend.name: Threshold(restarts=9)})
    Watching.seen.clear()
    world.settle()
    run(world)
    states(world)
    assert {name for name, _ in Watching.seen} == {"allocate", "render", "observe"}
    assert {str(settings) for _, settings in Watching.seen} == {"restarts=3"}


def test_conditions_of_others_stay_and_times_move_with_the_status_only(world: World) -> None:
    """A foreign condition survives; ours keeps its time while its status stays."""
    foreign = {"type": "Theirs", "status": "True", "reason": "X", "message": "", "lastTransitionTime": BEGUN}
    world.obj["status"] = {"conditions": [foreign]}
    world.settle()
    since = world.condition("Schedulable")["lastTransitionTime"]
    world.at(NOW + timedelta(hours=1))
    world.edit(image="other")
    world.settle()
    assert world.condition("Theirs") == foreign
    assert world.condition("Schedulable")["lastTransitionTime"] == since
    assert world.condition("SpecApplied")["lastTransitionTime"] == "2026-01-02T04:04:06Z"


def test_an_unused_field_is_reported_as_long_as_the_spec_is_the_same(world: World) -> None:
    """Whoever did not see a command's warnings reads them in the status, also after the end."""
    world.edit(replicas=3, job={"spec": {"backoffLimit": 4}})
    world.settle()
    for word in ("replicas", "backoffLimit: 4"):
        assert word in world.condition("SpecApplied")["message"]
    done = {"type": "Complete", "status": "True", "reason": "Done", "lastTransitionTime": BEGUN}
    world.live(status={"startTime": BEGUN, "completionTime": BEGUN, "conditions": [done]})
    assert states(world)[-1] == "COMPLETE"
    assert "backoffLimit: 4" in world.condition("SpecApplied")["message"]
