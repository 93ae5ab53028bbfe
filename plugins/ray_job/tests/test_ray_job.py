from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kaiwo_gpu_amd.plugin
import kaiwo_ray_job.plugin
from kaiwo.api.resolved_config import ResolvedConfig
from kaiwo.api.workload import Workload
from kaiwo.plugin.observation import Finding, Observation
from kaiwo.plugin.queues import Admission, QueueAssignment, QueueSystem
from kaiwo.testing import assert_backend_contract, assert_golden, config, job, node, plugins, pod, render
from kaiwo.testing.builders import NOW
from kaiwo.workload.gpus.nodes import node_fact
from kaiwo.workload.model import Facts, Registry
from kaiwo.workload.plan import plan_object
from kaiwo_ray_job.observe import observe

GOLDEN = Path(__file__).parent / "golden"
LOADED = plugins(kaiwo_ray_job.plugin, kaiwo_gpu_amd.plugin)
(BACKEND,) = LOADED.backends
NODES = [node(f"amd-{number}", gpus={"amd.com/gpu": 8}) for number in range(2)]
IMAGE = "registry.example/ray:2.46"

MINIMAL = job(ray=True, image=IMAGE, entrypoint="python main.py")
GPUS = job(
    name="finetune",
    ray=True,
    user="jane",
    gpus=12,
    image=IMAGE,
    imagePullSecrets=[{"name": "pull"}],
    env=[{"name": "MODE", "value": "fast"}],
    resources={"limits": {"memory": "64Gi"}},
    entrypoint="python train.py \\\n  --epochs 3\n",
)
GROUP = {"groupName": "big", "replicas": 7, "minReplicas": 1, "maxReplicas": 9}
EMBEDDED = job(
    image=IMAGE,
    gpus=4,
    replicas=2,
    gpusPerReplica=2,
    rayJob={
        "metadata": {"labels": {"own": "label"}},
        "spec": {
            "entrypoint": "python own.py",
            "backoffLimit": 3,
            "submitterPodTemplate": {
                "spec": {"containers": [{"name": "own", "resources": {"limits": {"cpu": "3"}}}]}
            },
            "rayClusterSpec": {
                "rayVersion": "2.46.0",
                "enableInTreeAutoscaling": True,
                "headGroupSpec": {
                    "rayStartParams": {},
                    "template": {
                        "spec": {
                            "containers": [{"name": "head", "resources": {"limits": {"amd.com/gpu": 1}}}],
                            "tolerations": [{"key": "head", "operator": "Exists"}],
                        }
                    },
                },
                "workerGroupSpecs": [
                    {**GROUP, "template": {"spec": {"containers": [{"name": "w"}]}}},
                    {"groupName": "hosts", "numOfHosts": 2, "minReplicas": 0, "maxReplicas": 0},
                ],
            },
        },
    },
)
FORMS = {"minimal": MINIMAL, "gpus": GPUS, "embedded": EMBEDDED}


def planned(obj: Any, **facts: Any) -> Any:
    """The plan of a job on the two nodes."""
    nodes = tuple(node_fact(item, LOADED.vendors) for item in NODES)
    known = Facts(now=NOW, config=ResolvedConfig.defaults(), nodes=nodes, **facts)
    return plan_object(obj, Registry.of(LOADED), known)


def ray_job(obj: Any) -> Any:
    """The RayJob that is created."""
    found = planned(obj)
    (write,) = found.writes or [pytest.fail(str(found.statuses))]
    return write.obj


def test_it_keeps_the_contract() -> None:
    """What the host relies on holds for every form."""
    assert_backend_contract(BACKEND, list(FORMS.values()), vendors=LOADED.vendors, nodes=NODES)
    assert not BACKEND.load().serves(Workload.from_object(job()))
    assert BACKEND.load().serves(Workload.from_object(job(ray=False, rayJob={}, job={"spec": {}})))


@pytest.mark.parametrize("name", FORMS)
def test_what_is_created(name: str) -> None:
    """The whole object, as a user would read it."""
    assert_golden(render(FORMS[name], LOADED, nodes=NODES), GOLDEN / f"{name}.yaml")


def test_a_cluster_ends_with_its_job_and_is_never_tried_twice() -> None:
    """Shut down after the end, no retry, no autoscaling: whatever was embedded, and a warning reports it."""
    for obj in FORMS.values():
        spec = ray_job(obj)["spec"]
        assert spec["shutdownAfterJobFinishes"] is True
        assert spec["backoffLimit"] == 0
        assert spec["rayClusterSpec"]["enableInTreeAutoscaling"] is False
    warnings = "\n".join(planned(EMBEDDED).warnings)
    for word in ("backoffLimit: 3", "enableInTreeAutoscaling", "replicas: 7 is not used, it is 2"):
        assert word in warnings


def test_values_that_are_not_used_are_shown_as_they_were_written() -> None:
    """A person searches the file for false, not for Python's False; the text "2" is not the number."""
    cluster = {"workerGroupSpecs": [{"groupName": "a", "replicas": "2"}]}
    spec = {"shutdownAfterJobFinishes": False, "entrypoint": "a.py", "rayClusterSpec": cluster}
    obj = job(image=IMAGE, replicas=2, rayJob={"spec": spec})
    warnings = "\n".join(planned(obj).warnings)
    assert "shutdownAfterJobFinishes: false is not used, it is true: " in warnings
    assert 'workerGroupSpecs[0].replicas: "2" is not used, it is 2; ' in warnings


def test_a_cluster_for_the_autoscaler_runs_without_it() -> None:
    """KubeRay refuses the variable and the idle times of autoscaler v2 where autoscaling is off."""
    head = {"name": "h", "env": [{"name": "RAY_enable_autoscaler_v2", "value": "1"}]}
    group = {"groupName": "w", "idleTimeoutSeconds": 60}
    cluster = {
        "enableInTreeAutoscaling": True,
        "headGroupSpec": {"template": {"spec": {"containers": [head]}}},
        "workerGroupSpecs": [group],
    }
    obj = job(image=IMAGE, entrypoint="python a.py", rayJob={"spec": {"rayClusterSpec": cluster}})
    made = ray_job(obj)["spec"]["rayClusterSpec"]
    (container,) = made["headGroupSpec"]["template"]["spec"]["containers"]
    assert "RAY_enable_autoscaler_v2" not in {variable["name"] for variable in container["env"]}
    assert "idleTimeoutSeconds" not in made["workerGroupSpecs"][0]
    warnings = "\n".join(planned(obj).warnings)
    assert "RAY_enable_autoscaler_v2 is not used" in warnings
    assert "workerGroupSpecs[0].idleTimeoutSeconds is not used" in warnings


def test_a_number_of_gpus_for_ray_that_is_not_that_of_the_pod_is_reported() -> None:
    """With ``num-gpus: 4`` Ray leaves four of eight GPUs idle."""
    for part, name in (("rayStartParams", "num-gpus"), ("resources", "GPU")):
        cluster = {"workerGroupSpecs": [{"groupName": "w", part: {name: "4"}}]}
        for gpus, reported in ((8, True), (4, False)):
            obj = job(image=IMAGE, gpus=gpus, ray=True, rayJob={"spec": {"rayClusterSpec": cluster}})
            warnings = "\n".join(planned(obj).warnings)
            assert (f"workerGroupSpecs[0].{part}.{name}: Ray uses 4 GPUs" in warnings) is reported


@pytest.mark.parametrize(("mode", "possible"), [("HTTPMode", True), ("SidecarMode", True), (None, False)])
def test_without_a_submitter_its_name_and_its_place_are_free(mode: str | None, possible: bool) -> None:
    """Kueue counts the submitter among the eight sets of pods only where a pod submits the job."""
    for groups in ([{"groupName": "submitter"}], [{"groupName": f"w{at}"} for at in range(7)]):
        spec = {"submissionMode": mode, "rayClusterSpec": {"workerGroupSpecs": groups}}
        found = planned(job(image=IMAGE, entrypoint="python a.py", rayJob={"spec": spec}))
        assert bool(found.writes) is possible


def test_no_embedded_strategy_keeps_a_cluster_that_has_ended() -> None:
    """KubeRay takes no RayJob that has one beside the shutdown: the job would fail before it runs."""
    rules = [{"policy": "DeleteCluster", "condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": 10}}]
    obj = job(image=IMAGE, rayJob={"spec": {"deletionStrategy": {"deletionRules": rules}}})
    assert "deletionStrategy" not in ray_job(obj)["spec"]
    assert "deletionStrategy is not used" in "\n".join(planned(obj).warnings)


def test_the_older_deletion_policy_is_left_out_too() -> None:
    """KubeRay 1.4 refuses it without a feature gate, and beside the shutdown one that keeps the cluster."""
    obj = job(image=IMAGE, rayJob={"spec": {"deletionPolicy": "DeleteNone"}})
    assert "deletionPolicy" not in ray_job(obj)["spec"]
    assert "deletionPolicy is not used" in "\n".join(planned(obj).warnings)


def test_a_pasted_cluster_that_was_suspended_runs() -> None:
    """KubeRay starts no pod of a suspended cluster or group, and nobody would resume it."""
    groups = [{"groupName": "a", "suspend": True}, {"groupName": "b", "suspend": False}]
    cluster = {"suspend": True, "workerGroupSpecs": groups}
    obj = job(image=IMAGE, entrypoint="python a.py", rayJob={"spec": {"rayClusterSpec": cluster}})
    made = ray_job(obj)["spec"]["rayClusterSpec"]
    assert "suspend" not in made
    assert [group.get("suspend") for group in made["workerGroupSpecs"]] == [None, False]
    warnings = "\n".join(planned(obj).warnings)
    assert "rayClusterSpec.suspend is not used" in warnings
    assert "workerGroupSpecs[0].suspend is not used" in warnings


def test_every_group_has_the_computed_count() -> None:
    """All three counts are equal in each group, each pod has a replica's GPUs, and the head has none."""
    cluster = ray_job(EMBEDDED)["spec"]["rayClusterSpec"]
    for group in cluster["workerGroupSpecs"]:
        assert (group["replicas"], group["minReplicas"], group["maxReplicas"]) == (2, 2, 2)
        container = group["template"]["spec"]["containers"][0]
        assert container["resources"]["limits"]["amd.com/gpu"] == "2"
    head = cluster["headGroupSpec"]["template"]["spec"]["containers"][0]
    assert "amd.com/gpu" not in head["resources"].get("limits", {})
    assert {"name": "NUM_GPUS", "value": "4"} in head["env"]


@pytest.mark.parametrize(
    ("gpus", "replicas", "each"), [(4, 1, 4), (8, 1, 8), (9, 3, 3), (10, 2, 5), (12, 2, 6), (16, 2, 8)]
)
def test_gpus_take_as_few_workers_as_they_need(gpus: int, replicas: int, each: int) -> None:
    """On two nodes with eight GPUs each."""
    group = ray_job(job(ray=True, gpus=gpus))["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]
    container = group["template"]["spec"]["containers"][0]
    assert (group["groupName"], group["replicas"]) == ("default-worker-group", replicas)
    assert container["resources"]["limits"]["amd.com/gpu"] == str(each)
    assert container["resources"]["requests"]["memory"] == f"{32 * each}Gi"


def test_seventeen_gpus_are_refused() -> None:
    """No number of equal workers fits."""
    assert planned(job(ray=True, gpus=17)).statuses[-1]["reason"] == "InsufficientGPUs"


def test_hosts_and_groups_count_when_gpus_are_counted() -> None:
    """Two groups, one of them with two hosts per replica: three pods per replica need room."""
    cluster = {"workerGroupSpecs": [{"groupName": "a"}, {"groupName": "b", "numOfHosts": 2}]}
    obj = job(ray=True, gpus=8, gpusPerReplica=8, replicas=1, rayJob={"spec": {"rayClusterSpec": cluster}})
    assert planned(obj).statuses[-1]["reason"] == "InsufficientGPUs"
    cluster["workerGroupSpecs"].pop()
    assert planned(obj).writes


def test_a_blank_cluster_is_none() -> None:
    """What a Go client writes for an empty RayJob is filled in as if nothing stood there."""
    template = {"metadata": {"creationTimestamp": None}, "spec": {"containers": None}}
    block = {
        "metadata": {"creationTimestamp": None},
        "spec": {
            "rayClusterSpec": {
                "headGroupSpec": {"rayStartParams": None, "template": template},
                "workerGroupSpecs": None,
            },
            "submitterPodTemplate": template,
        },
        "status": {"rayClusterStatus": {"head": {}}},
    }
    assert (
        ray_job(job(entrypoint="a.py", rayJob=block))["spec"]
        == (ray_job(job(entrypoint="a.py", ray=True))["spec"])
    )


def test_groups_without_a_name_get_one() -> None:
    """Ray's operator takes none without, and pods of two groups of one name could not be queued."""
    cluster = {"workerGroupSpecs": [{}, {"groupName": "Own"}, {"groupName": ""}]}
    made = ray_job(job(rayJob={"spec": {"rayClusterSpec": cluster}}))["spec"]["rayClusterSpec"]
    names = [group["groupName"] for group in made["workerGroupSpecs"]]
    assert names == ["default-worker-group", "Own", "default-worker-group-2"]


def test_groups_without_gpus_are_no_gpus() -> None:
    """Beside a group that requests all GPUs of both nodes, workers for preprocessing need none."""
    groups = [
        {"groupName": "train", "numOfHosts": 2, "template": _worker({"limits": {"amd.com/gpu": 8}})},
        {"groupName": "prepare", "template": _worker({"limits": {"cpu": 4}})},
    ]
    made = ray_job(job(entrypoint="a.py", rayJob={"spec": {"rayClusterSpec": {"workerGroupSpecs": groups}}}))
    train, prepare = (group["template"]["spec"] for group in _groups(made))
    assert train["containers"][0]["resources"]["limits"]["amd.com/gpu"] == 8
    assert "amd.com/gpu" not in prepare["containers"][0]["resources"]["limits"]
    assert {"name": "NUM_GPUS", "value": "8"} in prepare["containers"][0]["env"]


def _worker(resources: Any) -> Any:
    return {"spec": {"containers": [{"name": "worker", "resources": resources}]}}


def _groups(made: Any) -> Any:
    return made["spec"]["rayClusterSpec"]["workerGroupSpecs"]


def test_the_submitter_can_run_where_the_head_can() -> None:
    """Its image, pull secrets, scheduler, tolerations and identity are the head's."""
    spec = ray_job(GPUS)["spec"]
    head = spec["rayClusterSpec"]["headGroupSpec"]["template"]
    submitter = spec["submitterPodTemplate"]
    for name in ("imagePullSecrets", "schedulerName", "securityContext"):
        assert submitter["spec"][name] == head["spec"][name]
    assert submitter["spec"]["containers"][0]["image"] == IMAGE
    assert submitter["spec"]["restartPolicy"] == "Never"
    assert submitter["metadata"]["labels"] == head["metadata"]["labels"]
    embedded = ray_job(EMBEDDED)["spec"]["submitterPodTemplate"]["spec"]
    assert embedded["tolerations"] == [{"key": "head", "operator": "Exists"}]
    assert embedded["containers"][0]["resources"]["limits"] == {"cpu": "3", "memory": "1Gi"}
    assert embedded["containers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": "200Mi"}


def test_a_generated_submitter_has_the_heads_security_contexts() -> None:
    """Its pod's and its container's, of a generated and of an embedded head; none if dangerous."""
    restricted = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    own = {"spec": {"securityContext": {"runAsUser": 7}, "containers": [{"securityContext": restricted}]}}
    cluster = {"headGroupSpec": {"template": own}}
    for made in (ray_job(GPUS), ray_job(job(rayJob={"spec": {"rayClusterSpec": cluster}}))):
        head = made["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
        submitter = made["spec"]["submitterPodTemplate"]["spec"]
        assert submitter["securityContext"] == head["securityContext"]
        assert submitter["containers"][0]["securityContext"] == restricted
    submitter = ray_job(job(ray=True, dangerous=True))["spec"]["submitterPodTemplate"]["spec"]
    assert "securityContext" not in submitter
    assert "securityContext" not in submitter["containers"][0]


@pytest.mark.parametrize("name", ["serviceAccountName", "serviceAccount"])
def test_the_submitter_has_the_heads_service_account(name: str) -> None:
    """Whose pull secrets may be the only ones for the image; one of its own stays as it was written."""
    head = {"spec": {name: "puller", "automountServiceAccountToken": False, "containers": [{"name": "head"}]}}
    cluster = {"headGroupSpec": {"template": head}}

    def pod(**own: object) -> Any:
        block = {"rayClusterSpec": cluster, "submitterPodTemplate": {"spec": own}}
        return ray_job(job(rayJob={"spec": block}))["spec"]["submitterPodTemplate"]["spec"]

    assert (pod()[name], pod()["automountServiceAccountToken"]) == ("puller", False)
    assert pod(automountServiceAccountToken=True)["automountServiceAccountToken"] is True
    for key in ("serviceAccountName", "serviceAccount"):
        own = pod(**{key: "own"})
        assert {field: own[field] for field in own if "Account" in field} == {key: "own"}
    generated = ray_job(GPUS)["spec"]["submitterPodTemplate"]["spec"]
    assert not [field for field in generated if "Account" in field]


def test_an_embedded_submitter_runs_as_the_heads_user_and_nothing_is_forbidden_to_it() -> None:
    """With runAsNonRoot a container that the user lets run as root would never start."""
    root = {"spec": {"containers": [{"name": "own", "securityContext": {"runAsUser": 0}}]}}
    made = ray_job(job(entrypoint="a.py", rayJob={"spec": {"submitterPodTemplate": root}}))
    submitter = made["spec"]["submitterPodTemplate"]["spec"]
    assert submitter["securityContext"] == {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000}
    assert submitter["containers"][0]["securityContext"] == {"runAsUser": 0}


def test_a_small_submitter_stays_small() -> None:
    """What is filled in never contradicts what the user wrote: a request above its limit is refused."""
    template = _worker({"limits": {"cpu": "200m"}, "requests": {"memory": "2Gi"}})
    made = ray_job(job(entrypoint="a.py", rayJob={"spec": {"submitterPodTemplate": template}}))
    assert made["spec"]["submitterPodTemplate"]["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "200m", "memory": "2Gi"},
        "requests": {"cpu": "200m", "memory": "2Gi"},
    }


def test_a_job_that_is_submitted_otherwise_has_no_submitter() -> None:
    """KubeRay refuses a template for a pod that it does not make."""
    assert (
        "submitterPodTemplate" not in ray_job(job(rayJob={"spec": {"submissionMode": "SidecarMode"}}))["spec"]
    )


def test_the_heads_memory_comes_from_the_configuration() -> None:
    """Before spec.resources, after the container's own."""
    text = render(GPUS, LOADED, nodes=NODES, config=config(ray={"headPodMemory": "24Gi"}))
    assert "24Gi" in text


@pytest.mark.parametrize(
    ("block", "path"),
    [
        ([], "spec.rayJob:"),
        ({"spec": 1}, "spec.rayJob.spec:"),
        ({"metadata": []}, "spec.rayJob.metadata:"),
        ({"spec": {"rayClusterSpec": []}}, "spec.rayJob.spec.rayClusterSpec:"),
        ({"spec": {"rayClusterConfig": {}}}, "spec.rayJob.spec.rayClusterConfig:"),
        ({"spec": {"clusterSelector": {"ray.io/cluster": "a"}}}, "spec.rayJob.spec.clusterSelector:"),
        (
            {"spec": {"rayClusterSpec": {"workerGroupSpecs": [{}] * 7}}},
            "spec.rayJob.spec.rayClusterSpec.workerGroupSpecs:",
        ),
        (
            {"spec": {"rayClusterSpec": {"workerGroupSpecs": [{"numOfHosts": 0}]}}},
            "spec.rayJob.spec.rayClusterSpec.workerGroupSpecs[0].numOfHosts:",
        ),
        (
            {"spec": {"rayClusterSpec": {"workerGroupSpecs": [{"groupName": "a"}, {"groupName": "A"}]}}},
            "spec.rayJob.spec.rayClusterSpec.workerGroupSpecs[1].groupName:",
        ),
        (
            {"spec": {"rayClusterSpec": {"workerGroupSpecs": [{"groupName": "Submitter"}]}}},
            "spec.rayJob.spec.rayClusterSpec.workerGroupSpecs[0].groupName:",
        ),
        (
            {"spec": {"rayClusterSpec": {"workerGroupSpecs": [{"groupName": "under_score"}]}}},
            "spec.rayJob.spec.rayClusterSpec.workerGroupSpecs[0].groupName:",
        ),
        (
            {"spec": {"rayClusterSpec": {"headGroupSpec": {"rayStartParams": {"num-cpus": 4}}}}},
            "spec.rayJob.spec.rayClusterSpec.headGroupSpec.rayStartParams[num-cpus]:",
        ),
        (
            {"spec": {"rayClusterSpec": {"workerGroupSpecs": [{"resources": {"GPU": 4}}]}}},
            "spec.rayJob.spec.rayClusterSpec.workerGroupSpecs[0].resources[GPU]:",
        ),
        (
            {"spec": {"submitterPodTemplate": {"spec": {"containers": 3}}}},
            "spec.rayJob.spec.submitterPodTemplate.spec.containers:",
        ),
        ({"entrypoint": "python train.py"}, "spec.rayJob.entrypoint:"),
        ({"spec": {"headGroupSpec": {"serviceType": "NodePort"}}}, "spec.rayJob.spec.headGroupSpec:"),
        ({"spec": {"RayClusterSpec": {"rayVersion": "2"}}}, "spec.rayJob.spec.RayClusterSpec:"),
        ({"kind": "RayCluster", "spec": {}}, "spec.rayJob.kind:"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_reported_by_its_field(block: Any, path: str) -> None:
    """The user finds the place in the file."""
    (status,) = planned(job(rayJob=block)).statuses
    assert status["reason"] == "InvalidSpec"
    assert path in status["message"]


@pytest.mark.parametrize(
    ("name", "fits"), [("a" * 47, True), ("a" * 48, False), ("7b", False), ("a-b", True), ("a.b", False)]
)
def test_names_that_kuberay_cannot_handle_are_refused(name: str, fits: bool) -> None:
    """A RayJob of such a name never gets a status; the answer has a legal name."""
    found = planned(job(name, ray=True))
    assert bool(found.writes) is fits
    if not fits:
        assert found.statuses[-1]["reason"] == "InvalidName"
        assert "47" in found.statuses[-1]["message"]


def test_a_script_that_is_no_python_is_reported() -> None:
    """It runs as a shell command; an empty one has nothing to run."""
    assert any("Python" in text for text in planned(job(ray=True, entrypoint="echo hi")).warnings)
    assert any("nothing to run" in text for text in planned(job(ray=True)).warnings)


def test_a_queue_starts_it() -> None:
    """Suspended from the first moment, with the queue's labels on the RayJob alone."""
    labels = {"kueue.x-k8s.io/queue-name": "team"}
    queue = QueueSystem("kueue", lambda *_: QueueAssignment("team", labels), lambda *_: None)
    found = plan_object(
        MINIMAL,
        Registry(backends=LOADED.backends, vendors=LOADED.vendors, queue=queue),
        Facts(now=NOW, config=ResolvedConfig.defaults()),
    )
    made = found.writes[0].obj
    assert made["spec"]["suspend"] is True
    assert made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
    head = made["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]
    assert "kueue.x-k8s.io/queue-name" not in head["metadata"]["labels"]


RUNNING_POD = {
    "metadata": {"name": "head"},
    "status": {
        "phase": "Running",
        "containerStatuses": [{"name": "h", "state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}}}],
    },
}
PENDING = Admission("pending", "Pending", "couldn't assign flavors")
IGNORED = Admission("unmanaged", "NotManagedByQueue", "label the namespace")


def seen(status: Any, *, pods: Any = (), admission: Any = None, queued: bool = False, **spec: Any) -> Any:
    """What is made of a live RayJob."""
    child = {"metadata": {"name": "train", "uid": "u"}, "spec": spec, "status": status}
    workload = Workload.from_object(MINIMAL)
    return observe(Observation(workload, child, tuple(pods), admission, queued, NOW))


@pytest.mark.parametrize(
    ("status", "how", "word", "reason"),
    [
        ({"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Running"}, {}, "COMPLETE", "Completed"),
        ({"jobStatus": "FAILED", "reason": "AppFailed"}, {}, "FAILED", "AppFailed"),
        ({"jobStatus": "FAILED", "jobDeploymentStatus": "Running"}, {}, "FAILED", "AppFailed"),
        ({"jobDeploymentStatus": "Failed", "reason": "DeadlineExceeded"}, {}, "FAILED", "DeadlineExceeded"),
        ({"jobDeploymentStatus": "ValidationFailed"}, {}, "FAILED", "ValidationFailed"),
        ({"jobStatus": "STOPPED"}, {}, "FAILED", "Stopped"),
        ({"jobStatus": "RUNNING"}, {"pods": [RUNNING_POD]}, "RUNNING", "Running"),
        ({"jobStatus": "RUNNING"}, {}, "STARTING", "Starting"),
        ({"jobDeploymentStatus": "Initializing"}, {"pods": [RUNNING_POD]}, "STARTING", "Starting"),
        ({"jobDeploymentStatus": "Suspended"}, {}, "PENDING", "Suspended"),
        ({"jobDeploymentStatus": "Suspending"}, {}, "PENDING", "Suspended"),
        ({"jobDeploymentStatus": "Retrying"}, {}, "STARTING", "Starting"),
        ({}, {"suspend": True, "queued": True}, "PENDING", "Queued"),
        ({"jobDeploymentStatus": "Suspended"}, {"queued": True, "admission": PENDING}, "PENDING", "Pending"),
        ({}, {"suspend": True, "queued": True, "admission": IGNORED}, "PENDING", "NotManagedByQueue"),
        (None, {}, "STARTING", "Starting"),
    ],
)  # fmt: skip
def test_what_a_live_rayjob_means(status: Any, how: Any, word: str, reason: str) -> None:
    """One row per documented state."""
    found = seen(status, **how)
    assert (found.status, found.reason) == (word, reason)


def test_a_cluster_that_waits_for_its_user_says_so() -> None:
    """In InteractiveMode nothing runs until somebody submits a job."""
    found = seen({"jobDeploymentStatus": "Waiting", "startTime": "2026-01-02T03:04:05Z"}, pods=[RUNNING_POD])
    assert (found.status, found.reason) == ("STARTING", "Starting")
    assert "submit" in found.message


def test_a_job_that_kuberay_ignores_is_reported() -> None:
    """KubeRay 1.4 gives an invalid RayJob no status, only an event; with a status it heals."""
    child = {"metadata": {"name": "train", "creationTimestamp": "2026-01-02T03:04:06Z"}, "spec": {}}
    workload = Workload.from_object(MINIMAL)
    early = observe(Observation(workload, child, (), None, queued=False, now=NOW + timedelta(seconds=20)))
    assert (early.status, early.requeue_after, early.needs_events is not None) == ("STARTING", 40, True)
    late = observe(Observation(workload, child, (), None, queued=False, now=NOW + timedelta(seconds=60)))
    assert (late.status, late.reason) == ("ERROR", "RayJobIgnored")
    assert "InvalidRayJob" in late.message


def test_a_rayjob_that_another_controller_runs_is_not_said_to_be_ignored() -> None:
    """Kueue gives a RayJob of a MultiKueue queue to another cluster and copies its status; no pod is here."""
    begun, ran = (NOW - timedelta(minutes=9)).isoformat(), (NOW - timedelta(minutes=8)).isoformat()
    elsewhere = {"managedBy": "kueue.x-k8s.io/multikueue"}
    fresh = seen({}, **elsewhere)
    assert (fresh.status, fresh.needs_events, fresh.requeue_after) == ("STARTING", None, None)
    assert "kueue.x-k8s.io/multikueue" in fresh.message
    there = {"jobDeploymentStatus": "Running", "startTime": begun}
    assert seen(there, **elsewhere).status == "STARTING"
    running = seen({**there, "jobStatus": "RUNNING", "rayJobInfo": {"startTime": ran}}, **elsewhere)
    assert (running.status, running.reason) == ("RUNNING", "Running")
    assert running.started == NOW - timedelta(minutes=8)
    assert seen({"jobStatus": "SUCCEEDED"}, **elsewhere).status == "COMPLETE"
    own = seen({"jobStatus": "RUNNING"}, managedBy="ray.io/kuberay-operator")
    assert own.status == "STARTING", "without a pod that runs"


def test_a_pod_of_the_run_before_an_eviction_explains_no_failure() -> None:
    """The workers that were stopped for another workload ended with its signal."""
    stopped = pod("train-worker-old", exit_code=143)
    stopped["metadata"]["creationTimestamp"] = (NOW - timedelta(hours=1)).isoformat()
    child = {"metadata": {"name": "train", "uid": "u"}, "spec": {}}
    child["status"] = {"jobStatus": "FAILED", "startTime": (NOW - timedelta(minutes=9)).isoformat()}
    workload = Workload.from_object(MINIMAL)
    found = observe(Observation(workload, child, (), None, queued=True, now=NOW, gone=(stopped,)))
    assert found.message == "RayJob train failed (AppFailed)"


def test_pods_that_may_not_be_created_are_reported() -> None:
    """KubeRay's condition, without the name that each try has anew."""
    message = 'FailedCreateHeadPod\npods "train-5fz7v-head-z6dk2" is forbidden: exceeded quota: none'
    refused = {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedCreateHeadPod",
        "message": message,
    }
    found = seen({"jobDeploymentStatus": "Initializing", "rayClusterStatus": {"conditions": [refused]}})
    assert (found.status, found.reason) == ("STARTING", "FailedCreate")
    assert found.message == "each pod is forbidden: exceeded quota: none"


def test_a_cluster_that_gets_no_pod_is_noticed() -> None:
    """Half a minute after KubeRay began, where it does not say why."""
    begun = (NOW - timedelta(seconds=31)).isoformat()
    found = seen({"jobDeploymentStatus": "Initializing", "startTime": begun})
    assert (found.status, found.reason) == ("STARTING", "NoPods")
    found = seen({"jobDeploymentStatus": "Initializing", "startTime": begun, "rayClusterName": "train-abc"})
    assert (found.needs_events is not None, found.pod_owner) == (True, ("RayCluster", "train-abc"))


def test_a_deadline_before_the_job_runs_says_what_was_wrong_with_the_pods() -> None:
    """KubeRay has a deadline of its own for that (1.6), and names no cause; the pods may be gone."""
    pulls = "container h of pod head: ImagePullBackOff: image 'ray:1' cannot be pulled"
    said = "The RayJob has passed the preRunningDeadlineSeconds."
    failed = {"jobDeploymentStatus": "Failed", "reason": "PreRunningDeadlineExceeded", "message": said}
    child = {"metadata": {"name": "train", "uid": "u"}, "spec": {}, "status": failed}
    recorded = {"status": "STARTING", "reason": "ImagePullBackOff", "message": pulls}
    workload = Workload.from_object({**MINIMAL, "status": recorded})
    found = observe(Observation(workload, child, (), None, queued=False, now=NOW))
    assert (found.status, found.reason) == ("FAILED", "PreRunningDeadlineExceeded")
    assert found.message.endswith(f"{said}; its pods before: {pulls}")


def test_pods_that_may_not_be_deleted_are_not_said_to_be_missing() -> None:
    """The same condition of the RayCluster, also where a webhook forbids the deletion of a pod."""
    refused = {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedDeleteWorkerPod",
        "message": 'FailedDeleteWorkerPod\nadmission webhook "protect" denied the request',
    }
    status = {"jobStatus": "RUNNING", "rayClusterStatus": {"conditions": [refused]}}
    found = seen(status, pods=[RUNNING_POD])
    assert (found.status, found.reason) == ("RUNNING", "Running")


def test_workers_that_are_rejected_beside_a_head_are_reported() -> None:
    """KubeRay before 1.5 follows its cluster's conditions only when the job's own status changes."""
    born = (NOW - timedelta(seconds=5)).isoformat()
    head = {"metadata": {"name": "h", "creationTimestamp": born, "labels": {"ray.io/node-type": "head"}}}
    event = Finding("FailedToCreateWorkerPod", 'pods "x-w" is forbidden: exceeded quota: gpus')
    cluster = {"workerGroupSpecs": [{"groupName": "w", "replicas": 1}]}
    child = {"metadata": {"name": "train", "uid": "u"}, "spec": {"rayClusterSpec": cluster}}
    child["status"] = {"jobDeploymentStatus": "Initializing", "rayClusterName": "train-abc"}
    workload = Workload.from_object(MINIMAL)
    found = observe(Observation(workload, child, (head,), None, queued=False, now=NOW))
    assert (found.needs_events is not None, found.pod_owner) == (True, ("RayCluster", "train-abc"))
    seen_again = Observation(workload, child, (head,), None, queued=False, now=NOW, warning_event=event)
    found = observe(seen_again)
    assert (found.status, found.reason) == ("STARTING", "FailedCreate")
    assert "RayJob train has no pod: each pod is forbidden: exceeded quota: gpus" in found.message


def test_kuberays_event_tells_what_it_does_not_take() -> None:
    """ERROR with the event's reason and words as soon as they are known."""
    said = Finding("InvalidRayJobSpec", "The RayJob spec is invalid: BackoffLimit must be a positive integer")
    child = {"metadata": {"name": "train", "creationTimestamp": "2026-01-02T03:04:06Z"}, "spec": {}}
    workload = Workload.from_object(MINIMAL)
    found = observe(Observation(workload, child, (), None, queued=False, now=NOW, warning_event=said))
    assert (found.status, found.reason) == ("ERROR", "InvalidRayJobSpec")
    assert "BackoffLimit must be" in found.message


def test_times_are_kuberays_and_the_containers() -> None:
    """The end is KubeRay's endTime, the start the first container's."""
    end = (NOW + timedelta(seconds=9)).isoformat()
    found = seen({"jobStatus": "SUCCEEDED", "endTime": end}, pods=[RUNNING_POD])
    assert found.completed == NOW + timedelta(seconds=9)
    assert found.started == NOW - timedelta(seconds=1)
    assert found.passed == ("STARTING", "RUNNING")


NAMES = st.sampled_from(
    ["spec", "metadata", "labels", "template", "containers", "rayClusterSpec", "headGroupSpec", "replicas",
     "workerGroupSpecs", "submitterPodTemplate", "rayStartParams", "numOfHosts", "resources", "limits",
     "amd.com/gpu", "image", "clusterSelector", "submissionMode", "entrypoint", "imagePullSecrets"]
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 2**33) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=25,
)


@given(block=JSON, gpus=st.integers(0, 3))
def test_no_embedded_block_crashes_a_plan(block: Any, gpus: int) -> None:
    """Whatever JSON is embedded: an object is created, or the status is ERROR with the reason."""
    for shape in (block, {"spec": block}, {"spec": {"rayClusterSpec": block}}):
        found = planned(job(gpus=gpus, ray=True, rayJob=shape))
        (status,) = found.statuses
        assert status["status"] == ("PENDING" if found.writes else "ERROR")
        assert status["message"]
        assert found.statuses[-1]["reason"] != "PluginError"
    assert seen(block).status
