"""Kaiwo as an administrator installs it, on a real control plane."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
import yaml

from kaiwo.api.crds import KAIWO_JOB, KAIWO_SERVICE
from kaiwo.engine import credentials
from kaiwo.engine.client import Client
from kaiwo.engine.errors import Forbidden
from kaiwo.engine.resource import CONFIG_MAP, Resource
from kaiwo.install.admission_policy import denying_policy
from kaiwo.testing.fault_proxy import FaultProxy
from kaiwo.testing.operator import OperatorProcess, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from kaiwo.engine.resource import Object
    from kaiwo_sandbox.sandbox import Sandbox

    Cli: TypeAlias = Callable[..., Any]
    """Runs ``kaiwo``: arguments, and ``stdin``; gives code, out and err."""

RBAC = "rbac.authorization.k8s.io"
ACCESS_REVIEW = Resource(
    "authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False
)
CLUSTER_SCOPED = {
    "Namespace",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}

CLUSTER_WIDE = (
    *(f"/apis/{RBAC}/v1/{plural}" for plural in ("clusterrolebindings", "clusterroles")),
    *(
        f"/apis/admissionregistration.k8s.io/v1/{plural}"
        for plural in ("validatingadmissionpolicybindings", "validatingadmissionpolicies")
    ),
)
"""Collections of what an installation has outside its namespace, but for CRDs."""

BACK_ENDS = "batch_job,deployment,gpu_amd,gpu_nvidia,ray_job,ray_service,storage_s3_gcs_azure_git_hf"


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

    def applied(self, manifests: str) -> Site:
        """Apply rendered objects; gives the cluster with these installed."""
        objects: tuple[Object, ...] = tuple(yaml.safe_load_all(manifests))
        for obj in objects:
            self.control_plane.api.apply(path_of(obj), obj)
        return self.with_objects(objects)

    def with_objects(self, objects: tuple[Object, ...]) -> Site:
        """The cluster after these objects were installed."""
        return replace(self, objects=objects)

    def token(self, account: str) -> str:
        """A token of an installed service account, requested as the kubelet does."""
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

    async def until_policies_in_force(self) -> None:
        """Wait until every admission policy that is installed refuses what it is for.

        The API server takes in all policies that it knows at once, some time after they were written: one
        that is written last and refuses shows that the others do.

        Raises:
            AssertionError: that took longer than 30 seconds.
        """
        name = f"probe.{self.namespace}"
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
        spec = {
            "matchConstraints": {"resourceRules": [{**rule, "operations": ["CREATE"]}]},
            "matchConditions": [{"name": "probe", "expression": f"object.metadata.name == '{name}'"}],
            "validations": [{"expression": "false", "reason": "Forbidden"}],
        }
        for manifest in denying_policy(name, spec, app="probe", installation=self.namespace):
            self.control_plane.api.apply(path_of(manifest.obj), manifest.obj)
        probe = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": self.team}}
        for _ in range(60):
            try:
                await self.admin.create(CONFIG_MAP, probe, dry_run=True)
            except Forbidden:
                return
            await asyncio.sleep(0.5)
        raise AssertionError("the policies are not in force after 30 s")

    @asynccontextmanager
    async def operating(self, directory: Path, *teams: str) -> AsyncIterator[list[tuple[str, str, int]]]:
        """The operator under its own account; gives its requests, see `running`."""
        async with self.running(directory, *teams) as (_, requests):
            yield requests

    @asynccontextmanager
    async def running(
        self, directory: Path, *teams: str
    ) -> AsyncIterator[tuple[OperatorProcess, list[tuple[str, str, int]]]]:
        """The operator under its own account, with the environment of its Deployment, until the block ends.

        Gives its process, and method, path and code of its requests, once it has ended. What is left of
        earlier tests is not among them: it is refused for another reason, that its namespace is going.

        Args:
            directory: for its kubeconfig.
            teams: more namespaces of the test.
        """
        (container,) = self.named("Deployment", "kaiwo-operator")["spec"]["template"]["spec"]["containers"]
        env = {entry["name"]: entry.get("value", self.namespace) for entry in container["env"]}
        ours = [f"/namespaces/{name}" for name in (self.team, self.namespace, *teams)]
        requests: list[tuple[str, str, int]] = []
        async with FaultProxy(self.connection("kaiwo-operator")) as proxy:
            operator = OperatorProcess(
                kubeconfig=proxy.write_kubeconfig(directory / f"{self.namespace}.kubeconfig"),
                env=env,
                lease_name=env["KAIWO_LEASE_NAME"],
            ).start()
            try:
                await asyncio.to_thread(operator.wait_ready, 60.0)
                yield operator, requests
            finally:
                await asyncio.to_thread(operator.close)
        requests += [
            (record.method, record.path, record.code)
            for record in proxy.records
            if "/namespaces/" not in record.path or any(place in record.path for place in ours)
        ]

    def workload(self, kind: str, name: str, *, namespace: str = "", **spec: Any) -> Object:
        """A workload of the team, or in another namespace, with an image and a volume."""
        return {
            "apiVersion": KAIWO_JOB.api_version,
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace or self.team},
            "spec": {
                "image": "registry.example/train:1",
                "storage": {"storageEnabled": True, "data": {"storageSize": "1Gi"}},
                **spec,
            },
        }

    async def reaches(self, kind: Resource, name: str, word: str, namespace: str = "") -> None:
        """Wait until a workload of the team, or in another namespace, has a status."""
        await until(
            self.admin, kind, namespace or self.team, name,
            lambda obj: ((obj or {}).get("status") or {}).get("status") == word, timeout=90.0,
        )  # fmt: skip


@pytest.fixture(scope="session")
def helm() -> Path:
    """Helm, found before a test has a home directory of its own."""
    from kaiwo_sandbox import binaries

    return binaries.ensure_helm()


@pytest.fixture
def until_kind() -> Callable[[Sandbox, str], None]:
    """Waits until a kind is served."""
    return until_served


@pytest.fixture
def team(control_plane: Sandbox, namespace: str) -> Iterator[str]:
    """A second namespace, for users."""
    name = f"{namespace[-50:].lstrip('-')}-team"
    control_plane.create_namespace(name)
    yield name
    control_plane.delete_namespace(name)


@pytest.fixture
def second_team(control_plane: Sandbox, namespace: str) -> Iterator[str]:
    """A third namespace, for other users."""
    name = f"{namespace[-50:].lstrip('-')}-team-b"
    control_plane.create_namespace(name)
    yield name
    control_plane.delete_namespace(name)


@pytest.fixture
def selection(control_plane: Sandbox) -> str:
    """Plugins to install: without Kueue its plugin would let nothing start."""
    return f"{BACK_ENDS},kueue,node_pools" if "kueue" in control_plane.addons else BACK_ENDS


@pytest.fixture
def installations(control_plane: Sandbox) -> Iterator[list[str]]:
    """Namespaces of installations whose roles and policies of the whole cluster are removed at the end.

    Other tests use this cluster as well.
    """
    namespaces: list[str] = []
    yield namespaces
    for namespace in namespaces:
        for collection in CLUSTER_WIDE:
            query = f"labelSelector=app.kubernetes.io/instance%3D{namespace}"
            control_plane.api.request("DELETE", f"{collection}?{query}")


@pytest.fixture
def install(
    cli: Cli,
    control_plane: Sandbox,
    selection: str,
    installations: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., tuple[Object, ...]]:
    """Apply all that is rendered for a namespace, in the printed order, to a cluster that serves it then."""
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))

    def apply(namespace: str, *options: str) -> tuple[Object, ...]:
        installations.append(namespace)
        result = cli(
            "manifests", "--from-cluster", "--plugins", selection, "--namespace", namespace, *options
        )
        assert result.code == 0, result.err
        objects: tuple[Object, ...] = tuple(yaml.safe_load_all(result.out))
        for obj in objects:
            control_plane.api.apply(path_of(obj), obj)
        for kind in (KAIWO_JOB, KAIWO_SERVICE):
            until_served(control_plane, kind.path())
        return objects

    return apply


@pytest.fixture
def installed(install: Callable[..., tuple[Object, ...]], namespace: str) -> tuple[Object, ...]:
    """All that is rendered for the test's namespace, applied."""
    return install(namespace, "--pod-security")


@pytest.fixture
def site_of(control_plane: Sandbox, install: Callable[..., tuple[Object, ...]]) -> Callable[..., Site]:
    """A function that installs in a namespace: the administrator's client, the namespace, that of users."""

    def make(admin: Client, namespace: str, team: str) -> Site:
        return Site(control_plane, admin, install(namespace), namespace, team)

    return make


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
    plural = f"{obj['kind'].lower()}s".replace("policys", "policies")
    kind = Resource(group, version, obj["kind"], plural, namespaced=namespaced)
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
