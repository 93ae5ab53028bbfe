"""The floor of following pods: one watch on pods, and one status patch for each that gets ready.

The KaiwoJob that a pod belongs to is told to be RUNNING, without any look at it. Like `bench.floor` it keeps
no cache and decides nothing. A process of its own (``python -m bench.ready``).
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec

from bench.access import KAIWO_JOBS, Access, check, encode
from bench.floor import READY
from bench.platform import PODS
from bench.subject import first_status

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

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


class _List(msgspec.Struct):
    metadata: _Metadata


async def _got_ready(session: aiohttp.ClientSession) -> AsyncIterator[_Metadata]:
    """Pods that get ready, from now on."""
    async with session.get(PODS, params={"limit": "1"}) as response:
        version = msgspec.json.decode(await check(response), type=_List).metadata.resource_version
    print(READY, flush=True)
    decode = msgspec.json.Decoder(_Event).decode
    known: set[tuple[str, str]] = set()
    while True:
        query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "3600"}
        async with session.get(PODS, params=query, timeout=aiohttp.ClientTimeout(total=None)) as response:
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = decode(line)
                    metadata = event.object.metadata
                    version = metadata.resource_version
                    key = (metadata.namespace, metadata.name)
                    if event.object.ready and key not in known:
                        known.add(key)
                        yield metadata


async def follow(access: Access) -> None:
    """Tell of every pod that gets ready until cancelled."""
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


async def _until_stopped(access: Access) -> None:
    following = asyncio.create_task(follow(access))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, following.cancel)
    await asyncio.wait([following])
    if not following.cancelled():
        following.result()


def main() -> None:
    """Entry point of the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--access", type=Path, required=True)
    asyncio.run(_until_stopped(Access.read(parser.parse_args().access)))


if __name__ == "__main__":
    main()
