"""Adoption under the operator's own account: what it may write to adopt a Job, and what nobody else may."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine.client import Client
from kaiwo.engine.errors import Forbidden
from kaiwo.engine.impersonation import impersonation_headers
from kaiwo.engine.resource import JOB
from kaiwo.testing.operator import until
from kaiwo.workload.labels import ADOPTED, ADOPTION_MANAGER, MANAGED

if TYPE_CHECKING:
    from pathlib import Path

    from kaiwo.engine.resource import Object

pytestmark = pytest.mark.cluster


def job(site: Any, name: str, labels: dict[str, str]) -> Object:
    """A Job that runs until it is deleted."""
    template = {
        "metadata": {"annotations": {"kaiwo-sandbox/forever": "true"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]},
    }
    metadata = {"name": name, "namespace": site.team, "labels": labels}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}


def workload(site: Any, name: str, **labels: str) -> Object:
    """A KaiwoJob."""
    head = {"name": name, "namespace": site.team, "labels": labels}
    return {"apiVersion": KAIWO_JOB.api_version, "kind": "KaiwoJob", "metadata": head, "spec": {"image": "a"}}


def owner(name: str, uid: str, **changes: Any) -> Object:
    """The patch that makes a KaiwoJob the controller of an object."""
    reference = {"apiVersion": KAIWO_JOB.api_version, "kind": "KaiwoJob", "name": name, "uid": uid}
    return {"metadata": {"ownerReferences": [{**reference, "controller": True, **changes}]}}


async def test_a_job_is_adopted_with_the_rights_that_are_rendered(site: Any, tmp_path: Path) -> None:
    """RUNNING, both ways of deletion, and no request of the operator's is forbidden."""
    admin, team = site.admin, site.team
    async with site.operating(tmp_path) as requests:
        for name in ("first", "second"):
            await admin.create(JOB, job(site, name, {MANAGED: "true"}))
            await site.reaches(KAIWO_JOB, name, "RUNNING")
        await admin.delete(KAIWO_JOB, team, "first")
        await until(admin, JOB, team, "first", lambda obj: obj is None)
        await admin.delete(JOB, team, "second", propagation="Background")
        await until(admin, KAIWO_JOB, team, "second", lambda obj: obj is None)
    assert [request for request in requests if request[2] in (401, 403)] == []
    assert "DELETE" in {method for method, path, _ in requests if "/kaiwojobs/" in path}


async def test_the_operator_changes_nothing_of_a_job_but_its_owner(site: Any) -> None:
    """Neither other fields, nor Jobs without the label, nor KaiwoJobs of users."""
    admin, team = site.admin, site.team
    for name, labels in (("labelled", {MANAGED: "true"}), ("plain", {})):
        await admin.create(JOB, job(site, name, labels))
    await admin.create(KAIWO_JOB, workload(site, "users"))
    await site.until_policies_in_force()
    async with Client(site.connection("kaiwo-operator")) as operator:
        with pytest.raises(Forbidden):
            await operator.create(KAIWO_JOB, workload(site, "unlabelled"), dry_run=True)
        made = await operator.create(
            KAIWO_JOB, workload(site, "labelled", **{ADOPTED: "u"}), field_manager=ADOPTION_MANAGER
        )
        right = owner("labelled", made["metadata"]["uid"])
        for refused in (
            owner("users", "u"),
            owner("labelled", "u", apiVersion="batch/v1", kind="CronJob"),
            owner("labelled", "u", controller=False),
            {"metadata": {**right["metadata"], "labels": {"a": "b"}}},
            {**right, "spec": {"suspend": True}},
            {"metadata": {"labels": {"a": "b"}}},
        ):
            with pytest.raises(Forbidden):
                await operator.merge_patch(JOB, team, "labelled", refused)
        with pytest.raises(Forbidden):
            await operator.merge_patch(JOB, team, "plain", owner("plain", "u"))
        with pytest.raises(Forbidden):
            await operator.delete(JOB, team, "labelled")
        with pytest.raises(Forbidden):
            await operator.delete(KAIWO_JOB, team, "users")
        adopted = await operator.merge_patch(JOB, team, "labelled", right)
        assert adopted["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
        with pytest.raises(Forbidden):
            await operator.merge_patch(JOB, team, "labelled", {"metadata": {"labels": {"a": "b"}}})
        with pytest.raises(Forbidden):
            await operator.delete(JOB, team, "labelled")
        await operator.delete(KAIWO_JOB, team, "labelled")


async def test_a_user_cannot_say_which_job_a_kaiwojob_adopted(site: Any) -> None:
    """Who may edit workloads, but not their status, neither sets nor removes the label."""
    admin, team = site.admin, site.team
    await admin.create(KAIWO_JOB, workload(site, "made", **{ADOPTED: "u"}))
    await admin.create(KAIWO_JOB, workload(site, "own"))
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "edit", "namespace": team},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{team}/rolebindings/edit"
    site.control_plane.api.apply(path, binding)
    for _ in range(40):
        if await site.may("jane", "patch", f"kaiwojobs.{KAIWO_JOB.group}"):
            break
        await asyncio.sleep(0.5)
    await site.until_policies_in_force()
    connection = admin.connection
    connection.impersonation = tuple(impersonation_headers({"as": "jane"}, "test"))
    try:
        with pytest.raises(Forbidden):
            await admin.create(KAIWO_JOB, workload(site, "forged", **{ADOPTED: "u"}), dry_run=True)
        for name, label in (("made", None), ("made", "v"), ("own", "u")):
            with pytest.raises(Forbidden, match="only Kaiwo sets, changes or removes it"):
                await admin.merge_patch(KAIWO_JOB, team, name, {"metadata": {"labels": {ADOPTED: label}}})
        await admin.merge_patch(KAIWO_JOB, team, "made", {"metadata": {"labels": {"a": "b"}}})
        await admin.delete(KAIWO_JOB, team, "made")
    finally:
        connection.impersonation = ()
