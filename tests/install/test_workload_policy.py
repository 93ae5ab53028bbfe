"""Nobody gains through a workload what they may not do themselves; what is legal is not touched."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import re
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.admission.template_rules import (
    ALLOW_PRIVILEGED,
    FOREIGN_NAMESPACE,
    broken_rules,
    names_foreign_namespace,
)
from kaiwo.api.crds import KAIWO_JOB, KAIWO_SERVICE, WORKLOADS, render_crds
from kaiwo.api.plugin_fields import Field
from kaiwo.api.scalars import Opaque
from kaiwo.engine import credentials
from kaiwo.engine.client import Client
from kaiwo.engine.errors import Forbidden, Invalid, NotFound
from kaiwo.engine.resource import Resource
from kaiwo.install.workload_policy import MAX_GROUPS, MAX_ITEMS, WORKLOAD_POLICY, workload_policy
from kaiwo.plugin.backends import Backend
from kaiwo.plugin.loader import load

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from kaiwo.engine.resource import Object
    from kaiwo_sandbox.sandbox import Sandbox

pytestmark = pytest.mark.cluster

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RBAC = "rbac.authorization.k8s.io"
INSTALLATION = "policy-test"
NAME = f"{WORKLOAD_POLICY}.{INSTALLATION}"
PATHS = {
    "ValidatingAdmissionPolicy": f"{ADMISSION}/validatingadmissionpolicies/{NAME}",
    "ValidatingAdmissionPolicyBinding": f"{ADMISSION}/validatingadmissionpolicybindings/{NAME}",
}
ACME = Backend(
    name="acme",
    kind="KaiwoJob",
    child=Resource("acme.com", "v1", "Run", "runs"),
    fields=(Field("KaiwoJob", ("acmeRun",), Opaque, "A whole Run to start from."),),
    pod_templates=(("acmeRun", "steps", "*", "job", "template"),),
)
"""A third party's backend."""

BACKENDS = (*load().backends, ACME)

VERBS = ["get", "create", "update", "patch", "delete"]
OWN = {"apiGroups": [KAIWO_JOB.group], "resources": ["kaiwojobs", "kaiwoservices"], "verbs": VERBS}
CHILDREN = [
    {"apiGroups": [group], "resources": resources, "verbs": ["create"]}
    for group, resources in (
        ("batch", ["jobs"]),
        ("apps", ["deployments"]),
        ("ray.io", ["rayjobs", "rayservices"]),
        ("workload.codeflare.dev", ["appwrappers"]),
        ("acme.com", ["runs"]),
    )
]
MAIN = {"name": "main", "image": "registry.example/train:1"}
PRIVILEGED = {"securityContext": {"privileged": True}}


@dataclass(frozen=True)
class Tenants:
    """Two people with few rights in two namespaces, of which one allows privileges.

    Attributes:
        plain: the namespace without the label.
        labelled: the namespace with the label.
        owner: may create workloads and the kinds that they become.
        limited: may create workloads and nothing else.
        admin: may do everything.
    """

    plain: str
    labelled: str
    owner: credentials.Connection
    limited: credentials.Connection
    admin: credentials.Connection


@pytest.fixture(scope="module")
def tenants(control_plane: Sandbox) -> Iterator[Tenants]:
    """The policy in force, and two tenants; the policy goes with the module."""
    api, plugins = control_plane.api, load()
    fields = (*plugins.fields(), *ACME.fields)
    for crd in render_crds(fields, plugins.settings_models(), kinds=plugins.kinds()):
        api.apply(f"{CRDS}/{crd['metadata']['name']}", crd)
    plain, labelled = (f"policy-{secrets.token_hex(4)}" for _ in range(2))
    for name in (plain, labelled):
        control_plane.create_namespace(name)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": labelled}}
    namespace["metadata"]["labels"] = {ALLOW_PRIVILEGED: "true"}  # type: ignore[index]  # a literal
    api.apply(f"/api/v1/namespaces/{labelled}", namespace)
    owner = account(control_plane, "owner", plain, [plain, labelled], [OWN, *CHILDREN])
    limited = account(control_plane, "limited", plain, [plain, labelled], [OWN])
    admin = credentials.load(control_plane.kubeconfig)
    for manifest in workload_policy(BACKENDS, INSTALLATION):
        api.apply(PATHS[manifest.obj["kind"]], manifest.obj)
    asyncio.run(in_force(admin, plain))
    yield Tenants(plain, labelled, owner, limited, admin)
    for path in reversed(PATHS.values()):
        api.request("DELETE", path)
    for name in (plain, labelled):
        control_plane.delete_namespace(name)


def account(
    control_plane: Sandbox, name: str, home: str, namespaces: list[str], rules: list[Object]
) -> credentials.Connection:
    """A connection with these rights in these namespaces, and no others."""
    api = control_plane.api
    accounts = f"/api/v1/namespaces/{home}/serviceaccounts"
    api.apply(
        f"{accounts}/{name}", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    )
    for namespace in namespaces:
        at = f"/apis/{RBAC}/v1/namespaces/{namespace}"
        head = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": name}}
        api.apply(f"{at}/roles/{name}", {**head, "kind": "Role", "rules": rules})
        binding = {
            **head,
            "kind": "RoleBinding",
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": home}],
        }
        api.apply(f"{at}/rolebindings/{name}", binding)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = api.create(f"{accounts}/{name}/token", request)["status"]["token"]
    return credentials.static(control_plane.url, token=token, ca_file=control_plane.ca_file, namespace=home)


async def in_force(connection: credentials.Connection, namespace: str) -> None:
    """Wait until the policy refuses something of each kind.

    Of KaiwoJobs it is something in the third party's block: definitions and a policy without that block may
    be there from before.
    """
    deadline = time.monotonic() + 60
    refused: dict[str, Object] = {
        "KaiwoJob": {"acmeRun": {"steps": [{"job": {"template": template(hostIPC=True)}}]}},
        "KaiwoService": {"priorityClass": "system-x"},
    }
    waiting = list(refused)
    async with Client(connection) as client:
        while waiting:
            assert time.monotonic() < deadline, f"the policy is not in force for {waiting} after 60 s"
            probe = workload(waiting[0], namespace, **refused[waiting[0]])
            # The kind may not be served yet, either.
            with contextlib.suppress(NotFound):
                try:
                    await client.create(WORKLOADS[waiting[0]], probe, dry_run=True)
                except Forbidden:
                    waiting.pop(0)
                    continue
            await asyncio.sleep(0.2)


@pytest.fixture
async def owner(tenants: Tenants) -> AsyncIterator[Client]:
    """Somebody who may create workloads and what they become."""
    async with Client(tenants.owner) as client:
        yield client


@pytest.fixture
async def limited(tenants: Tenants) -> AsyncIterator[Client]:
    """Somebody with nothing but rights to workloads."""
    async with Client(tenants.limited) as client:
        yield client


@pytest.fixture
async def admin(tenants: Tenants) -> AsyncIterator[Client]:
    """Somebody who may do everything."""
    async with Client(tenants.admin) as client:
        yield client


def workload(kind: str, namespace: str, **spec: Any) -> Object:
    """A workload with some spec."""
    metadata = {"name": f"w-{secrets.token_hex(4)}", "namespace": namespace}
    return {"apiVersion": KAIWO_JOB.api_version, "kind": kind, "metadata": metadata, "spec": spec}


def template(**pod: Any) -> Object:
    """A pod template; one container unless others are given."""
    return {"spec": {"containers": [MAIN], **pod}}


def ray(cluster: str, head: Object | None = None, *workers: Object, **more: Any) -> Object:
    """An embedded RayJob or RayService with these pod templates."""
    groups = [{"groupName": f"g{number}", "template": worker} for number, worker in enumerate(workers)]
    spec = {"headGroupSpec": {"template": head or template()}, "workerGroupSpecs": groups}
    return {"spec": {cluster: spec, **more}}


def job(**pod: Any) -> tuple[str, Object]:
    """A KaiwoJob with a Job embedded."""
    return "KaiwoJob", {"job": {"spec": {"template": template(**pod)}}}


def service(**pod: Any) -> tuple[str, Object]:
    """A KaiwoService with a Deployment embedded."""
    return "KaiwoService", {"deployment": {"spec": {"template": template(**pod)}}}


POD = "spec.job.spec.template.spec"
SERVED = "spec.deployment.spec.template.spec"
RAY_JOB, RAY_SERVICE = "spec.rayJob.spec.rayClusterSpec", "spec.rayService.spec.rayClusterConfig"
ROOT = [{"name": "root", "hostPath": {"path": "/"}}]

ESCALATIONS: dict[str, tuple[tuple[str, Object], str]] = {
    "root of the node": (job(volumes=ROOT), f"{POD}.volumes[*].hostPath: must not be set"),
    "root, second volume": (service(volumes=[{"name": "a", "emptyDir": {}}, *ROOT]), f"{SERVED}.volumes[*]"),
    "network of the node": (job(hostNetwork=True), f"{POD}.hostNetwork: must be false"),
    "processes of the node": (service(hostPID=True), f"{SERVED}.hostPID: must be false"),
    "memory of the node": (job(hostIPC=True), f"{POD}.hostIPC: must be false"),
    "text for a boolean": (job(hostNetwork="true"), f"{POD}.hostNetwork: must be false"),
    "privileged": (job(containers=[MAIN, {**MAIN, **PRIVILEGED}]), f"{POD}.containers[*].securityContext"),
    "privileged before": (service(initContainers=[{**MAIN, **PRIVILEGED}]), f"{SERVED}.initContainers[*]"),
    "privileged beside": (job(ephemeralContainers=[PRIVILEGED]), f"{POD}.ephemeralContainers[*]"),
    "one node": (job(nodeName="control-plane"), f"{POD}.nodeName: must not be set"),
    "another account": (service(serviceAccountName="builder"), f"{SERVED}.serviceAccountName: must be 'def"),
    "account's old name": (job(serviceAccount="builder"), f"{POD}.serviceAccount: must be 'default'"),
    "class of the system": (job(priorityClassName="system-node-critical"), f"{POD}.priorityClassName: must"),
    "class in the spec": (
        ("KaiwoService", {"priorityClass": "system-cluster-critical"}),
        "spec.priorityClass: must not start with 'system-'",
    ),
    "head of a RayJob": (
        ("KaiwoJob", {"rayJob": ray("rayClusterSpec", template(hostPID=True))}),
        f"{RAY_JOB}.headGroupSpec.template.spec.hostPID",
    ),
    "second workers of a RayJob": (
        ("KaiwoJob", {"rayJob": ray("rayClusterSpec", None, template(), template(volumes=ROOT))}),
        f"{RAY_JOB}.workerGroupSpecs[*].template.spec.volumes[*].hostPath",
    ),
    "submitter of a RayJob": (
        (
            "KaiwoJob",
            {"rayJob": ray("rayClusterSpec", submitterPodTemplate=template(serviceAccountName="builder"))},
        ),
        "spec.rayJob.spec.submitterPodTemplate.spec.serviceAccountName",
    ),
    "head of a RayService": (
        ("KaiwoService", {"rayService": ray("rayClusterConfig", template(nodeName="a"))}),
        f"{RAY_SERVICE}.headGroupSpec.template.spec.nodeName",
    ),
    "workers of a RayService": (
        ("KaiwoService", {"rayService": ray("rayClusterConfig", None, template(hostNetwork=True))}),
        f"{RAY_SERVICE}.workerGroupSpecs[*].template.spec.hostNetwork",
    ),
    "item of a third party's list": (
        ("KaiwoJob", {"acmeRun": {"steps": [{}, {"job": {"template": template(hostIPC=True)}}]}}),
        "spec.acmeRun.steps[*].job.template.spec.hostIPC",
    ),
}

ELSEWHERE = {"metadata": {"name": "x", "namespace": "kube-system"}}

FOREIGN: dict[str, tuple[str, Object]] = {
    "Job": ("KaiwoJob", {"job": {**ELSEWHERE, "spec": {"template": template()}}}),
    "pods of a Job": ("KaiwoJob", {"job": {"spec": {"template": {**template(), **ELSEWHERE}}}}),
    "Deployment": ("KaiwoService", {"deployment": {**ELSEWHERE, "spec": {"template": template()}}}),
    "pods of a Deployment": (
        "KaiwoService", {"deployment": {"spec": {"template": {**template(), **ELSEWHERE}}}}
    ),
    "RayJob": ("KaiwoJob", {"rayJob": {**ray("rayClusterSpec"), **ELSEWHERE}}),
    "head of a RayJob": ("KaiwoJob", {"rayJob": ray("rayClusterSpec", {**template(), **ELSEWHERE})}),
    "submitter of a RayJob": (
        "KaiwoJob", {"rayJob": ray("rayClusterSpec", submitterPodTemplate={**template(), **ELSEWHERE})}
    ),
    "RayService": ("KaiwoService", {"rayService": {**ray("rayClusterConfig"), **ELSEWHERE}}),
    "second workers of a RayService": (
        "KaiwoService", {"rayService": ray("rayClusterConfig", None, template(), {**template(), **ELSEWHERE})}
    ),
    "a third party's object": ("KaiwoJob", {"acmeRun": {**ELSEWHERE, "steps": []}}),
    "item of a third party's list": (
        "KaiwoJob", {"acmeRun": {"steps": [{"job": {"template": {**template(), **ELSEWHERE}}}]}}
    ),
}  # fmt: skip

LEGAL: dict[str, tuple[str, Object]] = {
    "nothing": ("KaiwoJob", {}),
    "service without block": ("KaiwoService", {"image": "registry.example/serve:1", "replicas": 2}),
    "common fields": ("KaiwoJob", {"gpus": 4, "priorityClass": "systematic", "ray": True}),
    "plain Job": job(),
    "plain Deployment": service(),
    "empty block": ("KaiwoJob", {"job": {}}),
    "other volumes": job(volumes=[{"name": "a", "emptyDir": {}}, {"name": "b", "configMap": {"name": "b"}}]),
    "switched off": service(hostNetwork=False, hostPID=False, hostIPC=False, nodeName=""),
    "default account": job(serviceAccountName="default", serviceAccount="default"),
    "other class": service(priorityClassName="urgent"),
    "restricted container": job(containers=[{**MAIN, "securityContext": {"privileged": False}}]),
    "nulls": job(volumes=None, hostNetwork=None, nodeName=None, serviceAccountName=None, containers=None),
    "whole RayJob": (
        "KaiwoJob",
        {"rayJob": ray("rayClusterSpec", template(), template(), submitterPodTemplate=template())},
    ),
    "whole RayService": ("KaiwoService", {"rayService": ray("rayClusterConfig", template(), template())}),
    "RayService without templates": ("KaiwoService", {"rayService": {"spec": {"serveConfigV2": "a: 1"}}}),
    "a third party's block": ("KaiwoJob", {"acmeRun": {"steps": [{"job": {"template": template()}}]}}),
    "many containers": job(containers=[{**MAIN, "securityContext": {"privileged": False}}] * MAX_ITEMS),
    "many groups": (
        "KaiwoJob",
        {"rayJob": ray("rayClusterSpec", None, *[template(volumes=[{"name": "a"}] * 18)] * MAX_GROUPS)},
    ),
    "shapes for the operator to report": ("KaiwoJob", {"job": {"spec": {"template": "x"}}, "rayJob": {
        "spec": {"rayClusterSpec": {"workerGroupSpecs": [1, None, {"template": []}]}}}}),
    "lists of anything": job(volumes={}, containers="x", initContainers=[1, None, {"securityContext": 3}]),
}  # fmt: skip

TOO_LARGE: dict[str, tuple[tuple[str, Object], str]] = {
    "containers": (job(containers=[{}] * 40_000), f"at most {MAX_ITEMS} containers and volumes"),
    "volumes": (service(volumes=[{}] * 40_000), f"at most {MAX_ITEMS} containers and volumes"),
    "worker groups": (
        ("KaiwoJob", {"rayJob": {"spec": {"rayClusterSpec": {"workerGroupSpecs": [{}] * 40_000}}}}),
        f"workerGroupSpecs: at most {MAX_GROUPS} items",
    ),
}


@pytest.mark.parametrize("what", ESCALATIONS)
async def test_an_embedded_template_gives_no_privileges(what: str, owner: Client, tenants: Tenants) -> None:
    """Also who may create Jobs gets none; the message has the field's path and names the label."""
    (kind, spec), expected = ESCALATIONS[what]
    with pytest.raises(Forbidden) as refused:
        await owner.create(WORKLOADS[kind], workload(kind, tenants.plain, **spec))
    assert expected in str(refused.value)
    assert f"{ALLOW_PRIVILEGED}=true" in str(refused.value)
    (offline,) = broken_rules(kind, spec, BACKENDS)
    assert offline in str(refused.value), "the same words as without a cluster"


@pytest.mark.parametrize("what", FOREIGN)
async def test_an_embedded_object_names_no_other_namespace(
    what: str, owner: Client, tenants: Tenants
) -> None:
    """Nowhere, whatever the namespace allows; its own one may be named, as in what kubectl prints."""
    kind, spec = FOREIGN[what]
    for namespace in (tenants.plain, tenants.labelled):
        with pytest.raises(Forbidden, match=re.escape(FOREIGN_NAMESPACE)):
            await owner.create(WORKLOADS[kind], workload(kind, namespace, **spec))
        assert names_foreign_namespace(kind, spec, BACKENDS, namespace)
    own = json.loads(json.dumps(spec).replace("kube-system", tenants.plain))
    assert not names_foreign_namespace(kind, own, BACKENDS, tenants.plain)
    await owner.create(WORKLOADS[kind], workload(kind, tenants.plain, **own))


async def test_a_reference_of_a_download_names_no_other_namespace(owner: Client, tenants: Tenants) -> None:
    """A Secret, a ConfigMap or a volume of another namespace cannot be named: nothing of it is stored."""
    reference = {"file": "/a", "secretName": "creds", "secretKey": "token"}
    foreign = {**reference, "namespace": "kube-system"}
    buckets = [{"name": "bucket", "files": [{"path": "a", "targetPath": "a"}]}]
    download = {
        "git": [{"repository": "https://git.example.com/r.git", "token": foreign, "targetPath": "r"}],
        "s3": [
            {
                "endpointUrl": "https://s3.example.com",
                "accessKeyId": foreign,
                "secretKey": foreign,
                "buckets": buckets,
            }
        ],
        "gcs": [{"applicationCredentials": foreign, "buckets": buckets}],
        "azureBlob": [{"connectionString": foreign, "containers": buckets}],
    }
    data = {"storageSize": "1Gi", "namespace": "kube-system", "download": download}
    volume = {"name": "s", "secretName": "creds", "mountPath": "/s", "namespace": "kube-system"}
    asked = workload(
        "KaiwoJob", tenants.plain, storage={"storageEnabled": True, "data": data}, secretVolumes=[volume]
    )
    made = (await owner.create(KAIWO_JOB, asked))["spec"]
    assert "kube-system" not in json.dumps(made)
    assert made["storage"]["data"]["download"]["git"][0]["token"] == reference


@pytest.mark.parametrize("what", ESCALATIONS)
async def test_a_labelled_namespace_takes_privileges(what: str, owner: Client, tenants: Tenants) -> None:
    """An administrator's label on the namespace lifts the rules for templates."""
    (kind, spec), _ = ESCALATIONS[what]
    await owner.create(WORKLOADS[kind], workload(kind, tenants.labelled, **spec))


@pytest.mark.parametrize("what", LEGAL)
async def test_what_is_legal_is_taken(what: str, owner: Client, tenants: Tenants) -> None:
    """What asks for no privilege is stored, whatever its shape: the operator reports what cannot run."""
    kind, spec = LEGAL[what]
    assert broken_rules(kind, spec, BACKENDS) == []
    await owner.create(WORKLOADS[kind], workload(kind, tenants.plain, **spec))


@pytest.mark.parametrize("what", TOO_LARGE)
async def test_more_than_can_be_checked_is_refused(what: str, owner: Client, tenants: Tenants) -> None:
    """The bound is told, not that a rule could not be evaluated."""
    (kind, spec), expected = TOO_LARGE[what]
    with pytest.raises(Invalid) as refused:
        await owner.create(WORKLOADS[kind], workload(kind, tenants.plain, **spec))
    assert expected in str(refused.value)
    assert "cost" not in str(refused.value)


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize(
    ("kind", "block", "plural"),
    [
        ("KaiwoJob", "job", "jobs.batch"),
        ("KaiwoJob", "rayJob", "rayjobs.ray.io"),
        ("KaiwoJob", "acmeRun", "runs.acme.com"),
        ("KaiwoService", "deployment", "deployments.apps"),
        ("KaiwoService", "rayService", "appwrappers.workload.codeflare.dev"),
    ],
)
async def test_who_may_not_create_a_kind_may_not_embed_it(
    kind: str, block: str, plural: str, *, labelled: bool, limited: Client, tenants: Tenants
) -> None:
    """The requester's own rights count, also in a labelled namespace and for an empty block."""
    namespace = tenants.labelled if labelled else tenants.plain
    with pytest.raises(Forbidden, match=rf"spec\.{block}: you may not create {plural} in this namespace"):
        await limited.create(WORKLOADS[kind], workload(kind, namespace, **{block: {}}))


@pytest.mark.parametrize("kind", WORKLOADS)
async def test_rights_to_workloads_are_enough_without_a_block(
    kind: str, limited: Client, tenants: Tenants
) -> None:
    """A workload of common fields needs no right to Jobs, Deployments or Ray objects."""
    await limited.create(WORKLOADS[kind], workload(kind, tenants.plain, image="a", gpus=1))


@pytest.mark.parametrize(
    ("kind", "privileged"), [("KaiwoJob", job(hostPID=True)), ("KaiwoService", service(hostPID=True))]
)
async def test_a_change_of_the_spec_is_judged(
    kind: str, privileged: tuple[str, Object], owner: Client, tenants: Tenants
) -> None:
    """Privileges come neither at once nor later."""
    created = await owner.create(WORKLOADS[kind], workload(kind, tenants.plain, image="a"))
    with pytest.raises(Forbidden, match="hostPID: must be false"):
        await patch(owner, WORKLOADS[kind], created, {"spec": privileged[1]})


@pytest.mark.parametrize("kind", [KAIWO_JOB, KAIWO_SERVICE])
async def test_a_change_beside_the_spec_is_not_judged(
    kind: Resource, limited: Client, owner: Client, tenants: Tenants
) -> None:
    """Whoever only labels a workload is not refused for what somebody else embedded in it."""
    _, spec = copy.deepcopy(job() if kind == KAIWO_JOB else service())
    created = await owner.create(kind, workload(kind.kind, tenants.plain, **spec))
    await patch(limited, kind, created, {"metadata": {"labels": {"stage": "final"}}})
    with pytest.raises(Forbidden, match="you may not create"):
        await patch(limited, kind, created, {"spec": {"image": "other"}})


async def test_a_large_workload_can_be_changed(owner: Client, tenants: Tenants) -> None:
    """Comparing a spec of a megabyte with the one before stays within the limits of a policy."""
    env = [{"name": f"V{number}", "value": "x" * 20} for number in range(15_000)]
    kind, spec = job(containers=[{**MAIN, "env": env}])
    created = await owner.create(KAIWO_JOB, workload(kind, tenants.plain, **spec))
    await patch(owner, KAIWO_JOB, created, {"metadata": {"labels": {"stage": "final"}}})
    await patch(owner, KAIWO_JOB, created, {"spec": {"duration": "2h"}})
    with pytest.raises(Forbidden, match="hostPID: must be false"):
        await patch(owner, KAIWO_JOB, created, {"spec": job(hostPID=True)[1]})


async def test_every_expression_has_the_right_types(tenants: Tenants, control_plane: Sandbox) -> None:
    """The API server's own check of the policy has no warning."""
    del tenants
    deadline = time.monotonic() + 60
    while True:
        status = control_plane.api.get(PATHS["ValidatingAdmissionPolicy"]).get("status", {})
        if "observedGeneration" in status or time.monotonic() > deadline:
            break
        await asyncio.sleep(0.2)
    assert status["typeChecking"] == {}


async def patch(client: Client, kind: Resource, obj: Object, change: Object) -> None:
    """Merge a change into an object."""
    metadata = obj["metadata"]
    await client.merge_patch(kind, metadata["namespace"], metadata["name"], change)
