"""KubeRay completes Ray jobs and services with the simulated Ray heads."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo_sandbox.api import Object
    from kaiwo_sandbox.sandbox import Sandbox

pytestmark = [pytest.mark.cluster, pytest.mark.matrix]

SECONDS = 90.0
RAY = "/apis/ray.io/v1/namespaces"
TEMPLATE = {
    "spec": {
        "containers": [
            {"name": "ray", "image": "registry.example/ray:1", "resources": {"requests": {"cpu": "1"}}}
        ]
    }
}
CLUSTER = {
    "rayVersion": "2.46.0",
    "headGroupSpec": {"rayStartParams": {}, "template": TEMPLATE},
    "workerGroupSpecs": [
        {
            "groupName": "workers",
            "replicas": 1,
            "minReplicas": 1,
            "maxReplicas": 1,
            "rayStartParams": {},
            "template": TEMPLATE,
        }
    ],
}
SERVE = """
applications:
- name: llm
  route_prefix: /
  import_path: app.main
  deployments: [{name: Model}]
"""


def _object(kind: str, spec: Object, **annotations: str) -> Object:
    keys = {f"kaiwo-sandbox/ray-{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {
        "apiVersion": "ray.io/v1",
        "kind": kind,
        "metadata": {"name": "it", "annotations": keys},
        "spec": spec,
    }


def _wait(sandbox: Sandbox, collection: str, holds: Callable[[Object], object]) -> Object:
    last: Any = None
    for event in sandbox.api.watch(f"{collection}?fieldSelector=metadata.name%3Dit", timeout=SECONDS):
        last = event["object"].get("status") or {}
        if holds(last):
            return dict(last)
    pytest.fail(f"not so in {SECONDS:.0f} s: {json.dumps(last)}")


def _is(word: str, status: Object) -> bool:
    """Whether a RayService shows its application in that state."""
    statuses = (status.get("activeServiceStatus") or {}).get("applicationStatuses") or {}
    return bool((statuses.get("llm") or {}).get("status") == word)


@pytest.mark.parametrize("mode", ["K8sJobMode", "HTTPMode"])
def test_a_ray_job_succeeds_and_says_that_nothing_was_computed(
    platform: Sandbox, platform_namespace: str, mode: str
) -> None:
    """However it is submitted."""
    jobs = f"{RAY}/{platform_namespace}/rayjobs"
    spec = {"entrypoint": "python train.py", "submissionMode": mode, "rayClusterSpec": CLUSTER}
    platform.api.create(jobs, _object("RayJob", spec))
    status = _wait(platform, jobs, lambda status: status.get("jobDeploymentStatus") == "Complete")
    assert status["jobStatus"] == "SUCCEEDED"
    assert "nothing was computed" in status["message"]


def test_a_ray_job_fails_as_its_annotations_say(platform: Sandbox, platform_namespace: str) -> None:
    """As an application's failure, not one of its submission."""
    jobs = f"{RAY}/{platform_namespace}/rayjobs"
    spec = {"entrypoint": "python train.py", "rayClusterSpec": CLUSTER}
    platform.api.create(jobs, _object("RayJob", spec, run_time="2s", job_status="FAILED", message="no disk"))
    status = _wait(platform, jobs, lambda status: status.get("jobDeploymentStatus") == "Failed")
    assert (status["jobStatus"], status["reason"]) == ("FAILED", "AppFailed")
    assert "no disk" in status["message"]


def test_a_submitter_follows_its_ray_job_to_the_end(platform: Sandbox, platform_namespace: str) -> None:
    """KubeRay fails jobs whose submitter ended half a minute before them."""
    jobs = f"{RAY}/{platform_namespace}/rayjobs"
    spec = {"entrypoint": "python train.py", "rayClusterSpec": CLUSTER}
    platform.api.create(jobs, _object("RayJob", spec, job_status="RUNNING"))
    _wait(platform, jobs, lambda status: status.get("jobStatus") == "RUNNING")
    selector = "labelSelector=batch.kubernetes.io%2Fjob-name%3Dit"
    (submitter,) = platform.api.get(f"/api/v1/namespaces/{platform_namespace}/pods?{selector}")["items"]
    assert submitter["status"]["phase"] == "Running"
    end = {"metadata": {"annotations": {"kaiwo-sandbox/ray-job-status": "SUCCEEDED"}}}
    platform.api.request("PATCH", f"{jobs}/it", end, content_type="application/merge-patch+json")
    _wait(platform, jobs, lambda status: status.get("jobDeploymentStatus") == "Complete")


def test_a_ray_service_becomes_ready_falls_ill_and_heals(platform: Sandbox, platform_namespace: str) -> None:
    """On demand, by an annotation on the running service."""
    services = f"{RAY}/{platform_namespace}/rayservices"
    spec = {"serveConfigV2": SERVE, "rayClusterConfig": CLUSTER}
    platform.api.create(services, _object("RayService", spec))

    def ready(status: Object) -> bool:
        conditions = {item["type"]: item["status"] for item in status.get("conditions") or []}
        return conditions.get("Ready") == "True" and status.get("serviceStatus") == "Running"

    _wait(platform, services, lambda status: ready(status) and _is("RUNNING", status))
    for wanted in ("UNHEALTHY", None):
        change = {"metadata": {"annotations": {"kaiwo-sandbox/ray-app-status": wanted}}}
        platform.api.request("PATCH", f"{services}/it", change, content_type="application/merge-patch+json")
        word = wanted or "RUNNING"
        _wait(platform, services, partial(_is, word))
