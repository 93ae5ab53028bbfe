"""Kaiwo as administrators install it: the Helm chart, two replicas as pods, webhooks behind their Service."""

from __future__ import annotations

import contextlib
import logging
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest
from kubernetes.client import CustomObjectsApi
from kubernetes.client.exceptions import ApiException
from kubernetes.config import new_client_from_config

from kaiwo.admission.names import SERVICE
from kaiwo.api.crds import KAIWO_JOB
from kaiwo.workload.labels import MANAGED, REQUESTED_BY
from kaiwo_sandbox import binaries
from kaiwo_sandbox.api import SandboxApiError
from kaiwo_sandbox.certs import ADMIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaiwo.engine.resource import Object
    from kaiwo_sandbox.sandbox import Sandbox

CHART = Path(__file__).parents[2] / "charts" / "kaiwo"
NAMESPACE = "kaiwo-of-helm"
VALUES = {
    "plugins": "{batch_job,deployment,gpu_amd}",
    "replicas": "2",
    "webhooks.enabled": "true",
    "webhooks.enforceGpuWorkloads": "true",
    "identity": "set",
    "networkPolicy.enabled": "false",
    "scheduler.enabled": "false",  # the node has no image of kube-scheduler
}
GPU = "amd.com/gpu"
WRONG_IMAGE = "registry.sandbox/Train:1"
ANSWER_SECONDS = 5.0
"""The timeout of the webhooks."""
CHANGING = {"events", "componentstatuses", "endpoints", "endpointslices", "leases"}
"""Resources whose objects come and go by themselves."""
_log = logging.getLogger(__name__)


@dataclass
class Installation:
    """A release of the chart, and what the cluster had before it."""

    sandbox: Sandbox
    home: Path
    program: Path
    before: set[str] = field(default_factory=set)

    def helm(self, *arguments: object) -> None:
        """Run Helm as a user does."""
        where = ["--kubeconfig", self.sandbox.kubeconfig, "--namespace", NAMESPACE]
        done = subprocess.run(
            [self.program, *map(str, [*arguments, *where])],
            capture_output=True,
            text=True,
            check=False,
            env={"HOME": str(self.home)},
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"

    def pods(self) -> list[Object]:
        """The replicas that are ready to review."""
        found = self.sandbox.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
        return [
            pod
            for pod in found
            if not pod["metadata"].get("deletionTimestamp")
            and any(
                item["type"] == "Ready" and item["status"] == "True"
                for item in pod["status"].get("conditions", [])
            )
        ]


def objects_of(sandbox: Sandbox) -> set[str]:
    """The paths of all objects in a cluster, with those that change by themselves left out."""
    api = sandbox.api
    versions = [each["preferredVersion"]["groupVersion"] for each in api.get("/apis")["groups"]]
    found = set()
    for root in ("/api/v1", *(f"/apis/{version}" for version in versions)):
        for resource in api.get(root)["resources"]:
            plural = resource["name"]
            if plural in CHANGING or "list" not in resource["verbs"]:
                continue
            for item in api.get(f"{root}/{plural}")["items"]:
                head = item["metadata"]
                found.add(f"{root}/{plural}/{head.get('namespace', '')}/{head['name']}")
    return found


@pytest.fixture(scope="module")
def installation(
    real_node: Sandbox,
    operator_image: str,
    wait_for: Callable[..., Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Installation]:
    """The chart with two replicas, webhooks for everything, and four GPUs of the node."""
    release = Installation(real_node, tmp_path_factory.mktemp("helm"), binaries.ensure_helm())
    (node,) = real_node.api.get("/api/v1/nodes")["items"]
    status = f"/api/v1/nodes/{node['metadata']['name']}/status"

    def set_gpus(count: str) -> None:
        changes = [
            {"op": "add", "path": f"/status/{part}/{GPU.replace('/', '~1')}", "value": count}
            for part in ("capacity", "allocatable")
        ]
        real_node.api.request("PATCH", status, changes, content_type="application/json-patch+json")

    set_gpus("4")
    release.before = objects_of(real_node)
    settings = [word for name, value in VALUES.items() for word in ("--set", f"{name}={value}")]
    options = [
        "--create-namespace",
        "--take-ownership",
        "--force-conflicts",
        "--set",
        f"image={operator_image}",
    ]
    release.helm("install", "kaiwo", CHART, *options, *settings)
    wait_for("two ready replicas", lambda: len(release.pods()) == 2, seconds=120)
    # kube-proxy learns of them a moment later.
    wait_for("an answer through the Service", lambda: reviews(real_node))
    yield release
    release.helm("uninstall", "kaiwo", "--ignore-not-found")
    set_gpus(node["status"]["capacity"].get(GPU, "0"))


def reviews(sandbox: Sandbox) -> bool:
    """Whether a dry run of a mistake is refused, which only a webhook does."""
    path = f"/apis/{KAIWO_JOB.api_version}/namespaces/default/{KAIWO_JOB.plural}?dryRun=All"
    body = never_placed("wrong")
    body["spec"]["image"] = WRONG_IMAGE
    try:
        sandbox.api.create(path, body)
    except SandboxApiError as error:
        return "denied the request" in str(error)
    return False


def connected(address: str, port: int) -> bool:
    """Whether a process of this machine, such as the API server, has a connection to an address."""
    number = "".join(f"{int(part):02X}" for part in reversed(address.split(".")))
    established = "01"
    lines = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    return any(
        (words[2], words[3]) == (f"{number}:{port:04X}", established) for words in map(str.split, lines)
    )


def job(name: str, gpus: int = 1) -> Object:
    """A plain Job of somebody who has not heard of Kaiwo."""
    container = {
        "name": "main",
        "image": "registry.sandbox/busybox:1",
        "command": ["sh", "-c", "echo trained"],
        "resources": {"limits": {GPU: str(gpus)}},
    }
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template, "backoffLimit": 0},
    }


def jobs_of(lab: Any) -> str:
    """The path of the Jobs in the user's namespace."""
    return f"/apis/batch/v1/namespaces/{lab.namespace}/jobs"


def test_the_api_server_asks_the_replicas_through_their_service(
    installation: Installation, real_node: Sandbox, bare_lab: Any
) -> None:
    """A mistake is refused with its field, and a workload belongs to whoever the API server knows."""
    denied = r"admission webhook .* denied the request: spec\.image: .* is not an image reference"
    with pytest.raises(SandboxApiError, match=denied) as refused:
        bare_lab.submit("wrong", image=WRONG_IMAGE)
    service = real_node.api.get(f"/api/v1/namespaces/{NAMESPACE}/services/{SERVICE}")
    assert connected(service["spec"]["clusterIP"], 443)
    assert refused.value.status == 422

    bare_lab.submit("of-administrator", entrypoint="true", user="somebody@example.com")
    created = real_node.api.get(bare_lab.path(KAIWO_JOB, "of-administrator"))
    assert created["spec"]["user"] == ADMIN
    with new_client_from_config(str(real_node.kubeconfig)) as client:
        client.set_default_header("Impersonate-User", "jane@example.com")
        where = (KAIWO_JOB.group, KAIWO_JOB.version, bare_lab.namespace, KAIWO_JOB.plural)
        body = {**created, "metadata": {"name": "of-jane"}}
        with pytest.raises(ApiException, match="Forbidden"):  # no rights in this namespace
            CustomObjectsApi(client).create_namespaced_custom_object(*where, body)
        client.set_default_header("Impersonate-Group", "system:masters")
        CustomObjectsApi(client).create_namespaced_custom_object(*where, body)
    assert real_node.api.get(bare_lab.path(KAIWO_JOB, "of-jane"))["spec"]["user"] == "jane@example.com"
    bare_lab.reaches("of-jane", "COMPLETE")
    assert len(installation.pods()) == 2


@pytest.mark.usefixtures("installation")
def test_a_plain_gpu_job_is_labelled_adopted_and_runs(
    real_node: Sandbox, bare_lab: Any, wait_for: Callable[..., Any]
) -> None:
    """Nobody wrote a label; the pod has its GPU, and Job and KaiwoJob both end well."""
    made = real_node.api.create(jobs_of(bare_lab), job("train"))
    assert made["metadata"]["labels"][MANAGED] == "true"
    assert made["metadata"]["annotations"][REQUESTED_BY] == ADMIN
    wait_for("the KaiwoJob", lambda: "train" in names_of(real_node, bare_lab.path(KAIWO_JOB)))
    bare_lab.reaches("train", "COMPLETE")

    kaiwojob = real_node.api.get(bare_lab.path(KAIWO_JOB, "train"))
    ended = real_node.api.get(f"{jobs_of(bare_lab)}/train")
    assert kaiwojob["spec"]["user"] == ADMIN
    assert ended["status"]["succeeded"] == 1
    assert [owner["uid"] for owner in ended["metadata"]["ownerReferences"]] == [kaiwojob["metadata"]["uid"]]
    (pod,) = pods_of(real_node, bare_lab, "train")
    assert real_node.api.get(f"{bare_lab.core}/pods/{pod['metadata']['name']}/log") == "trained\n"
    assert pod["spec"]["containers"][0]["resources"]["limits"][GPU] == "1"


class Submitter:
    """Creates workloads one after the other until it is told to end, and remembers how each create went."""

    def __init__(self, sandbox: Sandbox, path: str, body: Callable[[str], Object]) -> None:
        self.seconds: list[float] = []
        self.refusals: list[str] = []
        self._sandbox = sandbox
        self._path = path
        self._body = body
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End after the create that runs."""
        self._end.set()
        self._thread.join()

    def __str__(self) -> str:
        """What happened, for the log."""
        refused = f"{len(self.refusals)} refused"
        return f"{len(self.seconds)} creates, {refused}, the slowest {max(self.seconds):.2f} s"

    def _run(self) -> None:
        while not self._end.wait(0.1):
            begun = time.monotonic()
            try:
                self._sandbox.api.create(self._path, self._body(f"steady-{len(self.seconds)}"))
            except (SandboxApiError, OSError) as error:
                self.refusals.append(str(error))
            self.seconds.append(time.monotonic() - begun)


def never_placed(name: str) -> Object:
    """A KaiwoJob with more GPUs than the node has."""
    return {
        "apiVersion": KAIWO_JOB.api_version,
        "kind": KAIWO_JOB.kind,
        "metadata": {"name": name},
        "spec": {"image": "registry.sandbox/python:3", "entrypoint": "true", "gpus": 8},
    }


def test_workloads_are_created_while_a_replica_is_killed(
    installation: Installation, real_node: Sandbox, bare_lab: Any, wait_for: Callable[..., Any]
) -> None:
    """None is refused and none waits longer than a webhook may; then both replicas review again.

    The webhook of new GPU Jobs fails closed, so such a Job may be refused, in the documented words.
    """
    with (
        Submitter(real_node, bare_lab.path(KAIWO_JOB), never_placed) as workloads,
        Submitter(real_node, jobs_of(bare_lab), lambda name: job(name.replace("steady", "gpu"), 8)) as jobs,
    ):
        wait_for("some workloads", lambda: min(len(workloads.seconds), len(jobs.seconds)) > 10)
        killed = installation.pods()[0]
        restarts = restarts_of(real_node, killed)
        bare_lab.kill(killed)
        wait_for("its restart", lambda: restarts_of(real_node, killed) > restarts, seconds=120)
        wait_for("two ready replicas", lambda: len(installation.pods()) == 2, seconds=120)
        count = len(workloads.seconds)
        wait_for("more workloads", lambda: len(workloads.seconds) > count + 10)
    _log.warning("KaiwoJobs: %s; Jobs: %s", workloads, jobs)
    assert workloads.refusals == []
    assert [text for text in jobs.refusals if "failed calling webhook" not in text] == []
    assert max(*workloads.seconds, *jobs.seconds) < ANSWER_SECONDS
    made = [name for name in names_of(real_node, bare_lab.path(KAIWO_JOB)) if name.startswith("steady")]
    assert len(made) == len(workloads.seconds)


def test_gpu_jobs_are_created_while_a_replica_is_replaced(
    installation: Installation, real_node: Sandbox, bare_lab: Any, wait_for: Callable[..., Any]
) -> None:
    """Their webhook refuses when no replica answers; the one that goes answers until its Service knows."""
    with Submitter(real_node, jobs_of(bare_lab), lambda name: job(name, 8)) as submitter:
        wait_for("some Jobs", lambda: len(submitter.seconds) > 10)
        replaced = installation.pods()[0]["metadata"]["name"]
        real_node.api.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{replaced}")
        wait_for("two ready replicas", lambda: replaced not in names(installation.pods()), seconds=60)
        wait_for("two ready replicas", lambda: len(installation.pods()) == 2, seconds=120)
    assert submitter.refusals == []
    assert max(submitter.seconds) < ANSWER_SECONDS
    _log.warning("Jobs: %s", submitter)


def test_nothing_is_left_after_both_uninstallations(
    installation: Installation, real_node: Sandbox, bare_lab: Any, wait_for: Callable[..., Any]
) -> None:
    """As docs/uninstall.md says: first kaiwo's, then Helm's. A user's own Job stays, with its result."""
    real_node.api.create(jobs_of(bare_lab), job("own"))
    bare_lab.submit("made", entrypoint="true")
    wait_for("the KaiwoJob", lambda: "own" in names_of(real_node, bare_lab.path(KAIWO_JOB)))
    for name in ("own", "made"):
        bare_lab.reaches(name, "COMPLETE")

    command = [sys.executable, "-c", "from kaiwo.cli.main import main; main()"]
    where = ["--kubeconfig", str(real_node.kubeconfig), "--namespace", NAMESPACE]
    done = subprocess.run(
        [*command, *where, "uninstall", "--yes", "--workloads=delete"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "helm uninstall kaiwo" in done.stdout + done.stderr
    installation.helm("uninstall", "kaiwo", "--wait")
    every_namespace = {
        f"/api/v1/configmaps/{NAMESPACE}/kube-root-ca.crt",
        f"/api/v1/serviceaccounts/{NAMESPACE}/default",
    }

    def own() -> set[str]:
        """What the operator's namespace holds, before that goes too."""
        return {path for path in objects_of(real_node) if f"/{NAMESPACE}/" in path}

    with contextlib.suppress(AssertionError):
        wait_for("the end of the pods", lambda: own() == every_namespace, seconds=60)
    assert own() == every_namespace
    assert names_of(real_node, f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases") == []
    real_node.delete_namespace(NAMESPACE)

    pods = {
        f"/api/v1/pods/{bare_lab.namespace}/{name}" for name in names(pods_of(real_node, bare_lab, "own"))
    }
    kept = {
        f"/apis/batch/v1/jobs/{bare_lab.namespace}/own",
        f"/api/v1/configmaps/{bare_lab.namespace}/kube-root-ca.crt",
        f"/api/v1/serviceaccounts/{bare_lab.namespace}/default",
    }

    def left() -> set[str]:
        """What is new, but for users' namespaces and what is in those of earlier tests, which go slowly."""
        users = {name for name in names_of(real_node, "/api/v1/namespaces") if name.startswith("test-")}
        others = {f"/{name}/" for name in users - {bare_lab.namespace}}
        new = objects_of(real_node) - installation.before - {f"/api/v1/namespaces//{name}" for name in users}
        return {path for path in new if not any(other in path for other in others)}

    with contextlib.suppress(AssertionError):  # the next line says what is left
        wait_for("the end of everything", lambda: left() == kept | pods, seconds=60)
    assert left() == kept | pods
    assert len(pods) == 1
    assert real_node.api.get(f"{jobs_of(bare_lab)}/own")["status"]["succeeded"] == 1
    (node,) = real_node.api.get("/api/v1/nodes")["items"]
    marks = {**node["metadata"].get("labels", {}), **node["metadata"].get("annotations", {})}
    assert [mark for mark in marks if "silogen" in mark] == []


def names(items: list[Object]) -> list[str]:
    """The names of objects."""
    return [item["metadata"]["name"] for item in items]


def names_of(sandbox: Sandbox, path: str) -> list[str]:
    """The names of the objects in a collection."""
    return names(sandbox.api.get(path)["items"])


def pods_of(sandbox: Sandbox, lab: Any, job: str) -> list[Object]:
    """The pods of a plain Job."""
    query = f"labelSelector=batch.kubernetes.io%2Fjob-name%3D{job}"
    found: list[Object] = sandbox.api.get(f"{lab.core}/pods?{query}")["items"]
    return found


def restarts_of(sandbox: Sandbox, pod: Object) -> int:
    """How often the container of a replica was started again."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}"
    return sum(each["restartCount"] for each in sandbox.api.get(path)["status"]["containerStatuses"])
