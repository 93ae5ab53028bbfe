"""From each cause to its code, its sentence and its next command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.plugin.diagnosis import ChainLink, QueueExplanation
from kaiwo.plugin.observation import Finding, Outcome
from kaiwo.workload.diagnosis.model import DiagnosisFacts
from kaiwo.workload.diagnosis.questions import wanted_references
from kaiwo.workload.diagnosis.rules import diagnose
from kaiwo.workload.observe import pod_failure
from kaiwo.workload.storage.classes import StorageClass

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Cluster

Object = dict[str, Any]


def _image(c: Cluster) -> Object:
    waiting = {"reason": "ImagePullBackOff", "message": "manifest unknown"}
    return {"pods": [c.pod(containerStatuses=c.container(waiting=waiting))], "child": _job()}


def _job(**status: Any) -> Object:
    return {"kind": "Job", "metadata": {"name": "train", "uid": "child"}, "spec": {}, "status": status}


def _crash(c: Cluster) -> Object:
    waiting = {"reason": "CrashLoopBackOff"}
    last = {"exitCode": 1}
    statuses = c.container(waiting=waiting, count=7, last=last)
    pod = c.pod(phase="Running", containerStatuses=statuses)
    return {"pods": [pod], "child": _job(), "logs": {"train-x/c": ("ImportError: no module torch",)}}


def _killed(c: Cluster, reason: str) -> Object:
    ended = {"exitCode": 137, "reason": reason}
    pod = c.pod(phase="Failed", containerStatuses=c.container(terminated=ended))
    return {"pods": [pod], "workload": c.workload("FAILED", reason)}


def _unschedulable(c: Cluster) -> Object:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/3 nodes are available: 3 Insufficient amd.com/gpu.",
    }
    return {"pods": [c.pod(conditions=[condition], spec={"nodeName": ""})], "child": _job()}


def _unbound(c: Cluster) -> Object:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "pod has unbound immediate PersistentVolumeClaims",
    }
    pod = c.pod(conditions=[condition], spec={"nodeName": ""})
    return {"pods": [pod], "objects": [c.claim()], "storage_classes": {"slow": StorageClass("slow")}}


def _secret(c: Cluster) -> Object:
    volume = {"name": "creds", "secret": {"secretName": "creds"}}
    pod = c.pod(spec={"volumes": [volume]}, containerStatuses=c.container(waiting={}))
    return {"pods": [pod], "missing": (("Secret", "creds"),)}


def _mount(c: Cluster) -> Object:
    pod = c.pod(containerStatuses=c.container(waiting={"reason": "ContainerCreating"}))
    said = 'MountVolume.SetUp failed for volume "nfs": mount failed: exit status 32'
    return {"pods": [pod], "events": [c.event(pod, "FailedMount", said)]}


def _attach(c: Cluster) -> Object:
    pod = c.pod(containerStatuses=c.container(waiting={"reason": "ContainerCreating"}))
    said = 'Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) train-y'
    waits = "Unable to attach or mount volumes: unmounted volumes=[data]: timed out waiting for the condition"
    cause = c.event(pod, "FailedAttachVolume", said) | {"lastTimestamp": "2026-01-31T11:58:10Z"}
    return {"pods": [pod], "events": [c.event(pod, "FailedMount", waits), cause]}


def _queued(c: Cluster) -> Object:
    finding = Finding("Pending", "insufficient unused quota for amd.com/gpu in flavor f, 2 more needed")
    links = (ChainLink("Workload", "job-train", "waits", "x"), ChainLink("Cohort", "all", "waits", "full"))
    queue = QueueExplanation(links, finding, ("Cohort all: full",))
    return {"workload": c.workload("PENDING", "Pending"), "child": _job(), "queue": queue}


def _no_queue(c: Cluster) -> Object:
    message = 'spec.clusterQueue: queue "blue" not found; use one of green, red'
    condition = {"type": "Schedulable", "status": "False", "reason": "ClusterQueueNotFound"}
    status = {"message": message, "conditions": [condition], "childUID": ""}
    return {"workload": c.workload("ERROR", "ClusterQueueNotFound", **status)}


def _download(c: Cluster) -> Object:
    outcome = Outcome("PENDING", "Downloading", "try 1 of 4 failed (no answer), it goes on: Downloading")
    return {"workload": c.workload("PENDING", "Downloading"), "download": outcome}


def _absent(c: Cluster) -> Object:
    return {"workload": c.workload(""), "lease": c.lease(age=120)}


def _no_lease(c: Cluster) -> Object:
    return {"workload": c.workload(""), "lease": None}


def _rights(c: Cluster) -> Object:
    condition = {"type": "RightsComplete", "status": "False", "message": "cannot list jobs.batch"}
    return {"workload": c.workload(""), "config": {"status": {"conditions": [condition]}}}


def _rights_of_an_installation(c: Cluster) -> Object:
    namespace = c.workload("")["metadata"]["namespace"]
    return _with_rights(c, f"namespace a: list jobs.batch: no; namespace {namespace}: list jobs.batch: no")


def _rights_elsewhere(c: Cluster) -> Object:
    return {**_with_rights(c, "namespace a: list jobs.batch: no"), "lease": None}


def _with_rights(c: Cluster, message: str) -> Object:
    condition = {"type": "kaiwo-b/RightsComplete", "status": "False", "message": message}
    return {"workload": c.workload(""), "config": {"status": {"conditions": [condition]}}}


def _unseen(c: Cluster) -> Object:
    return {"workload": c.workload("")}


def _behind(c: Cluster) -> Object:
    workload = c.workload("RUNNING", "Running")
    workload["metadata"]["generation"] = 2
    return {"workload": workload, "lease": c.lease(age=120)}


def _deleting(c: Cluster) -> Object:
    workload = c.workload("RUNNING", "Running")
    workload["metadata"] |= {
        "deletionTimestamp": "2026-01-31T11:59:30Z",
        "finalizers": ["foregroundDeletion"],
    }
    return {"workload": workload}


def _ray(c: Cluster) -> Object:
    ray_job = {"kind": "RayJob", "metadata": {"name": "train", "uid": "child"}}
    outcome = Outcome("FAILED", "AppFailed", "RayJob train failed (AppFailed): ValueError")
    return {"child": ray_job, "outcome": outcome, "workload": c.workload("FAILED", "AppFailed")}


def _plugin(c: Cluster) -> Object:
    return {
        "workload": c.workload(),
        "child": _job(),
        "findings": (("xid", Finding("XidError", "GPU 3 fell off the bus")),),
    }


def _plugin_error(c: Cluster) -> Object:
    words = {"message": "plugin batch_job failed to render this workload: KeyError: 'x'"}
    return {"workload": c.workload("ERROR", "PluginError", **words)}


def _ok(c: Cluster) -> Object:
    pod = c.pod(phase="Running", containerStatuses=c.container(running={"startedAt": "x"}))
    return {"workload": c.workload("RUNNING", "Running"), "pods": [pod], "child": _job()}


def _done(c: Cluster) -> Object:
    failed = c.pod(phase="Failed", containerStatuses=c.container(terminated={"exitCode": 1}))
    return {"workload": c.workload("COMPLETE", "Completed"), "pods": [failed]}


CAUSES: dict[str, tuple[Callable[[Cluster], Object], str, str, str]] = {
    "image": (_image, "ImagePullBackOff", "'registry/it:1' cannot be pulled; it does not exist", "--replace"),
    "crash": (_crash, "CrashLoopBackOff", "at least 5 restarts, last exited with code 1", "logs job/train"),
    "oom": (
        lambda c: _killed(c, "OOMKilled"),
        "OOMKilled",
        "used more memory than its limit",
        "kaiwo submit",
    ),
    "killed": (lambda c: _killed(c, "Error"), "ExitCode", "SIGKILL, not for its memory limit", "logs"),
    "unschedulable": (_unschedulable, "Unschedulable", "3 Insufficient amd.com/gpu", "kaiwo nodes"),
    "volume": (_unbound, "VolumePending", "no StorageClass 'fast' exists; existing: slow", "describe pvc"),
    "secret": (_secret, "FailedMount", "Secret creds does not exist in namespace team", "get secrets"),
    "mount": (_mount, "FailedMount", "exit status 32", "get secrets"),
    "attach": (_attach, "FailedAttachVolume", "already used by pod(s) train-y", "describe pvc"),
    "quota": (_queued, "Pending", "2 more needed", "kaiwo queue blue"),
    "queue": (_no_queue, "ClusterQueueNotFound", "use one of green, red", "kaiwo queue"),
    "download": (_download, "Downloading", "try 1 of 4 failed (no answer)", "logs job/train --download"),
    "operator gone": (_absent, "OperatorAbsent", "operator-1 has not renewed the Lease", "kaiwo doctor"),
    "no operator": (_no_lease, "OperatorAbsent", "there is no Lease kaiwo-operator", "kaiwo doctor"),
    "rights": (_rights, "OperatorForbidden", "cannot list jobs.batch", "kaiwo doctor"),
    "rights of one installation": (
        _rights_of_an_installation,
        "OperatorForbidden",
        "namespace a: list jobs.batch",
        "kaiwo doctor",
    ),
    "rights elsewhere": (_rights_elsewhere, "OperatorAbsent", "there is no Lease", "kaiwo doctor"),
    "unseen": (_unseen, "NotObserved", "operator-1 holds its Lease", "kaiwo doctor"),
    "change": (_behind, "OperatorAbsent", "the last change (generation 2)", "kaiwo doctor"),
    "deletion": (_deleting, "Terminating", "it waits for foregroundDeletion", "kaiwo status job/train"),
    "ray": (_ray, "AppFailed", "ValueError", "kaiwo logs job/train"),
    "plugin rule": (_plugin, "XidError", "GPU 3 fell off the bus", "kaiwo status job/train"),
    "plugin error": (_plugin_error, "PluginError", "KeyError", "kaiwo plugins"),
    "well": (_ok, "Running", "Running it is", "kaiwo logs job/train"),
    "done": (_done, "Completed", "Completed it is", "kaiwo logs job/train"),
}


@pytest.mark.parametrize("name", CAUSES)
def test_each_cause_has_its_code_its_sentence_and_its_next_command(cluster: Cluster, name: str) -> None:
    """What a user reads first names the root cause and what to run next."""
    given, code, words, command = CAUSES[name]
    verdict = diagnose(cluster.facts(**given(cluster))).verdict
    assert verdict.code == code
    assert words in verdict.message
    assert command in verdict.command
    assert verdict.state == {"Running": "ok", "Completed": "ok"}.get(code, verdict.state)


def test_evidence_has_exact_restarts_events_and_the_last_lines(cluster: Cluster) -> None:
    """The status rounds the restarts, so that it is seldom written; here they are exact."""
    given = _crash(cluster)
    event = cluster.event(given["pods"][0], "BackOff", "Back-off restarting failed container")
    verdict = diagnose(cluster.facts(**given, events=[event])).verdict
    assert verdict.evidence == (
        "container c was restarted 7 times",
        "event BackOff, 60 s ago: Back-off restarting failed container",
        "log of container c: ImportError: no module torch",
    )


def test_a_cause_comes_before_its_effects(cluster: Cluster) -> None:
    """The volume before the pod that waits for it; the pod stays among the other causes."""
    found = diagnose(cluster.facts(**_unbound(cluster)))
    assert [found.verdict.code, *(cause.code for cause in found.others)] == [
        "VolumePending",
        "VolumeNotBound",
    ]


def test_a_missing_pull_secret_is_evidence_for_an_image_that_cannot_be_pulled(cluster: Cluster) -> None:
    """The kubelet pulls without it, and the registry only says that it denies access."""
    waiting = {"reason": "ErrImagePull", "message": "denied"}
    secrets = [{"name": "registry"}, {"name": "there"}]
    pod = cluster.pod(
        containerStatuses=cluster.container(waiting=waiting), spec={"imagePullSecrets": secrets}
    )
    facts = cluster.facts(pods=[pod], child=_job())
    assert wanted_references(facts) == [("Secret", "registry"), ("Secret", "there")]
    found = diagnose(cluster.facts(pods=[pod], child=_job(), missing=(("Secret", "registry"),)))
    assert found.verdict.code == "ErrImagePull"
    assert found.verdict.evidence == ("Secret registry of imagePullSecrets does not exist in namespace team",)


def test_many_pods_with_one_problem_are_one_cause(cluster: Cluster) -> None:
    """The first pod stands for the others, which are counted."""
    waiting = {"reason": "ErrImagePull"}
    pods = [cluster.pod(f"p{n}", containerStatuses=cluster.container(waiting=waiting)) for n in range(40)]
    found = diagnose(cluster.facts(pods=pods, child=_job()))
    assert found.verdict.evidence == ("39 more pods have the same problem",)
    assert not found.others
    assert [link.name for link in found.chain if link.kind == "Pod"] == [
        *(f"p{n}" for n in range(5)),
        "and 35 more",
    ]


def test_an_operator_that_went_away_later_is_named_beside_the_verdict(cluster: Cluster) -> None:
    """The status may be out of date, and the reader is told so."""
    found = diagnose(cluster.facts(**{**_image(cluster), "lease": cluster.lease(age=120)}))
    assert found.verdict.code == "ImagePullBackOff"
    assert [cause.code for cause in found.others] == ["OperatorAbsent"]
    assert "may be out of date" in found.others[0].message


def test_an_invalid_configuration_is_named_beside_the_verdict(cluster: Cluster) -> None:
    """The last valid values stay in force, so it is rarely the cause."""
    condition = {"type": "Ready", "status": "False", "reason": "InvalidValues", "message": "spec.nodes: bad"}
    config = {"status": {"conditions": [condition]}}
    found = diagnose(cluster.facts(**_ok(cluster), config=config))
    assert [cause.code for cause in found.others] == ["ConfigInvalid"]
    assert ("KaiwoConfig", "failed") in [(link.kind, link.state) for link in found.chain]


def test_nobody_says_that_an_operator_is_absent_who_may_not_read_its_lease(cluster: Cluster) -> None:
    """Without the right to, only that nobody has observed the workload is known."""
    facts = DiagnosisFacts(workload=cluster.workload(""), now=cluster.now)
    assert diagnose(facts).verdict.code == "NotObserved"


def test_the_chain_goes_from_the_workload_to_its_pods(cluster: Cluster) -> None:
    """In the order in which one object follows from the other."""
    given = _queued(cluster) | {"objects": [cluster.claim("Bound")], "pods": [cluster.pod()]}
    kinds = [link.kind for link in diagnose(cluster.facts(**given)).chain]
    assert kinds == [
        "Lease", "KaiwoJob", "PersistentVolumeClaim", "Job", "Workload", "Cohort", "Pod",
    ]  # fmt: skip


def test_what_was_wrong_with_evicted_pods_is_evidence(cluster: Cluster) -> None:
    """The verdict has the queue system's words; the pods are gone, and the status still has their problem."""
    reason = "DeactivatedDueToRequeuingLimitExceeded"
    queue = QueueExplanation((), Finding(reason, "deactivated"), ())
    message = "deactivated; its pods before: container c of pod p: ImagePullBackOff"
    workload = cluster.workload("PENDING", reason, message=message)
    verdict = diagnose(cluster.facts(workload=workload, child=_job(), queue=queue)).verdict
    assert (verdict.code, verdict.message) == (reason, "deactivated")
    assert verdict.evidence == ("before the eviction: container c of pod p: ImagePullBackOff",)
    assert "--replace" in verdict.command


def test_a_service_is_corrected_in_place(cluster: Cluster) -> None:
    """A job that exists does not change, so it is replaced; a service takes the corrected file."""
    given = _image(cluster)
    given["workload"] = cluster.workload() | {"kind": "KaiwoService"}
    assert diagnose(cluster.facts(**given)).verdict.command == "kaiwo submit -f FILE -n team"


def test_refused_pods_come_before_the_queue_that_waits_for_them(cluster: Cluster) -> None:
    """A queue that admits pods one by one has nothing to admit until the API server takes them."""
    queue = QueueExplanation((), Finding("Queued", "waits in queue blue"))
    message = "each pod is forbidden: exceeded quota: q"
    refused = cluster.workload("STARTING", "FailedCreate", message=message)
    found = diagnose(cluster.facts(workload=refused, queue=queue))
    assert (found.verdict.code, found.verdict.message) == ("FailedCreate", message)
    assert found.verdict.command.startswith("kubectl describe resourcequotas")
    waits = diagnose(cluster.facts(workload=cluster.workload("PENDING", "Queued"), queue=queue))
    assert waits.verdict.code == "Queued"


def test_the_pod_that_the_outcome_names_is_the_cause(cluster: Cluster) -> None:
    """One that the Job ignored failed before it and is still there, with a log of its own."""
    pods = []
    for name, code, minute in (("train-a", 42, 50), ("train-b", 1, 58)):
        ended = {"exitCode": code, "finishedAt": f"2026-01-31T11:{minute}:00Z"}
        pods.append(cluster.pod(name, phase="Failed", containerStatuses=cluster.container(terminated=ended)))
    why = pod_failure.failure(pods[1:])
    assert why is not None
    outcome = Outcome("FAILED", why.reason, why.message)
    given = {"pods": pods, "child": _job(), "workload": cluster.workload("FAILED", "ExitCode")}
    assert "pod train-b" in diagnose(cluster.facts(**given, outcome=outcome)).verdict.message
    assert "pod train-a" in diagnose(cluster.facts(**given)).verdict.message
