"""A control plane with Kueue, KubeRay and AppWrapper, for the back ends that need them."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import render_crds
from kaiwo.engine.resource import Resource
from kaiwo.plugin.loader import load as load_plugins

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

_GROUP, _VERSION = "kueue.x-k8s.io", "v1beta2"
RESOURCE_FLAVOR = Resource(_GROUP, _VERSION, "ResourceFlavor", "resourceflavors", namespaced=False)
CLUSTER_QUEUE = Resource(_GROUP, _VERSION, "ClusterQueue", "clusterqueues", namespaced=False)
LOCAL_QUEUE = Resource(_GROUP, _VERSION, "LocalQueue", "localqueues")


@pytest.fixture(scope="session")
def control_plane(platform: Any) -> Any:
    """The cluster with all addons; these tests need KubeRay and AppWrapper, some of them Kueue."""
    return platform


@pytest.fixture(scope="session")
def crds(control_plane: Any) -> None:
    """The CRDs of all installed plugins, served."""
    plugins = load_plugins()
    base = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for crd in render_crds(plugins.fields(), plugins.settings_models(), kinds=plugins.kinds()):
        name = crd["metadata"]["name"]
        control_plane.api.apply(f"{base}/{name}", crd)
        path = f"{base}?fieldSelector=metadata.name%3D{name}"
        with closing(control_plane.api.watch(path, timeout=60)) as changes:
            for change in changes:
                conditions = (change["object"].get("status") or {}).get("conditions") or []
                if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
                    break


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
            body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": head, "spec": spec}
            await user.client.create(kind, body)
        made = True

    yield make
    if made:
        await user.client.delete(CLUSTER_QUEUE, None, name)
        await user.client.delete(RESOURCE_FLAVOR, None, name)
