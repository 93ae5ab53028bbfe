"""The floor: the least that any operator must do for a KaiwoJob, with no thinking.

One watch on KaiwoJobs; for each new one, one POST of a finished Job and one status patch. The Job is what
the operator would create, rendered once; only the name, the namespace and the uid are filled in. It keeps
no cache, compares nothing, retries nothing and elects no leader, so no operator can be quicker on the same
client library. A process of its own (``python -m bench.floor``).
"""

from __future__ import annotations

import asyncio

import msgspec

from bench.access import ALL_KAIWO_JOBS, JOBS, KAIWO_JOBS, Access, check, encode
from bench.following import events, serve
from bench.subject import finished_job, first_status

WORKERS = 16
"""Requests on their way at the same time, as many as the load generator's; fewer gave a lower rate."""


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
            async for event in events(session, ALL_KAIWO_JOBS, _Event):
                if event.type == "ADDED":
                    waiting.put_nowait(event.object.metadata)


if __name__ == "__main__":
    serve(follow, __doc__)
