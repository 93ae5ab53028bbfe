"""What the tests of the backends do and see in one namespace."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.api.crds import WORKLOADS
from kaiwo.engine.resource import POD
from kaiwo.testing.operator import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.engine.client import Client
    from kaiwo.engine.resource import Object, Resource


class User:
    """A user of one namespace.

    Attributes:
        client: speaks to the API server.
        namespace: the namespace.
    """

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    async def submit(self, kind: str, name: str, *, metadata: Object | None = None, **spec: Any) -> Object:
        """Create a workload with an image."""
        head = {"name": name, "namespace": self.namespace, **(metadata or {})}
        resource = WORKLOADS[kind]  # type: ignore[index]  # a test names one of the two kinds
        body = {"image": "registry.example/serve:1", **spec}
        return await self.client.create(
            resource, {"apiVersion": resource.api_version, "kind": kind, "metadata": head, "spec": body}
        )

    async def edit(self, kind: str, name: str, **spec: Any) -> Object:
        """Change a workload's spec by a merge patch."""
        resource = WORKLOADS[kind]  # type: ignore[index]  # likewise
        return await self.client.merge_patch(resource, self.namespace, name, {"spec": spec})

    async def sees(
        self,
        resource: Resource,
        name: str,
        holds: Callable[[Object], Any],
        timeout: float = 90.0,
    ) -> Object:
        """Wait until something holds for an object."""
        found = await until(
            self.client, resource, self.namespace, name,
            lambda obj: obj is not None and bool(holds(obj)), timeout=timeout,
        )  # fmt: skip
        assert found is not None
        return found

    async def gone(self, resource: Resource, name: str, timeout: float = 90.0) -> None:
        """Wait until there is no such object."""
        await until(self.client, resource, self.namespace, name, lambda obj: obj is None, timeout=timeout)

    async def reaches(
        self,
        kind: str,
        name: str,
        *words: str,
        reason: str = "",
        generation: int = 0,
        timeout: float = 90.0,
    ) -> Object:
        """Wait until a workload has one of the statuses, of a reason and generation if given; its status."""

        def there(obj: Object) -> bool:
            status = obj.get("status", {})
            return (
                status.get("status") in words
                and (not reason or status.get("reason") == reason)
                and status.get("observedGeneration", 0) >= generation
            )

        found = await self.sees(WORKLOADS[kind], name, there, timeout)  # type: ignore[index]  # likewise
        status: Object = found["status"]
        return status

    async def pods(self, count: int, timeout: float = 90.0) -> list[Object]:
        """Wait until the namespace has that many pods; the pods."""
        end = time.monotonic() + timeout
        while True:
            found = [pod async for pod in self.client.list(POD, self.namespace)]
            if len(found) == count:
                return found
            assert time.monotonic() < end, [pod["metadata"]["name"] for pod in found]
            await asyncio.sleep(0.3)


@pytest.fixture
def user(client: Client, namespace: str) -> User:
    """A user of the test's namespace."""
    return User(client, namespace)
