"""The real operator on a real control plane: fixtures for the end-to-end tests."""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_JOB, render_crds
from kaiwo.engine.credentials import load
from kaiwo.engine.errors import NotFound
from kaiwo.engine.resource import DEPLOYMENT, EVENT, JOB, NAMESPACE, NODE, POD
from kaiwo.plugin.loader import load as load_plugins
from kaiwo.testing.exporter import Exporter, lines
from kaiwo.testing.operator import OperatorProcess, until
from kaiwo_gpu_preemption.kinds import GPU_WORKLOAD, STATEFUL_SET

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from kaiwo.engine.client import Client
    from kaiwo.engine.credentials import Connection
    from kaiwo.engine.resource import Object, Resource


_log = logging.getLogger(__name__)
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_PREFIX = "kaiwo.silogen.ai/gpu-preemption."
_GPU = "amd.com/gpu"
_MOST_SECONDS = 300  # of one test here, on a machine far slower than any that was tried


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with a control plane wait for a dozen processes: the guard against a hang is wider for them."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(_MOST_SECONDS))


def apply_crd(sandbox: Any, crd: Object) -> None:
    """Install one CRD and wait until it is served."""
    name = crd["metadata"]["name"]
    sandbox.api.apply(f"{_CRDS}/{name}", crd)
    with closing(sandbox.api.watch(f"{_CRDS}?fieldSelector=metadata.name%3D{name}", timeout=120)) as changes:
        for change in changes:
            conditions = (change["object"].get("status") or {}).get("conditions") or []
            if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
                return


@pytest.fixture(name="apply_crd", scope="session")
def apply_crd_fixture() -> Callable[[Any, Object], None]:
    """Install one CRD in a sandbox and wait until it is served."""
    return apply_crd


@pytest.fixture(scope="session")
def install() -> Callable[[Any], None]:
    """Install the CRDs of all plugins in a sandbox, once."""
    done: set[str] = set()

    def once(sandbox: Any) -> None:
        if sandbox.url in done:
            return
        plugins = load_plugins()
        for crd in render_crds(plugins.fields(), plugins.settings_models(), kinds=plugins.kinds()):
            apply_crd(sandbox, crd)
        done.add(sandbox.url)

    return once


@pytest.fixture(scope="module")
def crds(control_plane: Any, install: Callable[[Any], None]) -> None:
    """The CRDs of all installed plugins, served by the control plane of a module's tests."""
    install(control_plane)


@pytest.fixture
def connection(control_plane: Any, crds: None) -> Connection:
    """The control plane, with CRDs, as an administrator reaches it."""
    del crds
    return load(control_plane.kubeconfig)


@pytest.fixture
async def operator(
    control_plane: Any, crds: None, namespace: str
) -> AsyncIterator[Callable[..., Awaitable[OperatorProcess]]]:
    """A function that starts an operator, with the arguments of `OperatorProcess`.

    It is ready when the function returns (unless ``ready=False``), looks after the test's namespace only, has
    a Lease of its own, and ends with the test. Waiting happens in threads: a fault proxy runs in the test's
    loop. It runs without queues: this control plane has no Kueue.
    """
    del crds
    lease = f"kaiwo-{secrets.token_hex(4)}"
    started: list[OperatorProcess] = []

    async def start(*, ready: bool = True, **how: Any) -> OperatorProcess:
        how.setdefault("kubeconfig", control_plane.kubeconfig)
        how.setdefault("leader_election", False)
        how.setdefault("lease_name", lease)
        how["env"] = {"KAIWO_PLUGINS_DISABLED": "kueue,node_pools", **how.get("env", {})}
        args = [*how.pop("args", ()), "--watch-namespace", namespace]
        process = OperatorProcess(args=args, **how).start()
        started.append(process)
        if ready:
            await asyncio.to_thread(process.wait_ready)
        return process

    yield start
    for process in started:
        await asyncio.to_thread(process.close)
        _log.warning("the operator said:\n%s", process.log)


class Lab:
    """What a user does and sees in one namespace."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    def job(
        self, name: str, *, metadata: Object | None = None, pods: dict[str, str] | None = None, **spec: Any
    ) -> Object:
        """A KaiwoJob; ``pods`` are annotations for its pods, by which the fake nodes act."""
        head = {"name": name, "namespace": self.namespace, **(metadata or {})}
        head["annotations"] = {**(pods or {}), **head.get("annotations", {})}
        return {
            "apiVersion": KAIWO_JOB.api_version,
            "kind": "KaiwoJob",
            "metadata": head,
            "spec": {"image": "registry.example/train:1", **spec},
        }

    async def submit(self, name: str, **job: Any) -> Object:
        """Create a KaiwoJob."""
        return await self.client.create(KAIWO_JOB, self.job(name, **job))

    async def reaches(self, name: str, *words: str, reason: str = "", timeout: float = 90.0) -> Object:
        """Wait until the workload has one of the statuses, and the reason if one is given; its status."""

        def there(obj: Object | None) -> bool:
            status = (obj or {}).get("status", {})
            return status.get("status") in words and (not reason or status.get("reason") == reason)

        found = await until(self.client, KAIWO_JOB, self.namespace, name, there, timeout=timeout)
        assert found is not None
        status: Object = found["status"]
        return status

    async def says(self, name: str, text: str) -> Object:
        """Wait until the workload's message has a text in it; its status."""

        def there(obj: Object | None) -> bool:
            return text in (obj or {}).get("status", {}).get("message", "")

        found = await until(self.client, KAIWO_JOB, self.namespace, name, there)
        assert found is not None
        status: Object = found["status"]
        return status

    def cloning(self, **more: Any) -> Object:
        """``spec.storage`` of a data volume into which a repository is cloned."""
        git = {"repository": "https://git.example.com/r.git", "targetPath": "src"}
        return {"storageEnabled": True, "data": {"storageSize": "1Gi", "download": {"git": [git]}}, **more}

    async def jobs(self) -> list[Object]:
        """All batch Jobs of the namespace."""
        return [job async for job in self.client.list(JOB, self.namespace)]

    async def events(self, name: str) -> list[tuple[str, str, str]]:
        """Type, reason and message of the Events about a workload."""
        return [
            (event["type"], event["reason"], event["message"])
            async for event in self.client.list(EVENT, self.namespace)
            if event["involvedObject"].get("name") == name
            and event["involvedObject"].get("kind") == "KaiwoJob"
        ]


@pytest.fixture
def lab(client: Client, namespace: str) -> Lab:
    """The user's side."""
    return Lab(client, namespace)


@pytest.fixture
async def neighbour(control_plane: Any, client: Client, namespace: str) -> AsyncIterator[Lab]:
    """Another tenant with a namespace of its own."""
    name = f"{namespace[:50]}-b"
    await asyncio.to_thread(control_plane.create_namespace, name)
    yield Lab(client, name)
    await asyncio.to_thread(control_plane.delete_namespace, name)


def condition(status: Object, kind: str) -> Object:
    """The condition of a type, empty when there is none."""
    return next((item for item in status.get("conditions", []) if item["type"] == kind), {})


@pytest.fixture(name="condition")
def condition_fixture() -> Callable[[Object, str], Object]:
    """Look a condition up in a status: ``condition(status, "Schedulable")``."""
    return condition


class GpuWorld:
    """One node of four GPUs that no other test uses, workloads on it, and an exporter that knows them."""

    def __init__(self, client: Client, namespace: str, exporter: Exporter) -> None:
        self.client, self.namespace, self.exporter = client, namespace, exporter
        self.use: dict[str, float] = {}
        self.node = f"gpus-of-{namespace}"[:63]

    @property
    def environment(self) -> dict[str, str]:
        """Process settings of the plugin."""
        return {
            "GPU_PREEMPTION_METRICS_ENDPOINT": self.exporter.url,
            "GPU_PREEMPTION_POLLING_INTERVAL": "1s",
        }

    def _template(self, gpus: int) -> Object:
        container = {"name": "c", "image": "x", "resources": {"limits": {_GPU: str(gpus)}}}
        return {
            "metadata": {"annotations": {"kaiwo-sandbox/forever": "true"}, "labels": {"app": "w"}},
            "spec": {
                "containers": [container],
                "nodeSelector": {"kubernetes.io/hostname": self.node},
                "restartPolicy": "Never",
            },
        }

    async def job(self, name: str, gpus: int, *, queue: str = "", **annotations: str) -> Object:
        """Create a plain Job whose pod never ends."""
        return await self.client.create(
            JOB,
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {
                    **self._head(name, annotations),
                    "labels": {"kueue.x-k8s.io/queue-name": queue} if queue else {},
                },
                "spec": {"template": self._template(gpus), "backoffLimit": 0},
            },
        )

    def _head(self, name: str, annotations: dict[str, str]) -> Object:
        said = {_PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}
        return {"name": name, "namespace": self.namespace, "annotations": said}

    async def pod(self, name: str, gpus: int, **annotations: str) -> Object:
        """Create a bare Pod that never ends."""
        template = self._template(gpus)
        head = self._head(name, annotations)
        head["annotations"] |= template["metadata"]["annotations"]
        return await self.client.create(
            POD, {"apiVersion": "v1", "kind": "Pod", "metadata": head, "spec": template["spec"]}
        )

    async def stateful_set(self, name: str, gpus: int, **annotations: str) -> Object:
        """Create a plain StatefulSet."""
        template = self._template(gpus)
        template["spec"].pop("restartPolicy")
        template["metadata"]["labels"] = {"app": name}
        selector = {"matchLabels": {"app": name}}
        spec = {"replicas": 1, "serviceName": name, "selector": selector, "template": template}
        head = self._head(name, annotations)
        return await self.client.create(
            STATEFUL_SET, {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": head, "spec": spec}
        )

    async def deployment(self, name: str, gpus: int) -> Object:
        """Create a plain Deployment."""
        template = self._template(gpus)
        template["spec"].pop("restartPolicy")
        spec = {"replicas": 1, "selector": {"matchLabels": {"app": "w"}}, "template": template}
        head = {"name": name, "namespace": self.namespace}
        return await self.client.create(
            DEPLOYMENT, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": head, "spec": spec}
        )

    async def export(self) -> None:
        """Let the exporter know the pods that there are."""
        found = {}
        async for pod in self.client.list(POD, self.namespace):
            name = pod["metadata"]["name"]
            limits = pod["spec"]["containers"][0]["resources"].get("limits", {})
            for prefix, percent in self.use.items():
                if name.startswith(f"{prefix}-"):
                    found[(self.namespace, name)] = [percent] * int(limits.get(_GPU, "0"))
        self.exporter.body = lines(found)

    async def record(self, owner: Object, kind: str, *phases: str, timeout: float = 90.0) -> Object:
        """Wait until the GpuWorkload of a workload has one of the phases."""

        def there(status: Object) -> bool:
            return status.get("phase") in phases

        return await self._record(owner, kind, there, timeout)

    async def no_fit(self, owner: Object, kind: str, reason: str) -> Object:
        """Wait until the GpuWorkload of a workload says why nobody is ended for it."""

        def says(status: Object) -> bool:
            found = condition(status, "PreemptionDecided")
            return (found.get("status"), found.get("reason")) == ("False", reason)

        return await self._record(owner, kind, says)

    async def _record(
        self, owner: Object, kind: str, holds: Callable[[Object], bool], timeout: float = 90.0
    ) -> Object:
        metadata = owner["metadata"]
        name = f"{kind.lower()}-{metadata['name']}-{metadata['uid'][:8]}"
        found = await until(
            self.client, GPU_WORKLOAD, self.namespace, name,
            lambda obj: holds((obj or {}).get("status", {})), timeout=timeout,
        )  # fmt: skip
        assert found is not None
        return found

    async def goes(self, record: Object) -> None:
        """Wait until a GpuWorkload is gone."""
        name = record["metadata"]["name"]
        await until(self.client, GPU_WORKLOAD, self.namespace, name, lambda obj: obj is None, timeout=90)

    async def exists(self, kind: Resource, name: str) -> bool:
        """Whether a workload is there and not being deleted."""
        try:
            live = await self.client.get(kind, self.namespace, name)
        except NotFound:
            return False
        return "deletionTimestamp" not in live["metadata"]


@pytest.fixture
async def world(client: Client, namespace: str) -> AsyncIterator[GpuWorld]:
    """A world of the test's own; the node goes with the test."""
    async with Exporter() as exporter:
        made = GpuWorld(client, namespace, exporter)
        capacity = {_GPU: "4", "cpu": "64", "memory": "256Gi", "pods": "110"}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": made.node,
                "annotations": {"kwok.x-k8s.io/node": "fake"},
                "labels": {
                    "kubernetes.io/hostname": made.node,
                    "amd.com/gpu.product-name": "MI300X",
                    "kaiwo/worker": "true",
                },
            },
            "status": {"capacity": capacity, "allocatable": capacity},
        }
        await client.create(NODE, node)
        patch = {"metadata": {"annotations": {f"{_PREFIX}enabled": "true", f"{_PREFIX}grace-period": "4s"}}}
        await client.merge_patch(NAMESPACE, None, namespace, patch, field_manager="test")
        task = asyncio.create_task(_keep_exporting(made))
        yield made
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.delete(NODE, None, made.node)


async def _keep_exporting(world: GpuWorld) -> None:
    while True:
        await world.export()
        await asyncio.sleep(0.5)
