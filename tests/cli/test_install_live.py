"""What ``kaiwo manifests`` prints installs on a real API server, and has the rights that it needs."""

from __future__ import annotations

import asyncio
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
import yaml

from kaiwo.engine import credentials
from kaiwo.engine.client import Client
from kaiwo.engine.errors import Forbidden
from kaiwo.engine.resource import DEPLOYMENT, LEASE, POD, SERVICE, Resource
from kaiwo.host.kinds import KAIWO_JOB, KAIWO_SERVICE
from kaiwo.testing.fault_proxy import FaultProxy
from kaiwo.testing.operator import OperatorProcess, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from kaiwo.engine.resource import Object
    from kaiwo_sandbox.sandbox import Sandbox

    Cli: TypeAlias = Callable[..., Any]
    """Runs ``kaiwo``: arguments, and ``stdin``; gives code, out and err."""

pytestmark = pytest.mark.cluster

RBAC = "rbac.authorization.k8s.io"
CLUSTER_ROLE = Resource(RBAC, "v1", "ClusterRole", "clusterroles", namespaced=False)
SECRET = Resource("", "v1", "Secret", "secrets")
ACCESS_REVIEW = Resource(
    "authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False
)
CLUSTER_SCOPED = {"Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"}

PLUGINS = "batch_job,deployment,gpu_amd,gpu_nvidia,ray_job,ray_service,storage_s3_gcs_azure_git_hf"
"""All but the queue system, which lets nothing start where its controller does not run."""


@dataclass(frozen=True)
class Site:
    """A cluster on which Kaiwo was just installed.

    Attributes:
        control_plane: the cluster.
        admin: the administrator's client.
        objects: what was installed.
        namespace: of operator and scheduler.
        team: a namespace in which users work.
    """

    control_plane: Sandbox
    admin: Client
    objects: tuple[Object, ...]
    namespace: str
    team: str

    def named(self, kind: str, name: str) -> Object:
        """One of the installed objects."""
        (found,) = [o for o in self.objects if o["kind"] == kind and o["metadata"]["name"] == name]
        return found

    def token(self, account: str) -> str:
        """A token of an installed service account, asked for as the kubelet does."""
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{account}/token"
        token: str = self.control_plane.api.create(path, request)["status"]["token"]
        return token

    def connection(self, account: str) -> credentials.Connection:
        """The API server with the rights of an installed service account and no others."""
        return credentials.static(
            self.control_plane.url,
            token=self.token(account),
            ca_file=self.control_plane.ca_file,
            namespace=self.namespace,
        )

    async def may(self, user: str, verb: str, resource: str, namespace: str = "") -> bool:
        """Whether the API server lets a user do something with ``plural.group/subresource``."""
        name, _, subresource = resource.partition("/")
        plural, _, group = name.partition(".")
        what = {"verb": verb, "group": group, "resource": plural, "subresource": subresource}
        review = {
            "apiVersion": ACCESS_REVIEW.api_version,
            "kind": ACCESS_REVIEW.kind,
            "metadata": {},
            "spec": {"user": user, "resourceAttributes": {**what, "namespace": namespace or self.team}},
        }
        answer = await self.admin.create(ACCESS_REVIEW, review)
        return bool(answer["status"]["allowed"])

    async def reaches(self, kind: Resource, name: str, word: str) -> None:
        """Wait until a workload of the team has a status."""
        await until(
            self.admin, kind, self.team, name,
            lambda obj: ((obj or {}).get("status") or {}).get("status") == word, timeout=60.0,
        )  # fmt: skip


@pytest.fixture(scope="session")
def kube_scheduler(control_plane: Sandbox) -> Path:
    """The sandbox's kube-scheduler, looked up before a test has a home directory of its own."""
    from kaiwo_sandbox import binaries  # noqa: PLC0415  only with a control plane

    assert control_plane.url
    return binaries.ensure()["kube-scheduler"]


@pytest.fixture
def team(control_plane: Sandbox, namespace: str) -> Iterator[str]:
    """A second namespace, for users."""
    name = f"{namespace[-50:].lstrip('-')}-team"
    control_plane.create_namespace(name)
    yield name
    control_plane.delete_namespace(name)


@pytest.fixture
def installed(
    cli: Cli, control_plane: Sandbox, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[Object, ...]:
    """All that is rendered, applied in the printed order to a cluster that serves it now."""
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    result = cli("manifests", "--from-cluster", "--plugins", PLUGINS, "--namespace", namespace)
    assert result.code == 0, result.err
    objects: tuple[Object, ...] = tuple(yaml.safe_load_all(result.out))
    for obj in objects:
        control_plane.api.apply(path_of(obj), obj)
    for kind in (KAIWO_JOB, KAIWO_SERVICE):
        until_served(control_plane, kind.path())
    return objects


@pytest.fixture
async def site(
    control_plane: Sandbox, installed: tuple[Object, ...], namespace: str, team: str
) -> AsyncIterator[Site]:
    """Kaiwo, installed."""
    async with Client(credentials.load(control_plane.kubeconfig)) as admin:
        yield Site(control_plane, admin, installed, namespace, team)


def path_of(obj: Object) -> str:
    """URL path of an object."""
    group, _, version = obj["apiVersion"].rpartition("/")
    namespaced = obj["kind"] not in CLUSTER_SCOPED
    kind = Resource(group, version, obj["kind"], f"{obj['kind'].lower()}s", namespaced=namespaced)
    return kind.path(obj["metadata"].get("namespace"), obj["metadata"]["name"])


def until_served(control_plane: Sandbox, path: str) -> None:
    """Wait until a kind answers; it takes a moment after its definition was created."""
    for _ in range(30):
        try:
            control_plane.api.get(path)
        except Exception:  # noqa: BLE001  not served yet, whatever the words
            time.sleep(1)
        else:
            return
    pytest.fail(f"{path} is not served after 30 s")


def workload(kind: str, name: str, namespace: str, **spec: Any) -> Object:
    """A workload with an image and a volume."""
    return {
        "apiVersion": KAIWO_JOB.api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "image": "registry.example/train:1",
            "storage": {"storageEnabled": True, "data": {"storageSize": "1Gi"}},
            **spec,
        },
    }


def with_port(port: int | None = 8000) -> Object:
    """An embedded Deployment whose container has a port, or none."""
    container = {"name": "api", **({"ports": [{"containerPort": port}]} if port else {})}
    return {"spec": {"template": {"spec": {"containers": [container]}}}}


async def test_the_operator_does_its_work_with_the_rights_it_is_given(site: Site, tmp_path: Path) -> None:
    """Under its own account a KaiwoJob gets COMPLETE and a KaiwoService READY; no request is forbidden.

    The process gets the environment of the rendered Deployment, the plugin list and the Lease included.
    """
    deployment = site.named("Deployment", "kaiwo-operator")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    env = {entry["name"]: entry.get("value", site.namespace) for entry in container["env"]}
    admin, team = site.admin, site.team
    async with FaultProxy(site.connection("kaiwo-operator")) as proxy:
        operator = OperatorProcess(
            kubeconfig=proxy.write_kubeconfig(tmp_path / "kubeconfig"),
            env=env,
            lease_name=env["KAIWO_LEASE_NAME"],
        ).start()
        try:
            await asyncio.to_thread(operator.wait_ready, 60.0)
            await admin.create(KAIWO_JOB, workload("KaiwoJob", "train", team, gpus=1))
            service = workload("KaiwoService", "serve", team, replicas=1, deployment=with_port())
            await admin.create(KAIWO_SERVICE, service)
            await site.reaches(KAIWO_JOB, "train", "COMPLETE")
            await site.reaches(KAIWO_SERVICE, "serve", "READY")
            await until(admin, SERVICE, team, "serve", lambda obj: obj is not None)
            edit = {"spec": {"replicas": 2, "deployment": with_port(None)}}
            await admin.merge_patch(KAIWO_SERVICE, team, "serve", edit)
            await until(admin, SERVICE, team, "serve", lambda obj: obj is None)
            await until(
                admin, DEPLOYMENT, team, "serve", lambda obj: (obj or {})["spec"].get("replicas") == 2
            )
        finally:
            await asyncio.to_thread(operator.close)
    # What is left of earlier tests is refused for another reason: its namespace is going.
    ours = (f"/namespaces/{team}/", f"/namespaces/{site.namespace}/")
    asked = [r for r in proxy.records if "/namespaces/" not in r.path or any(n in r.path for n in ours)]
    assert [(r.method, r.path, r.code) for r in asked if r.code in (401, 403)] == []
    done = {(r.method, r.path.rsplit("/", 1)[-1]) for r in asked}
    assert {("POST", "events"), ("POST", "jobs"), ("DELETE", "serve"), ("PUT", "kaiwo-operator")} <= done
    assert await admin.get(LEASE, site.namespace, "kaiwo-operator")


async def test_the_operators_account_may_not_do_more(site: Site) -> None:
    """It reads no Secret and gives no rights; it may set owners where the API server checks that right."""
    user, group = f"system:serviceaccount:{site.namespace}:kaiwo-operator", KAIWO_JOB.group
    for plural in ("kaiwojobs", "kaiwoservices"):
        assert await site.may(user, "update", f"{plural}.{group}/finalizers")
        assert not await site.may(user, "update", f"{plural}.{group}")
    for verb, resource in [
        ("get", "secrets"),
        ("create", "pods"),
        ("create", "pods/exec"),
        ("create", f"clusterrolebindings.{RBAC}"),
        ("update", "leases.coordination.k8s.io"),
    ]:
        assert not await site.may(user, verb, resource), (verb, resource)
    async with Client(site.connection("kaiwo-operator")) as client:
        with pytest.raises(Forbidden):
            await client.get(SECRET, site.namespace, "any")


async def test_both_programs_run_under_restricted_pod_security(site: Site) -> None:
    """The namespace takes the pods of operator and scheduler, and no pod that could be root."""
    for name in ("kaiwo-operator", "kaiwo-scheduler"):
        await until(
            site.admin, DEPLOYMENT, site.namespace, name,
            lambda obj: ((obj or {}).get("status") or {}).get("availableReplicas") == 1,
        )  # fmt: skip
    careless = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "careless", "namespace": site.namespace},
        "spec": {"containers": [{"name": "a", "image": "a"}]},
    }
    with pytest.raises(Forbidden, match="restricted"):
        await site.admin.create(POD, careless)


async def test_who_edits_a_namespace_may_run_workloads_there(site: Site) -> None:
    """The cluster's roles view and edit take in Kaiwo's kinds; viewers change nothing."""
    resource = f"kaiwojobs.{KAIWO_JOB.group}"
    for role, verb in (("view", "list"), ("edit", "create")):
        binding = {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": role, "namespace": site.team},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "User", "name": f"{role}er", "apiGroup": RBAC}],
        }
        site.control_plane.api.apply(path_of(binding), binding)
        await eventually_may(site, f"{role}er", verb, resource)
    assert not await site.may("viewer", "create", resource)
    assert not await site.may("editer", "create", resource, namespace="default")


async def eventually_may(site: Site, user: str, verb: str, resource: str) -> None:
    """Wait for a right that was given a moment ago: roles are gathered by a controller, and cached."""
    for _ in range(20):
        if await site.may(user, verb, resource):
            return
        await asyncio.sleep(1.0)
    pytest.fail(f"{user} may not {verb} {resource}")


@pytest.fixture
def rack(control_plane: Sandbox, namespace: str) -> Iterator[str]:
    """The value of a label ``rack`` that three equal nodes of the test's own have."""
    from kaiwo_sandbox.nodes import node  # noqa: PLC0415  only with a control plane

    value = namespace[-6:]
    names = [f"{value}-{number}" for number in range(3)]
    for name in names:
        control_plane.add_node(node(name, extended={"amd.com/gpu": 4}, labels={"rack": value}))
    yield value
    for name in names:
        control_plane.api.request("DELETE", f"/api/v1/nodes/{name}")


async def test_the_scheduler_packs_gpus_under_its_own_account(
    kube_scheduler: Path, site: Site, rack: str, tmp_path: Path
) -> None:
    """A kube-scheduler with the rendered configuration fills the node that is in use, with its own rights."""
    configuration = yaml.safe_load(site.named("ConfigMap", "kaiwo-scheduler")["data"]["scheduler.yaml"])
    # The sandbox's own scheduler serves the usual name.
    configuration["profiles"][0]["schedulerName"] = name = "kaiwo-scheduler-under-test"
    configuration["clientConnection"] = {"kubeconfig": str(kubeconfig(site, "kaiwo-scheduler", tmp_path))}
    file, log = tmp_path / "scheduler.yaml", tmp_path / "log"
    file.write_text(yaml.safe_dump(configuration))
    command = [str(kube_scheduler), f"--config={file}", "--secure-port=0"]
    with log.open("w") as out:
        process = await asyncio.to_thread(subprocess.Popen, command, stdout=out, stderr=out)
        try:
            nodes = [await scheduled(site, f"p{number}", name, rack) for number in range(4)]
        finally:
            process.terminate()
            await asyncio.to_thread(process.wait, 20)
    assert len(set(nodes)) == 1, "one GPU after the other on the node that has one in use"
    assert "forbidden" not in log.read_text().lower()


def kubeconfig(site: Site, account: str, directory: Path) -> Path:
    """A kubeconfig of an installed service account."""
    cluster = {"server": site.control_plane.url, "certificate-authority": str(site.control_plane.ca_file)}
    file = directory / f"{account}.kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "site",
        "clusters": [{"name": "site", "cluster": cluster}],
        "users": [{"name": account, "user": {"token": site.token(account)}}],
        "contexts": [{"name": "site", "context": {"cluster": "site", "user": account}}],
    }
    file.write_text(yaml.safe_dump(content))
    return file


async def scheduled(site: Site, name: str, scheduler: str, rack: str) -> str:
    """Create a pod with one GPU; the node of the rack that it is put on."""
    container = {"name": "a", "image": "a", "resources": {"limits": {"amd.com/gpu": "1"}}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": site.team},
        "spec": {"schedulerName": scheduler, "nodeSelector": {"rack": rack}, "containers": [container]},
    }
    await site.admin.create(POD, pod)
    found = await until(
        site.admin, POD, site.team, name,
        lambda obj: bool((obj or {}).get("spec", {}).get("nodeName")), timeout=60.0,
    )  # fmt: skip
    assert found is not None
    node: str = found["spec"]["nodeName"]
    return node
