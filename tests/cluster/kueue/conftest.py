"""A control plane with the real Kueue, and what an administrator and a user do there."""

from __future__ import annotations

import asyncio
import os
import secrets
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import render_crds
from kaiwo.engine.errors import NotFound
from kaiwo.engine.resource import JOB, NAMESPACE, NODE
from kaiwo.host.kinds import KAIWO_CONFIG, KAIWO_JOB
from kaiwo.plugin.loader import load as load_plugins
from kaiwo.testing.operator import OperatorProcess, until
from kaiwo_kueue.kinds import (
    CLUSTER_QUEUE,
    PRIORITY_CLASS,
    QUEUE_CONFIG,
    RESOURCE_FLAVOR,
    TOPOLOGY,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object, Resource

PLUGINS = "batch_job,gpu_amd,gpu_nvidia,kueue"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_CLUSTER_WIDE = (CLUSTER_QUEUE, RESOURCE_FLAVOR, TOPOLOGY, PRIORITY_CLASS)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[Any]:
    """A sandbox with Kueue; ``KAIWO_SANDBOX_REUSE`` may name one that is up, with Kueue alone."""
    from kaiwo_sandbox.sandbox import Sandbox  # noqa: PLC0415  only these tests need it

    for name in filter(None, os.environ.get("KAIWO_SANDBOX_REUSE", "").split(",")):
        found = Sandbox.find(name)
        if found is not None and tuple(found.addons) == ("kueue",):
            yield found
            found.api.close()
            return
    generation = os.environ.get("KAIWO_SANDBOX_GENERATION") or "newer"
    sandbox = Sandbox.up(f"pytest-{os.getpid()}-kueue", addons=("kueue",), generation=generation, owned=True)
    try:
        yield sandbox
    finally:
        sandbox.down()


@pytest.fixture(scope="session")
def crds(control_plane: Any) -> None:
    """The CRDs of the plugins, served there."""
    install(control_plane)


def install(sandbox: Any) -> None:
    """Install Kaiwo's CRDs and wait until they are served."""
    plugins = load_plugins()
    for crd in render_crds(plugins.fields(), plugins.settings_models(), kinds=plugins.kinds()):
        apply_crd(sandbox, crd)


def apply_crd(sandbox: Any, crd: Object) -> None:
    """Install one CRD and wait until it is served."""
    name = crd["metadata"]["name"]
    sandbox.api.apply(f"{_CRDS}/{name}", crd)
    with closing(sandbox.api.watch(f"{_CRDS}?fieldSelector=metadata.name%3D{name}", timeout=60)) as changes:
        for change in changes:
            conditions = (change["object"].get("status") or {}).get("conditions") or []
            if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
                return


@pytest.fixture(name="apply_crd", scope="session")
def apply_crd_fixture() -> Callable[[Any, Object], None]:
    """Install one CRD in a sandbox and wait until it is served."""
    return apply_crd


@pytest.fixture(name="install", scope="session")
def install_fixture() -> Callable[[Any], None]:
    """Install Kaiwo's CRDs in a sandbox."""
    return install


@pytest.fixture
async def operator(
    control_plane: Any, crds: None
) -> AsyncIterator[Callable[..., Awaitable[OperatorProcess]]]:
    """A function that starts an operator that looks after the whole cluster; it ends with the test."""
    del crds
    started: list[OperatorProcess] = []

    async def start(**how: Any) -> OperatorProcess:
        how.setdefault("kubeconfig", control_plane.kubeconfig)
        how.setdefault("plugins", PLUGINS)
        lease = f"kaiwo-{secrets.token_hex(4)}"
        process = OperatorProcess(leader_election=False, lease_name=lease, **how).start()
        started.append(process)
        await asyncio.to_thread(process.wait_ready)
        return process

    yield start
    for process in started:
        await asyncio.to_thread(process.close)


@pytest.fixture
async def pristine(client: Client) -> AsyncIterator[None]:
    """No KaiwoQueueConfig, KaiwoConfig or Kueue object before and after: they are the whole cluster's."""
    await clear(client)
    yield
    await clear(client)


async def clear(client: Client) -> None:
    """Delete what is the whole cluster's, workloads first, and wait until it is gone."""
    for job in [job async for job in client.list(KAIWO_JOB)]:
        await _delete(client, KAIWO_JOB, job)
    for job in [job async for job in client.list(JOB)]:
        await _delete(client, JOB, job)
    kinds: tuple[Resource, ...] = (QUEUE_CONFIG, KAIWO_CONFIG, *_CLUSTER_WIDE)
    for kind in kinds:
        for obj in [obj async for obj in client.list(kind)]:
            await _delete(client, kind, obj)
    for kind in kinds:
        for obj in [obj async for obj in client.list(kind)]:
            await until(client, kind, None, obj["metadata"]["name"], lambda found: found is None)


async def _delete(client: Client, kind: Resource, obj: Object) -> None:
    try:
        await client.delete(
            kind, obj["metadata"].get("namespace"), obj["metadata"]["name"], propagation="Background"
        )
    except NotFound:
        return


class Admin:
    """What an administrator does and sees."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def configure(self, **spec: Any) -> Object:
        """Create the KaiwoQueueConfig, or replace its spec."""
        wanted = {
            "apiVersion": QUEUE_CONFIG.api_version,
            "kind": QUEUE_CONFIG.kind,
            "metadata": {"name": "kaiwo"},
            "spec": spec,
        }
        return await self.client.apply(QUEUE_CONFIG, wanted, field_manager="admin")

    async def set(self, **spec: Any) -> Object:
        """Change KaiwoConfig."""
        wanted = {
            "apiVersion": KAIWO_CONFIG.api_version,
            "kind": KAIWO_CONFIG.kind,
            "metadata": {"name": "kaiwo"},
            "spec": spec,
        }
        return await self.client.apply(KAIWO_CONFIG, wanted, field_manager="admin")

    async def sees(
        self,
        kind: Resource,
        name: str,
        holds: Callable[[Object | None], Any],
        namespace: str | None = None,
        timeout: float = 30.0,  # noqa: ASYNC109  handed on
    ) -> Object:
        """Wait until something holds for an object; the object."""
        found = await until(self.client, kind, namespace, name, lambda obj: bool(holds(obj)), timeout=timeout)
        return found or {}

    async def status(
        self,
        word: str,
        reason: str = "",
        *,
        generation: int = 0,
        timeout: float = 30.0,  # noqa: ASYNC109  handed on
    ) -> Object:
        """Wait until the KaiwoQueueConfig says a word, and its Ready condition a reason; the status."""

        def says(obj: Object | None) -> bool:
            status = (obj or {}).get("status") or {}
            ready = [item for item in status.get("conditions", ()) if item["type"] == "Ready"]
            return (
                status.get("status") == word
                and status.get("observedGeneration", 0) >= generation
                and (not reason or (bool(ready) and ready[0]["reason"] == reason))
            )

        found = await self.sees(QUEUE_CONFIG, "kaiwo", says, timeout=timeout)
        status: Object = found["status"]
        return status

    async def label_namespace(self, name: str, **labels: str | None) -> None:
        """Label a namespace."""
        await self.client.merge_patch(NAMESPACE, None, name, {"metadata": {"labels": labels}})

    async def cordon(self, name: str, *, cordoned: bool = True) -> None:
        """Cordon a node, or take that back."""
        await self.client.merge_patch(NODE, None, name, {"spec": {"unschedulable": cordoned}})


@pytest.fixture
def admin(client: Client) -> Admin:
    """The administrator's side."""
    return Admin(client)


def quota(flavor: str = "f", cpu: str = "4", **spec: Any) -> Object:
    """A ClusterQueue's spec with some CPU and plenty of memory."""
    resources = [{"name": "cpu", "nominalQuota": cpu}, {"name": "memory", "nominalQuota": "1Ti"}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": flavor, "resources": resources}]}
    return {"resourceGroups": [group], **spec}


@pytest.fixture(name="quota")
def quota_fixture() -> Callable[..., Object]:
    """A ClusterQueue's spec: ``quota("flavor", "4", cohort="c")``."""
    return quota
