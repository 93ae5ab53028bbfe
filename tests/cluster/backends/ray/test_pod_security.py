"""What Kaiwo generates in a namespace that enforces the Pod Security Standard ``restricted``."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kaiwo.engine.resource import JOB, NAMESPACE
from kaiwo.plugin.loader import load
from kaiwo.testing import job, node, render, service

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from kaiwo.engine.resource import Object
    from kaiwo.testing.operator import OperatorProcess

    Start = Callable[..., Awaitable[OperatorProcess]]

pytestmark = pytest.mark.cluster

STANDARD = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn", "audit")}
GIT = {"git": [{"repository": "https://git.example.com/r.git", "targetPath": "src"}]}
COMMON: dict[str, Any] = {
    "image": "registry.example/any:1",
    "gpus": 2,
    "entrypoint": "python main.py",
    "env": [{"name": "MODE", "value": "fast"}],
    "secretVolumes": [{"name": "s", "secretName": "s", "mountPath": "/s"}],
    "imagePullSecrets": [{"name": "pull"}],
    "storage": {"storageEnabled": True, "data": {"storageSize": "1Gi", "download": GIT}},
}
WORKLOADS = {
    "batch_job": job(**COMMON),
    "ray_job": job(**COMMON, ray=True),
    "deployment": service(**COMMON),
    "ray_service": service(**COMMON, ray=True, serveConfigV2="applications: []"),
}
PATHS = {
    "Job": "apis/batch/v1/{}/jobs",
    "RayJob": "apis/ray.io/v1/{}/rayjobs",
    "Deployment": "apis/apps/v1/{}/deployments",
    "AppWrapper": "apis/workload.codeflare.dev/v1beta2/{}/appwrappers",
    "Pod": "api/v1/{}/pods",
}
KNOWN = ("PersistentVolumeClaim", "ConfigMap", *PATHS)
"""Kinds of which an object is rendered; the first two run nothing."""


class Admission:
    """Sends objects to an API server, which stores none of them, for its warnings.

    Attributes:
        namespace: where the objects are sent.
    """

    def __init__(self, sandbox: Any, namespace: str) -> None:
        self._sandbox = sandbox
        self.namespace = namespace

    def warnings(self, obj: Object) -> list[str]:
        """The warnings about an object; AssertionError when it is refused."""
        path = PATHS[obj["kind"]].format(f"namespaces/{self.namespace}")
        headers = {"Content-Type": "application/json"}
        with closing(self._sandbox.api._connect(60)) as connection:  # the client shows no headers
            connection.request("POST", f"/{path}?dryRun=All", json.dumps(obj), headers)
            response = connection.getresponse()
            text = response.read().decode()
        assert response.status == 201, text
        return list(response.headers.get_all("Warning") or [])


def made_for(workload: Object, namespace: str) -> list[Object]:
    """All that runs pods among what is created for a workload in a namespace."""
    placed = {**workload, "metadata": {**workload["metadata"], "namespace": namespace}}
    text = render(placed, load(), nodes=[node(gpus={"amd.com/gpu": 8})])
    objects = list(yaml.safe_load_all(text))
    assert {obj["kind"] for obj in objects} <= set(KNOWN)
    return [obj for obj in objects if obj["kind"] in PATHS]


def pods_of(value: Any) -> Iterator[Object]:
    """Every pod template in an object, as a pod."""
    if isinstance(value, list):
        for item in value:
            yield from pods_of(item)
    elif isinstance(value, dict):
        if "containers" in value.get("spec", {}):
            metadata = {**value["metadata"], "name": "bare"}
            yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": value["spec"]}
            return
        for item in value.values():
            yield from pods_of(item)


@pytest.fixture
async def restricted(client: Any, namespace: str, control_plane: Any) -> Admission:
    """The test's namespace, which enforces the standard and warns of what it forbids."""
    await client.merge_patch(NAMESPACE, None, namespace, {"metadata": {"labels": STANDARD}})
    return Admission(control_plane, namespace)


@pytest.mark.parametrize("name", WORKLOADS)
async def test_what_is_made_for_a_workload_draws_no_warning(restricted: Admission, name: str) -> None:
    """The child, the download Job, and each of their pods: accepted, without one warning."""
    objects = made_for(WORKLOADS[name], restricted.namespace)
    assert len(objects) == 2  # the child and the download Job
    pods = list(pods_of(objects))
    assert len(pods) == {"batch_job": 2, "ray_job": 4, "deployment": 2, "ray_service": 3}[name]
    for obj in (*objects, *pods):
        assert restricted.warnings(obj) == []


async def test_the_standard_is_enforced_in_this_namespace(restricted: Admission) -> None:
    """A dangerous job is what it says: its Job draws a warning, and its pod is refused."""
    child = made_for(job(image="registry.example/any:1", dangerous=True), restricted.namespace)[0]
    [warning] = restricted.warnings(child)
    for word in ("allowPrivilegeEscalation", "capabilities", "runAsNonRoot", "seccompProfile"):
        assert word in warning
    with pytest.raises(AssertionError, match="violates PodSecurity"):
        restricted.warnings(next(pods_of(child)))


async def test_a_job_with_downloads_completes_there(
    restricted: Admission, operator: Start, user: Any
) -> None:
    """From the download pod to the end of the job's own: no pod is refused."""
    del restricted
    await operator(plugins="batch_job,storage_s3_gcs_azure_git_hf")
    storage = {
        "storageEnabled": True,
        "accessMode": "ReadWriteOnce",
        "data": {"storageSize": "1Gi", "download": GIT},
    }
    await user.submit("KaiwoJob", "train", storage=storage)
    await user.reaches("KaiwoJob", "train", "COMPLETE")
    assert len([obj async for obj in user.client.list(JOB, user.namespace)]) == 2


async def test_a_ray_cluster_gets_all_its_pods_there(
    restricted: Admission, operator: Start, user: Any
) -> None:
    """Also with the containers that KubeRay adds to the workers."""
    del restricted
    await operator(plugins="ray_job,gpu_amd,gpu_nvidia")
    forever = {"annotations": {"kaiwo-sandbox/forever": "true"}}
    await user.submit("KaiwoJob", "train", ray=True, gpus=12, entrypoint="python main.py", metadata=forever)
    pods = await user.pods(4)  # a head, two workers, and the submitter
    assert any(pod["spec"].get("initContainers") for pod in pods)
