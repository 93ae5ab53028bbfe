"""What a real API server allows with the rendered roles: the golden files, and nothing dangerous beside."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kaiwo.engine.client import Client
from kaiwo.engine.credentials import load
from kaiwo.engine.errors import Forbidden
from kaiwo.engine.resource import CONFIG_MAP, NAMESPACE, SERVICE, Resource
from kaiwo.workload.labels import RUN_ID

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kaiwo.engine.resource import Object

pytestmark = pytest.mark.cluster

GOLDEN = Path(__file__).parent.parent / "golden"
RBAC = "rbac.authorization.k8s.io"
REVIEW = Resource(
    "authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False
)
VERBS = (
    "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection",
    "use", "bind", "escalate", "impersonate", "approve",
)  # fmt: skip
DANGEROUS = {
    "secrets",
    "pods/exec",
    "pods/ephemeralcontainers",
    "nodes/proxy",
    "serviceaccounts",
    "serviceaccounts/token",
    "users",
    "groups",
    *(f"{kind}.{RBAC}" for kind in ("roles", "rolebindings", "clusterroles", "clusterrolebindings")),
    *(
        f"{kind}.admissionregistration.k8s.io"
        for kind in (
            "mutatingwebhookconfigurations",
            "validatingwebhookconfigurations",
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
        )
    ),
    "certificatesigningrequests.certificates.k8s.io/approval",
}
"""What opens a cluster to whoever has a right to it."""

ALL = (
    "batch_job,deployment,gpu_amd,gpu_nvidia,kueue,node_pools,ray_job,ray_service,storage_s3_gcs_azure_git_hf"
)


@pytest.fixture
def selection() -> str:
    """All plugins: nothing runs here, so Kueue need not be there."""
    return ALL


@pytest.fixture
async def admin(control_plane: Any) -> AsyncIterator[Client]:
    """The administrator's client."""
    async with Client(load(control_plane.kubeconfig)) as client:
        yield client


@pytest.mark.parametrize(("name", "plugins"), [("all", ALL), ("batch_job", "batch_job")])
async def test_an_api_server_allows_what_the_golden_file_says(
    control_plane: Any, cli: Any, admin: Client, namespace: str, name: str, plugins: str
) -> None:
    """Every right of each role, and none of the dangerous ones, in all namespaces."""
    rendered = await asyncio.to_thread(
        cli, "manifests", "rbac", "--plugins", plugins, "--namespace", namespace
    )
    path = f"/apis/{RBAC}/v1"
    users: dict[str, str] = {}
    paths = []
    for obj in yaml.safe_load_all(rendered.out):
        if obj["kind"] not in ("ClusterRole", "ClusterRoleBinding"):
            continue
        found = obj["metadata"]["name"]
        obj["metadata"]["labels"] = {}  # not aggregated: the roles are taken one by one
        paths.append(f"{path}/{obj['kind'].lower()}s/{found}")
        control_plane.api.apply(paths[-1], obj)
        if obj["kind"] == "ClusterRole":
            role = found.removesuffix(f".{namespace}")
            users[role] = f"{role}-{namespace}"
            paths.append(f"{path}/clusterrolebindings/{users[role]}")
            control_plane.api.apply(paths[-1], bound(found, users[role]))
    users["kaiwo-operator"] = f"system:serviceaccount:{namespace}:kaiwo-operator"
    golden = (GOLDEN / f"rights-{name}.txt").read_text().splitlines()
    places = {line.split()[1] for line in (GOLDEN / "rights-all.txt").read_text().splitlines()}
    await until_allowed(admin, users, golden)
    allowed = await matrix(admin, users, sorted(places | DANGEROUS))
    for each in reversed(paths):
        control_plane.api.request("DELETE", each)
    assert sorted(allowed) == sorted(golden)


def bound(role: str, user: str) -> Object:
    """A ClusterRole for a user, in all namespaces."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": user},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "name": user, "apiGroup": RBAC}],
    }


async def may(admin: Client, user: str, verb: str, place: str) -> bool:
    """Whether a user may do something with ``resource.group/subresource`` in all namespaces."""
    name, _, subresource = place.partition("/")
    plural, _, group = name.partition(".")
    attributes = {"verb": verb, "group": group, "resource": plural, "subresource": subresource}
    review = {
        "apiVersion": REVIEW.api_version,
        "kind": REVIEW.kind,
        "metadata": {},
        "spec": {"user": user, "resourceAttributes": attributes},
    }
    return bool((await admin.create(REVIEW, review))["status"]["allowed"])


async def until_allowed(admin: Client, users: dict[str, str], golden: list[str]) -> None:
    """Wait until the API server has read the roles: one right of each."""
    for role, user in users.items():
        _, place, verb = next(line for line in golden if line.startswith(f"{role} ")).split()
        for _ in range(40):
            if await may(admin, user, verb, place):
                break
            await asyncio.sleep(0.5)
        else:
            pytest.fail(f"{user} may not {verb} {place}")


async def matrix(admin: Client, users: dict[str, str], places: list[str]) -> list[str]:
    """All that the users may do with these resources."""

    async def line(role: str, place: str, verb: str) -> str:
        return f"{role} {place} {verb}" if await may(admin, users[role], verb, place) else ""

    asked = (line(role, place, verb) for role in users for place in places for verb in VERBS)
    return [found for found in await asyncio.gather(*asked) if found]


async def test_the_operator_writes_only_objects_of_workloads(site: Any) -> None:
    """ConfigMaps, Services and the like of others are out of reach of its token, in every namespace."""
    team, admin = site.team, site.admin
    foreign: dict[Resource, Object] = {
        CONFIG_MAP: {"data": {"a": "1"}},
        SERVICE: {"spec": {"ports": [{"port": 80}]}},
    }
    async with Client(site.connection("kaiwo-operator")) as operator:
        for kind, content in foreign.items():
            head = {"apiVersion": kind.api_version, "kind": kind.kind}
            obj = {**head, **content, "metadata": {"name": "foreign", "namespace": team}}
            await refused(operator, kind, obj)
            await admin.create(kind, obj)
            with pytest.raises(Forbidden, match="only objects of workloads"):
                await operator.merge_patch(
                    kind, team, "foreign", {"metadata": {"labels": {RUN_ID: "mine-now"}}}
                )
            own = {**obj, "metadata": {"name": "own", "namespace": team, "labels": {RUN_ID: "u"}}}
            await operator.create(kind, own)
            await operator.merge_patch(kind, team, "own", {"metadata": {"annotations": {"a": "b"}}})
        with pytest.raises(Forbidden, match="only objects of workloads"):
            await operator.delete(SERVICE, team, "foreign")
        await operator.delete(SERVICE, team, "own")


async def test_the_operator_changes_one_label_of_namespaces(site: Any) -> None:
    """Its right to patch namespaces is for Kueue's label: no Pod Security label, no annotation."""
    denied = "nothing of namespaces but the labels kueue-managed"
    async with Client(site.connection("kaiwo-operator")) as operator:

        async def patch(metadata: Object) -> Object:
            return await operator.merge_patch(NAMESPACE, None, site.team, {"metadata": metadata})

        for attempt in range(40):
            try:
                await patch({"labels": {"attempt": str(attempt)}})
            except Forbidden:
                break
            await asyncio.sleep(0.5)
        for metadata in (
            {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}},
            {"labels": {"attempt": None}, "annotations": {"a": "b"}},
            {"labels": {"kueue-managed": "true"}, "annotations": {"a": "b"}},
        ):
            with pytest.raises(Forbidden, match=denied):
                await patch(metadata)
        patched = await patch({"labels": {"kueue-managed": "true"}})
    assert patched["metadata"]["labels"]["kueue-managed"] == "true"


async def refused(client: Client, kind: Resource, obj: Object) -> None:
    """Wait until the policy is in force and refuses an object."""
    for _ in range(40):
        try:
            await client.create(kind, obj, dry_run=True)
        except Forbidden as error:
            if "only objects of workloads" in str(error):
                return
        await asyncio.sleep(0.5)
    pytest.fail("the policy is not in force")
