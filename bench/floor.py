"""The floor: the least that any operator must do for a KaiwoJob, with no thinking.

One watch on KaiwoJobs; for each new one, one POST of a finished Job and one status patch. The Job is what
the operator would create, rendered once; only the name, the namespace and the uid are filled in. It keeps
no cache, compares nothing, retries nothing and elects no leader, so no operator can be quicker on the same
client library. A process of its own (``python -m bench.floor``).
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import msgspec

from bench.access import ALL_KAIWO_JOBS, JOBS, KAIWO_JOBS, Access, check, encode
from bench.subject import finished_job, first_status

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

WORKERS = 16
"""Requests on their way at the same time, as many as the load generator's; fewer gave a lower rate."""

READY = "ready"


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str
    uid: str
    resource_version: str


class _KaiwoJob(msgspec.Struct):
    metadata: _Metadata


class _Event(msgspec.Struct):
    type: str
    object: _KaiwoJob


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str


class _List(msgspec.Struct):
    metadata: _ListMetadata


async def _added(session: aiohttp.ClientSession) -> AsyncIterator[_Metadata]:
    """New KaiwoJobs, from now on."""
    async with session.get(ALL_KAIWO_JOBS, params={"limit": "1"}) as response:
        version = msgspec.json.decode(await check(response), type=_List).metadata.resource_version
    print(READY, flush=True)
    decode = msgspec.json.Decoder(_Event).decode
    no_limit = aiohttp.ClientTimeout(total=None)
    while True:
        # The API server ends a watch whose reader falls behind; the next one takes up where it ended.
        query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "3600"}
        async with session.get(ALL_KAIWO_JOBS, params=query, timeout=no_limit) as response:
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = decode(line)
                    version = event.object.metadata.resource_version
                    if event.type == "ADDED":
                        yield event.object.metadata


async def follow(access: Access) -> None:
    """Turn every new KaiwoJob into a Job until cancelled."""
    waiting: asyncio.Queue[_Metadata] = asyncio.Queue()
    status = encode({"status": first_status()})
    patch = {"Content-Type": "application/merge-patch+json"}
    async with access.session(WORKERS + 1) as session:

        async def worker() -> None:
            while True:
                owner = await waiting.get()
                job = encode(finished_job(owner.name, owner.namespace, owner.uid))
                async with session.post(JOBS.format(namespace=owner.namespace), data=job) as response:
                    await check(response)
                path = f"{KAIWO_JOBS.format(namespace=owner.namespace)}/{owner.name}/status"
                async with session.patch(path, data=status, headers=patch) as response:
                    await check(response)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(WORKERS):
                tasks.create_task(worker())
            async for metadata in _added(session):
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
