"""``kaiwo uninstall`` on a real cluster with Kueue: it removes what Kaiwo wrote, and nothing else."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_CONFIG, KAIWO_JOB, KAIWO_SERVICE
from kaiwo.api.kaiwoconfig import HISTORY
from kaiwo.engine.client import Client
from kaiwo.engine.credentials import load
from kaiwo.engine.resource import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, NAMESPACE, NODE
from kaiwo.testing.operator import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from kaiwo.engine.resource import Object

pytestmark = pytest.mark.cluster

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
CONFIG = {
    "apiVersion": KAIWO_CONFIG.api_version,
    "kind": KAIWO_CONFIG.kind,
    "metadata": {"name": "kaiwo"},
    "spec": {"nodes": {"addTaintsToGpuNodes": True}},
}


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


async def worked(site: Any) -> None:
    """Wait until a job has run through a queue and a service is ready."""
    await site.admin.create(KAIWO_JOB, site.workload("KaiwoJob", "train", gpus=1))
    await site.admin.create(KAIWO_SERVICE, site.workload("KaiwoService", "serve", replicas=1))
    await site.reaches(KAIWO_JOB, "train", "COMPLETE")
    await site.reaches(KAIWO_SERVICE, "serve", "READY")


async def test_an_uninstallation_leaves_what_was_there_before(
    control_plane: Any, cli: Any, site: Any, admin: Client, namespace: str, team: str, tmp_path: Path
) -> None:
    """After installing, running a job and a service, and uninstalling, no object and no label is different.

    What an administrator has set by hand stays: a pool on a node, and Kueue's label on a namespace. A role
    with the name that it had in earlier versions goes.
    """
    node = next(iter([obj async for obj in admin.list(NODE)]))["metadata"]["name"]
    await admin.merge_patch(NODE, None, node, {"metadata": {"labels": {"kaiwo/nodepool": "by-hand"}}})
    await admin.merge_patch(
        NAMESPACE, None, namespace, {"metadata": {"labels": {"kueue-managed": "true"}}}, field_manager="me"
    )
    before = await asyncio.to_thread(cluster_state, control_plane)
    installed = await site()
    await admin.create(KAIWO_CONFIG, CONFIG, field_manager="me")
    old = {"metadata": {"name": "kaiwo-view", "labels": {"app.kubernetes.io/part-of": "kaiwo"}}, "rules": []}
    await asyncio.to_thread(control_plane.api.create, f"{RBAC}/clusterroles", old)
    async with installed.operating(tmp_path):
        await worked(installed)
    assert await admin.get(CONFIG_MAP, namespace, HISTORY)
    nodes = [obj async for obj in admin.list(NODE)]
    assert any(taints(obj) for obj in nodes)
    assert all(obj["metadata"]["labels"].get("kaiwo/worker") == "true" for obj in nodes)
    assert (await admin.get(NAMESPACE, None, team))["metadata"]["labels"]["kueue-managed"] == "true"

    refused = await asyncio.to_thread(cli, "uninstall", "-n", namespace, "--yes")
    assert refused.code == 1
    assert f"workloads exist: {team}/train, {team}/serve" in refused.err
    assert "--workloads=hand-over" in refused.err
    assert await admin.get(DEPLOYMENT, namespace, "kaiwo-operator")

    result = await asyncio.to_thread(
        cli, "uninstall", "-n", namespace, "--yes", "--workloads=delete", "--timeout", "60s"
    )
    assert result.code == 0, result.err
    assert await becomes(control_plane, before) == {}
    again = await asyncio.to_thread(cli, "uninstall", "-n", namespace, "--yes")
    assert again.code == 3, again.err
    await admin.merge_patch(NODE, None, node, {"metadata": {"labels": {"kaiwo/nodepool": None}}})


async def test_removing_one_of_two_installations_leaves_the_other_working(
    control_plane: Any, cli: Any, site: Any, namespace: str, tmp_path: Path
) -> None:
    """Its roles, policies, queues and labels stay, and it runs workloads with its rights; then it goes."""
    before = await asyncio.to_thread(cluster_state, control_plane)
    second = f"second-{secrets.token_hex(3)}"
    await asyncio.to_thread(control_plane.create_namespace, second)
    await site()
    other = await site(second)
    shown = await asyncio.to_thread(cli, "uninstall", "-n", namespace, "--dry-run")
    assert shown.code == 0, shown.err
    assert second not in shown.out
    asked = await asyncio.to_thread(cli, "uninstall", "-n", namespace)
    assert asked.code == 2
    assert "nothing was removed; standard input is not a terminal" in asked.err
    result = await asyncio.to_thread(cli, "uninstall", "-n", namespace, "--yes", "--timeout", "60s")
    assert result.code == 0, result.err
    assert f"stay for the installations in: {second}" in result.err
    async with other.operating(tmp_path) as requests:
        await worked(other)
    assert [request for request in requests if request[2] in (401, 403)] == []
    await asyncio.to_thread(cli, "uninstall", "-n", second, "--yes", "--workloads=delete", "--timeout", "60s")
    await asyncio.to_thread(control_plane.delete_namespace, second)
    assert await becomes(control_plane, before) == {}


async def test_the_operator_alone_can_be_removed(
    control_plane: Any, cli: Any, site: Any, admin: Client, namespace: str, team: str
) -> None:
    """Workloads, their CRDs and the configuration stay for an operator that is installed elsewhere."""
    before = await asyncio.to_thread(cluster_state, control_plane)
    installed = await site()
    await admin.create(KAIWO_JOB, installed.workload("KaiwoJob", "train"))
    await admin.create(KAIWO_CONFIG, CONFIG, field_manager="me")
    kept = await asyncio.to_thread(cli, "uninstall", "-n", namespace, "--yes", "--operator-only")
    assert kept.code == 0, kept.err
    assert await admin.get(KAIWO_JOB, team, "train")
    assert await admin.get(KAIWO_CONFIG, None, "kaiwo")
    left = await becomes(control_plane, before, timeout=5.0)
    assert {path.split("/")[-3] for path in left} == {"customresourcedefinitions"}
    result = await asyncio.to_thread(cli, "uninstall", "-n", namespace, "--yes", "--workloads=delete")
    assert result.code == 0, result.err
    assert await becomes(control_plane, before) == {}


async def test_a_workload_that_nobody_runs_is_not_deleted_with_the_crds(
    control_plane: Any, cli: Any, install: Any, admin: Client, namespace: str, team: str
) -> None:
    """An installation for one namespace is not removed while there is a workload in another one."""
    before = await asyncio.to_thread(cluster_state, control_plane)
    await asyncio.to_thread(install, namespace, "--watch-namespace", team)
    elsewhere = {
        "apiVersion": KAIWO_JOB.api_version,
        "kind": KAIWO_JOB.kind,
        "metadata": {"name": "elsewhere", "namespace": namespace},
        "spec": {"image": "registry.example/train:1"},
    }
    await admin.create(KAIWO_JOB, elsewhere)
    refused = await asyncio.to_thread(cli, "uninstall", "-n", namespace, "--yes")
    assert refused.code == 1
    assert f"workloads exist: {namespace}/elsewhere" in refused.err
    await admin.delete(KAIWO_JOB, namespace, "elsewhere")
    result = await asyncio.to_thread(cli, "uninstall", "-n", namespace, "--yes")
    assert result.code == 0, result.err
    assert await becomes(control_plane, before) == {}


async def test_handed_over_workloads_run_on_without_kaiwo(
    control_plane: Any, cli: Any, site: Any, admin: Client, namespace: str, team: str, tmp_path: Path
) -> None:
    """The Deployment of a service stays, and what it needs until a second uninstallation after its end."""
    before = await asyncio.to_thread(cluster_state, control_plane)
    installed = await site()
    async with installed.operating(tmp_path):
        await worked(installed)
    live = await admin.get(DEPLOYMENT, team, "serve")
    result = await asyncio.to_thread(
        cli, "uninstall", "-n", namespace, "--yes", "--workloads=hand-over", "--timeout", "60s"
    )
    assert result.code == 0, result.err
    handed = await until(
        admin, DEPLOYMENT, team, "serve",
        lambda obj: obj is not None and "ownerReferences" not in obj["metadata"],
    )  # fmt: skip
    assert handed is not None
    assert handed["metadata"]["uid"] == live["metadata"]["uid"]
    assert handed["status"]["readyReplicas"] == 1
    assert await admin.get(DEPLOYMENT, namespace, "kaiwo-scheduler")
    assert [obj async for obj in admin.list(KAIWO_SERVICE, team)] == []
    await admin.delete(DEPLOYMENT, team, "serve", propagation="Foreground")
    await until(admin, DEPLOYMENT, team, "serve", lambda obj: obj is None)
    result = await asyncio.to_thread(cli, "uninstall", "-n", namespace, "--yes", "--timeout", "60s")
    assert result.code == 0, result.err
    left = await becomes(control_plane, before, timeout=5.0)
    assert {path.split("/")[-3] for path in left} <= {
        "jobs", "pods", "persistentvolumeclaims", "workloads",
    }  # fmt: skip
    kinds = [obj["metadata"]["name"] async for obj in admin.list(CUSTOM_RESOURCE_DEFINITION)]
    assert not [name for name in kinds if "kaiwo" in name]
