"""The operator with the plugin on a real API server; the tests play the JobSet controller."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo_backend_jobset.plugin import JOB_SET

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("operator")]

MERGE = "application/merge-patch+json"


class User:
    """What a user and the JobSet controller do in one namespace."""

    def __init__(self, api: Any, namespace: str) -> None:
        self.api = api
        self.workloads = f"/apis/kaiwo.silogen.ai/v1alpha1/namespaces/{namespace}/kaiwojobs"
        self.jobsets = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets"
        self.jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"

    def submit(self, name: str, **spec: Any) -> None:
        """Create a KaiwoJob."""
        body = {
            "apiVersion": "kaiwo.silogen.ai/v1alpha1",
            "kind": "KaiwoJob",
            "metadata": {"name": name},
            "spec": {"image": "registry.example/train:1", **spec},
        }
        self.api.create(self.workloads, body)

    def wait(self, collection: str, name: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The object of a name once it is as wanted."""
        with closing(self.api.watch(collection, timeout=90)) as changes:
            for change in changes:
                found: dict[str, Any] = change["object"]
                if found["metadata"]["name"] == name and change["type"] != "DELETED" and wanted(found):
                    return found
        raise AssertionError(f"{collection}/{name} was never as wanted: {self.api.get(collection)}")

    def jobset(self, name: str) -> dict[str, Any]:
        """The JobSet that the operator creates."""
        return self.wait(self.jobsets, name, lambda _: True)

    def reaches(self, name: str, status: str) -> dict[str, Any]:
        """The status of a KaiwoJob once it has this word."""
        found = self.wait(self.workloads, name, lambda obj: obj.get("status", {}).get("status") == status)
        result: dict[str, Any] = found["status"]
        return result

    def end(self, name: str, type_: str, reason: str, message: str) -> None:
        """Write what the JobSet controller writes at the end."""
        condition = {"type": type_, "status": "True", "reason": reason, "message": message}
        condition["lastTransitionTime"] = "2026-01-02T03:04:05Z"
        body = {"status": {"conditions": [condition]}}
        self.api.request("PATCH", f"{self.jobsets}/{name}/status", body, content_type=MERGE)


@pytest.fixture
def user(cluster: Any, namespace: str) -> User:
    """A user of the test's namespace."""
    return User(cluster.api, namespace)


def test_a_jobset_is_created_and_its_end_is_the_workloads(user: User) -> None:
    """From submitted to running to completed."""
    user.submit("train", jobSet={}, replicas=2, entrypoint="python train.py")
    jobset = user.jobset("train")
    assert jobset["kind"] == JOB_SET.kind
    (owner,) = jobset["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("KaiwoJob", "train", True)
    (workers,) = jobset["spec"]["replicatedJobs"]
    assert (workers["name"], workers["template"]["spec"]["parallelism"]) == ("workers", 2)
    assert user.reaches("train", "STARTING")["reason"] == "Starting"

    controller = {"kind": JOB_SET.kind, "name": "train", "uid": jobset["metadata"]["uid"], "controller": True}
    user.api.create(
        user.jobs,
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": "train-workers-0",
                "ownerReferences": [{"apiVersion": JOB_SET.api_version, **controller}],
            },
            "spec": workers["template"]["spec"],
        },
    )
    assert user.reaches("train", "RUNNING")["message"] == "JobSet train runs"

    user.end("train", "Completed", "AllJobsCompleted", "jobset completed successfully")
    assert user.reaches("train", "COMPLETE")["message"] == "JobSet train completed"


def test_a_failed_jobset_fails_the_workload_with_its_reason(user: User) -> None:
    """The reason and the message are JobSet's own."""
    user.submit("train", jobSet={"spec": {"failurePolicy": {"maxRestarts": 1}}})
    assert user.jobset("train")["spec"]["failurePolicy"] == {"maxRestarts": 1}
    user.end("train", "Failed", "ReachedMaxRestarts", "jobset failed after 1 restart")
    status = user.reaches("train", "FAILED")
    assert status["reason"] == "ReachedMaxRestarts"
    assert status["message"] == "JobSet train failed: jobset failed after 1 restart"


def test_a_plain_job_beside_it_is_no_jobset(user: User) -> None:
    """The backend serves only workloads with its block."""
    user.submit("plain")
    user.reaches("plain", "RUNNING")
    assert user.api.get(user.jobsets)["items"] == []
