from __future__ import annotations

import copy
import dataclasses
import itertools
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import kaiwo_gpu_amd.plugin
import kaiwo_ray_service.plugin
from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.api.workload import Workload
from kaiwo.plugin.observation import Finding, Observation
from kaiwo.plugin.queues import Admission, QueueAssignment, QueueSystem
from kaiwo.testing import assert_backend_contract, assert_golden, node, plugins, render, service
from kaiwo.testing.builders import NOW
from kaiwo.workload.gpus.nodes import node_fact
from kaiwo.workload.model import Apply, Create, Delete, Facts, Patch, Registry
from kaiwo.workload.plan import plan_object
from kaiwo_ray_service import bare
from kaiwo_ray_service.kinds import RAY_SERVICE
from kaiwo_ray_service.observe import observe

GOLDEN = Path(__file__).parent / "golden"
LOADED = plugins(kaiwo_ray_service.plugin, kaiwo_gpu_amd.plugin)
(BACKEND,) = LOADED.backends
NODES = [node(f"amd-{number}", gpus={"amd.com/gpu": 8}) for number in range(2)]
FACTS = Facts(
    now=NOW,
    config=ResolvedConfig.defaults(),
    nodes=tuple(node_fact(item, LOADED.vendors) for item in NODES),
)
IMAGE = "registry.example/ray:2.46"
APPS = "applications:\n- name: chat\n  import_path: app:deployment\n"

MINIMAL = service(ray=True, image=IMAGE, serveConfigV2=APPS)
EMBEDDED = service(
    user="jane",
    labels={"kueue.x-k8s.io/queue-name": "own", "team": "vision"},
    gpus=4,
    replicas=2,
    image=IMAGE,
    serveConfigV2=APPS,
    rayService={
        "metadata": {
            "labels": {"kueue.x-k8s.io/queue-name": "smuggled", "own": "label"},
            "annotations": {"workload.codeflare.dev.appwrapper/retryLimit": "3"},
            "creationTimestamp": None,
        },
        "spec": {
            "serveConfigV2": "applications: []",
            "rayClusterConfig": {
                "headGroupSpec": {
                    "rayStartParams": {"num-cpus": "0"},
                    "template": {
                        "metadata": {"creationTimestamp": None},
                        "spec": {"containers": [{"name": "h", "resources": None}]},
                    },
                },
                "workerGroupSpecs": [
                    {
                        "groupName": "a",
                        "template": {
                            "metadata": {"creationTimestamp": None},
                            "spec": {"containers": [{"name": "ray-worker"}]},
                        },
                    },
                    {"groupName": "b", "numOfHosts": 3, "scaleStrategy": {}},
                ],
            },
        },
    },
)
FORMS = {"minimal": MINIMAL, "embedded": EMBEDDED}


def planned(obj: Any, **facts: Any) -> Any:
    """The plan of a service on the two nodes, with everything else that fits five hosts."""
    more = tuple(node_fact(node(f"amd-{n}", gpus={"amd.com/gpu": 8}), LOADED.vendors) for n in range(2, 5))
    made = frozenset({facts["live"]["metadata"]["uid"]} if facts.get("live") else ())
    known = {"now": NOW, "config": FACTS.config, "nodes": (*FACTS.nodes, *more), "made": made, **facts}
    return plan_object(obj, Registry.of(LOADED), Facts(**known))


def wrapper(obj: Any) -> Any:
    """The AppWrapper that is created."""
    found = planned(obj)
    (write,) = found.writes or [pytest.fail(str(found.statuses))]
    assert isinstance(write, Create)
    return write.obj


def live(obj: Any, **parts: Any) -> Any:
    """The AppWrapper as the API server has it, and its RayService under its kind."""
    made = copy.deepcopy(wrapper(obj))
    made["metadata"] |= {"uid": "wrapper-uid", **parts.pop("metadata", {})}
    made |= parts
    inner = copy.deepcopy(made["spec"]["components"][0]["template"])
    owner = {"kind": "AppWrapper", "uid": "wrapper-uid", "controller": True}
    inner["metadata"] |= {"uid": "inner-uid", "ownerReferences": [owner]}
    return {"live": made, "auxiliaries": {(RAY_SERVICE, "chat"): inner}}


def edited(obj: Any, **spec: Any) -> Any:
    """The service after a change, its child known."""
    changed = {**obj, "spec": {**obj["spec"], **spec}}
    changed["status"] = {
        "status": "READY",
        "childUID": "wrapper-uid",
        "allocation": {"backend": "ray_service"},
    }
    return changed


def test_it_keeps_the_contract() -> None:
    """What the host relies on holds for every form."""
    nodes = [node(f"amd-{number}", gpus={"amd.com/gpu": 8}) for number in range(5)]
    assert_backend_contract(BACKEND, list(FORMS.values()), vendors=LOADED.vendors, nodes=nodes)
    assert BACKEND.load().serves(Workload.from_object(service(ray=False, rayService={}, deployment={})))
    assert not BACKEND.load().serves(Workload.from_object(service()))


@pytest.mark.parametrize("name", FORMS)
def test_what_is_created(name: str) -> None:
    """The whole object, as a user would read it."""
    nodes = [node(f"amd-{number}", gpus={"amd.com/gpu": 8}) for number in range(5)]
    assert_golden(render(FORMS[name], LOADED, nodes=nodes), GOLDEN / f"{name}.yaml")


def test_the_wrapper_declares_every_pod_set() -> None:
    """AppWrapper knows nothing of RayServices: head, and each group with its hosts."""
    (component,) = wrapper(EMBEDDED)["spec"]["components"]
    at = "template.spec.rayClusterConfig"
    assert [(item["path"], item["replicas"]) for item in component["podSets"]] == [
        (f"{at}.headGroupSpec.template", 1),
        (f"{at}.workerGroupSpecs[0].template", 2),
        (f"{at}.workerGroupSpecs[1].template", 6),
    ]


def test_one_slow_pull_does_not_delete_the_service() -> None:
    """AppWrapper's own timeouts are minutes; what the user wrote stays."""
    annotations = wrapper(MINIMAL)["metadata"]["annotations"]
    prefix = "workload.codeflare.dev.appwrapper/"
    assert annotations[f"{prefix}admissionGracePeriodDuration"] == "24h"
    assert annotations[f"{prefix}warmupGracePeriodDuration"] == "24h"
    assert annotations[f"{prefix}failureGracePeriodDuration"] == "10m"
    assert annotations[f"{prefix}retryLimit"] == "2147483647"
    assert wrapper(EMBEDDED)["metadata"]["annotations"][f"{prefix}retryLimit"] == "3"


def test_the_queue_sees_the_wrapper_alone() -> None:
    """Its label never stands on the RayService, or the service would be queued twice."""
    queue = QueueSystem(
        "kueue", lambda *_: QueueAssignment("team", {"kueue.x-k8s.io/queue-name": "team"}), lambda *_: None
    )
    registry = Registry(backends=LOADED.backends, vendors=LOADED.vendors, queue=queue)
    made = plan_object(MINIMAL, registry, FACTS).writes[0].obj
    assert made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
    assert made["spec"]["suspend"] is True
    for obj in (made, wrapper(EMBEDDED)):
        template = obj["spec"]["components"][0]["template"]
        assert not [key for key in template["metadata"]["labels"] if key.startswith("kueue")]
        assert "ownerReferences" not in template["metadata"]


def test_new_applications_reach_the_rayservice_itself() -> None:
    """No replacement: a patch of the one field, and the wrapper's record of the change."""
    found = planned(edited(MINIMAL, serveConfigV2="applications: [{name: b}]"), **live(MINIMAL))
    inner = [write for write in found.writes if write.resource == RAY_SERVICE]
    assert [write.body for write in inner] == [{"spec": {"serveConfigV2": "applications: [{name: b}]"}}]
    assert inner[0].uid == "inner-uid"
    outer = [write for write in found.writes if write.resource != RAY_SERVICE]
    assert all(isinstance(write, Patch) and list(write.body) == ["metadata"] for write in outer)


def test_applications_are_applied_again_when_the_wrapper_made_the_service_anew() -> None:
    """A reset brings back what the wrapper was created with; nothing else is written."""
    known = live(MINIMAL)
    known["auxiliaries"][RAY_SERVICE, "chat"]["spec"]["serveConfigV2"] = "old"
    found = planned(edited(MINIMAL), **known)
    assert [(write.resource, write.body) for write in found.writes] == [
        (RAY_SERVICE, {"spec": {"serveConfigV2": APPS}})
    ]
    known["auxiliaries"][RAY_SERVICE, "chat"]["metadata"]["ownerReferences"] = []
    assert planned(edited(MINIMAL), **known).writes == ()


def test_new_applications_of_a_relabelled_service_replace_nothing() -> None:
    """Labels reach the pods with the next change that shapes pods; until then they cost no downtime."""
    obj, known = edited(MINIMAL, serveConfigV2="applications: [{name: b}]"), live(MINIMAL)
    obj["metadata"] = {**obj["metadata"], "labels": {"team": "vision"}, "annotations": {"note": "new"}}
    writes = planned(obj, **known).writes
    assert {type(write) for write in writes} == {Patch}
    (outer,) = [write for write in writes if write.resource != RAY_SERVICE]
    assert outer.body["metadata"]["labels"] == {"team": "vision"}
    obj["spec"]["image"] = "registry.example/ray:3"
    (write,) = planned(obj, **known).writes
    assert isinstance(write, Delete)


@pytest.mark.parametrize(
    "change",
    [
        {"serveConfigV2": "applications: [{name: b}]"},
        {"rayService": {"metadata": {"labels": {"a": "b"}}}},
    ],
)
def test_other_nodes_than_at_the_start_do_not_split_gpus_anew(change: Any) -> None:
    """A change without other GPUs keeps the split of the running service, which therefore stays up."""
    obj = service(ray=True, rayService={}, gpus=8, image=IMAGE, serveConfigV2=APPS)
    smaller = tuple(node_fact(node(f"n{n}", gpus={"amd.com/gpu": 4}), LOADED.vendors) for n in range(4))
    known = live(obj)
    assert known["live"]["spec"]["components"][0]["podSets"][1]["replicas"] == 1
    found = planned(edited(obj, **change), **known, nodes=smaller)
    assert found.writes
    assert not any(isinstance(write, Delete) for write in found.writes)
    (write,) = planned(edited(obj, gpus=4), **known, nodes=smaller).writes
    assert isinstance(write, Delete)


@pytest.mark.parametrize(
    "change",
    [
        {"image": "registry.example/ray:3"},
        {"replicas": 2},
        {"env": [{"name": "A", "value": "b"}]},
        {"gpus": 2},
    ],
)
def test_what_shapes_pods_replaces_the_wrapper(change: Any) -> None:
    """Deleted in the foreground; PENDING/Replacing with the field until it is gone; then created."""
    obj, known = edited(MINIMAL, **change), live(MINIMAL)
    (write,) = planned(obj, **known).writes
    assert isinstance(write, Delete)
    assert (write.propagation, write.uid) == ("Foreground", "wrapper-uid")

    known["live"]["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:06Z"
    found = planned(obj, **known)
    assert found.writes == ()
    status = found.statuses[-1]
    assert (status["status"], status["reason"]) == ("PENDING", "Replacing")
    assert f"spec.{next(iter(change))}" in status["message"]
    assert "the service is down" in status["message"]
    assert "ResourceReplaced" in {event.reason for event in found.events}
    again = planned({**obj, "status": {**obj["status"], **status}}, **known)
    assert "ResourceReplaced" not in {event.reason for event in again.events}

    (write,) = planned(obj).writes
    assert isinstance(write, Create)


def test_a_service_at_rest_costs_no_write() -> None:
    """Also when only the operator changed: what a child was made with stays."""
    assert planned(edited(EMBEDDED), **live(EMBEDDED)).writes == ()


def test_what_can_never_run_does_not_take_the_running_service_down() -> None:
    """A broken change is reported, and the old wrapper keeps running."""
    for change in ({"rayService": {"spec": 1}}, {"gpuVendor": "acme", "gpus": 1}, {"serveConfigV2": "["}):
        found = planned(edited(MINIMAL, **change), **live(MINIMAL))
        assert found.writes == ()
        applied = [c for c in found.statuses[-1]["conditions"] if c["type"] == "SpecApplied"]
        assert applied[0]["status"] == "False"


def test_zero_replicas_delete_the_wrapper() -> None:
    """PENDING/ScaledToZero with nothing left; more replicas create it again."""
    scaled_down, known = edited(MINIMAL, replicas=0), live(MINIMAL)
    (write,) = planned(scaled_down, **known).writes
    assert isinstance(write, Delete)
    known["live"]["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:06Z"
    found = planned(scaled_down, **known)
    assert found.writes == ()
    assert "being deleted" in found.statuses[-1]["message"]
    found = planned(scaled_down)
    assert found.writes == ()
    assert found.statuses[-1]["reason"] == "ScaledToZero"
    assert "childUID" not in found.statuses[-1]
    scaled_up = {**scaled_down, "status": found.statuses[-1], "spec": {**scaled_down["spec"], "replicas": 1}}
    assert isinstance(planned(scaled_up).writes[0], Create)


WORKER = {
    "metadata": {"name": "w", "labels": {"ray.io/node-type": "worker"}},
    "status": {"containerStatuses": [{"state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}}}]},
}
HEAD = {**WORKER, "metadata": {"name": "h", "labels": {"ray.io/node-type": "head"}}}


def apps(*states: str, active: bool = True) -> Any:
    """A RayService's status with applications in these states."""
    found = {f"app{at}": {"status": state, "message": "why\nnot"} for at, state in enumerate(states)}
    return {("active" if active else "pending") + "ServiceStatus": {"applicationStatuses": found}}


READY = {"conditions": [{"type": "Ready", "status": "True"}]}


@pytest.mark.parametrize(
    ("phase", "inner", "pods", "word", "reason"),
    [
        ("Failed", READY, (), "FAILED", "WrapperFailed"),
        ("Resetting", READY, (), "STARTING", "WrapperReset"),
        ("", None, (), "PENDING", "Starting"),
        ("Suspended", {}, (), "PENDING", "Starting"),
        ("Running", READY, (), "READY", "Ready"),
        ("Running", apps("RUNNING", "RUNNING"), (), "READY", "Ready"),
        ("Running", apps("RUNNING", "UNHEALTHY"), (WORKER,), "ERROR", "ApplicationUnhealthy"),
        ("Running", {**READY, **apps("DEPLOY_FAILED")}, (WORKER,), "ERROR", "ApplicationUnhealthy"),
        ("Running", apps("DEPLOYING", active=False), (HEAD, WORKER), "RUNNING", "Running"),
        ("Running", {}, (HEAD,), "STARTING", "Starting"),
        ("Resuming", None, (), "STARTING", "Starting"),
    ],
)
def test_what_a_live_wrapper_means(phase: str, inner: Any, pods: Any, word: str, reason: str) -> None:
    """One row per documented state."""
    child = {"metadata": {"name": "chat"}, "spec": {}, "status": {"phase": phase}}
    secondary = {} if inner is None else {RAY_SERVICE: {"status": inner}}
    workload = Workload.from_object(MINIMAL)
    found = observe(Observation(workload, child, pods, None, queued=False, now=NOW, secondary=secondary))
    assert (found.status, found.reason) == (word, reason)
    assert "\n" not in found.message


def test_a_service_that_gets_no_pod_is_noticed() -> None:
    """Half a minute after the RayService was made; and not for a service that ran before."""
    child = {"metadata": {"name": "chat"}, "spec": {}, "status": {"phase": "Running"}}
    born = (NOW - timedelta(seconds=31)).isoformat()
    secondary = {RAY_SERVICE: {"metadata": {"creationTimestamp": born}, "status": {}}}
    for status, reason in (({}, "NoPods"), ({"startTime": born}, "Starting")):
        workload = Workload.from_object({**MINIMAL, "status": status})
        found = observe(Observation(workload, child, (), None, queued=False, now=NOW, secondary=secondary))
        assert (found.status, found.reason) == ("STARTING", reason)


def test_what_refuses_the_pods_of_a_service_is_reported() -> None:
    """KubeRay's warning event about the RayCluster; with the reasons of the other backends."""
    child = {"metadata": {"name": "chat"}, "spec": {}, "status": {"phase": "Running"}}
    born = (NOW - timedelta(seconds=5)).isoformat()
    inner = {"pendingServiceStatus": {"rayClusterName": "chat-abc"}}
    secondary = {RAY_SERVICE: {"metadata": {"creationTimestamp": born}, "status": inner}}
    workload = Workload.from_object(MINIMAL)
    observed = {"pods": (), "admission": None, "queued": False, "now": NOW, "secondary": secondary}
    found = observe(Observation(workload, child, **observed))
    assert (found.needs_events is not None, found.pod_owner) == (True, ("RayCluster", "chat-abc"))
    said = Finding("FailedToCreateHeadPod", 'pods "chat-x" is forbidden: exceeded quota: none')
    found = observe(Observation(workload, child, warning_event=said, **observed))
    assert (found.status, found.reason) == ("STARTING", "FailedCreate")
    assert "each pod is forbidden: exceeded quota: none" in found.message


@pytest.mark.parametrize("reason", ["ValidationFailed", "InitializingTimeout"])
def test_a_service_that_kuberay_does_not_run_is_an_error_in_its_words(reason: str) -> None:
    """Its condition Ready says why; after a correction the condition stays for a while beside the pods."""
    child = {"metadata": {"name": "chat"}, "spec": {}, "status": {"phase": "Running"}}
    refused = {"conditions": [{"type": "Ready", "status": "False", "reason": reason, "message": "no user"}]}
    workload = Workload.from_object(MINIMAL)
    for inner, pods, word in (
        ({"status": refused}, (), "ERROR"),
        ({"metadata": {"generation": 2}, "status": {**refused, "observedGeneration": 1}}, (WORKER,), "ERROR"),
        (
            {"metadata": {"generation": 2}, "status": {**refused, "observedGeneration": 2}},
            (WORKER,),
            "RUNNING",
        ),
    ):
        seen = Observation(workload, child, pods, None, queued=False, now=NOW, secondary={RAY_SERVICE: inner})
        found = observe(seen)
        assert found.status == word
        assert (found.reason == reason and "no user" in found.message) is (word == "ERROR")


def test_a_service_that_kuberay_gives_up_says_what_was_wrong_with_its_pods() -> None:
    """KubeRay 1.6 deletes them with its clusters, and names the timeout alone."""
    pulls = "container ray of pod w: ImagePullBackOff: image 'ray:1' cannot be pulled"
    recorded = {"status": "STARTING", "reason": "ImagePullBackOff", "message": pulls}
    said = "RayService failed to become ready within configured timeout of 10m"
    ready = {"type": "Ready", "status": "False", "reason": "InitializingTimeout", "message": said}
    child = {"metadata": {"name": "chat"}, "spec": {}, "status": {"conditions": [ready]}}
    for _ in range(2):
        workload = Workload.from_object({**MINIMAL, "status": recorded})
        found = bare.observe(Observation(workload, child, (), None, queued=False, now=NOW))
        assert (found.status, found.reason) == ("ERROR", "InitializingTimeout")
        assert found.message == f"KubeRay gave up RayService chat: {said}; its pods before: {pulls}"
        recorded = {"status": found.status, "reason": found.reason, "message": found.message}


def test_a_service_that_kuberay_refuses_in_an_event_alone_is_an_error() -> None:
    """KubeRay before 1.6 sets no condition; the event is about the RayService, not about its wrapper."""
    child = {"metadata": {"name": "chat"}, "spec": {}, "status": {"phase": "Running"}}
    born = (NOW - timedelta(seconds=5)).isoformat()
    secondary = {RAY_SERVICE: {"metadata": {"creationTimestamp": born}, "status": {}}}
    observed = {"pods": (), "admission": None, "queued": False, "now": NOW, "secondary": secondary}
    workload = Workload.from_object(MINIMAL)
    found = observe(Observation(workload, child, **observed))
    assert found.needs_events is child
    assert found.pod_owner == ("RayService", "chat")
    event = Finding("InvalidRayServiceSpec", "cannot set redis username")
    found = observe(Observation(workload, child, warning_event=event, **observed))
    assert (found.status, found.reason) == ("ERROR", "InvalidRayServiceSpec")
    assert "cannot set redis username" in found.message


def test_an_upgrade_that_needs_the_autoscaler_is_reported() -> None:
    """Autoscaling is off, so the gradual upgrade of KubeRay is impossible."""
    strategy = {"type": "NewClusterWithIncrementalUpgrade", "clusterUpgradeOptions": {}}
    obj = service(image="x", rayService={"spec": {"upgradeStrategy": strategy, "serveConfigV2": "{}"}})
    assert "spec.rayService.spec.upgradeStrategy.type" in "\n".join(planned(obj).warnings)


def test_a_problem_of_a_service_that_serves_is_reported() -> None:
    """READY as Ray reports, with what keeps one of its workers from running."""
    stuck = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/5 nodes"}
    pod = {"metadata": {"name": "w"}, "spec": {}, "status": {"phase": "Pending", "conditions": [stuck]}}
    child = {"metadata": {"name": "chat"}, "spec": {}, "status": {"phase": "Running"}}
    secondary = {RAY_SERVICE: {"status": READY}}
    workload = Workload.from_object(MINIMAL)
    found = observe(Observation(workload, child, (pod,), None, queued=False, now=NOW, secondary=secondary))
    assert (found.status, found.reason) == ("READY", "Unschedulable")
    assert "serves; pod w cannot be scheduled: 0/5 nodes" in found.message


@pytest.mark.parametrize(
    ("crashing", "word"), [("w", "STARTING"), ("h", "RUNNING")], ids=["its worker", "its head"]
)
def test_a_service_with_a_pod_that_crashes_has_one_status_whether_ray_is_ready_or_not(
    crashing: str, word: str
) -> None:
    """Ray is ready between two crashes, and its conditions change with each of them."""
    back_off = {"waiting": {"reason": "CrashLoopBackOff"}}
    begun = (NOW - timedelta(seconds=3)).isoformat()
    times = {"startedAt": (NOW - timedelta(seconds=20)).isoformat(), "finishedAt": begun}
    last = {"terminated": {"exitCode": 1, **times}}
    child = {"metadata": {"name": "chat"}, "spec": {}, "status": {"phase": "Running"}}
    recorded: dict[str, Any] = {}
    found = set()
    for inner, state in ((apps("DEPLOYING"), back_off), (READY, {"running": {"startedAt": begun}})):
        container = {"name": "ray", "restartCount": 2, "state": state, "lastState": last}
        pods = [
            {**pod, "status": {"containerStatuses": [container]}}
            if pod["metadata"]["name"] == crashing
            else pod
            for pod in (HEAD, WORKER)
        ]
        workload = Workload.from_object({**MINIMAL, "status": recorded})
        secondary = {RAY_SERVICE: {"status": inner}}
        seen = Observation(workload, child, tuple(pods), None, queued=False, now=NOW, secondary=secondary)
        outcome = observe(seen)
        recorded = {"status": outcome.status, "reason": outcome.reason, "message": outcome.message}
        found.add((outcome.status, outcome.reason, outcome.message))
    ((status, reason, message),) = found
    assert (status, reason) == (word, "CrashLoopBackOff")
    assert f"pod {crashing}: CrashLoopBackOff, at least 2 restarts, last exited with code 1" in message


def test_a_wrapper_that_gives_up_says_what_was_wrong_with_its_pods() -> None:
    """AppWrapper counts the pods that are not ready, and deletes them; only the status has the cause."""
    pulls = (
        "container ray of pod w: ImagePullBackOff: image 'ray:1' cannot be pulled; it does not exist there"
    )
    recorded = {"status": "STARTING", "reason": "ImagePullBackOff", "message": pulls}
    unhealthy = {
        "type": "Unhealthy",
        "status": "True",
        "reason": "InsufficientPodsReady",
        "message": "1 pods pending; 1 pods running; 0 pods succeeded",
    }
    for phase, reason in (
        ("Resetting", "WrapperReset"),
        ("Resetting", "WrapperReset"),
        ("Failed", "WrapperFailed"),
    ):
        child = {
            "metadata": {"name": "chat"},
            "spec": {},
            "status": {"phase": phase, "conditions": [unhealthy]},
        }
        workload = Workload.from_object({**MINIMAL, "status": recorded})
        found = observe(Observation(workload, child, (), None, queued=False, now=NOW))
        assert found.reason == reason
        assert found.message.endswith(
            f"InsufficientPodsReady {unhealthy['message']}; its pods before: {pulls}"
        )
        recorded = {"status": found.status, "reason": found.reason, "message": found.message}


def test_a_wrapper_that_somebody_suspended_says_so() -> None:
    """It starts when its owner wants it to, unlike one that its controller has just taken up."""
    child = {"metadata": {"name": "chat"}, "spec": {"suspend": True}, "status": {"phase": "Suspended"}}
    found = observe(Observation(Workload.from_object(MINIMAL), child, (), None, queued=False, now=NOW))
    assert (found.status, found.reason) == ("PENDING", "Suspended")


def test_a_service_that_the_wrapper_cannot_create_is_reported() -> None:
    """AppWrapper retries for a day and reports only that it failed, until there is a RayService."""
    refused = {"type": "ResourcesDeployed", "status": "False", "reason": "ComponentCreationErrored"}
    status = {"phase": "Resuming", "componentStatus": [{"name": "chat", "conditions": [refused]}]}
    child = {"metadata": {"name": "chat"}, "spec": {"suspend": False}, "status": status}
    seen = Observation(Workload.from_object(MINIMAL), child, (), None, queued=False, now=NOW)
    found = observe(seen)
    assert (found.status, found.reason) == ("STARTING", "FailedCreate")
    assert "RayService" in found.message
    there = dataclasses.replace(seen, secondary={RAY_SERVICE: {"metadata": {"name": "chat"}}})
    assert observe(there).reason == "Starting"


def test_the_queues_words_are_reported() -> None:
    """A wrapper that waits has its queue's message."""
    child = {"metadata": {"name": "chat"}, "spec": {"suspend": True}, "status": {"phase": "Suspended"}}
    waits = Admission("pending", "Pending", "insufficient quota for amd.com/gpu")
    found = observe(Observation(Workload.from_object(MINIMAL), child, (), waits, queued=True, now=NOW))
    assert (found.status, found.reason, found.message) == ("PENDING", "Pending", waits.message)


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"rayService": []}, "spec.rayService:"),
        ({"rayService": {"spec": 1}}, "spec.rayService.spec:"),
        ({"rayService": {"spec": {"rayClusterConfig": {"workerGroupSpecs": [{}] * 8}}}}, "workerGroupSpecs:"),
        ({"rayService": {"spec": {"rayClusterSpec": {}}}}, "spec.rayService.spec.rayClusterSpec:"),
        ({"rayService": {"rayClusterConfig": {"rayVersion": "2"}}}, "spec.rayService.rayClusterConfig:"),
        ({"rayService": {"kind": "RayJob", "spec": {}}}, "spec.rayService.kind:"),
        ({"serveConfigV2": 3}, "spec.serveConfigV2:"),
        ({"serveConfigV2": "a: ["}, "spec.serveConfigV2:"),
        ({"serveConfigV2": "- a"}, "spec.serveConfigV2:"),
        ({"rayService": {"spec": {"serveConfigV2": "x"}}}, "spec.rayService.spec.serveConfigV2:"),
    ],
)
def test_what_cannot_be_is_reported_by_its_field(spec: Any, path: str) -> None:
    """The user finds the place in the file."""
    (status,) = planned(service(ray=True, **spec)).statuses
    assert status["reason"] == "InvalidSpec"
    assert path in status["message"]


def test_an_empty_serve_config_is_none() -> None:
    """A template that fills in nothing does not take the embedded applications away."""
    own = {"spec": {"serveConfigV2": "applications: []\n"}}
    for spec, found in (({"rayService": own}, "applications: []\n"), ({"ray": True}, None)):
        made = wrapper(service(serveConfigV2="", **spec))
        assert made["spec"]["components"][0]["template"]["spec"].get("serveConfigV2") == found


def test_a_service_without_applications_is_reported() -> None:
    """Ray would start and serve nothing, and the service would never become ready."""
    warning = "spec.serveConfigV2 is empty: Ray has nothing to serve"
    assert warning in planned(service(ray=True)).warnings
    assert warning not in planned(MINIMAL).warnings


def test_an_entrypoint_is_reported_to_be_unused() -> None:
    """Ray Serve runs applications."""
    warnings = planned(service(ray=True, entrypoint="x")).warnings
    assert "spec.entrypoint: is ignored on Ray; use serveConfigV2" in warnings


def test_services_are_wrapped_unless_the_administrator_says_otherwise() -> None:
    """`wrap` is always, auto or never; without a word it is always."""
    model = LOADED.settings_models()["ray_service"]
    assert model().model_dump() == {"wrap": "always"}
    assert model.model_validate({"wrap": "auto"}).model_dump() == {"wrap": "auto"}
    with pytest.raises(ValidationError, match="'always', 'auto' or 'never'"):
        model.model_validate({"wrap": "sometimes"})


BARE = {"ray_service": LOADED.settings_models()["ray_service"](wrap="never")}


def test_a_bare_service_is_applied_without_a_wrapper() -> None:
    """`never`: one RayService, owned by the workload, with the queue's label on itself."""
    labels = {"kueue.x-k8s.io/queue-name": "team"}
    queue = QueueSystem("kueue", lambda *_: QueueAssignment("team", labels), lambda *_: None)
    registry = dataclasses.replace(Registry.of(LOADED), queue=queue)
    facts = dataclasses.replace(FACTS, settings=BARE)
    (write,) = plan_object(MINIMAL, registry, facts).writes
    assert isinstance(write, Apply)
    assert write.obj["kind"] == "RayService"
    assert write.obj["metadata"]["labels"] | labels == write.obj["metadata"]["labels"]
    assert write.obj["metadata"]["ownerReferences"][0]["kind"] == "KaiwoService"
    assert "suspend" not in write.obj["spec"]["rayClusterConfig"]


@pytest.mark.parametrize(
    ("wrap", "manages", "kind"),
    [
        ("always", True, "AppWrapper"),
        ("auto", False, "AppWrapper"),
        ("auto", True, "RayService"),
        ("never", False, "RayService"),
    ],
)
def test_auto_wraps_where_no_queue_takes_rayservices(wrap: str, manages: bool, kind: str) -> None:
    """Kueue's own integration is used where it is on."""
    queue = QueueSystem(
        "kueue", lambda *_: QueueAssignment("team", {}), lambda *_: None, manages=lambda *_: manages
    )
    settings = {"ray_service": LOADED.settings_models()["ray_service"](wrap=wrap)}
    registry = dataclasses.replace(Registry.of(LOADED), queue=queue)
    facts = dataclasses.replace(FACTS, settings=settings)
    (write,) = plan_object(MINIMAL, registry, facts).writes
    assert write.obj["kind"] == kind


def test_a_running_service_stays_in_its_form() -> None:
    """A setting changes no existing child."""
    found = planned(edited(MINIMAL), settings=BARE, **live(MINIMAL))
    assert found.writes == ()
    assert found.backend == "ray_service"


def bare_live(labels: Any) -> Any:
    """A bare RayService as the API server has it, with what a queue put into its pods."""
    (write,) = planned(MINIMAL, settings=BARE).writes
    made = copy.deepcopy(write.obj)
    made["metadata"] |= {"uid": "bare-uid", "resourceVersion": "7"}
    made["metadata"]["labels"] |= labels
    pod = made["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]["template"]["spec"]
    pod["nodeSelector"] = {"pool": "a"}
    pod["tolerations"] = [{"key": "queue", "operator": "Exists"}]
    return made


def bare_edited(**spec: Any) -> Any:
    """The service in its bare form after a change."""
    obj = edited(MINIMAL, **spec)
    obj["status"]["allocation"] = {"backend": "ray_service_unwrapped"}
    return obj


BOMB = "a: &a {x: 1}\n" + "".join(
    f"{new}: &{new} {{<<: [{','.join([f'*{old}'] * 9)}]}}\n" for old, new in itertools.pairwise("abcdefghijk")
)


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        (BOMB, "line 5, column 25: the document with its aliases written out has more than 10000 values"),
        ("- 1\n" * 20_000, "line 10000, column 3: the document has more than 10000 values"),
        ("a: " + "x" * 300_000, "line 1, column 4: the document is larger than 256 KiB"),
        ("[" * 200 + "]" * 200, "line 1, column 101: nested deeper than 100 levels"),
        ("a: 1\na: 2", "line 2, column 1: a: the field is already given in line 1"),
    ],
    ids=["merge bomb", "values", "characters", "depth", "field twice"],
)
def test_applications_that_would_cost_much_are_refused_with_the_line(text: str, reported: str) -> None:
    """Some hundred bytes that cost a second at every reconciliation; the message names field and line."""
    plan = planned(service(ray=True, image=IMAGE, serveConfigV2=text))
    assert plan.writes == ()
    status = plan.statuses[-1]
    assert (status["status"], status["reason"]) == ("ERROR", "InvalidSpec")
    assert f"spec.serveConfigV2: {reported}" in status["message"]


def test_what_the_queue_put_into_pods_stays() -> None:
    """Worker groups are replaced as a whole: the queue's choice goes with them, of that very version."""
    queued = {"kueue.x-k8s.io/queue-name": "team"}
    made = bare_live(queued)
    assert planned(bare_edited(), settings=BARE, live=made).writes == ()
    (write,) = planned(bare_edited(image="other:1"), settings=BARE, live=made).writes
    pod = write.obj["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]["template"]["spec"]
    assert pod["nodeSelector"] == {"pool": "a"}
    assert pod["tolerations"] == [{"key": "queue", "operator": "Exists"}]
    assert pod["containers"][0]["image"] == "other:1"
    assert write.obj["metadata"]["resourceVersion"] == "7"


def test_a_bare_service_changes_in_place_and_sleeps_without_anything() -> None:
    """Applications and pods are applied; zero replicas delete it."""
    made = bare_live({})
    (write,) = planned(bare_edited(serveConfigV2="applications: []"), settings=BARE, live=made).writes
    assert write.obj["spec"]["serveConfigV2"] == "applications: []"
    (write,) = planned(bare_edited(replicas=0), settings=BARE, live=made).writes
    assert isinstance(write, Delete)


def test_a_bare_service_is_read_like_a_wrapped_one() -> None:
    """Suspended by its queue, then by its applications and pods."""
    workload = Workload.from_object(MINIMAL)
    for spec, status, word in (
        ({"rayClusterConfig": {"suspend": True}}, {}, "PENDING"),
        ({}, READY, "READY"),
        ({}, apps("UNHEALTHY"), "ERROR"),
        ([], None, "STARTING"),
    ):
        child = {"metadata": {"name": "chat"}, "spec": spec, "status": status}
        assert bare.observe(Observation(workload, child, (), None, queued=False, now=NOW)).status == word


def serve(app: str, deployment: str, message: str, said: str = "") -> Any:
    """A service's ``applicationStatuses`` as KubeRay copies them from Ray Serve."""
    deployments = {"LLM": {"status": deployment, "message": message}, "Router": {"status": "HEALTHY"}}
    return {"chat": {"status": app, "message": said, "serveDeploymentStatuses": deployments}}


def served(applications: Any, *pods: Any, **status: Any) -> Any:
    """What is made of a RayService whose only cluster has these applications."""
    inner = {"activeServiceStatus": {"applicationStatuses": applications}, **status}
    child = {"metadata": {"name": "chat"}, "spec": {}, "status": inner}
    return bare.observe(Observation(Workload.from_object(MINIMAL), child, pods, None, queued=False, now=NOW))


def test_an_application_that_fails_says_why_its_deployment_does() -> None:
    """Ray's message about the application names the deployment and no more; its stack is left out."""
    stack = (
        "The deployment failed to start 3 times in a row. See controller logs for details. Error:\n"
        "ray::ServeReplica:chat:LLM.initialize_and_get_metadata() (pid=521, ip=10.244.0.7)\n"
        '  File "/app/llm.py", line 12, in __init__\n'
        "torch.OutOfMemoryError: HIP out of memory.\n"
    )
    failed = serve("DEPLOY_FAILED", "DEPLOY_FAILED", stack, "Failed to update the deployments ['LLM'].")
    found = served(failed, HEAD, WORKER)
    assert (found.status, found.reason) == ("ERROR", "ApplicationUnhealthy")
    assert found.message == (
        "application chat is DEPLOY_FAILED: Failed to update the deployments ['LLM']; deployment LLM: The "
        "deployment failed to start 3 times in a row. See controller logs for details. Error: "
        "torch.OutOfMemoryError: HIP out of memory"
    )


def test_an_application_that_waits_for_resources_says_which() -> None:
    """Without what is free at the moment, which changes all the time."""
    texts = set()
    for free in ('{"CPU": 7.0}', '{"CPU": 6.0}'):
        waits = (
            "Deployment 'LLM' in application 'chat' has 1 replicas that have taken more than 30s to be "
            'scheduled. Resources required for each replica: {"CPU": 1.0, "GPU": 8.0}, total resources '
            f"available: {free}. Use `ray status` for more details."
        )
        found = served(serve("DEPLOYING", "UPDATING", waits), HEAD, WORKER)
        assert (found.status, found.reason) == ("RUNNING", "Running")
        texts.add(found.message)
    (text,) = texts
    assert 'Resources required for each replica: {"CPU": 1.0, "GPU": 8.0})' in text


def test_workers_that_are_rejected_beside_a_head_are_reported() -> None:
    """A RayService does not follow the conditions of its RayCluster; an event about that has the cause."""
    born = (NOW - timedelta(seconds=5)).isoformat()
    head = {"metadata": {"name": "h", "creationTimestamp": born, "labels": {"ray.io/node-type": "head"}}}
    event = Finding("FailedToCreateWorkerPod", 'pods "x-w" is forbidden: exceeded quota: gpus')
    spec = {"rayClusterConfig": {"workerGroupSpecs": [{"groupName": "w", "replicas": 1}]}}
    inner = {"pendingServiceStatus": {"rayClusterName": "chat-abc"}}
    child = {"metadata": {"name": "chat"}, "spec": spec, "status": inner}
    workload = Workload.from_object(MINIMAL)
    found = bare.observe(Observation(workload, child, (head,), None, queued=False, now=NOW))
    assert (found.needs_events is not None, found.pod_owner) == (True, ("RayCluster", "chat-abc"))
    seen = Observation(workload, child, (head,), None, queued=False, now=NOW, warning_event=event)
    found = bare.observe(seen)
    assert (found.status, found.reason) == ("STARTING", "FailedCreate")
    assert "RayService chat has no pod: each pod is forbidden: exceeded quota: gpus" in found.message


def test_an_upgrade_that_fails_says_that_the_cluster_before_serves() -> None:
    """While there are two clusters, KubeRay from 1.3 on has the applications of the coming one alone."""
    upgrade = {
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "NonZeroServeEndpoints"},
            {"type": "UpgradeInProgress", "status": "True", "reason": "BothActivePendingClustersExist"},
        ],
        "activeServiceStatus": {"rayClusterName": "chat-aaaaa"},
        "pendingServiceStatus": {
            "rayClusterName": "chat-bbbbb",
            "applicationStatuses": serve("DEPLOY_FAILED", "UPDATING", "", "No module named 'vllm'"),
        },
    }
    found = served(None, HEAD, WORKER, **upgrade)
    assert (found.status, found.reason) == ("ERROR", "ApplicationUnhealthy")
    assert found.message == (
        "application chat is DEPLOY_FAILED: No module named 'vllm'; that is on the new RayCluster "
        "chat-bbbbb, RayCluster chat-aaaaa serves on as before"
    )
    upgrade["pendingServiceStatus"] = {"rayClusterName": "chat-bbbbb"}
    assert served(None, HEAD, WORKER, **upgrade).status == "READY"


NAMES = st.sampled_from(
    ["spec", "metadata", "labels", "template", "containers", "rayClusterConfig", "headGroupSpec", "replicas",
     "workerGroupSpecs", "serveConfigV2", "rayStartParams", "numOfHosts", "resources", "limits", "phase",
     "amd.com/gpu", "image", "components", "podSets", "conditions", "activeServiceStatus", "annotations",
     "applicationStatuses", "status"]
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 2**33) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=25,
)


@given(block=JSON, config=JSON, gpus=st.integers(0, 3))
def test_no_embedded_block_crashes_a_plan(block: Any, config: Any, gpus: int) -> None:
    """Whatever JSON is embedded or comes back: an object is created, or the status is ERROR."""
    for shape in (block, {"spec": block}, {"spec": {"rayClusterConfig": block}}):
        found = planned(service(gpus=gpus, ray=True, rayService=shape, serveConfigV2=config))
        (status,) = found.statuses
        assert status["status"] == ("PENDING" if found.writes else "ERROR")
        assert status["message"]
        assert found.statuses[-1]["reason"] != "PluginError"
    known = live(MINIMAL)
    known["live"]["status"] = block
    known["live"]["spec"] = {"components": config}
    known["auxiliaries"][RAY_SERVICE, "chat"]["status"] = config
    found = planned(edited(MINIMAL, image="other"), **known)
    assert all(status["reason"] != "PluginError" for status in found.statuses)
