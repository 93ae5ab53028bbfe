"""Fixtures for the engine's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.engine.client import Client
from kaiwo.engine.credentials import load
from kaiwo.engine.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from kaiwo.engine.credentials import Connection
    from kaiwo.engine.resource import Object
    from kaiwo.testing.fault_proxy import FaultProxy


@pytest.fixture
def connection(control_plane: Any) -> Connection:
    """The control plane as an administrator reaches it."""
    return load(control_plane.kubeconfig)


@pytest.fixture
def metrics() -> Metrics:
    """Metrics in a registry of their own."""
    return Metrics()


@pytest.fixture
async def through(proxy: FaultProxy, metrics: Metrics) -> AsyncIterator[Client]:
    """A client that goes through the fault proxy."""
    async with Client(proxy.connection, timeout=10.0, metrics=metrics) as made:
        yield made


@pytest.fixture
def config_map(namespace: str) -> Callable[..., Object]:
    """Make a ConfigMap of the test's namespace: ``config_map(name, data, labels=..., owner=...)``."""

    def make(
        name: str,
        data: dict[str, str] | None = None,
        *,
        labels: dict[str, str] | None = None,
        owner: Object | None = None,
    ) -> Object:
        metadata: Object = {"name": name, "namespace": namespace}
        if labels:
            metadata["labels"] = labels
        if owner is not None:
            metadata["ownerReferences"] = [
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "name": owner["metadata"]["name"],
                    "uid": owner["metadata"]["uid"],
                    "controller": True,
                }
            ]
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data or {}}

    return make
