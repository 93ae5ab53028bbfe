"""The stand-in for Ray heads says what annotations ask for, and never anything that Ray would not say."""

from __future__ import annotations

import http.client
import json
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaiwo_sandbox.api import Api, ApiError
from kaiwo_sandbox.ray import behaviour
from kaiwo_sandbox.ray.__main__ import make_server
from kaiwo_sandbox.ray.behaviour import SIMULATED, Behaviour, read
from kaiwo_sandbox.ray.dashboard import Dashboard
from kaiwo_sandbox.ray.jobs import Job
from kaiwo_sandbox.ray.objects import RayObjects

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
    assert read({behaviour.RUN_TIME: text}).run_time == seconds


@pytest.mark.parametrize(
    ("key", "value"),
    [(behaviour.RUN_TIME, "soon"), (behaviour.JOB_STATUS, "DONE"), (behaviour.APP_STATUS, "FINE")],
)
def test_a_mistake_in_an_annotation_is_said_by_what_it_is_about(key: str, value: str) -> None:
    """The job fails and the application is not deployed, with the annotation, the value and what would do."""
    found = read({key: value})
    assert (found.job_status, found.app_status) == ("FAILED", "DEPLOY_FAILED")
    assert key in found.message
    assert repr(value) in found.message


@given(st.dictionaries(st.sampled_from([behaviour.RUN_TIME, behaviour.JOB_STATUS, "x"]), st.text()))
def test_no_annotation_can_break_it(annotations: dict[str, str]) -> None:
    """Whatever stands there, there is a behaviour of known words."""
    found = read(annotations, None)
    assert found.job_status in behaviour.JOB_STATUSES
    assert found.app_status in behaviour.DEPLOYMENT_OF_APP


def test_the_object_overrides_its_head_group() -> None:
    """A template may set what most jobs do, and one job something else."""
    template = {behaviour.RUN_TIME: "9s", behaviour.JOB_STATUS: "FAILED"}
    found = read({behaviour.JOB_STATUS: "SUCCEEDED"}, template)
    assert (found.run_time, found.job_status) == (9, "SUCCEEDED")


@pytest.mark.parametrize("text", ["", "disk full"])
def test_every_message_says_that_it_is_simulated(text: str) -> None:
    """Nobody must take a made-up result for a real one."""
    message = read({behaviour.MESSAGE: text}).message
    assert SIMULATED.lower().rstrip(".") in message.lower()
    assert text in message


def test_a_job_waits_for_its_submitter_then_runs_its_time_and_ends_for_good() -> None:
    """The order in which a real Ray job goes through its states."""
    job, wanted = Job("team", "id", "head"), Behaviour(run_time=2)
    seen = []
    for now, submitted in ((0, False), (10, True), (11, True), (12.1, True)):
        job.advance(wanted, now, submitted=submitted)
        seen.append(job.status)
    assert seen == ["PENDING", "RUNNING", "RUNNING", "SUCCEEDED"]
    job.advance(Behaviour(job_status="FAILED"), 20, submitted=True)
    assert (job.status, job.document()["start_time"], job.document()["end_time"]) == (
        "SUCCEEDED",
        10_000,
        12_100,
    )


@pytest.mark.parametrize("status", ["PENDING", "RUNNING"])
def test_a_job_can_be_held_in_a_state_that_is_no_end(status: str) -> None:
    """Until the annotation changes."""
    job = Job("team", "id", "head")
    job.advance(Behaviour(run_time=0, job_status=status), 1, submitted=True)
    job.advance(Behaviour(run_time=0, job_status=status), 1000, submitted=True)
    assert job.status == status
    job.advance(Behaviour(run_time=0), 1001, submitted=True)
    assert job.status == "SUCCEEDED"


class _Cluster:
    """The look-ups of `RayObjects`, with what a test puts there."""

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
def dashboard(cluster: _Cluster, timers: list[Callable[[], None]]) -> Dashboard:
    """A dashboard over that cluster."""
    return Dashboard(cast("RayObjects", cluster), lambda _seconds, action: timers.append(action))


def _owner(name: str, mode: str = "K8sJobMode", **annotations: str) -> Object:
    keys = {f"kaiwo-sandbox/ray-{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {
        "metadata": {"name": name, "annotations": keys},
        "spec": {"submissionMode": mode, "entrypoint": "python train.py"},
    }


def test_the_submitter_of_a_job_ends_with_it(
    dashboard: Dashboard, cluster: _Cluster, timers: list[Callable[[], None]]
) -> None:
    """Also when nobody asks: KubeRay acts on the end of the submitter, without waiting for its next look."""
    cluster.jobs["id"] = _owner("train", run_time="0s", job_status="RUNNING")
    assert dashboard.answer("GET", f"{HEAD}/api/jobs/id", b"").document["status"] == "PENDING"
    cluster.submitted_jobs.add("train")
    assert dashboard.answer("GET", f"{HEAD}/api/jobs/id", b"").document["status"] == "RUNNING"
    assert not cluster.ended
    cluster.jobs["id"] = _owner("train", run_time="0s")
    (timer,) = timers
    timer()
    assert cluster.ended == ["train"]
    assert dashboard.answer("GET", f"{HEAD}/api/jobs/id", b"").document["status"] == "SUCCEEDED"


def test_jobs_over_http_are_submitted_once_and_can_be_stopped(
    dashboard: Dashboard, cluster: _Cluster
) -> None:
    """KubeRay asks first, submits on 404, and knows the answer to a name that is taken."""
    cluster.jobs["id"] = _owner("train", "HTTPMode", job_status="RUNNING")
    cluster.submitted_jobs.add("train")
    assert dashboard.answer("GET", f"{HEAD}/api/jobs/id", b"").status == 404
    submission = json.dumps({"submission_id": "id", "entrypoint": "python train.py"}).encode()
    assert dashboard.answer("POST", f"{HEAD}/api/jobs/", submission).document["job_id"] == "id"
    again = dashboard.answer("POST", f"{HEAD}/api/jobs/", submission)
    assert again.status == 500
    assert "Please use a different submission_id" in again.document
    assert dashboard.answer("POST", f"{HEAD}/api/jobs/id/stop", b"").document == {"stopped": True}
    (listed,) = dashboard.answer("GET", f"{HEAD}/api/jobs/", b"").document
    assert (listed["status"], listed["entrypoint"]) == ("STOPPED", "python train.py")
    assert SIMULATED in dashboard.answer("GET", f"{HEAD}/api/jobs/id/logs", b"").document["logs"]
    dashboard.answer("DELETE", f"{HEAD}/api/jobs/id", b"")
    assert dashboard.answer("GET", f"{HEAD}/api/jobs/id", b"").status == 404


def test_applications_are_those_of_the_config_in_the_state_that_is_asked_for(
    dashboard: Dashboard, cluster: _Cluster
) -> None:
    """Before the config arrives there are none; an annotation makes them unhealthy, its removal heals."""
    url = f"{HEAD}/api/serve/applications/"
    asked = f"{url}?api_type=declarative"
    assert dashboard.answer("GET", asked, b"").document["applications"] == {}
    config = {"applications": [{"name": "llm", "route_prefix": "/", "deployments": [{"name": "Model"}]}]}
    assert dashboard.answer("PUT", url, json.dumps(config).encode()).status == 200
    seen = []
    for asked_for in ({}, {"app_status": "UNHEALTHY", "message": "replica died"}, {}):
        cluster.services["c-head-svc"] = _owner("serve", **asked_for)
        app = dashboard.answer("GET", asked, b"").document["applications"]["llm"]
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
    dashboard = Dashboard(cast("RayObjects", _Cluster()), lambda _seconds, _action: None)
    for _ in range(2):
        json.dumps(dashboard.answer(method, f"{host}{path}", body).document)


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
        raise ApiError(404, "not found", path)


@pytest.mark.parametrize(("submission_id", "lists"), [("train-x2fb9", 0), ("mine", 1)])
def test_a_namespace_full_of_jobs_is_not_listed_for_each_question(submission_id: str, lists: int) -> None:
    """KubeRay asks every three seconds for every job; a list each time would grow with the square."""
    api = _Recording(submission_id)
    objects = RayObjects(cast("Api", api))
    for _ in range(3):
        assert objects.job("team", submission_id) == api.item
    assert sum(path.endswith("/rayjobs") for path in api.asked) == lists


class _Down:
    """An API that cannot be reached."""

    def get(self, path: str) -> Any:
        """Fail as a connection does, or as a server."""
        if "services" in path:
            raise ApiError(500, "no", path)
        raise ConnectionRefusedError


@pytest.mark.parametrize("path", ["/api/jobs/x", "/api/serve/applications/"])
def test_while_the_api_server_is_away_it_says_so(path: str) -> None:
    """KubeRay asks again; the connection to it stays usable."""
    server = make_server(cast("Api", _Down()), 0)
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
