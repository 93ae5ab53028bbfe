"""The simulated Ray heads report the outcome that annotations specify, in the terms of Ray."""

from __future__ import annotations

import http.client
import json
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo_sandbox.api import ApiClient, SandboxApiError
from kaiwo_sandbox.ray import annotations as ray_annotations
from kaiwo_sandbox.ray.__main__ import make_server
from kaiwo_sandbox.ray.annotations import SIMULATED, SimulatedOutcome, parse
from kaiwo_sandbox.ray.dashboard import RayDashboard
from kaiwo_sandbox.ray.objects import RayObjects
from kaiwo_sandbox.ray.simulated_job import SimulatedJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo_sandbox.api import Object

FIELDS = ["applications", "name", "deployments", "submission_id"]
HEAD = "http://c-head-svc.team.svc.cluster.local:8265"


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("2s", 2), ("1m30s", 90), ("1.5s", 1.5), ("0", 0), ("0s", 0)]
)
def test_run_times_are_durations_as_go_writes_them(text: str, seconds: float) -> None:
    """The same as in the annotations of pods."""
    assert parse({ray_annotations.RUN_TIME: text}).run_time == seconds


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (ray_annotations.RUN_TIME, "soon"),
        (ray_annotations.JOB_STATUS, "DONE"),
        (ray_annotations.APP_STATUS, "FINE"),
    ],
)
def test_an_invalid_annotation_fails_the_job_and_the_application(key: str, value: str) -> None:
    """The message contains the annotation, the value and the expected values."""
    found = parse({key: value})
    assert (found.job_status, found.app_status) == ("FAILED", "DEPLOY_FAILED")
    assert key in found.message
    assert repr(value) in found.message


@given(
    st.dictionaries(st.sampled_from([ray_annotations.RUN_TIME, ray_annotations.JOB_STATUS, "x"]), st.text())
)
def test_no_annotation_can_break_it(annotations: dict[str, str]) -> None:
    """Any text leads to an outcome with known statuses."""
    found = parse(annotations, None)
    assert found.job_status in ray_annotations.JOB_STATUSES
    assert found.app_status in ray_annotations.DEPLOYMENT_OF_APP


def test_the_object_overrides_its_head_group() -> None:
    """A template may set what most jobs do, and one job something else."""
    template = {ray_annotations.RUN_TIME: "9s", ray_annotations.JOB_STATUS: "FAILED"}
    found = parse({ray_annotations.JOB_STATUS: "SUCCEEDED"}, template)
    assert (found.run_time, found.job_status) == (9, "SUCCEEDED")


@pytest.mark.parametrize("text", ["", "disk full"])
def test_every_message_says_that_it_is_simulated(text: str) -> None:
    """A simulated result must not look like a real one."""
    message = parse({ray_annotations.MESSAGE: text}).message
    assert SIMULATED.lower().rstrip(".") in message.lower()
    assert text in message


def test_a_job_waits_for_its_submitter_then_runs_its_time_and_ends_for_good() -> None:
    """The order of states is that of a real Ray job."""
    job, wanted = SimulatedJob("team", "id", "head"), SimulatedOutcome(run_time=2)
    seen = []
    for now, submitted in ((0, False), (10, True), (11, True), (12.1, True)):
        job.advance(wanted, now, submitted=submitted)
        seen.append(job.status)
    assert seen == ["PENDING", "RUNNING", "RUNNING", "SUCCEEDED"]
    job.advance(SimulatedOutcome(job_status="FAILED"), 20, submitted=True)
    assert (job.status, job.document()["start_time"], job.document()["end_time"]) == (
        "SUCCEEDED",
        10_000,
        12_100,
    )


@pytest.mark.parametrize("status", ["PENDING", "RUNNING"])
def test_a_job_can_be_held_in_a_state_that_is_no_end(status: str) -> None:
    """Until the annotation changes."""
    job = SimulatedJob("team", "id", "head")
    job.advance(SimulatedOutcome(run_time=0, job_status=status), 1, submitted=True)
    job.advance(SimulatedOutcome(run_time=0, job_status=status), 1000, submitted=True)
    assert job.status == status
    job.advance(SimulatedOutcome(run_time=0), 1001, submitted=True)
    assert job.status == "SUCCEEDED"


class _Cluster:
    """A fake `RayObjects` with the objects of a test."""

    def __init__(self) -> None:
        self.jobs: dict[str, Object] = {}
        self.services: dict[str, Object] = {}
        self.submitted_jobs: set[str] = set()
        self.ended: list[str] = []

    def job(self, namespace: str, submission_id: str) -> Object | None:
        """By the name of the submission."""
        del namespace
        return self.jobs.get(submission_id)

    def service(self, namespace: str, head: str) -> Object | None:
        """By the name of the head's Service."""
        del namespace
        return self.services.get(head)

    def submitted(self, job: Object) -> bool:
        """As the test says."""
        return job["metadata"]["name"] in self.submitted_jobs

    def end_submitters(self, job: Object) -> None:
        """Remember it."""
        self.ended.append(job["metadata"]["name"])


@pytest.fixture
def cluster() -> _Cluster:
    """An empty cluster."""
    return _Cluster()


@pytest.fixture
def timers() -> list[Callable[[], None]]:
    """What the dashboard has put off."""
    return []


@pytest.fixture
def dashboard(cluster: _Cluster, timers: list[Callable[[], None]]) -> RayDashboard:
    """A dashboard over that cluster."""
    return RayDashboard(cast("RayObjects", cluster), lambda _seconds, action: timers.append(action))


def _owner(name: str, mode: str = "K8sJobMode", **annotations: str) -> Object:
    keys = {f"kaiwo-sandbox/ray-{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {
        "metadata": {"name": name, "annotations": keys},
        "spec": {"submissionMode": mode, "entrypoint": "python train.py"},
    }


def test_the_submitter_of_a_job_ends_with_it(
    dashboard: RayDashboard, cluster: _Cluster, timers: list[Callable[[], None]]
) -> None:
    """Also without a request: KubeRay acts on the end of the submitter, without waiting for its next poll."""
    cluster.jobs["id"] = _owner("train", run_time="0s", job_status="RUNNING")
    assert dashboard.handle("GET", f"{HEAD}/api/jobs/id", b"").document["status"] == "PENDING"
    cluster.submitted_jobs.add("train")
    assert dashboard.handle("GET", f"{HEAD}/api/jobs/id", b"").document["status"] == "RUNNING"
    assert not cluster.ended
    cluster.jobs["id"] = _owner("train", run_time="0s")
    (timer,) = timers
    timer()
    assert cluster.ended == ["train"]
    assert dashboard.handle("GET", f"{HEAD}/api/jobs/id", b"").document["status"] == "SUCCEEDED"


def test_jobs_over_http_are_submitted_once_and_can_be_stopped(
    dashboard: RayDashboard, cluster: _Cluster
) -> None:
    """KubeRay requests the job first, submits it on 404, and handles the conflict of a duplicate ID."""
    cluster.jobs["id"] = _owner("train", "HTTPMode", job_status="RUNNING")
    cluster.submitted_jobs.add("train")
    assert dashboard.handle("GET", f"{HEAD}/api/jobs/id", b"").status == 404
    submission = json.dumps({"submission_id": "id", "entrypoint": "python train.py"}).encode()
    assert dashboard.handle("POST", f"{HEAD}/api/jobs/", submission).document["job_id"] == "id"
    again = dashboard.handle("POST", f"{HEAD}/api/jobs/", submission)
    assert again.status == 500
    assert "Please use a different submission_id" in again.document
    assert dashboard.handle("POST", f"{HEAD}/api/jobs/id/stop", b"").document == {"stopped": True}
    (listed,) = dashboard.handle("GET", f"{HEAD}/api/jobs/", b"").document
    assert (listed["status"], listed["entrypoint"]) == ("STOPPED", "python train.py")
    assert SIMULATED in dashboard.handle("GET", f"{HEAD}/api/jobs/id/logs", b"").document["logs"]
    dashboard.handle("DELETE", f"{HEAD}/api/jobs/id", b"")
    assert dashboard.handle("GET", f"{HEAD}/api/jobs/id", b"").status == 404


def test_applications_are_those_of_the_config_in_the_state_that_is_asked_for(
    dashboard: RayDashboard, cluster: _Cluster
) -> None:
    """Before the config arrives there are none; an annotation makes them unhealthy, its removal heals."""
    url = f"{HEAD}/api/serve/applications/"
    asked = f"{url}?api_type=declarative"
    assert dashboard.handle("GET", asked, b"").document["applications"] == {}
    config = {"applications": [{"name": "llm", "route_prefix": "/", "deployments": [{"name": "Model"}]}]}
    assert dashboard.handle("PUT", url, json.dumps(config).encode()).status == 200
    seen = []
    for asked_for in ({}, {"app_status": "UNHEALTHY", "message": "replica died"}, {}):
        cluster.services["c-head-svc"] = _owner("serve", **asked_for)
        app = dashboard.handle("GET", asked, b"").document["applications"]["llm"]
        seen.append((app["status"], app["deployments"]["Model"]["status"], "replica died" in app["message"]))
    healthy = ("RUNNING", "HEALTHY", False)
    assert seen == [healthy, ("UNHEALTHY", "UNHEALTHY", True), healthy]


@given(
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE"]),
    path=st.sampled_from(["/api/jobs/", "/api/jobs/x", "/api/jobs/x/stop", "/api/serve/applications/", "/y"]),
    host=st.sampled_from([HEAD, "http://10.244.0.1:8000", "http://", "http://a.b", "http://[", "x"]),
    body=st.one_of(
        st.binary(max_size=20),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=3)
            ),
            max_leaves=8,
        ).map(lambda value: json.dumps(value).encode()),
    ),
)
def test_no_request_can_break_it(method: str, path: str, host: str, body: bytes) -> None:
    """Whatever is asked, there is an answer in JSON."""
    dashboard = RayDashboard(cast("RayObjects", _Cluster()), lambda _seconds, _action: None)
    for _ in range(2):
        json.dumps(dashboard.handle(method, f"{host}{path}", body).document)


class _Recording:
    """An API with one RayJob, and a list of what was asked."""

    def __init__(self, submission_id: str) -> None:
        self.asked: list[str] = []
        self.item = {"metadata": {"name": "train"}, "status": {"jobId": submission_id}}

    def get(self, path: str) -> Any:
        """The RayJob by name, or all of them."""
        self.asked.append(path)
        if path.endswith("/rayjobs"):
            return {"items": [self.item]}
        if path.endswith("/rayjobs/train"):
            return self.item
        raise SandboxApiError(404, "not found", path)


@pytest.mark.parametrize(("submission_id", "lists"), [("train-x2fb9", 0), ("mine", 1)])
def test_a_namespace_full_of_jobs_is_not_listed_for_each_question(submission_id: str, lists: int) -> None:
    """KubeRay polls every job every three seconds; a list each time would be quadratic."""
    api = _Recording(submission_id)
    objects = RayObjects(cast("ApiClient", api))
    for _ in range(3):
        assert objects.job("team", submission_id) == api.item
    assert sum(path.endswith("/rayjobs") for path in api.asked) == lists


class _Down:
    """An API that cannot be reached."""

    def get(self, path: str) -> Any:
        """Fail as a connection does, or as a server."""
        if "services" in path:
            raise SandboxApiError(500, "no", path)
        raise ConnectionRefusedError


@pytest.mark.parametrize("path", ["/api/jobs/x", "/api/serve/applications/"])
def test_while_the_api_server_is_away_it_says_so(path: str) -> None:
    """KubeRay repeats the request on the same connection."""
    server = make_server(cast("ApiClient", _Down()), 0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        with closing(http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)) as connection:
            for url, status in ((f"{HEAD}{path}", 503), ("http://10.244.0.7:8000/-/healthz", 200)):
                connection.request("GET", url)
                answer = connection.getresponse()
                answer.read()
                assert answer.status == status
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
