"""The version before this one, and a control plane on which it is installed and replaced."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from campaign.earlier import REPOSITORY, Version, install
from campaign.violation import NotRunError
from kaiwo.engine import credentials
from kaiwo.engine.client import Client
from kaiwo.engine.resource import Resource
from kaiwo.testing.fault_proxy import FaultProxy
from kaiwo.testing.operator import OperatorProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from kaiwo.engine.resource import Object
    from kaiwo_sandbox.sandbox import Sandbox

FROM_VARIABLE = "KAIWO_UPGRADE_FROM"
_MOST_SECONDS = 420  # of one test here: two versions, all backends, twice the way of an installation

_log = logging.getLogger(__name__)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests here install two versions, one after the other: the guard against a hang is wider for them."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(_MOST_SECONDS))


@pytest.fixture(scope="session")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Version:
    """The version before this one: the commit in the file FROM, or the one that KAIWO_UPGRADE_FROM names."""
    try:
        return install(os.environ.get(FROM_VARIABLE, ""), tmp_path_factory.mktemp("earlier"))
    except NotRunError as error:
        if (REPOSITORY / ".git").exists():
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def present() -> Version:
    """This version."""
    return Version("this version")


@pytest.fixture(scope="module")
def control_plane() -> Iterator[Sandbox]:
    """A sandbox with all addons that no other test uses: the CRDs change."""
    from kaiwo_sandbox.sandbox import Sandbox

    sandbox = Sandbox.up(
        f"pytest-{os.getpid()}-upgrade", addons=("appwrapper", "kuberay", "kueue"), owned=True
    )
    yield sandbox
    sandbox.down()


@pytest.fixture
async def admin(control_plane: Sandbox) -> AsyncIterator[Client]:
    """The administrator's client."""
    async with Client(credentials.load(control_plane.kubeconfig)) as client:
        yield client


class Installation:
    """An installation whose version and plugins change.

    Attributes:
        control_plane: the cluster.
        admin: the administrator's client.
        namespace: of operator and scheduler.
        objects: what was applied last.
    """

    def __init__(self, control_plane: Sandbox, admin: Client, namespace: str, directory: Path) -> None:
        self.control_plane = control_plane
        self.admin = admin
        self.namespace = namespace
        self.objects: tuple[Object, ...] = ()
        self._directory = directory
        self._started = 0

    async def apply(self, version: Version, *args: str) -> tuple[Object, ...]:
        """Apply what a version renders, as ``kubectl apply --server-side`` does; what was rendered."""
        args = ("manifests", "--namespace", self.namespace, *args)
        kubeconfig = self.control_plane.kubeconfig
        text = await asyncio.to_thread(version.kaiwo, *args, kubeconfig=kubeconfig)
        self.objects = tuple(yaml.safe_load_all(text))
        kinds = await self._kinds({obj["apiVersion"] for obj in self.objects})
        for obj in self.objects:
            await self.admin.apply(
                kinds[obj["apiVersion"], obj["kind"]], obj, field_manager="kubectl", force=False
            )
        return self.objects

    async def _kinds(self, versions: set[str]) -> dict[tuple[str, str], Resource]:
        """How the API server calls the kinds of some versions in its paths."""
        found = {}
        for version in versions:
            root = f"/apis/{version}" if "/" in version else f"/api/{version}"
            group, _, name = version.rpartition("/")
            for each in (await asyncio.to_thread(self.control_plane.api.get, root))["resources"]:
                if "/" not in each["name"]:
                    found[version, each["kind"]] = Resource(
                        group, name, each["kind"], each["name"], namespaced=each["namespaced"]
                    )
        return found

    def _environment(self) -> dict[str, str]:
        """The environment that the operator's Deployment gives."""
        (deployment,) = [
            obj
            for obj in self.objects
            if obj["kind"] == "Deployment" and obj["metadata"]["name"] == "kaiwo-operator"
        ]
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        return {entry["name"]: entry.get("value", self.namespace) for entry in container["env"]}

    def _connection(self) -> credentials.Connection:
        """The API server with the rights of the operator's service account and no others."""
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/kaiwo-operator/token"
        token = self.control_plane.api.create(path, request)["status"]["token"]
        return credentials.static(
            self.control_plane.url,
            token=token,
            ca_file=self.control_plane.ca_file,
            namespace=self.namespace,
        )

    @asynccontextmanager
    async def operating(
        self, version: Version, *, stands_by: bool = False
    ) -> AsyncIterator[tuple[OperatorProcess, FaultProxy]]:
        """The operator of a version with the environment of the Deployment, and what it requests.

        Args:
            version: whose operator.
            stands_by: another one leads; do not wait until this one does.
        """
        self._started += 1
        env = self._environment()
        async with FaultProxy(self._connection()) as proxy:
            process = OperatorProcess(
                kubeconfig=proxy.write_kubeconfig(self._directory / f"operator-{self._started}.kubeconfig"),
                env={**env, **version.env},
                lease_name=env["KAIWO_LEASE_NAME"],
            ).start()
            try:
                if stands_by:
                    assert (await asyncio.to_thread(process.readyz_when_up))[0] == 200
                else:
                    await asyncio.to_thread(process.wait_ready)
                yield process, proxy
            finally:
                await asyncio.to_thread(process.close)
                _log.warning("the operator of %s said:\n%s", version.name, process.log)


@pytest.fixture
def installation(control_plane: Sandbox, admin: Client, namespace: str, tmp_path: Path) -> Installation:
    """An installation in the test's namespace, still without objects."""
    return Installation(control_plane, admin, namespace, tmp_path)


KEPT = ("uid", "labels", "annotations", "ownerReferences", "finalizers", "generation")


async def recorded(admin: Client, kinds: Sequence[Resource], namespace: str) -> dict[str, Object]:
    """What an upgrade must leave alone: identity, metadata and spec of objects, and the status of Kaiwo's.

    Args:
        admin: reads.
        kinds: of the objects.
        namespace: of those that have one.
    """
    found: dict[str, Any] = {}
    for kind in kinds:
        async for obj in admin.list(kind, namespace if kind.namespaced else None):
            metadata = obj["metadata"]
            entry = {key: metadata.get(key) for key in KEPT}
            entry |= {key: value for key, value in obj.items() if key in {"spec", "data"}}
            if kind.group.endswith("kaiwo.silogen.ai"):
                entry["status"] = obj.get("status")
                entry["resourceVersion"] = metadata["resourceVersion"]
            entry["managers"] = sorted(
                {(each["manager"], each["operation"], each.get("subresource", ""))
                 for each in metadata.get("managedFields") or ()}
            )  # fmt: skip
            found[f"{kind} {metadata['name']}"] = entry
    return found


@pytest.fixture(name="recorded")
def recorded_fixture() -> Any:
    """The function that records what an upgrade must leave alone."""
    return recorded
