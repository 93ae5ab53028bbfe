"""The floor of following pods: one watch on pods, and one status patch for each that gets ready.

The KaiwoJob that a pod belongs to is set to RUNNING without being read. Like `bench.floor` it keeps
no cache and decides nothing. A process of its own (``python -m bench.ready``).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from bench.access import KAIWO_JOBS, Access, check, encode
from bench.following import events, serve
from bench.platform import PODS
from bench.subject import first_status

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import aiohttp

WORKERS = 16
_NOT_FOUND = 404
JOB_NAME = "batch.kubernetes.io/job-name"


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}


class _Status(msgspec.Struct):
    conditions: list[dict[str, Any]] = []


class _Pod(msgspec.Struct):
    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def ready(self) -> bool:
        """Whether it is ready."""
        return any(item["type"] == "Ready" and item["status"] == "True" for item in self.status.conditions)


class _Event(msgspec.Struct):
    type: str
    object: _Pod


async def _got_ready(session: aiohttp.ClientSession) -> AsyncIterator[_Metadata]:
    """Pods that get ready, from now on."""
    known: set[tuple[str, str]] = set()
    async for event in events(session, PODS, _Event):
        metadata = event.object.metadata
        key = (metadata.namespace, metadata.name)
        if event.object.ready and key not in known:
            known.add(key)
            yield metadata


async def follow(access: Access) -> None:
    """Set the KaiwoJob of every pod that gets ready to RUNNING, until cancelled."""
    waiting: asyncio.Queue[_Metadata] = asyncio.Queue()
    status = encode({"status": {**first_status(), "status": "RUNNING", "reason": "Running"}})
    patch = {"Content-Type": "application/merge-patch+json"}
    async with access.session(WORKERS + 1) as session:

        async def worker() -> None:
            while True:
                pod = await waiting.get()
                path = f"{KAIWO_JOBS.format(namespace=pod.namespace)}/{pod.labels[JOB_NAME]}/status"
                async with session.patch(path, data=status, headers=patch) as response:
                    if response.status != _NOT_FOUND:  # a Job of somebody else has no KaiwoJob
                        await check(response)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(WORKERS):
                tasks.create_task(worker())
            async for metadata in _got_ready(session):
                if JOB_NAME in metadata.labels:
                    waiting.put_nowait(metadata)


if __name__ == "__main__":
    serve(follow, __doc__)
