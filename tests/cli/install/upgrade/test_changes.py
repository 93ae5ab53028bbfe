"""What changes under an operator: its plugins while workloads run, and CRDs of a later version."""

from __future__ import annotations

import asyncio
import copy
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crd_versions import VERSION
from kaiwo.api.crds import KAIWO_CONFIG, KAIWO_JOB, KAIWO_SERVICE
from kaiwo.engine.errors import NotFound
from kaiwo.engine.resource import CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, JOB, POD, Resource
from kaiwo.testing.operator import until
from kaiwo_ray_job.kinds import RAY_JOB

if TYPE_CHECKING:
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object

pytestmark = pytest.mark.cluster

FIRST = "batch_job,deployment,gpu_amd,ray_job"
SECOND = "batch_job,gpu_amd,storage_s3_gcs_azure_git_hf"
KINDS = (JOB, DEPLOYMENT, RAY_JOB, POD)
FOREVER = {"kaiwo-sandbox/forever": "true"}
RAY_RUNS = {"kaiwo-sandbox/ray-job-status": "RUNNING"}
CLUSTER_ROLE = Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
LATER = "99.0.0"


def workload(kind: Resource, team: str, name: str, pods: dict[str, str], **spec: Any) -> Object:
    """A workload with an image."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "namespace": team, "annotations": pods},
        "spec": {"image": "registry.example/train:1", **spec},
    }


async def reaches(admin: Client, kind: Resource, team: str, name: str, word: str, reason: str = "") -> Object:
    """Wait until a workload has a status; the workload."""

    def there(obj: Object | None) -> bool:
        status = (obj or {}).get("status") or {}
        return status.get("status") == word and (not reason or status.get("reason") == reason)

    return await until(admin, kind, team, name, there) or {}


def condition(obj: Object | None, name: str) -> Object:
    """A condition of an object, empty when there is none."""
    found = ((obj or {}).get("status") or {}).get("conditions") or []
    return next((item for item in found if item["type"] == name), {})


@pytest.fixture
def kaiwo(cli: Any, control_plane: Any, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command line of this version, with the control plane and the installation's namespace."""
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))

    async def call(*args: str) -> Any:
        return await asyncio.to_thread(cli, *args, "--namespace", namespace)

    return call


async def it_is_said_before(kaiwo: Any, admin: Client, namespace: str, team: str) -> None:
    """Rendering for the second plugins says what they leave out, and the doctor what is not as rendered."""
    obsolete = f"kaiwo-obsolete.{namespace}"
    labels = {"app.kubernetes.io/part-of": "kaiwo", "app.kubernetes.io/instance": namespace}
    empty = {"apiVersion": CLUSTER_ROLE.api_version, "kind": "ClusterRole", "rules": []}
    await admin.create(CLUSTER_ROLE, {**empty, "metadata": {"name": obsolete, "labels": labels}})
    said = await kaiwo("manifests", "--from-cluster", "--plugins", SECOND)
    assert said.code == 0, said.err
    assert "plugins of the operator are left out: deployment, ray_job" in said.err
    assert f"no chosen plugin declares KaiwoService spec.deployment; {team}/web have it" in said.err
    assert f"hint: kubectl delete clusterroles.rbac.authorization.k8s.io {obsolete}" in said.err
    assert said.err.count("hint: kubectl delete") == 1
    doctor = await kaiwo("doctor")
    assert "plugins that are not loaded here: deployment 0.1.0; ray_job 0.1.0" in doctor.out
    role = f"clusterroles.rbac.authorization.k8s.io {obsolete}"
    assert f"objects of another version are left in the installation {namespace}: {role}" in doctor.out
    assert f"kubectl delete {role}" in doctor.out
    assert f"roles of {namespace} are as this version renders them" in doctor.out
    await admin.delete(CLUSTER_ROLE, None, obsolete)
    view = f"kaiwo-view.{namespace}"
    await admin.delete(CLUSTER_ROLE, None, view)
    doctor = await kaiwo("doctor")
    assert (
        f"not as this version renders them for the operator in {namespace}: ClusterRole {view}" in doctor.out
    )
    assert "objects of another version" not in doctor.out


async def test_workloads_outlive_the_plugins_that_ran_them(
    present: Any, installation: Any, admin: Client, team: str, recorded: Any, kaiwo: Any, namespace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """One plugin comes and two go: children, pods, statuses and stored fields stay, and it is said before.

    With the first plugins again everything goes on; nothing was lost. An object that is not rendered any more
    is named with the command that deletes it.
    """
    await installation.apply(present, "--plugins", FIRST)
    own = {"spec": {"template": {"metadata": {"annotations": {"note": "kept"}}}}}
    async with installation.operating(present):
        await admin.create(KAIWO_SERVICE, workload(KAIWO_SERVICE, team, "web", {}, deployment=own))
        ray = workload(KAIWO_JOB, team, "ray", RAY_RUNS, ray=True, entrypoint="python main.py")
        await admin.create(KAIWO_JOB, ray)
        await admin.create(KAIWO_JOB, workload(KAIWO_JOB, team, "plain", FOREVER, gpus=1))
        await reaches(admin, KAIWO_SERVICE, team, "web", "READY")
        for name in ("ray", "plain"):
            await reaches(admin, KAIWO_JOB, team, name, "RUNNING")
        await asyncio.sleep(4.0)
    before = await recorded(admin, KINDS, team)
    specs = {name: (await admin.get(kind, team, name))["spec"] for kind, name in LIVE}

    monkeypatch.setenv("KAIWO_PLUGINS", SECOND)
    await it_is_said_before(kaiwo, admin, namespace, team)

    await installation.apply(present, "--from-cluster", "--plugins", SECOND)
    async with installation.operating(present):
        for kind, name in ((KAIWO_SERVICE, "web"), (KAIWO_JOB, "ray")):
            await until(
                admin, kind, team, name,
                lambda obj: condition(obj, "SpecApplied").get("reason") == "BackendNotLoaded",
            )  # fmt: skip
        later = workload(KAIWO_SERVICE, team, "late", {})
        await admin.create(KAIWO_SERVICE, later)
        await reaches(admin, KAIWO_SERVICE, team, "late", "ERROR", "BackendNotLoaded")
        await admin.create(KAIWO_JOB, workload(KAIWO_JOB, team, "new", {}))
        await reaches(admin, KAIWO_JOB, team, "new", "COMPLETE")
    assert {name: (await admin.get(kind, team, name))["spec"] for kind, name in LIVE} == specs
    now = await recorded(admin, KINDS, team)
    assert {name: now.get(name) for name in before} == before

    await installation.apply(present, "--from-cluster", "--plugins", FIRST)
    async with installation.operating(present):
        await reaches(admin, KAIWO_SERVICE, team, "late", "READY")
        await reaches(admin, KAIWO_SERVICE, team, "web", "READY")
        for kind, name in LIVE:
            await until(
                admin, kind, team, name,
                lambda obj: condition(obj, "SpecApplied").get("reason") != "BackendNotLoaded",
            )  # fmt: skip
    now = await recorded(admin, KINDS, team)
    assert {name: now.get(name) for name in before} == before


LIVE = ((KAIWO_SERVICE, "web"), (KAIWO_JOB, "ray"), (KAIWO_JOB, "plain"))


def later_version(crd: Object) -> Object:
    """A definition as a later version may have it: another served version, new fields, one renamed."""
    changed = copy.deepcopy({key: crd[key] for key in ("apiVersion", "kind", "metadata", "spec")})
    changed["metadata"] = {"name": crd["metadata"]["name"], "annotations": {VERSION: LATER}}
    (version,) = changed["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"]
    schema["spec"]["properties"]["maxDuration"] = schema["spec"]["properties"].pop("duration")
    schema["spec"]["properties"]["novel"] = {"type": "object", "additionalProperties": {"type": "string"}}
    schema["status"]["properties"]["novel"] = {"type": "string"}
    changed["spec"]["versions"].append({**copy.deepcopy(version), "name": "v1beta1", "storage": False})
    return changed


async def test_an_operator_works_with_crds_of_a_later_version_and_says_so(
    present: Any, installation: Any, admin: Client, team: str, kaiwo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writes keep fields that it does not know; its own CRDs are not rendered over the later ones.

    A new workload with a field that it does not know waits, and the message names the field.
    """
    await installation.apply(present, "--plugins", FIRST)
    for kind in (KAIWO_JOB, KAIWO_SERVICE):
        crd = await admin.get(CUSTOM_RESOURCE_DEFINITION, None, f"{kind.plural}.{kind.group}")
        await admin.apply(CUSTOM_RESOURCE_DEFINITION, later_version(crd), field_manager="kubectl")
    beta = Resource(KAIWO_JOB.group, "v1beta1", "KaiwoJob", "kaiwojobs")

    async with installation.operating(present) as (_, proxy):
        made = workload(beta, team, "train", {"kaiwo-sandbox/run-time": "5s"})
        for _ in range(30):  # a version is served a moment after its definition
            try:
                await admin.create(beta, made)
            except NotFound:
                await asyncio.sleep(1.0)
            else:
                break
        await reaches(admin, KAIWO_JOB, team, "train", "RUNNING")
        novel = {"novel": {"a": "b"}}
        await admin.merge_patch(KAIWO_JOB, team, "train", {"spec": novel})
        await admin.merge_patch(KAIWO_JOB, team, "train", {"status": {"novel": "x"}}, subresource="status")
        done = await reaches(admin, KAIWO_JOB, team, "train", "COMPLETE")
        assert done["spec"]["novel"] == novel["novel"]
        assert done["status"]["novel"] == "x"
        await admin.create(beta, workload(beta, team, "unknown", {}, maxDuration="1h"))
        waits = await reaches(admin, KAIWO_JOB, team, "unknown", "ERROR", "BackendNotLoaded")
        assert "spec.maxDuration" in waits["status"]["message"]
        assert waits["spec"]["maxDuration"] == "1h"
        config = await until(
            admin, KAIWO_CONFIG, None, "kaiwo",
            lambda obj: condition(obj, "CRDsCurrent").get("reason") == "Newer",
        )  # fmt: skip
        message = condition(config, "CRDsCurrent")["message"]
        assert f"KaiwoJob: the definition is of Kaiwo {LATER}" in message
        assert "version v1beta1 is served" in message
        assert {record.method for record in proxy.writes()} <= {"POST", "PATCH"}

    refused = await kaiwo("manifests", "--from-cluster", "--plugins", FIRST)
    assert (refused.code, refused.out) == (1, "")
    assert "error: the installed CRDs are of a later version of Kaiwo:" in refused.err
    assert f"KaiwoService: the definition is of Kaiwo {LATER}" in refused.err
    assert "kaiwo manifests rbac operator scheduler" in refused.err
    rest = await kaiwo("manifests", "rbac", "operator", "scheduler", "--from-cluster", "--plugins", FIRST)
    assert rest.code == 0, rest.err
    monkeypatch.setenv("KAIWO_PLUGINS", FIRST)
    doctor = await kaiwo("doctor", "--problems")
    assert f"crds: KaiwoJob: the definition is of Kaiwo {LATER}" in doctor.out
