"""A small asynchronous Kubernetes client: plain JSON in, plain JSON out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from typing import Literal

from kaiwo.engine.credentials import Connection
from kaiwo.engine.resource import Object, Resource

Propagation = Literal["Background", "Foreground", "Orphan"]


class Client:
    """One API server. Safe requests are retried; every request has a time limit.

    `gate` is asked before each mutating request is sent; False raises NotLeading.
    """

    def __init__(self, connection: Connection, *, user_agent: str = "kaiwo", timeout: float = 30.0,
                 concurrency: int = 32, gate: Callable[[], bool] | None = None, metrics: object = None) -> None: ...

    gate: Callable[[], bool] | None

    async def __aenter__(self) -> Client: ...
    async def __aexit__(self, *exc: object) -> None: ...
    async def close(self) -> None: ...

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        """Raises NotFound."""
        ...

    async def list(self, resource: Resource, namespace: str | None = None, *, label_selector: str | None = None,
                   field_selector: str | None = None) -> AsyncIterator[Object]:
        """Yield objects, in pages of 500 (an async generator: `async for`)."""
        yield {}

    async def create(self, resource: Resource, obj: Object, *, field_manager: str | None = None,
                     dry_run: bool = False) -> Object:
        """POST. Raises AlreadyExists; after ConnectionLost the object may exist."""
        ...

    async def apply(self, resource: Resource, obj: Object, *, field_manager: str, force: bool = True,
                    subresource: str | None = None, dry_run: bool = False) -> Object:
        """Server-side apply."""
        ...

    async def merge_patch(self, resource: Resource, namespace: str | None, name: str, patch: Object, *,
                          subresource: str | None = None, uid: str | None = None,
                          resource_version: str | None = None, field_manager: str | None = None) -> Object:
        """RFC 7386 patch; uid and resource_version become preconditions (Conflict)."""
        ...

    async def replace(self, resource: Resource, obj: Object, *, subresource: str | None = None) -> Object:
        """PUT with the object's resourceVersion as precondition."""
        ...

    async def delete(self, resource: Resource, namespace: str | None, name: str, *, uid: str | None = None,
                     resource_version: str | None = None, propagation: Propagation | None = None,
                     grace_period: int | None = None) -> Object:
        """DELETE: the object with its deletionTimestamp, or a Status. Raises NotFound, Conflict (uid)."""
        ...

    async def watch(self, resource: Resource, namespace: str | None = None, *, resource_version: str,
                    label_selector: str | None = None) -> AsyncIterator[tuple[str, bytes]]:
        """Yield (type, raw JSON of the object); BOOKMARK included."""
        yield ("", b"")

    async def served(self, resources: Collection[Resource]) -> frozenset[Resource]:
        """Which of the resources the API server serves now; a 404 is an answer, not an error."""
        ...

    async def get_json(self, path: str, **query: str) -> Object:
        """GET any path, e.g. /version."""
        ...
