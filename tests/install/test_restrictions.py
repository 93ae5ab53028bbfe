"""Queues, priority classes and users that workloads may name only with a right, on a real API server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kaiwo.api.crds import KAIWO_JOB, render_crds
from kaiwo.engine.client import Client
from kaiwo.engine.credentials import load as connect
from kaiwo.engine.errors import ApiError, EngineError, Forbidden
from kaiwo.install.restrictions import LABEL_PREFIX, RESTRICTIONS
from kaiwo.install.workload_policy import workload_policy
from kaiwo.plugin.loader import load
from kaiwo_sandbox import control_plane as programs
from kaiwo_sandbox import state
from kaiwo_sandbox.lifecycle import layout
from kaiwo_sandbox.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from kaiwo.engine.resource import Object
    from kaiwo_sandbox.sandbox import Sandbox

pytestmark = pytest.mark.cluster

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RBAC = "rbac.authorization.k8s.io"
INSTALLATION = "restrictions-test"
PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
RULES = [
    {
        "apiGroups": [KAIWO_JOB.group],
        "resources": ["kaiwojobs"],
        "verbs": ["get", "list", "create", "patch", "update"],
    },
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create"]},
]
USE = [
    {
        "apiGroups": [KAIWO_JOB.group],
        "resources": ["queues"],
        "resourceNames": ["team-queue"],
        "verbs": ["use"],
    },
    {
        "apiGroups": [KAIWO_JOB.group],
        "resources": ["priorityclasses"],
        "resourceNames": ["normal"],
        "verbs": ["use"],
    },
]


@dataclass(frozen=True)
class Tenancy:
    """Two namespaces, of which one restricts everything, and users of a group in both.

    Attributes:
        open: the namespace without labels.
        restricted: the namespace with all restrictions.
        ada: of the group ``team``, which may use one queue and one priority class.
        bob: of no group that may use any.
        admin: may do everything.
    """

    open: str
    restricted: str
    ada: Client
    bob: Client
    admin: Client


@pytest.fixture(scope="module")
def namespaces(control_plane: Sandbox) -> Iterator[tuple[str, str]]:
    """The policy in force, and the two namespaces with their roles; the policy goes with the module."""
    api, plugins = control_plane.api, load()
    for crd in render_crds(plugins.fields(), plugins.settings_models(), kinds=plugins.kinds()):
        api.apply(f"{CRDS}/{crd['metadata']['name']}", crd)
    names = tuple(f"restrict-{secrets.token_hex(4)}" for _ in range(2))
    for name in names:
        control_plane.create_namespace(name)
        role(api, name, "workers", RULES, {"kind": "Group", "name": "system:authenticated"})
        role(api, name, "team-queue", USE, {"kind": "Group", "name": "team"})
    labels = {f"{LABEL_PREFIX}{name}": "true" for name in RESTRICTIONS}
    head = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names[1], "labels": labels}}
    api.apply(f"/api/v1/namespaces/{names[1]}", head)
    paths = []
    for manifest in workload_policy(plugins.backends, INSTALLATION):
        obj = manifest.obj
        paths.append(f"{ADMISSION}/{PLURALS[obj['kind']]}/{obj['metadata']['name']}")
        api.apply(paths[-1], obj)
    yield names[0], names[1]
    for path in reversed(paths):
        api.request("DELETE", path)
    for name in names:
        control_plane.delete_namespace(name)


def role(api: Any, namespace: str, name: str, rules: list[Object], subject: Object) -> None:
    """A Role of a namespace, bound to a group."""
    at = f"/apis/{RBAC}/v1/namespaces/{namespace}"
    head = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": name}}
    api.apply(f"{at}/roles/{name}", {**head, "kind": "Role", "rules": rules})
    bound = {
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
        "subjects": [{**subject, "apiGroup": RBAC}],
    }
    api.apply(f"{at}/rolebindings/{name}", {**head, "kind": "RoleBinding", **bound})


@pytest.fixture
async def tenancy(
    control_plane: Sandbox, namespaces: tuple[str, str], tmp_path: Path
) -> AsyncIterator[Tenancy]:
    """Clients of the users, by impersonation."""

    def acting(user: str, *groups: str) -> Client:
        content = yaml.safe_load(control_plane.kubeconfig.read_text())
        content["users"][0]["user"] |= {"as": user, "as-groups": [*groups, "system:authenticated"]}
        file = tmp_path / f"{user}.kubeconfig"
        file.write_text(yaml.safe_dump(content))
        return Client(connect(file))

    async with (
        acting("ada", "team") as ada,
        acting("bob") as bob,
        Client(connect(control_plane.kubeconfig)) as admin,
    ):
        found = Tenancy(*namespaces, ada, bob, admin)
        for _ in range(60):
            try:
                await bob.create(KAIWO_JOB, job(found.restricted, clusterQueue="other"), dry_run=True)
            except Forbidden:
                break
            except ApiError:
                pass
            await asyncio.sleep(0.5)
        yield found


def job(namespace: str, name: str = "train", **spec: Any) -> Object:
    """A KaiwoJob."""
    return {
        "apiVersion": KAIWO_JOB.api_version,
        "kind": KAIWO_JOB.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"image": "registry.example/train:1", **spec},
    }


MINE = {"clusterQueue": "team-queue", "priorityClass": "normal", "user": "ada"}


async def test_a_right_opens_a_queue_and_a_priority_class(tenancy: Tenancy) -> None:
    """The group's members submit to its queue under their own names; in other namespaces nothing is asked."""
    await tenancy.ada.create(KAIWO_JOB, job(tenancy.restricted, **MINE), dry_run=True)
    anything = {"clusterQueue": "other", "priorityClass": "urgent", "user": "somebody", "dangerous": True}
    await tenancy.bob.create(KAIWO_JOB, job(tenancy.open, **anything), dry_run=True)
    await tenancy.admin.create(KAIWO_JOB, job(tenancy.restricted, **anything), dry_run=True)


TEMPLATE = {"priorityClassName": "urgent", "containers": [{"name": "a", "image": "a"}]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clusterQueue": "other"}, "spec.clusterQueue: you may not use queue other in this namespace"),
        ({"clusterQueue": ""}, "spec.clusterQueue: a queue must be named in this namespace"),
        ({"priorityClass": "urgent"}, "spec.priorityClass: you may not use priority class urgent"),
        ({"user": "bob"}, "spec.user: must be ada or left out in this namespace"),
        ({"dangerous": True}, "spec.dangerous: must not be true in this namespace; ask an administrator"),
        (
            {"job": {"spec": {"template": {"spec": TEMPLATE}}}},
            "priorityClassName of an embedded pod template: must not be set",
        ),
        (
            {"job": {"metadata": {"labels": {"kueue.x-k8s.io/priority-class": "urgent"}}}},
            "spec.podTemplateSpecLabels and labels of embedded objects: none may start with kueue.x-k8s.io/",
        ),
        (
            {"job": {"spec": {"template": {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "x"}}}}}},
            "spec.podTemplateSpecLabels and labels of embedded objects: none may start with kueue.x-k8s.io/",
        ),
        (
            {"podTemplateSpecLabels": {"kueue.x-k8s.io/priority-class": "urgent"}},
            "spec.podTemplateSpecLabels and labels of embedded objects: none may start with kueue.x-k8s.io/",
        ),
    ],
)
async def test_without_the_right_the_field_is_refused(
    tenancy: Tenancy, change: dict[str, Any], message: str
) -> None:
    """The field, the value and the missing right are named; embedded objects are no way around."""
    with pytest.raises(Forbidden) as refused:
        await tenancy.ada.create(KAIWO_JOB, job(tenancy.restricted, **{**MINE, **change}), dry_run=True)
    assert message in str(refused.value)


async def test_a_change_of_another_field_is_not_judged_by_what_somebody_else_wrote(tenancy: Tenancy) -> None:
    """A colleague without the right may change the image, and may not change the queue."""
    made = job(tenancy.restricted, "shared", **MINE)
    await tenancy.ada.create(KAIWO_JOB, made)
    at = (KAIWO_JOB, tenancy.restricted, "shared")
    await tenancy.bob.merge_patch(*at, {"spec": {"image": "registry.example/train:2"}})
    with pytest.raises(Forbidden, match="you may not use priority class urgent"):
        await tenancy.bob.merge_patch(*at, {"spec": {"priorityClass": "urgent"}})


async def test_a_workload_without_security_context_stays_as_it_was_allowed(tenancy: Tenancy) -> None:
    """An administrator allowed it; a user may change its image, and may not make it so again."""
    await tenancy.admin.create(KAIWO_JOB, job(tenancy.restricted, "root", **MINE, dangerous=True))
    at = (KAIWO_JOB, tenancy.restricted, "root")
    await tenancy.bob.merge_patch(*at, {"spec": {"image": "registry.example/train:2"}})
    await tenancy.bob.merge_patch(*at, {"spec": {"dangerous": False}})
    with pytest.raises(Forbidden, match=r"spec\.dangerous: must not be true .* \(use dangerousworkloads\."):
        await tenancy.bob.merge_patch(*at, {"spec": {"dangerous": True}})


async def test_who_may_impersonate_a_user_may_submit_for_that_user(
    tenancy: Tenancy, control_plane: Sandbox
) -> None:
    """A deployment tool submits for others with the verb that Kubernetes has for it."""
    rule = {"apiGroups": [""], "resources": ["users"], "resourceNames": ["bob"], "verbs": ["impersonate"]}
    name = f"act-as-bob-{tenancy.restricted}"
    head = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": name}}
    api, at = control_plane.api, f"/apis/{RBAC}/v1"
    api.apply(f"{at}/clusterroles/{name}", {**head, "kind": "ClusterRole", "rules": [rule]})
    bound = {
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "User", "name": "ada", "apiGroup": RBAC}],
    }
    api.apply(f"{at}/clusterrolebindings/{name}", {**head, "kind": "ClusterRoleBinding", **bound})
    for _ in range(20):
        try:
            await tenancy.ada.create(
                KAIWO_JOB, job(tenancy.restricted, **{**MINE, "user": "bob"}), dry_run=True
            )
        except Forbidden:
            await asyncio.sleep(0.5)
        else:
            break
    else:
        pytest.fail("ada may not submit for bob")
    for kind in ("clusterrolebindings", "clusterroles"):
        api.request("DELETE", f"{at}/{kind}/{name}")


@dataclass(frozen=True)
class Audited:
    """A second API server of the same cluster, with an audit log.

    Attributes:
        url: where it listens.
        log: the audit log.
    """

    url: str
    log: Path

    def dangerous(self, name: str) -> list[str]:
        """The annotation of each answered request for a workload; empty where there is none."""
        events = [json.loads(line) for line in self.log.read_text().splitlines()]
        key = f"kaiwo-workloads.{INSTALLATION}/dangerous"
        return [
            event.get("annotations", {}).get(key, "")
            for event in events
            if event["stage"] == "ResponseComplete" and event["objectRef"].get("name") == name
        ]


AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: Metadata
  resources: [{group: kaiwo.silogen.ai, resources: [kaiwojobs]}]
- level: None
"""


@pytest.fixture
async def audited(control_plane: Sandbox, tmp_path: Path) -> AsyncIterator[Audited]:
    """An API server beside that of the other tests, which has no audit log."""
    known = state.load(control_plane.directory)
    assert known is not None
    (port,) = free_ports(1)
    policy, log = tmp_path / "policy.yaml", tmp_path / "audit.log"
    policy.write_text(AUDIT_POLICY)
    files = layout(control_plane.directory, known)
    command = programs.apiserver(Path(known.programs["kube-apiserver"]), files)
    command += [f"--secure-port={port}", f"--audit-policy-file={policy}", f"--audit-log-path={log}"]
    with (tmp_path / "output").open("wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=output)  # noqa: ASYNC220  ended below
        try:
            yield Audited(f"https://{files.address}:{port}", log)
        finally:
            server.kill()
            server.wait()


async def test_the_audit_log_says_who_asked_for_a_workload_without_security_context(
    tenancy: Tenancy, audited: Audited, control_plane: Sandbox
) -> None:
    """Allowed or refused, created or changed; workloads with a security context have no annotation."""
    connection = connect(control_plane.kubeconfig)
    connection.server = audited.url
    connection.impersonation = (("Impersonate-User", "bob"), ("Impersonate-Group", "system:authenticated"))
    async with Client(connection) as bob:
        async with asyncio.timeout(90):
            while not (audited.log.exists() and any(audited.dangerous("probe"))):
                # The new server takes a moment to start, and another one to read policies and roles.
                with contextlib.suppress(EngineError):
                    await bob.create(KAIWO_JOB, job(tenancy.open, "probe", dangerous=True), dry_run=True)
                await asyncio.sleep(0.2)
        await bob.create(KAIWO_JOB, job(tenancy.open, "allowed", dangerous=True))
        await bob.create(KAIWO_JOB, job(tenancy.open, "secure"))
        await bob.merge_patch(KAIWO_JOB, tenancy.open, "secure", {"spec": {"dangerous": True}})
        with pytest.raises(Forbidden, match="denied request"):
            await bob.create(KAIWO_JOB, job(tenancy.restricted, "refused", dangerous=True))
        async with asyncio.timeout(60):
            while not audited.dangerous("refused"):
                await asyncio.sleep(0.1)
    assert audited.dangerous("allowed") == ["requested by bob"]
    assert audited.dangerous("secure") == ["", "requested by bob"]
    assert audited.dangerous("refused") == ["requested by bob"]
