"""The simulated dashboard: the paths and fields of Ray's REST APIs for jobs and Serve that KubeRay uses."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kaiwo_sandbox.ray.annotations import DEPLOYMENT_OF_APP, SIMULATED
from kaiwo_sandbox.ray.objects import RayObjects, outcome_of
from kaiwo_sandbox.ray.simulated_job import SimulatedJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo_sandbox.api import Object
    from kaiwo_sandbox.ray.annotations import SimulatedOutcome

_JOBS, _SERVE, _HEALTH = "/api/jobs/", "/api/serve/applications/", "/-/healthz"
_OK, _BAD_REQUEST, _NOT_FOUND, _CONFLICT = 200, 400, 404, 500
"""Ray answers 500 to a submission with an existing ID, and KubeRay expects that."""

_HOST_PARTS = 3
_CLOCK_SECONDS = 0.05
"""Delay of timers, because they may differ a little from the clock of jobs."""


@dataclass(frozen=True, slots=True)
class DashboardResponse:
    """An HTTP response: a status and a JSON document."""

    status: int
    document: Any


class RayDashboard:
    """The dashboards of all heads of the sandbox; not thread-safe."""

    def __init__(self, objects: RayObjects, call_later: Callable[[float, Callable[[], None]], None]) -> None:
        """Create the dashboards; `call_later` calls a function after a delay, in the thread of `handle`."""
        self._objects = objects
        self._call_later = call_later
        self._jobs: dict[tuple[str, str], SimulatedJob] = {}
        self._applications: dict[tuple[str, str], list[Object]] = {}

    def handle(self, method: str, url: str, body: bytes) -> DashboardResponse:
        """Handle a request for an absolute URL. Its host is a head's Service, or the address of a head's pod.

        Raises:
            SandboxApiError: the API server rejected a request.
            OSError: the API server could not be reached.
        """
        try:
            parts = urlsplit(url)
        except ValueError:
            return DashboardResponse(_BAD_REQUEST, "invalid URL")
        if parts.path.endswith(_HEALTH):  # the Serve proxy, at the pod's address
            return DashboardResponse(_OK, "success")
        host = (parts.hostname or "").split(".")
        if len(host) < _HOST_PARTS or host[2] != "svc":
            return DashboardResponse(_NOT_FOUND, f"{parts.hostname} is not the Service of a Ray head")
        head, namespace = host[0], host[1]
        try:
            document = json.loads(body) if body else {}
        except ValueError:
            return DashboardResponse(_BAD_REQUEST, "the body is not valid JSON")
        if not isinstance(document, dict):
            return DashboardResponse(_BAD_REQUEST, "the body is not a JSON object")
        if parts.path.startswith(_JOBS):
            name, _, action = parts.path.removeprefix(_JOBS).partition("/")
            if name:
                return self._one_job(method, self._current_job(namespace, head, name), action)
            if method == "POST":
                return self._submit(namespace, head, document)
            here = [job for job in self._jobs.values() if (job.namespace, job.head) == (namespace, head)]
            return DashboardResponse(_OK, [job.document() for job in here])
        if parts.path.startswith(_SERVE.rstrip("/")):
            return self._serve_request(method, namespace, head, document)
        return DashboardResponse(_NOT_FOUND, f"{parts.path} is not simulated")

    def _one_job(self, method: str, job: SimulatedJob | None, action: str) -> DashboardResponse:
        if job is None:
            return DashboardResponse(_NOT_FOUND, "The job does not exist")
        if method == "DELETE":
            self._jobs.pop((job.namespace, job.submission_id), None)
            return DashboardResponse(_OK, {"deleted": True})
        if (method, action) == ("POST", "stop"):
            job.end("STOPPED", SIMULATED, time.time())
            self._advance(job)
            return DashboardResponse(_OK, {"stopped": True})
        if action == "logs":
            return DashboardResponse(_OK, {"logs": f"{SIMULATED}\n"})
        return DashboardResponse(_OK, job.document())

    def _submit(self, namespace: str, head: str, document: Object) -> DashboardResponse:
        name = str(document.get("submission_id") or f"raysubmit_{len(self._jobs)}")
        if (namespace, name) in self._jobs:
            return DashboardResponse(_CONFLICT, f"Job {name} exists. Please use a different submission_id.")
        job = SimulatedJob(namespace, name, head, entrypoint=str(document.get("entrypoint", "")))
        self._jobs[namespace, name] = job
        self._advance(job)
        return DashboardResponse(_OK, {"job_id": name, "submission_id": name})

    def _current_job(self, namespace: str, head: str, name: str) -> SimulatedJob | None:
        """The job in its current state. A job of a submitter pod exists from the first request for it."""
        job = self._jobs.get((namespace, name))
        if job is None:
            owner = self._objects.job(namespace, name)
            if owner is None or owner["spec"].get("submissionMode") == "HTTPMode":
                return None
            job = SimulatedJob(namespace, name, head, entrypoint=owner["spec"].get("entrypoint") or "")
            self._jobs[namespace, name] = job
        self._advance(job)
        return job

    def _advance(self, job: SimulatedJob) -> None:
        owner = self._objects.job(job.namespace, job.submission_id)
        if not job.finished:
            started_before = job.started
            outcome = outcome_of(owner, "rayClusterSpec")
            submitted = bool(job.started) or owner is None or self._objects.submitted(owner)
            job.advance(outcome, time.time(), submitted=submitted)
            if job.started and not started_before:
                self._call_later(outcome.run_time + _CLOCK_SECONDS, lambda: self._advance(job))
        if job.finished and owner is not None:
            self._objects.end_submitters(owner)

    def _serve_request(self, method: str, namespace: str, head: str, document: Object) -> DashboardResponse:
        if method == "PUT":
            applications = document.get("applications")
            if not isinstance(applications, list) or not all(isinstance(each, dict) for each in applications):
                return DashboardResponse(_BAD_REQUEST, "applications: expected a list of objects")
            self._applications[namespace, head] = applications
            return DashboardResponse(_OK, {})
        outcome = outcome_of(self._objects.service(namespace, head), "rayClusterConfig")
        applications = self._applications.get((namespace, head), [])
        details = {each["name"]: each for each in (_details(item, outcome) for item in applications)}
        return DashboardResponse(_OK, {"deploy_mode": "MULTI_APP", "applications": details})


def _details(application: Object, outcome: SimulatedOutcome) -> Object:
    """Details of an application and its deployments, with the status and message of the outcome."""
    message = {"message": outcome.message}
    deployments = application.get("deployments")
    named = [each for each in deployments if isinstance(each, dict)] if isinstance(deployments, list) else []
    status = DEPLOYMENT_OF_APP[outcome.app_status]
    return {
        "name": str(application.get("name") or "default"),
        "route_prefix": application.get("route_prefix"),
        "status": outcome.app_status,
        "deployments": {
            str(each.get("name")): {"name": str(each.get("name")), "status": status, **message}
            for each in named
        },
        **message,
    }
