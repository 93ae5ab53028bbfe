"""The operator as it is installed: pods from its image, with its own service account, two of them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kaiwo.api.crds import KAIWO_JOB
from kaiwo_sandbox import process
from kaiwo_sandbox.real_node import namespaces
from kaiwo_sandbox.real_node.configuration import CONTAINERD_SOCKET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAMESPACE = "kaiwo-system"
PLUGINS = "batch_job,deployment,gpu_amd"
COLLECTIONS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
    "Deployment": f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
    "PodDisruptionBudget": f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets",
    "Role": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles",
    "RoleBinding": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/rolebindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": (
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
    ),
}


@pytest.fixture(scope="module")
def installed(
    real_node: Any, crds: None, operator_image: str, wait_for: Callable[..., Any]
) -> Iterator[None]:
    """What `kaiwo manifests` renders, with two replicas in a namespace that enforces restricted pods."""
    del crds
    command = [sys.executable, "-c", "from kaiwo.cli.main import main; main()"]
    parts = ["manifests", "rbac", "operator", "--pod-security", "--plugins", PLUGINS]
    rendered = subprocess.run(
        [*command, *parts, "--image", operator_image], capture_output=True, text=True, check=True
    )
    documents = [each for each in yaml.safe_load_all(rendered.stdout) if each]
    # The namespace is first: the others are in it.
    for document in sorted(documents, key=lambda each: each["kind"] != "Namespace"):
        if document["kind"] == "Deployment":
            document["spec"]["replicas"] = 2
        real_node.api.apply(f"{COLLECTIONS[document['kind']]}/{document['metadata']['name']}", document)

    def ready() -> bool:
        return sum(map(is_ready, pods(real_node))) == 2

    wait_for("two ready operators", ready, seconds=120)
    yield
    for document in documents:
        real_node.api.request("DELETE", f"{COLLECTIONS[document['kind']]}/{document['metadata']['name']}")


def pods(sandbox: Any) -> list[Any]:
    """The operator's pods that are not being deleted."""
    found = sandbox.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
    return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]


def is_ready(pod: Any) -> bool:
    """Whether the kubelet's readiness probe succeeds."""
    conditions = pod["status"].get("conditions", [])
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def leader(sandbox: Any) -> str:
    """The holder of the operator's Lease."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/kaiwo-operator"
    holder: str = sandbox.api.get(path)["spec"].get("holderIdentity") or ""
    return holder


def leading_pod(sandbox: Any) -> Any:
    """The pod that holds the Lease."""
    holder = leader(sandbox)
    return next(pod for pod in pods(sandbox) if pod["metadata"]["name"] in holder)


def send(sandbox: Any, pod: Any, number: signal.Signals) -> None:
    """Send a signal to the container of a pod."""
    container = pod["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
    init = process.recorded(sandbox.directory)["real-node"]
    ctr = ["ctr", "--address", CONTAINERD_SOCKET, "--namespace", "k8s.io"]
    namespaces.run(init.pid, [*ctr, "task", "kill", "--signal", number.name, container])


@pytest.mark.usefixtures("installed")
def test_the_installed_operator_runs_jobs_and_a_second_one_takes_over(
    real_node: Any, bare_lab: Any, wait_for: Callable[..., Any]
) -> None:
    """From its image, with its own rights; then its leader is killed, and the next one is frozen."""
    lab = bare_lab
    lab.submit("first", entrypoint="echo one")
    lab.reaches("first", "COMPLETE")

    killed = leader(real_node)
    send(real_node, leading_pod(real_node), signal.SIGKILL)
    wait_for("another leader", lambda: leader(real_node) not in {killed, ""}, seconds=90)
    lab.submit("second", entrypoint="echo two")
    lab.reaches("second", "COMPLETE")

    wait_for("both operators", lambda: sum(map(is_ready, pods(real_node))) == 2, seconds=120)
    frozen, pod = leader(real_node), leading_pod(real_node)
    send(real_node, pod, signal.SIGSTOP)
    wait_for("another leader", lambda: leader(real_node) not in {frozen, ""}, seconds=90)
    lab.submit("third", entrypoint="echo three")
    lab.reaches("third", "COMPLETE")
    wait_for("the kubelet's restart of the frozen one", lambda: _restarts(real_node, pod) > 0, seconds=120)
    jobs = [lab.api.get(lab.path(KAIWO_JOB, name))["status"] for name in ("first", "second", "third")]
    assert [status["status"] for status in jobs] == ["COMPLETE"] * 3
    assert [len(lab.pods(name)) for name in ("first", "second", "third")] == [1, 1, 1]


def _restarts(sandbox: Any, pod: Any) -> int:
    """Restarts of the pod's container."""
    time.sleep(1.0)
    found = [each for each in pods(sandbox) if each["metadata"]["uid"] == pod["metadata"]["uid"]]
    return sum(each["restartCount"] for pod in found for each in pod["status"]["containerStatuses"])
