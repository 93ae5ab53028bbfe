"""``kaiwo uninstall`` on a real cluster with Kueue: it removes what Kaiwo wrote, and nothing else."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_CONFIG, KAIWO_JOB, KAIWO_SERVICE
from kaiwo.api.kaiwoconfig import HISTORY
from kaiwo.engine.resource import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, NAMESPACE, NODE
from kaiwo.testing.operator import until

if TYPE_CHECKING:
    from pathlib import Path

    from kaiwo.engine.client import Client

pytestmark = pytest.mark.cluster

CONFIG = {
    "apiVersion": KAIWO_CONFIG.api_version,
    "kind": KAIWO_CONFIG.kind,
    "metadata": {"name": "kaiwo"},
    "spec": {"nodes": {"addTaintsToGpuNodes": True}},
}


async def worked(site: Any) -> None:
    """Wait until a job has run through a queue and a service is ready."""
    await site.admin.create(KAIWO_JOB, site.workload("KaiwoJob", "train", gpus=1))
    await site.admin.create(KAIWO_SERVICE, site.workload("KaiwoService", "serve", replicas=1))
    await site.reaches(KAIWO_JOB, "train", "COMPLETE")
    await site.reaches(KAIWO_SERVICE, "serve", "READY")


async def test_an_uninstallation_leaves_what_was_there_before(
    control_plane: Any,
    cli: Any,
    site: Any,
    admin: Client,
    namespace: str,
    team: str,
    tmp_path: Path,
    cluster_state: Any,
    becomes: Any,
    taints: Any,
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
    await asyncio.to_thread(control_plane.api.create, "/apis/rbac.authorization.k8s.io/v1/clusterroles", old)
    async with installed.operating(tmp_path):
        await worked(installed)
    assert await admin.get(CONFIG_MAP, namespace, HISTORY)
    nodes = [obj async for obj in admin.list(NODE)]
    assert any(taints(obj) for obj in nodes)
    assert all(obj["metadata"]["labels"].get("kaiwo/worker") == "true" for obj in nodes)
    assert (await admin.get(NAMESPACE, None, team))["metadata"]["labels"]["kueue-managed"] == "true"

    refused = await asyncio.to_thread(cli, "uninstall", "-n", namespace, "--yes")
    assert refused.code == 1
    assert (
        f"2 workloads exist: {team}/train, {team}/serve (1 KaiwoJob, 1 KaiwoService, 1 of them ended)"
        in refused.err
    )
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
    control_plane: Any, cli: Any, site: Any, namespace: str, tmp_path: Path, cluster_state: Any, becomes: Any
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
    control_plane: Any,
    cli: Any,
    site: Any,
    admin: Client,
    namespace: str,
    team: str,
    cluster_state: Any,
    becomes: Any,
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
    control_plane: Any,
    cli: Any,
    install: Any,
    admin: Client,
    namespace: str,
    team: str,
    cluster_state: Any,
    becomes: Any,
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
    assert f"1 workload exists: {namespace}/elsewhere (1 KaiwoJob)" in refused.err
    await admin.delete(KAIWO_JOB, namespace, "elsewhere")
    result = await asyncio.to_thread(cli, "uninstall", "-n", namespace, "--yes")
    assert result.code == 0, result.err
    assert await becomes(control_plane, before) == {}


async def test_handed_over_workloads_run_on_without_kaiwo(
    control_plane: Any,
    cli: Any,
    site: Any,
    admin: Client,
    namespace: str,
    team: str,
    tmp_path: Path,
    cluster_state: Any,
    becomes: Any,
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
