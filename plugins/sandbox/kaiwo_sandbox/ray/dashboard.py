"""The dashboard's answers: jobs and Serve applications, as KubeRay asks for them.

Paths and fields follow Ray's REST APIs for jobs and for Serve ("multi-application" config).
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kaiwo_sandbox.ray.behaviour import DEPLOYMENT_OF_APP, SIMULATED
from kaiwo_sandbox.ray.jobs import Job
from kaiwo_sandbox.ray.objects import RayObjects, behaviour

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo_sandbox.api import Object
    from kaiwo_sandbox.ray.behaviour import Behaviour

_JOBS, _SERVE, _HEALTH = "/api/jobs/", "/api/serve/applications/", "/-/healthz"
_OK, _BAD_REQUEST, _NOT_FOUND, _CONFLICT = 200, 400, 404, 500
"""Ray answers 500 to a submission whose name is taken, and KubeRay knows that."""

_HOST_PARTS = 3
_CLOCK_SECONDS = 0.05
"""Timers and the clock that jobs are measured by may differ a little."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP status and a JSON document."""

    status: int
    document: Any


class Dashboard:
    """All heads of the sandbox. Not for use by several threads at once."""

    def __init__(self, objects: RayObjects, later: Callable[[float, Callable[[], None]], None]) -> None:
        """`later` calls a function after so many seconds, in the thread that calls `answer`."""
        self._objects = objects
        self._later = later
        self._jobs: dict[tuple[str, str], Job] = {}
        self._applications: dict[tuple[str, str], list[Object]] = {}

    def answer(self, method: str, url: str, body: bytes) -> Answer:
        """Answer a request for an absolute URL, whose host is a head's Service or the address of its pod.

        Raises:
            ApiError: the API server refused a look-up.
            OSError: it could not be reached.
        """
        try:
            parts = urlsplit(url)
        except ValueError:
            return Answer(_BAD_REQUEST, "the address is no URL")
        if parts.path.endswith(_HEALTH):  # of the Serve proxy, asked at the pod's address
            return Answer(_OK, "success")
        host = (parts.hostname or "").split(".")
        if len(host) < _HOST_PARTS or host[2] != "svc":
            return Answer(_NOT_FOUND, f"{parts.hostname} is no Service of a Ray head")
        head, namespace = host[0], host[1]
        try:
            document = json.loads(body) if body else {}
        except ValueError:
            return Answer(_BAD_REQUEST, "the body is not JSON")
        if not isinstance(document, dict):
            return Answer(_BAD_REQUEST, "the body is not a JSON object")
        if parts.path.startswith(_JOBS):
            name, _, action = parts.path.removeprefix(_JOBS).partition("/")
            if name:
                return self._one_job(method, self._known(namespace, head, name), action)
            if method == "POST":
                return self._submit(namespace, head, document)
            here = [job for job in self._jobs.values() if (job.namespace, job.head) == (namespace, head)]
            return Answer(_OK, [job.document() for job in here])
        if parts.path.startswith(_SERVE.rstrip("/")):
            return self._serve_request(method, namespace, head, document)
        return Answer(_NOT_FOUND, f"{parts.path} is not simulated")

    def _one_job(self, method: str, job: Job | None, action: str) -> Answer:
        if job is None:
            return Answer(_NOT_FOUND, "The job does not exist")
        if method == "DELETE":
            self._jobs.pop((job.namespace, job.submission_id), None)
            return Answer(_OK, {"deleted": True})
        if (method, action) == ("POST", "stop"):
            job.end("STOPPED", SIMULATED, time.time())
            self._advance(job)
            return Answer(_OK, {"stopped": True})
        if action == "logs":
            return Answer(_OK, {"logs": f"{SIMULATED}\n"})
        return Answer(_OK, job.document())

    def _submit(self, namespace: str, head: str, document: Object) -> Answer:
        name = str(document.get("submission_id") or f"raysubmit_{len(self._jobs)}")
        if (namespace, name) in self._jobs:
            return Answer(_CONFLICT, f"Job {name} exists. Please use a different submission_id.")
        job = Job(namespace, name, head, entrypoint=str(document.get("entrypoint", "")))
        self._jobs[namespace, name] = job
        self._advance(job)
        return Answer(_OK, {"job_id": name, "submission_id": name})

    def _known(self, namespace: str, head: str, name: str) -> Job | None:
        """The job as it is now; one that a submitter pod submits is known as soon as that pod runs."""
        job = self._jobs.get((namespace, name))
        if job is None:
            owner = self._objects.job(namespace, name)
            if owner is None or owner["spec"].get("submissionMode") == "HTTPMode":
                return None
            job = Job(namespace, name, head, entrypoint=owner["spec"].get("entrypoint") or "")
            self._jobs[namespace, name] = job
        self._advance(job)
        return job

    def _advance(self, job: Job) -> None:
        owner = self._objects.job(job.namespace, job.submission_id)
        if not job.over:
            began = job.started
            wanted = behaviour(owner, "rayClusterSpec")
            submitted = bool(job.started) or owner is None or self._objects.submitted(owner)
            job.advance(wanted, time.time(), submitted=submitted)
            if job.started and not began:
                self._later(wanted.run_time + _CLOCK_SECONDS, lambda: self._advance(job))
        if job.over and owner is not None:
            self._objects.end_submitters(owner)

    def _serve_request(self, method: str, namespace: str, head: str, document: Object) -> Answer:
        if method == "PUT":
            applications = document.get("applications")
            if not isinstance(applications, list) or not all(isinstance(each, dict) for each in applications):
                return Answer(_BAD_REQUEST, "applications is not a list of objects")
            self._applications[namespace, head] = applications
            return Answer(_OK, {})
        wanted = behaviour(self._objects.service(namespace, head), "rayClusterConfig")
        applications = self._applications.get((namespace, head), [])
        details = {each["name"]: each for each in (_details(item, wanted) for item in applications)}
        return Answer(_OK, {"deploy_mode": "MULTI_APP", "applications": details})


def _details(application: Object, wanted: Behaviour) -> Object:
    """An application of the config with the status and message that are wanted, its deployments alike."""
    said = {"message": wanted.message}
    deployments = application.get("deployments")
    named = [each for each in deployments if isinstance(each, dict)] if isinstance(deployments, list) else []
    status = DEPLOYMENT_OF_APP[wanted.app_status]
    return {
        "name": str(application.get("name") or "default"),
        "route_prefix": application.get("route_prefix"),
        "status": wanted.app_status,
        "deployments": {
            str(each.get("name")): {"name": str(each.get("name")), "status": status, **said} for each in named
        },
        **said,
    }
