"""A control plane with Kueue, KubeRay and AppWrapper, for the backends that need them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo_kueue.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable


@pytest.fixture(scope="session")
def control_plane(platform: Any) -> Any:
    """The cluster with all addons; these tests need KubeRay and AppWrapper, some of them Kueue."""
    return platform


@pytest.fixture
async def make_queue(user: Any) -> AsyncIterator[Callable[[str], Awaitable[None]]]:
    """A function that makes the LocalQueue ``team`` with that many cores, or changes their number."""
    name = user.namespace[:60].rstrip("-")
    made = False

    async def make(cores: str) -> None:
        nonlocal made
        resources = [{"name": "cpu", "nominalQuota": cores}, {"name": "memory", "nominalQuota": "999Gi"}]
        groups = [
            {"coveredResources": ["cpu", "memory"], "flavors": [{"name": name, "resources": resources}]}
        ]
        if made:
            await user.client.merge_patch(CLUSTER_QUEUE, None, name, {"spec": {"resourceGroups": groups}})
            return
        for kind, head, spec in (
            (RESOURCE_FLAVOR, {"name": name}, {}),
            (CLUSTER_QUEUE, {"name": name}, {"namespaceSelector": {}, "resourceGroups": groups}),
            (LOCAL_QUEUE, {"name": "team", "namespace": user.namespace}, {"clusterQueue": name}),
        ):
            await user.client.find_version(kind)
            body = {
                "apiVersion": user.client.in_use(kind).api_version,
                "kind": kind.kind,
                "metadata": head,
                "spec": spec,
            }
            await user.client.create(kind, body)
        made = True

    yield make
    if made:
        await user.client.delete(CLUSTER_QUEUE, None, name)
        await user.client.delete(RESOURCE_FLAVOR, None, name)
