"""A control plane with the real Kueue, and what an administrator and a user do there."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import KAIWO_CONFIG, KAIWO_JOB
from kaiwo.engine.errors import Conflict, NotFound
from kaiwo.engine.resource import EVENT, JOB, NAMESPACE, NODE
from kaiwo.testing.operator import OperatorProcess, until
from kaiwo_kueue.kinds import (
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    PRIORITY_CLASS,
    QUEUE_CONFIG,
    RESOURCE_FLAVOR,
    TOPOLOGY,
    WORKLOAD,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object, Resource

_log = logging.getLogger(__name__)
PLUGINS = "batch_job,gpu_amd,gpu_nvidia,kueue,node_pools"
_CLEARED = (
    *(KAIWO_JOB, JOB, WORKLOAD, QUEUE_CONFIG, KAIWO_CONFIG),
    *(LOCAL_QUEUE, CLUSTER_QUEUE, RESOURCE_FLAVOR, TOPOLOGY, PRIORITY_CLASS),
)
_KUEUE_SECONDS = 40.0  # for Kueue to take its finalizers away
_CLEAR_SECONDS = 150.0
_TIMEOUT = 90.0  # seconds until a state that ought to come counts as missing


@pytest.fixture(scope="session")
def control_plane(platform: Any) -> Any:
    """The cluster with all addons, of which these tests need Kueue; the one that other tests use, too."""
    return platform


@pytest.fixture
async def operator(
    control_plane: Any, crds: None
) -> AsyncIterator[Callable[..., Awaitable[OperatorProcess]]]:
    """A function that starts an operator for the whole cluster; it ends with the test.

    It is ready when the function returns, unless ``ready=False``.
    """
    del crds
    started: list[OperatorProcess] = []

    lease = f"kaiwo-{secrets.token_hex(4)}"

    async def start(*, ready: bool = True, **how: Any) -> OperatorProcess:
        how.setdefault("kubeconfig", control_plane.kubeconfig)
        how.setdefault("plugins", PLUGINS)
        how.setdefault("leader_election", False)
        process = OperatorProcess(lease_name=lease, **how).start()
        started.append(process)
        if ready:
            await asyncio.to_thread(process.wait_ready)
        return process

    yield start
    for process in started:
        await asyncio.to_thread(process.close)
        _log.warning("the operator said:\n%s", process.log)


@pytest.fixture
async def pristine(client: Client, control_plane: Any) -> AsyncIterator[None]:
    """No KaiwoQueueConfig, KaiwoConfig or Kueue object before and after: they are the whole cluster's."""
    await clear(client, control_plane)
    yield
    await clear(client, control_plane)


async def clear(client: Client, control_plane: Any) -> None:
    """Delete what is the whole cluster's, and wait until it is gone.

    Everything is listed and deleted again until nothing is left: an operator that was just ended may have
    made an object meanwhile. Workloads of Kueue are deleted by name, because Kubernetes' garbage collector,
    which would follow their Jobs, takes up to half a minute to learn of a kind whose CRD is new; and a queue
    stays as long as one of its workloads does. What Kueue itself holds on to for too long is let go of: one
    test that failed must not fail the next ones.
    """
    for kind in _CLEARED:
        await client.find_version(kind)
    began = time.monotonic()
    while left := [(kind, obj) for kind in _CLEARED for obj in await _all(client, kind)]:
        waited = time.monotonic() - began
        if waited > _CLEAR_SECONDS:
            names = ", ".join(f"{kind} {obj['metadata']['name']}" for kind, obj in left)
            dead = [each.name for each in control_plane.status().processes if not each.alive]
            raise AssertionError(f"not gone within {waited:.0f} s: {names}; programs that ended: {dead}")
        if waited > _KUEUE_SECONDS:
            _log.warning("let go of: %s", [(str(kind), obj["metadata"]) for kind, obj in left])
        for kind, obj in left:
            await _delete(client, kind, obj, force=waited > _KUEUE_SECONDS)
        await asyncio.sleep(0.2)


async def _all(client: Client, kind: Resource) -> list[Object]:
    return [obj async for obj in client.list(kind)]


async def _delete(client: Client, kind: Resource, obj: Object, *, force: bool) -> None:
    metadata = obj["metadata"]
    namespace, name = metadata.get("namespace"), metadata["name"]
    try:
        if not metadata.get("deletionTimestamp"):
            await client.delete(kind, namespace, name, propagation="Background")
        elif force:
            await client.merge_patch(kind, namespace, name, {"metadata": {"finalizers": None}})
    except (NotFound, Conflict):
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
        timeout: float = _TIMEOUT,
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
        timeout: float = _TIMEOUT,
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

    @staticmethod
    def condition_of(status: Object, kind: str) -> Object:
        """A condition of a status."""
        return next(item for item in status["conditions"] if item["type"] == kind)

    async def sees_event(self, reason: str) -> None:
        """Wait until there is an event of the KaiwoQueueConfig with a reason."""
        selector = f"involvedObject.kind={QUEUE_CONFIG.kind},reason={reason}"
        end = time.monotonic() + _TIMEOUT
        while not [event async for event in self.client.list(EVENT, field_selector=selector)]:
            assert time.monotonic() < end, f"no event {reason}"
            await asyncio.sleep(0.2)

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
