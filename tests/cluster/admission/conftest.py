"""Webhooks on a real API server: their configurations, a Service on loopback, and replicas behind it."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

import pytest

from kaiwo.admission.bundles import CONFIGURATIONS
from kaiwo.admission.certificate_controller import CertificateController
from kaiwo.admission.names import SECRET, configurations_name
from kaiwo.admission.server import WebhookServer
from kaiwo.api.crds import KAIWO_JOB
from kaiwo.engine import credentials
from kaiwo.engine.client import Client
from kaiwo.engine.resource import SECRET as SECRETS
from kaiwo.install.roles import operator_roles
from kaiwo.install.webhooks import WebhookOptions, webhook_objects, webhook_rights
from kaiwo.install.write_policy import write_policy
from kaiwo.plugin.loader import load as load_plugins
from kaiwo.plugin.selection import PluginSelection
from kaiwo.testing.admission import answer_to
from kaiwo.testing.fault_proxy import FaultProxy
from kaiwo.testing.stream_server import stream_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from kaiwo.admission.certificates import Certificates
    from kaiwo.engine.resource import Object
    from kaiwo.engine.workqueue import Key
    from kaiwo.testing.operator import OperatorProcess

PLUGINS = "batch_job,gpu_amd"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
PATHS = {
    "Secret": "/api/v1/namespaces/{}/secrets",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Role": _RBAC + "/namespaces/{}/roles",
    "RoleBinding": _RBAC + "/namespaces/{}/rolebindings",
    "ClusterRole": _RBAC + "/clusterroles",
    "ClusterRoleBinding": _RBAC + "/clusterrolebindings",
    "ValidatingWebhookConfiguration": _ADMISSION + "/validatingwebhookconfigurations",
    "MutatingWebhookConfiguration": _ADMISSION + "/mutatingwebhookconfigurations",
    "ValidatingAdmissionPolicy": _ADMISSION + "/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": _ADMISSION + "/validatingadmissionpolicybindings",
}


def path_of(obj: Object) -> str:
    """The URL path of an object."""
    metadata = obj["metadata"]
    return f"{PATHS[obj['kind']].format(metadata.get('namespace', ''))}/{metadata['name']}"


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


class Service:
    """A port of loopback that passes connections on to replicas, as a Service does."""

    def __init__(self) -> None:
        self.targets: list[int] = []
        self.port = 0
        self._turn = 0
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Accept connections."""
        self.port = await self._stack.enter_async_context(stream_server(self._serve))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close all connections."""
        await self._stack.aclose()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(len(self.targets)):
            self._turn += 1
            try:
                there = await asyncio.open_connection(
                    "127.0.0.1", self.targets[self._turn % len(self.targets)]
                )
            except OSError:
                continue
            try:
                await asyncio.gather(self._copy(reader, there[1]), self._copy(there[0], writer))
            finally:
                there[1].transport.abort()
            return

    @staticmethod
    async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        except OSError:
            pass  # the other side went away
        finally:
            sink.close()
            with contextlib.suppress(OSError):
                await sink.wait_closed()


class Replica:
    """Server and certificates of one process, with a clock of its own and a review that always allows."""

    def __init__(self, hooks: Webhooks, *, leads: bool, ahead: timedelta = timedelta()) -> None:
        self.leads = leads
        self.ahead = ahead
        self.used: list[Certificates] = []
        self.reviews = 0
        self.failures: list[tuple[str, str]] = []
        self._hooks = hooks
        self.server = WebhookServer(
            ("127.0.0.1", 0), self._review, lambda path, cause: self.failures.append((path, cause))
        )
        self.controller = CertificateController(
            hooks.client, hooks.namespace, folder=hooks.folder, leading=lambda: self.leads, use=self._use,
            on_change=lambda: None, now=lambda: datetime.now(UTC) + self.ahead,
        )  # fmt: skip
        self._task: asyncio.Task[None] | None = None

    def _review(self, subject: Key, body: bytes, path: str) -> bytes:
        del subject, path
        self.reviews += 1
        return answer_to(body, allowed=True)

    async def _use(self, given: Certificates) -> None:
        await self.server.use(given)
        self.used.append(given)
        port = self.server.address[1]
        if port not in self._hooks.service.targets:
            self._hooks.service.targets.append(port)

    def start(self) -> Self:
        """Begin."""
        self._task = asyncio.create_task(self.controller.run())
        return self

    async def close(self) -> None:
        """End as a process does: out of the endpoints, then the rest."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        if self.server.serving:
            self._hooks.service.targets.remove(self.server.address[1])
            await self.server.close()


class Webhooks:
    """An installation of the webhooks in a namespace of its own, for workloads in the test's namespace."""

    def __init__(self, sandbox: Any, client: Client, workloads: str, service: Service) -> None:
        self.api = sandbox.api
        self.client = client
        self.workloads = workloads
        self.namespace = f"op-{secrets.token_hex(4)}"
        self.service = service
        self.folder: Any = None
        self.replicas: list[Replica] = []
        self.objects: list[Object] = []
        self.plugins = load_plugins(PluginSelection(names=tuple(PLUGINS.split(","))))

    def apply(self, obj: Object) -> None:
        """Create or replace an object, as an administrator."""
        self.api.apply(path_of(obj), obj)
        if obj not in self.objects:
            self.objects.append(obj)

    def register(
        self, *, fail: bool = False, only: str = "workloads.", url: str = "", enforce: bool = True
    ) -> None:
        """Install Secret and configurations; the API server calls the Service on loopback.

        Args:
            fail: whether the requests fail that no replica answers.
            only: start of the names of the webhooks that are installed; the rest would disturb other tests.
            url: another address than that of the Service.
            enforce: whether Jobs that request GPUs are put under management without a label.
        """
        options = WebhookOptions(enforce_gpu_workloads=enforce, identity="set")
        for manifest in webhook_objects(self.plugins, self.namespace, [self.workloads], options):
            obj = manifest.obj
            if obj["kind"] == "Service":
                continue
            if "webhooks" in obj:
                hooks = [hook for hook in obj["webhooks"] if hook["name"].startswith(only)]
                for hook in hooks:
                    path = hook["clientConfig"].pop("service")["path"]
                    base = url or f"https://127.0.0.1:{self.service.port}"
                    hook["clientConfig"]["url"] = base + path
                    if fail:
                        hook["failurePolicy"] = "Fail"
                if not hooks:
                    continue
                obj = {**obj, "webhooks": hooks}
            self.apply(obj)

    def grant(self) -> None:
        """Install the operator's rights and the policies that limit it."""
        rendered = [
            *operator_roles(self.plugins, self.namespace),
            *webhook_rights(self.namespace, WebhookOptions()),
            *write_policy(self.namespace, own_certificates=True),
        ]
        for manifest in rendered:
            if manifest.obj["kind"] in PATHS:
                self.apply(manifest.obj)

    def remove(self) -> None:
        """Delete everything."""
        for obj in reversed(self.objects):
            with contextlib.suppress(Exception):
                self.api.request("DELETE", path_of(obj))

    def replica(self, *, leads: bool = True, ahead: timedelta = timedelta()) -> Replica:
        """Start one more replica."""
        made = Replica(self, leads=leads, ahead=ahead).start()
        self.replicas.append(made)
        return made

    async def operator(
        self, start: Callable[..., Awaitable[OperatorProcess]], env: Mapping[str, str], **more: Any
    ) -> OperatorProcess:
        """An operator that serves the registered webhooks.

        Args:
            start: the fixture ``operator``.
            env: further settings of the process.
            more: further arguments for `start`.
        """
        port = free_port()
        common = {
            "KAIWO_WEBHOOKS": "true",
            "KAIWO_WEBHOOK_ADDRESS": f"127.0.0.1:{port}",
            "KAIWO_OPERATOR_NAMESPACE": self.namespace,
        }
        process = await start(plugins=PLUGINS, env={**common, **env}, **more)
        await asyncio.to_thread(process.wait_log, "webhooks are served")
        self.service.targets.append(port)
        return process

    @contextlib.asynccontextmanager
    async def load(self) -> AsyncIterator[list[str]]:
        """Requests from eight clients while the block runs.

        Yields:
            A text for each request that ended: empty, or its error.
        """
        results: list[str] = []
        stop = asyncio.Event()

        async def requests() -> None:
            while not stop.is_set():
                try:
                    await self.create()
                    results.append("")
                except Exception as error:  # noqa: BLE001  every failure is a result
                    results.append(str(error))

        tasks = [asyncio.create_task(requests()) for _ in range(8)]
        try:
            yield results
        finally:
            stop.set()
            await asyncio.gather(*tasks)

    async def create(self, name: str = "a", *, dry_run: bool = True) -> Object:
        """Create a KaiwoJob in the namespace of workloads, by default on trial."""
        obj = {
            "apiVersion": KAIWO_JOB.api_version,
            "kind": "KaiwoJob",
            "metadata": {"name": name, "namespace": self.workloads},
            "spec": {"image": "registry.example/train:1"},
        }
        return await self.client.create(KAIWO_JOB, obj, dry_run=dry_run)

    async def secret(self) -> Object:
        """The Secret with the certificates."""
        return await self.client.get(SECRETS, self.namespace, SECRET)

    async def configuration(self) -> Object:
        """The validating configuration."""
        return await self.client.get(CONFIGURATIONS[0], None, configurations_name(self.namespace))

    async def until(self, holds: Callable[[], bool], timeout: float = 40.0) -> None:
        """Wait until something holds, and say the state of each replica if it never does."""
        end = asyncio.get_running_loop().time() + timeout
        while not holds():
            if asyncio.get_running_loop().time() > end:
                raise AssertionError([replica.controller.state for replica in self.replicas])
            await asyncio.sleep(0.05)

    async def until_reviewed(self, timeout: float = 40.0) -> None:
        """Wait until the API server calls a replica, and gets an answer."""
        before = sum(replica.reviews for replica in self.replicas)
        end = asyncio.get_running_loop().time() + timeout
        while sum(replica.reviews for replica in self.replicas) == before:
            if asyncio.get_running_loop().time() > end:
                raise AssertionError([replica.controller.state for replica in self.replicas])
            with contextlib.suppress(Exception):
                await self.create()
            await asyncio.sleep(0.2)


@pytest.fixture
async def hooks(control_plane: Any, crds: None, namespace: str) -> AsyncIterator[Webhooks]:
    """Webhooks without a configuration, a replica or rights; all that a test adds goes with it."""
    del crds
    async with (
        Client(credentials.load(control_plane.kubeconfig)) as client,
        Service() as service,
    ):
        made = Webhooks(control_plane, client, namespace, service)
        control_plane.create_namespace(made.namespace)
        try:
            yield made
        finally:
            for replica in made.replicas:
                await replica.close()
            await asyncio.to_thread(made.remove)
            control_plane.delete_namespace(made.namespace)


@pytest.fixture
async def account(control_plane: Any, hooks: Webhooks) -> AsyncIterator[FaultProxy]:
    """A proxy that sends every request as the operator's service account, with the rendered rights."""
    hooks.grant()
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"/api/v1/namespaces/{hooks.namespace}/serviceaccounts/kaiwo-operator/token"
    token = control_plane.api.create(path, request)["status"]["token"]
    connection = credentials.static(
        control_plane.url, token=token, ca_file=control_plane.ca_file, namespace=hooks.namespace
    )
    async with FaultProxy(connection) as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes ten seconds between two readings takes half of one."""
    from kaiwo.admission import certificate_controller, server

    monkeypatch.setattr(certificate_controller, "INTERVAL", 0.5)
    monkeypatch.setattr(certificate_controller, "_UNSETTLED", 0.2)
    monkeypatch.setattr(certificate_controller, "PROPAGATION", 2.0)
    monkeypatch.setattr(server, "_QUIET", 0.3)
