"""The four forms of workloads in a control plane with everything, and what befalls them there."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.engine.errors import NotFound
from kaiwo.engine.resource import DEPLOYMENT, JOB, NODE, POD, Resource
from kaiwo.testing.operator import OperatorProcess, until
from kaiwo.testing.status_history import StatusHistory
from kaiwo_ray_service.kinds import APP_WRAPPER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from kaiwo.api.plugin_fields import WorkloadKind
    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object

RAY_JOB = Resource("ray.io", "v1", "RayJob", "rayjobs")
SERVE = "applications:\n- name: chat\n  import_path: app:deployment\n"
FOREVER = {"kaiwo-sandbox/forever": "true"}
RAY_RUNS = {"kaiwo-sandbox/ray-job-status": "RUNNING"}


@dataclass(frozen=True)
class Form:
    """One way to run a workload.

    Attributes:
        kind: what a user creates.
        child: what Kaiwo creates.
        well: status and reason once all is well.
        spec: what makes it this form.
        lasts: annotations by which it runs until it is told to end.
        passes: words on the way from the start to ``well``.
    """

    kind: WorkloadKind
    child: Resource
    well: tuple[str, str]
    spec: Mapping[str, Any] = field(default_factory=dict)
    lasts: Mapping[str, str] = field(default_factory=dict)
    passes: tuple[str, ...] = ("PENDING", "STARTING")


FORMS = {
    "job": Form("KaiwoJob", JOB, ("RUNNING", "Running"), {}, FOREVER),
    "deployment": Form(
        "KaiwoService", DEPLOYMENT, ("READY", "Ready"), passes=("PENDING", "STARTING", "RUNNING")
    ),
    "ray-job": Form(
        "KaiwoJob", RAY_JOB, ("RUNNING", "Running"), {"ray": True, "entrypoint": "python a.py"}, RAY_RUNS
    ),
    "ray-service": Form(
        "KaiwoService", APP_WRAPPER, ("READY", "Ready"), {"ray": True, "serveConfigV2": SERVE},
        passes=("PENDING", "STARTING", "RUNNING"),
    ),
}  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Know the marker of this folder."""
    config.addinivalue_line("markers", "forms(*names): the forms of workloads that a test runs for")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes ``form`` runs for all four, or for those its marker ``forms`` names."""
    if "form" in metafunc.fixturenames:
        chosen = next((mark.args for mark in metafunc.definition.iter_markers("forms")), tuple(FORMS))
        metafunc.parametrize(
            "form",
            [
                pytest.param(FORMS[name], id=name, marks=[pytest.mark.matrix] if "ray" in name else [])
                for name in chosen
            ],
        )


@pytest.fixture(scope="session")
def control_plane(platform: Any) -> Any:
    """The control plane with Kueue, KubeRay and AppWrapper."""
    return platform


@pytest.fixture(scope="module")
def plugins() -> str:
    """What the operator of a module's tests loads."""
    return "batch_job,deployment,ray_job,ray_service,gpu_amd,gpu_nvidia"


@pytest.fixture(scope="module")
def process(control_plane: Any, crds: None, plugins: str) -> Iterator[OperatorProcess]:
    """One operator for all tests of a module."""
    del crds
    lease = f"kaiwo-{secrets.token_hex(4)}"
    started = OperatorProcess(
        kubeconfig=control_plane.kubeconfig, plugins=plugins, leader_election=False, lease_name=lease
    ).start()
    try:
        yield started.wait_ready()
    finally:
        started.close()


def _usable(node: Object | None) -> bool:
    """Whether the scheduler may use a node."""
    conditions = ((node or {}).get("status") or {}).get("conditions") or ()
    ready = any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
    return ready and not (node or {})["spec"].get("taints")


class World:
    """What befalls workloads in one namespace."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self.token = secrets.token_hex(3)
        self.nodes: list[str] = []

    def story(self, form: Form, name: str = "told") -> StatusHistory:
        """A workload that is going to be followed."""
        return StatusHistory(self.client, self.namespace, form.kind, name)

    def spec(self, form: Form, **more: Any) -> Object:
        """The spec of a workload of a form."""
        return {"image": "registry.example/it:1", **form.spec, **more}

    async def sees(self, resource: Resource, name: str, holds: Any, timeout: float = 120.0) -> Any:
        """Wait until something holds for an object."""
        namespace = self.namespace if resource.namespaced else None
        return await until(self.client, resource, namespace, name, holds, timeout=timeout)

    async def annotate(self, resource: Resource, name: str, **keys: str | None) -> None:
        """Tell the sandbox how an object behaves."""
        annotations = {f"kaiwo-sandbox/{key.replace('_', '-')}": value for key, value in keys.items()}
        body = {"metadata": {"annotations": annotations}}
        await self.client.merge_patch(resource, self.namespace, name, body)

    async def pods(self, selector: str | None = None) -> list[Object]:
        """The pods of the namespace."""
        return [pod async for pod in self.client.list(POD, self.namespace, label_selector=selector)]

    @contextlib.asynccontextmanager
    async def healing(self, **keys: str | None) -> AsyncIterator[None]:
        """Set how all pods behave, later ones included, for the duration of the block."""
        task = asyncio.create_task(self._heal(keys))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _heal(self, keys: dict[str, str | None]) -> None:
        healed: set[str] = set()
        while True:
            for pod in await self.pods():
                metadata = pod["metadata"]
                if metadata["uid"] not in healed:
                    with contextlib.suppress(NotFound):
                        await self.annotate(POD, metadata["name"], **keys)
                    healed.add(metadata["uid"])
            await asyncio.sleep(0.5)

    @property
    def gpu_spec(self) -> Object:
        """A request for one GPU of the model of this test's own nodes."""
        return {"gpus": 1, "gpuVendor": "nvidia", "gpuModels": [f"nvidiat{self.token}"]}

    async def add_node(self) -> str:
        """A node with one GPU of a model of its own."""
        from kaiwo_sandbox.nodes import nvidia_node

        name = f"told-{self.token}-{len(self.nodes)}"
        node = nvidia_node(name, gpus=1)
        node["metadata"]["labels"] |= {
            "nvidia.com/gpu.product": f"NVIDIA-T{self.token}", "kaiwo/gpu-model": f"nvidiat{self.token}"
        }  # fmt: skip
        await self.client.create(NODE, node)
        self.nodes.append(name)
        await self.sees(NODE, name, _usable)
        return name

    async def lose_node(self, name: str) -> None:
        """A node is gone, and the cluster has noticed: its pods are evicted."""
        taint = {"key": "node.kubernetes.io/out-of-service", "value": "lost", "effect": "NoExecute"}
        await self.client.merge_patch(NODE, None, name, {"spec": {"taints": [taint]}})

    async def clean(self) -> None:
        """Take the nodes away."""
        for name in self.nodes:
            try:
                await self.client.delete(NODE, None, name)
            except NotFound:
                continue


@pytest.fixture
async def world(client: Client, namespace: str, process: OperatorProcess) -> AsyncIterator[World]:
    """A namespace whose workloads the module's operator reconciles."""
    del process
    made = World(client, namespace)
    yield made
    await made.clean()
