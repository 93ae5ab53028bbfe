"""The behaviour of the sandbox's Kubernetes, observed through its API server."""

from __future__ import annotations

import http.client
import json
import ssl
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo_sandbox import nodes
from kaiwo_sandbox.api import NOT_FOUND, SandboxApiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo_sandbox.api import Object
    from kaiwo_sandbox.sandbox import Sandbox

pytestmark = pytest.mark.cluster

SECONDS = 60.0


def pod_spec(**resources: int) -> Object:
    """One container with GPU limits, e.g. ``amd=4``."""
    limits = {f"{vendor}.com/gpu": str(count) for vendor, count in resources.items()}
    return {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "train:1", "resources": {"limits": limits}}],
    }


def make_pod(
    sandbox: Sandbox, namespace: str, name: str, spec: Object | None = None, **annotations: str
) -> None:
    """Create a pod, with ``kaiwo-sandbox/`` annotations given as run_time='1s'."""
    sandbox.api.create(
        f"/api/v1/namespaces/{namespace}/pods",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": _annotations(annotations)},
            "spec": spec or pod_spec(),
        },
    )


def _annotations(given: dict[str, str]) -> dict[str, str]:
    return {f"kaiwo-sandbox/{key.replace('_', '-')}": value for key, value in given.items()}


def make_job(sandbox: Sandbox, namespace: str, name: str, **annotations: str) -> None:
    """Create a Job without retries whose pod has the annotations."""
    template = {"metadata": {"annotations": _annotations(annotations)}, "spec": pod_spec()}
    sandbox.api.create(
        f"/apis/batch/v1/namespaces/{namespace}/jobs",
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {"backoffLimit": 0, "template": template},
        },
    )


def wait_for(sandbox: Sandbox, collection: str, name: str, condition: Callable[[Object], object]) -> Object:
    """Watch an object until the condition holds for it."""
    path = f"{collection}?fieldSelector=metadata.name%3D{name}"
    last: Any = None
    for event in sandbox.api.watch(path, timeout=SECONDS):
        last = event["object"]
        if condition(last):
            return dict(last)
    pytest.fail(f"{name} did not get there in {SECONDS:.0f} s: {json.dumps(last)}")


def wait_for_pod(
    sandbox: Sandbox, namespace: str, name: str, condition: Callable[[Object], object]
) -> Object:
    """Watch a pod."""
    return wait_for(sandbox, f"/api/v1/namespaces/{namespace}/pods", name, condition)


def phase(wanted: str) -> Callable[[Object], bool]:
    """A condition on a pod's phase."""
    return lambda pod: pod["status"].get("phase") == wanted


def state_of(pod: Object) -> Object:
    """The state of its only container."""
    (status,) = pod["status"].get("containerStatuses") or [{"state": {}}]
    return dict(status["state"])


def test_the_server_says_which_kubernetes_it_is(control_plane: Sandbox) -> None:
    """Clients parse the version and behave by it."""
    version = control_plane.api.get("/version")
    assert version["gitVersion"] == "v1.36.3"
    assert (version["major"], version["minor"]) == ("1", "36")


def test_the_default_nodes_are_ready_with_their_gpus(control_plane: Sandbox) -> None:
    """Vendor plugins read the allocatable GPUs of nodes first."""
    listed = {item["metadata"]["name"]: item for item in control_plane.api.get("/api/v1/nodes")["items"]}
    for name, key in (("amd-1", "amd.com/gpu"), ("amd-2", "amd.com/gpu"), ("nvidia-1", "nvidia.com/gpu")):
        assert listed[name]["status"]["allocatable"][key] == "8"
    assert "amd.com/gpu" not in listed["cpu-1"]["status"]["allocatable"]


def test_the_token_has_the_same_rights_as_the_certificate(control_plane: Sandbox) -> None:
    """Programs that cannot use client certificates get a bearer token."""
    context = ssl.create_default_context(cafile=str(control_plane.ca_file))
    host = control_plane.url.removeprefix("https://")
    with closing(http.client.HTTPSConnection(host, context=context, timeout=10)) as connection:
        connection.request("GET", "/api/v1/nodes", headers={"Authorization": f"Bearer {control_plane.token}"})
        assert json.load(connection.getresponse())["kind"] == "NodeList"


def test_a_pod_without_annotations_runs_until_it_is_deleted(control_plane: Sandbox, namespace: str) -> None:
    """Like a service; it gets an address and a node."""
    make_pod(control_plane, namespace, "plain")
    pod = wait_for_pod(control_plane, namespace, "plain", phase("Running"))
    assert pod["status"]["podIP"].startswith("10.244.")
    control_plane.api.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/plain")
    path = f"/api/v1/namespaces/{namespace}/pods?fieldSelector=metadata.name%3Dplain"
    listed = control_plane.api.get(path)
    if listed["items"]:
        since = f"{path}&resourceVersion={listed['metadata']['resourceVersion']}"
        for event in control_plane.api.watch(since, timeout=SECONDS):
            if event["type"] == "DELETED":
                break
        else:
            pytest.fail("the pod was not removed")


def test_a_jobs_pod_succeeds_by_itself(control_plane: Sandbox, namespace: str) -> None:
    """The Job controller then completes the Job, as on a real cluster."""
    make_job(control_plane, namespace, "ok")
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    done = wait_for(control_plane, jobs, "ok", lambda job: job["status"].get("completionTime"))
    assert done["status"]["succeeded"] == 1


def test_an_exit_code_ends_in_a_real_terminated_state(control_plane: Sandbox, namespace: str) -> None:
    """What diagnosis reads: phase, reason and exit code of the container; the Job fails with it."""
    make_job(control_plane, namespace, "bad", exit_code="3", run_time="100ms")
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    wait_for(control_plane, jobs, "bad", lambda job: job["status"].get("failed") == 1)
    (pod,) = control_plane.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    assert pod["status"]["phase"] == "Failed"
    ended = state_of(pod)["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (3, "Error")


def test_an_image_that_cannot_be_pulled_waits_with_its_reason(control_plane: Sandbox, namespace: str) -> None:
    """Until the annotation is removed, as after the push of the image."""
    make_job(control_plane, namespace, "pull", image_pull_error='tag "9" not found')
    selector = "labelSelector=job-name%3Dpull"
    pods = f"/api/v1/namespaces/{namespace}/pods"
    for event in control_plane.api.watch(f"{pods}?{selector}", timeout=SECONDS):
        waiting = state_of(event["object"]).get("waiting")
        if waiting:
            break
    else:
        pytest.fail("no waiting state was shown")
    assert waiting["reason"] == "ImagePullBackOff"
    assert waiting["message"] == 'Back-off pulling image "train:1": ErrImagePull: tag "9" not found'
    name = event["object"]["metadata"]["name"]
    assert event["object"]["status"]["phase"] == "Pending"
    _patch_annotation(control_plane, namespace, name, "image-pull-error")
    wait_for_pod(control_plane, namespace, name, phase("Succeeded"))


def test_a_container_that_cannot_be_started_ends_as_a_kubelet_reports_it(
    control_plane: Sandbox, namespace: str
) -> None:
    """With 1970 as the start; programs that compute a duration from it must be able to meet it."""
    make_pod(control_plane, namespace, "absent", start_error='exec: "/bin/bash": no such file or directory')
    pod = wait_for_pod(control_plane, namespace, "absent", phase("Failed"))
    terminated = state_of(pod)["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == (128, "StartError")
    assert terminated["startedAt"] == "1970-01-01T00:00:00Z"
    assert 'exec: "/bin/bash": no such file or directory' in terminated["message"]


def test_a_held_pod_starts_when_it_is_released(control_plane: Sandbox, namespace: str) -> None:
    """A test decides when a pod starts, without sleeping."""
    make_pod(control_plane, namespace, "held", hold="true", run_time="100ms")
    pod = wait_for_pod(control_plane, namespace, "held", lambda pod: "waiting" in state_of(pod))
    assert state_of(pod)["waiting"]["reason"] == "ContainerCreating"
    _patch_annotation(control_plane, namespace, "held", "hold")
    wait_for_pod(control_plane, namespace, "held", phase("Succeeded"))


def _patch_annotation(sandbox: Sandbox, namespace: str, pod: str, key: str) -> None:
    sandbox.api.request(
        "PATCH",
        f"/api/v1/namespaces/{namespace}/pods/{pod}",
        {"metadata": {"annotations": {f"kaiwo-sandbox/{key}": None}}},
        content_type="application/merge-patch+json",
    )


def test_delays_and_run_times_are_kept(control_plane: Sandbox, namespace: str) -> None:
    """Start after start-delay, end run-time later: never earlier."""
    make_pod(control_plane, namespace, "timed", start_delay="1s", run_time="1s")
    pod = wait_for_pod(control_plane, namespace, "timed", phase("Succeeded"))
    ended = state_of(pod)["terminated"]
    assert ended["startedAt"] < ended["finishedAt"]  # whole seconds, so a second apart is visible
    assert pod["metadata"]["creationTimestamp"] < ended["startedAt"]


def test_a_job_that_runs_for_ever_does_not_end(control_plane: Sandbox, namespace: str) -> None:
    """While a Job beside it, created later, completes."""
    make_job(control_plane, namespace, "endless", forever="true")
    make_job(control_plane, namespace, "beside", run_time="2s")
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    wait_for(control_plane, jobs, "beside", lambda job: job["status"].get("completionTime"))
    endless = control_plane.api.get(f"{jobs}/endless")
    assert endless["status"]["active"] == 1


def test_a_failing_container_that_may_restart_crashes_in_a_loop(
    control_plane: Sandbox, namespace: str
) -> None:
    """Under restartPolicy OnFailure the pod does not fail; its restarts are counted."""
    spec = {**pod_spec(), "restartPolicy": "OnFailure"}
    make_pod(control_plane, namespace, "loop", spec, exit_code="7", run_time="100ms")

    def crashed_twice(pod: Object) -> bool:
        statuses = pod["status"].get("containerStatuses") or [{"restartCount": 0}]
        return bool(statuses[0]["restartCount"] >= 2 and "waiting" in state_of(pod))

    pod = wait_for_pod(control_plane, namespace, "loop", crashed_twice)
    assert state_of(pod)["waiting"]["reason"] == "CrashLoopBackOff"
    assert pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 7
    assert pod["status"]["phase"] == "Running"


def test_kubectl_logs_says_that_nothing_was_computed(control_plane: Sandbox, namespace: str) -> None:
    """The log of a fake pod must not look like a result."""
    make_pod(control_plane, namespace, "talks")
    wait_for_pod(control_plane, namespace, "talks", phase("Running"))
    log = control_plane.api.get(f"/api/v1/namespaces/{namespace}/pods/talks/log")
    assert log == "This pod is simulated: nothing was computed.\n"


def test_the_second_scheduler_profile_fills_gpu_nodes(control_plane: Sandbox, namespace: str) -> None:
    """Two halves of a machine go to one machine, so that a whole one stays free for a large job."""
    spec = {**pod_spec(nvidia=0, amd=2), "schedulerName": "kaiwo-scheduler"}
    placed = []
    for number in range(2):
        make_pod(control_plane, namespace, f"half-{number}", spec)
        pod = wait_for_pod(control_plane, namespace, f"half-{number}", phase("Running"))
        placed.append(pod["spec"]["nodeName"])
    assert len(set(placed)) == 1


def test_volumes_are_made_on_demand(control_plane: Sandbox, namespace: str) -> None:
    """Shared ones too; the default storage class answers for claims that name none."""
    claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    control_plane.api.create(
        claims,
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
        },
    )
    wait_for(control_plane, claims, "data", lambda claim: claim["status"].get("phase") == "Bound")


def test_a_node_that_joins_later_takes_the_pod_that_waited_for_it(
    control_plane: Sandbox, namespace: str
) -> None:
    """Here with GPUs of a new vendor: the pod is unschedulable, then the node joins."""
    make_pod(control_plane, namespace, "waits", pod_spec(acme=1))

    def unschedulable(pod: Object) -> bool:
        conditions = pod["status"].get("conditions") or []
        return any(item.get("reason") == "Unschedulable" for item in conditions)

    wait_for_pod(control_plane, namespace, "waits", unschedulable)
    name = f"acme-{namespace}"
    control_plane.add_node(nodes.node(name, extended={"acme.com/gpu": 8}))
    try:
        pod = wait_for_pod(control_plane, namespace, "waits", phase("Running"))
        assert pod["spec"]["nodeName"] == name
    finally:
        control_plane.api.request("DELETE", f"/api/v1/nodes/{name}")


def test_an_api_error_contains_the_message_of_the_server(control_plane: Sandbox) -> None:
    """With the request and the code, so that a failing test explains itself."""
    with pytest.raises(SandboxApiError, match='404 namespaces "nope" not found') as caught:
        control_plane.api.get("/api/v1/namespaces/nope")
    assert caught.value.status == NOT_FOUND


def test_suspending_a_job_takes_its_pods_away_and_resuming_brings_new_ones(
    control_plane: Sandbox, namespace: str
) -> None:
    """What a queue system does to make room; fake pods must give way as real ones do."""
    make_job(control_plane, namespace, "pausable", forever="true")
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    for suspend, active in ((False, 1), (True, 0), (False, 1)):
        control_plane.api.request(
            "PATCH",
            f"{jobs}/pausable",
            {"spec": {"suspend": suspend}},
            content_type="application/merge-patch+json",
        )
        wait_for(
            control_plane,
            jobs,
            "pausable",
            lambda job, active=active: job["status"].get("active", 0) == active,  # type: ignore[misc]  # bound at once
        )
        pods = control_plane.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        assert len([pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]) == active
