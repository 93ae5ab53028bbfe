"""An operator for chosen namespaces, under its own rights on a real API server."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_CONFIG, KAIWO_JOB, KAIWO_SERVICE
from kaiwo.engine.resource import DEPLOYMENT, NAMESPACE, Resource
from kaiwo.testing.operator import until

if TYPE_CHECKING:
    from pathlib import Path

    from kaiwo.engine.resource import Object

QUEUE_CONFIG = Resource(
    "kaiwo.silogen.ai", "v1alpha1", "KaiwoQueueConfig", "kaiwoqueueconfigs", namespaced=False
)
KINDS = "more kinds"
REST = 3.0
"""Seconds in which nothing may be written once everything is as it shall be."""

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="session")
def control_plane(platform: Any) -> Any:
    """The session's sandbox with Kueue, KubeRay and AppWrapper in place of the bare one."""
    return platform


@pytest.fixture
def namespaced(control_plane: Any) -> frozenset[str]:
    """The plural names of all kinds with namespaces that this API server serves."""
    groups = control_plane.api.get("/apis")["groups"]
    paths = ["/api/v1", *(f"/apis/{v['groupVersion']}" for group in groups for v in group["versions"])]
    found = [kind for path in paths for kind in control_plane.api.get(path)["resources"]]
    return frozenset(kind["name"] for kind in found if kind["namespaced"])


def of_all_namespaces(requests: list[tuple[str, str, int]], namespaced: frozenset[str]) -> list[str]:
    """Paths of requests for a kind with namespaces that name none."""
    return [
        path for _, path, _ in requests if "/namespaces/" not in path and path.split("/")[-1] in namespaced
    ]


async def test_chosen_namespaces_are_enough_for_the_operator(
    site: Any, install: Any, second_team: str, namespaced: frozenset[str], tmp_path: Path
) -> None:
    """Workloads run in each of them; nothing is read of all namespaces, and no request is forbidden."""
    teams = (site.team, second_team)
    site = site.with_objects(
        await asyncio.to_thread(install, site.namespace, "--watch-namespace", ",".join(teams))
    )
    user = f"system:serviceaccount:{site.namespace}:kaiwo-operator"
    async with site.operating(tmp_path, second_team) as requests:
        for team in teams:
            await site.admin.create(KAIWO_JOB, site.workload("KaiwoJob", "train", namespace=team, gpus=1))
            await site.admin.create(KAIWO_SERVICE, site.workload("KaiwoService", "serve", namespace=team))
        for team in teams:
            await site.reaches(KAIWO_JOB, "train", "COMPLETE", team)
            await site.reaches(KAIWO_SERVICE, "serve", "READY", team)
    assert [request for request in requests if request[2] in (401, 403)] == []
    assert of_all_namespaces(requests, namespaced) == []
    listed = {
        path.split("/")[-1] for method, path, _ in requests if method == "GET" and "/namespaces/" in path
    }
    assert {"kaiwojobs", "pods", "jobs", "deployments"} <= listed
    for resource in ("jobs.batch", f"kaiwojobs.{KAIWO_JOB.group}/status"):
        assert await site.may(user, "patch", resource, second_team)
        assert not await site.may(user, "patch", resource, "default")
    assert not await site.may(user, "list", "pods", "kube-system")


async def test_a_namespace_that_is_gone_stops_no_other_one(
    site: Any, install: Any, second_team: str, control_plane: Any, tmp_path: Path
) -> None:
    """It is named in /readyz and in the KaiwoConfig; it is worked on again once it is back with its Role."""
    options = ("--watch-namespace", f"{site.team},{second_team}")
    site = site.with_objects(await asyncio.to_thread(install, site.namespace, *options))
    await deleted(site, second_team)
    async with site.running(tmp_path, second_team) as (operator, requests):
        await site.admin.create(KAIWO_JOB, site.workload("KaiwoJob", "train"))
        await site.reaches(KAIWO_JOB, "train", "COMPLETE")
        missing = await until(
            site.admin, KAIWO_CONFIG, None, "kaiwo", lambda obj: KINDS in rights(obj), timeout=60.0
        )
        assert f"namespace {second_team}: list " in rights(missing)
        _, ready = operator.readyz()
        assert ready["ready"]
        assert f"{second_team}: Forbidden" in ready["checks"][f"cache {KAIWO_JOB}"]
        await asyncio.to_thread(control_plane.create_namespace, second_team)
        await asyncio.to_thread(install, site.namespace, *options)
        job = site.workload("KaiwoJob", "train", namespace=second_team)
        await site.admin.create(KAIWO_JOB, job)
        await site.reaches(KAIWO_JOB, "train", "COMPLETE", second_team)
        await until(site.admin, KAIWO_CONFIG, None, "kaiwo", lambda obj: not rights(obj), timeout=60.0)
        await deleted(site, second_team)
        await site.admin.create(KAIWO_JOB, site.workload("KaiwoJob", "again"))
        await site.reaches(KAIWO_JOB, "again", "COMPLETE")
    forbidden = [path for _, path, code in requests if code == 403]
    assert forbidden
    assert all(f"/namespaces/{second_team}" in path for path in forbidden)


async def deleted(site: Any, name: str) -> None:
    """Delete a namespace and wait until it is gone."""
    await asyncio.to_thread(site.control_plane.delete_namespace, name)
    await until(site.admin, NAMESPACE, None, name, lambda obj: obj is None, timeout=90.0)


def rights(config: Object | None) -> str:
    """The message about missing rights in a KaiwoConfig, empty without one."""
    conditions = ((config or {}).get("status") or {}).get("conditions") or []
    return next((one["message"] for one in conditions if one["type"].endswith("RightsComplete")), "")


async def test_a_namespace_that_leaves_the_list_keeps_what_runs_in_it(
    site: Any, install: Any, cli: Any, second_team: str, tmp_path: Path
) -> None:
    """Nothing there is read, changed or deleted any more; an uninstallation still finds the Role."""
    teams = f"{site.team},{second_team}"
    site = site.with_objects(await asyncio.to_thread(install, site.namespace, "--watch-namespace", teams))
    async with site.operating(tmp_path):
        await site.admin.create(KAIWO_SERVICE, site.workload("KaiwoService", "serve", namespace=second_team))
        await site.reaches(KAIWO_SERVICE, "serve", "READY", second_team)
    before = await site.admin.get(DEPLOYMENT, second_team, "serve")
    site = site.with_objects(await asyncio.to_thread(install, site.namespace, "--watch-namespace", site.team))
    async with site.operating(tmp_path, second_team) as requests:
        await site.admin.merge_patch(KAIWO_SERVICE, second_team, "serve", {"spec": {"replicas": 2}})
        await site.admin.create(KAIWO_JOB, site.workload("KaiwoJob", "train"))
        await site.reaches(KAIWO_JOB, "train", "COMPLETE")
    assert [path for _, path, _ in requests if f"/namespaces/{second_team}/" in path] == []
    after = await site.admin.get(DEPLOYMENT, second_team, "serve")
    assert (after["metadata"]["uid"], after["spec"]) == (before["metadata"]["uid"], before["spec"])
    role = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{second_team}/roles"
    assert site.control_plane.api.get(role)["items"], "applying the shorter list deletes nothing"
    result = await asyncio.to_thread(cli, "uninstall", "-n", site.namespace, "--yes", "--operator-only")
    assert result.code == 0, result.err
    assert site.control_plane.api.get(role)["items"] == []


async def test_two_installations_share_a_cluster(
    site: Any, install: Any, cli: Any, control_plane: Any, second_team: str, tmp_path: Path
) -> None:
    """Each runs the workloads of its own namespaces and no others; one can be removed without the other.

    They share definitions, configuration and queues, and at rest neither writes, also where one of them
    lacks rights and the other one does not.
    """
    other = f"{site.namespace[-50:].lstrip('-')}-b"
    await asyncio.to_thread(control_plane.create_namespace, other)
    one = site.with_objects(await asyncio.to_thread(install, site.namespace, "--watch-namespace", site.team))
    gone = f"{second_team}-gone"
    await asyncio.to_thread(control_plane.create_namespace, gone)
    objects = await asyncio.to_thread(install, other, "--watch-namespace", f"{second_team},{gone}")
    await deleted(site, gone)
    two = replace(site, namespace=other, team=second_team, objects=objects)
    try:
        async with two.running(tmp_path) as (_, requests_of_two):
            async with one.running(tmp_path) as (_, requests_of_one):
                for each in (one, two):
                    await each.admin.create(KAIWO_JOB, each.workload("KaiwoJob", "train", gpus=1))
                    await each.admin.create(KAIWO_SERVICE, each.workload("KaiwoService", "serve", gpus=1))
                for each in (one, two):
                    await each.reaches(KAIWO_JOB, "train", "COMPLETE")
                    await each.reaches(KAIWO_SERVICE, "serve", "READY")
                config = await until(
                    site.admin, KAIWO_CONFIG, None, "kaiwo", lambda obj: KINDS in rights(obj), timeout=60.0
                )
                assert rights(config).startswith(f"namespace {gone}: list ")
                shared = [await versions(site.admin, kind) for kind in (KAIWO_CONFIG, QUEUE_CONFIG)]
                await asyncio.sleep(REST)
                assert [await versions(site.admin, kind) for kind in (KAIWO_CONFIG, QUEUE_CONFIG)] == shared
            removed = await asyncio.to_thread(
                cli, "uninstall", "-n", one.namespace, "--yes", "--workloads=delete", "--timeout", "60s"
            )
            assert removed.code == 0, removed.err
            assert [job async for job in site.admin.list(KAIWO_JOB, one.team)] == []
            await two.admin.create(KAIWO_JOB, two.workload("KaiwoJob", "again", gpus=1))
            await two.reaches(KAIWO_JOB, "again", "COMPLETE")
            await two.reaches(KAIWO_SERVICE, "serve", "READY")
    finally:
        await asyncio.to_thread(control_plane.delete_namespace, other)
    for requests, foreign in ((requests_of_one, two.team), (requests_of_two, one.team)):
        assert [path for _, path, code in requests if code in (401, 403) and gone not in path] == []
        assert [path for _, path, _ in requests if f"/namespaces/{foreign}/" in path] == []


async def versions(admin: Any, kind: Any) -> dict[str, str]:
    """The resourceVersion of every object of a kind."""
    return {obj["metadata"]["name"]: obj["metadata"]["resourceVersion"] async for obj in admin.list(kind)}
