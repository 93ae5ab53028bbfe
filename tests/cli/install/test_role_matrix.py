"""What a real API server allows with the rendered roles: the golden files, and nothing dangerous beside."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kaiwo.engine.access_review import is_allowed
from kaiwo.engine.client import Client
from kaiwo.engine.credentials import load
from kaiwo.engine.errors import Forbidden
from kaiwo.engine.resource import CONFIG_MAP, NAMESPACE, SERVICE, Resource
from kaiwo.workload.labels import RUN_ID

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo.engine.resource import Object

pytestmark = pytest.mark.cluster

GOLDEN = Path(__file__).parent.parent / "golden"
RBAC = "rbac.authorization.k8s.io"
RULES = Resource(
    "authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", namespaced=False
)
EVERYBODY = {
    "selfsubjectaccessreviews.authorization.k8s.io create",
    "selfsubjectrulesreviews.authorization.k8s.io create",
    "selfsubjectreviews.authentication.k8s.io create",
}
"""What every user may do on any cluster."""

EXPECTED_DANGERS = {
    "kaiwo-admin": {f"pods/{part} {verb}" for part in ("exec", "portforward") for verb in ("get", "create")}
}
"""What a role is for; Kubernetes' own role of that name has it, too."""

OPERATORS = {"kaiwo-operator", "kaiwo-operator-workloads", "kaiwo-webhooks"}
"""Roles that are bound to the operator's account."""

SETS = yaml.safe_load((GOLDEN / "rights-sets.yaml").read_text())
VERBS = (
    "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection",
    "use", "bind", "escalate", "impersonate", "approve",
)  # fmt: skip
DANGEROUS = {
    "secrets",
    *(f"pods/{part}" for part in ("exec", "attach", "portforward", "proxy")),
    "*",
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


@pytest.fixture
def selection() -> str:
    """All plugins: nothing runs here, so Kueue need not be there."""
    return str(SETS["all"][1])


@pytest.mark.parametrize("name", SETS)
async def test_an_api_server_allows_what_the_golden_file_says(
    control_plane: Any, cli: Any, namespace: str, team: str, second_team: str, name: str
) -> None:
    """All rights that the operator and each role for users have, in all namespaces and in single ones.

    The API server lists them itself (SelfSubjectRulesReview), so that none is overlooked, and what opens a
    cluster is asked for one by one (SelfSubjectAccessReview).
    """
    named = {"kaiwo-system": namespace, "team-a": team, "team-b": second_team}
    options = [option if option != "team-a,team-b" else f"{team},{second_team}" for option in SETS[name]]
    rendered = await asyncio.to_thread(cli, "manifests", "rbac", *options, "--namespace", namespace)
    assert rendered.code == 0, rendered.err
    golden: dict[tuple[str, str], set[str]] = {}
    for line in (GOLDEN / f"rights-{name}.txt").read_text().splitlines():
        label, right = line.split(" ", 1)
        role, _, where = label.partition("@")
        golden.setdefault((role, named.get(where, "")), set()).add(right.replace("kaiwo-system", namespace))
    paths = await asyncio.to_thread(applied, control_plane, yaml.safe_load_all(rendered.out), namespace)
    operator = f"system:serviceaccount:{namespace}:kaiwo-operator"
    try:
        for role in sorted({role for role, _ in golden} - OPERATORS):
            assert (
                await rights(control_plane, user_of(role, namespace), "default", golden[role, ""])
                == golden[role, ""]
            )
            user = user_of(role, namespace)
            assert await dangers(control_plane, user, "default") == EXPECTED_DANGERS.get(role, set())
        for place in ("default", namespace, team, second_team):
            held = (golden.get((role, where), set()) for role in OPERATORS for where in ("", place))
            expected = set().union(*held)
            assert await rights(control_plane, operator, place, expected) == expected, place
            assert await dangers(control_plane, operator, place) == set(), place
    finally:
        for each in reversed(paths):
            control_plane.api.request("DELETE", each)


def applied(control_plane: Any, objects: Iterable[Object], namespace: str) -> list[str]:
    """Apply roles and bindings, and bind each role for users to a user; gives the paths of all."""
    paths = []
    for obj in objects:
        if obj["kind"] not in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"):
            continue
        obj["metadata"]["labels"] = {}  # not aggregated: the roles are taken one by one
        paths.append(path_of(obj))
        control_plane.api.apply(paths[-1], obj)
        role = obj["metadata"]["name"].removesuffix(f".{namespace}")
        if obj["kind"] == "ClusterRole" and role not in OPERATORS:
            binding = bound(obj["metadata"]["name"], user_of(role, namespace))
            paths.append(path_of(binding))
            control_plane.api.apply(paths[-1], binding)
    return paths


def path_of(obj: Object) -> str:
    """URL path of a role or a binding."""
    metadata = obj["metadata"]
    place = f"namespaces/{metadata['namespace']}/" if "namespace" in metadata else ""
    return f"/apis/{RBAC}/v1/{place}{obj['kind'].lower()}s/{metadata['name']}"


def user_of(role: str, namespace: str) -> str:
    """The user who has a role and no other one."""
    return f"{role}-{namespace}"


def bound(role: str, user: str) -> Object:
    """A ClusterRole for a user, in all namespaces."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": user},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "name": user, "apiGroup": RBAC}],
    }


def acting_as(control_plane: Any, user: str) -> Client:
    """A client that is somebody else to the API server."""
    connection = load(control_plane.kubeconfig)
    connection.impersonation = (("Impersonate-User", user),)
    return Client(connection)


async def rights(control_plane: Any, user: str, namespace: str, expected: set[str]) -> set[str]:
    """What the API server says a user may do in a namespace; roles take a moment to be read."""
    spec = {"namespace": namespace}
    head = {"apiVersion": RULES.api_version, "kind": RULES.kind, "metadata": {}}
    found: set[str] = set()
    async with acting_as(control_plane, user) as client:
        for _ in range(20):
            status = (await client.create(RULES, {**head, "spec": spec}))["status"]
            assert not status["incomplete"]
            found = {right for rule in status["resourceRules"] for right in lines_of(rule)} - EVERYBODY
            if found == expected:
                break
            await asyncio.sleep(0.5)
    return found


def lines_of(rule: Object) -> list[str]:
    """A rule as the golden files write it."""
    names = [f"={name}" for name in rule.get("resourceNames", ())] or [""]
    found = []
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            plural, slash, subresource = resource.partition("/")
            place = f"{plural}.{group}" if group else plural
            found += [f"{place}{slash}{subresource}{name} {verb}" for name in names for verb in rule["verbs"]]
    return found


async def dangers(control_plane: Any, user: str, namespace: str) -> set[str]:
    """What of that which opens a cluster a user may do in a namespace."""
    async with acting_as(control_plane, user) as client:

        async def asked(place: str, verb: str) -> str:
            name, _, subresource = place.partition("/")
            plural, _, group = name.partition(".")
            kind = Resource(group, "v1", plural, plural)
            allowed = await is_allowed(client, verb, kind, namespace, subresource)
            return f"{place} {verb}" if allowed else ""

        answers = await asyncio.gather(*(asked(place, verb) for place in DANGEROUS for verb in VERBS))
    return {answer for answer in answers if answer}


def test_roles_for_users_add_nothing_to_kubernetes_own_but_kaiwo(control_plane: Any) -> None:
    """Of kinds that are not Kaiwo's or Kueue's, each holds only what the role has that it is added to."""
    lines = [line.split() for line in (GOLDEN / "rights-all.txt").read_text().splitlines()]
    before: set[str] = set()
    for role in ("view", "edit", "admin"):
        built_in = control_plane.api.get(f"/apis/{RBAC}/v1/clusterroles/system:aggregate-to-{role}")
        before |= {right for rule in built_in["rules"] for right in lines_of(rule)}
        added = {f"{place} {verb}" for name, place, verb in lines if name == f"kaiwo-{role}"}
        foreign = {
            right for right in added if "kaiwo.silogen.ai" not in right and "kueue.x-k8s.io" not in right
        }
        assert foreign
        assert foreign <= before, role


async def test_the_operator_writes_only_objects_of_workloads(site: Any) -> None:
    """ConfigMaps, Services and the like of others are out of reach of its token, in every namespace."""
    team, admin = site.team, site.admin
    foreign: dict[Resource, Object] = {
        CONFIG_MAP: {"data": {"a": "1"}},
        SERVICE: {"spec": {"ports": [{"port": 80}]}},
    }
    await site.until_policies_in_force()
    async with Client(site.connection("kaiwo-operator")) as operator:
        for kind, content in foreign.items():
            head = {"apiVersion": kind.api_version, "kind": kind.kind}
            obj = {**head, **content, "metadata": {"name": "foreign", "namespace": team}}
            with pytest.raises(Forbidden, match="only objects of workloads"):
                await operator.create(kind, obj)
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
    await site.until_policies_in_force()
    async with Client(site.connection("kaiwo-operator")) as operator:

        async def patch(metadata: Object) -> Object:
            return await operator.merge_patch(NAMESPACE, None, site.team, {"metadata": metadata})

        for metadata in (
            {"labels": {"a": "b"}},
            {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}},
            {"annotations": {"a": "b"}},
            {"labels": {"kueue-managed": "true"}, "annotations": {"a": "b"}},
        ):
            with pytest.raises(Forbidden, match=denied):
                await patch(metadata)
        patched = await patch({"labels": {"kueue-managed": "true"}})
    assert patched["metadata"]["labels"]["kueue-managed"] == "true"
