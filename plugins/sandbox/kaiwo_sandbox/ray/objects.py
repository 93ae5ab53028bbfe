"""Access to the objects in the cluster that the simulator needs: RayJobs, RayServices, submitter pods."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from kaiwo_sandbox.api import NOT_FOUND, ApiClient, SandboxApiError
from kaiwo_sandbox.ray.annotations import SimulatedOutcome, parse
from kaiwo_sandbox.real_node.certificates import NODE_NAME

if TYPE_CHECKING:
    from kaiwo_sandbox.api import Object

_RAY = "/apis/ray.io/v1/namespaces"
_END_NOW = {"metadata": {"annotations": {"kaiwo-sandbox/run-time": "0s"}}}
_SUBMITTER_MODE = "K8sJobMode"
"""KubeRay's default submission mode: a Kubernetes Job submits the Ray job and waits for its end."""


class RayObjects:
    """Ray's objects in the cluster, read without a cache, because tests change annotations at any time."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._names: dict[tuple[str, str], str] = {}

    def _get(self, path: str) -> Object | None:
        try:
            found: Object = self._api.get(path)
        except SandboxApiError as error:
            if error.status == NOT_FOUND:
                return None
            raise
        return found

    def job(self, namespace: str, submission_id: str) -> Object | None:
        """Find the RayJob with that submission ID.

        KubeRay creates the ID from the name of the RayJob and a random suffix. If the user set the ID, all
        RayJobs are listed once.
        """
        key = (namespace, submission_id)
        name = self._names.get(key) or submission_id.rpartition("-")[0]
        found = self._get(f"{_RAY}/{namespace}/rayjobs/{quote(name, safe='')}") if name else None
        if _submission_id(found) == submission_id:
            return found
        for item in self._api.get(f"{_RAY}/{namespace}/rayjobs")["items"]:
            if _submission_id(item) == submission_id:
                self._names[key] = item["metadata"]["name"]
                return dict(item)
        return None

    def service(self, namespace: str, head: str) -> Object | None:
        """Find the RayService that owns the head's Ray cluster."""
        service = self._get(f"/api/v1/namespaces/{namespace}/services/{head}")
        cluster_name = _labels(service).get("ray.io/cluster")
        cluster = self._get(f"{_RAY}/{namespace}/rayclusters/{cluster_name}") if cluster_name else None
        for owner in (cluster or {}).get("metadata", {}).get("ownerReferences", []):
            if owner["kind"] == "RayService":
                return self._get(f"{_RAY}/{namespace}/rayservices/{owner['name']}")
        return None

    def real_head(self, namespace: str, service: str) -> str:
        """The address of the head behind a Service if it runs on the real node; empty if it does not.

        Raises:
            ConnectionError: it does, and has no address yet.
        """
        found = self._get(f"/api/v1/namespaces/{namespace}/services/{quote(service, safe='')}")
        selector = ((found or {}).get("spec") or {}).get("selector") or {}
        if not selector:
            return ""
        labels = quote(",".join(f"{name}={value}" for name, value in selector.items()), safe="")
        pods = self._api.get(f"/api/v1/namespaces/{namespace}/pods?labelSelector={labels}")["items"]
        real = [pod["status"].get("podIP", "") for pod in pods if pod["spec"].get("nodeName") == NODE_NAME]
        if real and not any(real):
            raise ConnectionError(f"the pod of {service} has no address yet")
        return next(filter(None, real), "")

    def submitted(self, job: Object) -> bool:
        """Whether the job's submitter has started; always true if KubeRay itself submits the job."""
        if not _has_submitter(job):
            return True
        return any(pod["status"].get("phase") in {"Running", "Succeeded"} for pod in self._submitters(job))

    def end_submitters(self, job: Object) -> None:
        """End the job's submitter pods, except those with annotations for their own end."""
        if not _has_submitter(job):
            return
        for pod in self._submitters(job):
            annotations = pod["metadata"].get("annotations") or {}
            if pod["status"].get("phase") in {"Pending", "Running"} and not any(
                f"kaiwo-sandbox/{name}" in annotations for name in ("run-time", "exit-code")
            ):
                path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
                with contextlib.suppress(SandboxApiError):  # it is being deleted
                    self._api.request("PATCH", path, _END_NOW, content_type="application/merge-patch+json")

    def _submitters(self, job: Object) -> list[Object]:
        namespace, name = job["metadata"]["namespace"], job["metadata"]["name"]
        path = f"/api/v1/namespaces/{namespace}/pods?labelSelector=batch.kubernetes.io%2Fjob-name%3D{name}"
        found: list[Object] = self._api.get(path)["items"]
        return found


def outcome_of(owner: Object | None, cluster_field: str) -> SimulatedOutcome:
    """The outcome of a RayJob or RayService, whose spec has its Ray cluster in `cluster_field`."""
    if owner is None:
        return parse()
    head: Any = owner["spec"].get(cluster_field) or {}
    for field in ("headGroupSpec", "template", "metadata", "annotations"):
        head = head.get(field) or {}
    return parse(owner["metadata"].get("annotations"), head)


def _has_submitter(job: Object) -> bool:
    return (job["spec"].get("submissionMode") or _SUBMITTER_MODE) == _SUBMITTER_MODE


def _submission_id(job: Object | None) -> str:
    return str(((job or {}).get("status") or {}).get("jobId") or "")


def _labels(item: Object | None) -> dict[str, str]:
    return ((item or {}).get("metadata") or {}).get("labels") or {}
