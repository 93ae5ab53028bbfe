"""A control plane from which Kaiwo is removed, and what an uninstallation must leave there."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.engine.client import Client
from kaiwo.engine.credentials import load

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from kaiwo.engine.resource import Object

CORE = "/api/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
COLLECTIONS = (
    *(
        f"{CORE}/{plural}"
        for plural in (
            "nodes", "namespaces", "pods", "services", "configmaps", "serviceaccounts",
            "persistentvolumeclaims",
        )
    ),
    *(f"{RBAC}/{plural}" for plural in ("clusterroles", "clusterrolebindings", "roles", "rolebindings")),
    *(
        f"{ADMISSION}/{plural}"
        for plural in ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
    ),
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/apps/v1/deployments",
    "/apis/batch/v1/jobs",
    "/apis/coordination.k8s.io/v1/leases",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    *(
        f"{KUEUE}/{plural}"
        for plural in (
            "clusterqueues", "localqueues", "resourceflavors", "topologies", "workloads",
            "workloadpriorityclasses",
        )
    ),
)  # fmt: skip


@pytest.fixture(scope="module")
def control_plane() -> Iterator[Any]:
    """A sandbox with Kueue that no other test uses: the CRDs go."""
    from kaiwo_sandbox.sandbox import Sandbox

    sandbox = Sandbox.up(f"pytest-{os.getpid()}-uninstall", addons=("kueue",), owned=True)
    yield sandbox
    sandbox.down()


@pytest.fixture
def selection() -> str:
    """Plugins that write on nodes and namespaces, and two backends."""
    return "batch_job,deployment,gpu_amd,gpu_nvidia,kueue,node_pools"


@pytest.fixture
async def admin(control_plane: Any) -> AsyncIterator[Client]:
    """The administrator's client."""
    async with Client(load(control_plane.kubeconfig)) as client:
        yield client


@pytest.fixture
def site(site_of: Any, namespace: str, team: str, admin: Client) -> Any:
    """A coroutine function that installs in the test's namespace, or in another one."""

    async def install(where: str = namespace) -> Any:
        return await asyncio.to_thread(site_of, admin, where, team)

    return install


def cluster_state(control_plane: Any) -> dict[str, Object]:
    """What an installation may have changed: every object, with its labels, annotations, taints and rules.

    What the namespaces of earlier tests still hold while they are being deleted is left out.
    """
    namespaces = control_plane.api.get(f"{CORE}/namespaces")["items"]
    going = {obj["metadata"]["name"] for obj in namespaces if "deletionTimestamp" in obj["metadata"]}
    found: dict[str, Object] = {}
    for path in COLLECTIONS:
        for obj in control_plane.api.get(path)["items"]:
            metadata = obj["metadata"]
            if metadata.get("namespace", metadata["name"]) in going or is_made_by_kubernetes(path, obj):
                continue
            found[f"{path}/{metadata.get('namespace', '')}/{metadata['name']}"] = {
                "labels": metadata.get("labels") or {},
                "annotations": metadata.get("annotations") or {},
                "taints": taints(obj) if path == f"{CORE}/nodes" else None,
                "rules": obj.get("rules"),
            }
    return found


def is_made_by_kubernetes(path: str, obj: Object) -> bool:
    """Whether Kubernetes writes it by itself, at a moment that no test chooses.

    It is the Lease by which an API server says that it runs, or what the controller manager puts into every
    namespace some time after its creation.
    """
    metadata = obj["metadata"]
    if path == f"{CORE}/configmaps":
        return bool(metadata["name"] == "kube-root-ca.crt")
    if path == f"{CORE}/serviceaccounts":
        return bool(metadata["name"] == "default")
    return (metadata.get("labels") or {}).get("apiserver.kubernetes.io/identity") is not None


def taints(node: Object) -> list[Object]:
    """Taints of a node but those by which Kubernetes itself reports its state."""
    found = node["spec"].get("taints") or []
    return [taint for taint in found if not taint["key"].startswith("node.kubernetes.io/")]


async def becomes(control_plane: Any, before: dict[str, Object], timeout: float = 60.0) -> dict[str, Object]:
    """Wait until the cluster is as before; what differs in the end."""
    deadline = time.monotonic() + timeout
    while True:
        now = await asyncio.to_thread(cluster_state, control_plane)
        different = {key: now.get(key, {}) for key in before.keys() ^ now.keys()}
        different |= {key: now[key] for key in before.keys() & now.keys() if before[key] != now[key]}
        if not different or time.monotonic() > deadline:
            return different
        await asyncio.sleep(1.0)


@pytest.fixture(name="cluster_state")
def cluster_state_fixture() -> Any:
    """The function that reads what an installation may have changed."""
    return cluster_state


@pytest.fixture(name="becomes")
def becomes_fixture() -> Any:
    """The function that waits until the cluster is as before; it gives what differs in the end."""
    return becomes


@pytest.fixture(name="taints")
def taints_fixture() -> Any:
    """The function that gives the taints of a node."""
    return taints
