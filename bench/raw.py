"""The raw API server: how many creates and status patches a second it takes when nobody watches.

These are the bounds of the floor itself: a KaiwoJob costs one create by its user, one create by the
operator and one status patch.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from bench.access import JOBS, KAIWO_JOBS, OBSERVER, check, encode
from bench.load import CLIENTS
from bench.report import Figure
from bench.subject import finished_job, first_status, kaiwo_job

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import aiohttp

    from bench.server import Server


async def _rate(count: int, send: Callable[[int], Awaitable[None]]) -> float:
    """Requests a second of sixteen clients."""
    left = iter(range(count))

    async def client() -> None:
        for number in left:
            await send(number)

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return count / (time.perf_counter() - began)


async def _measure(session: aiohttp.ClientSession, count: int) -> tuple[float, float, float]:
    status = encode({"status": first_status()})
    merge = {"Content-Type": "application/merge-patch+json"}
    uid = "00000000-0000-4000-8000-000000000000"

    async def create_kaiwo_job(number: int) -> None:
        body = kaiwo_job(number, "raw")
        path = KAIWO_JOBS.format(namespace=body["metadata"]["namespace"])
        async with session.post(path, data=encode(body)) as response:
            await check(response)

    async def create_job(number: int) -> None:
        metadata = kaiwo_job(number, "raw")["metadata"]
        body = finished_job(metadata["name"], metadata["namespace"], uid)
        async with session.post(JOBS.format(namespace=metadata["namespace"]), data=encode(body)) as response:
            await check(response)

    async def patch_status(number: int) -> None:
        metadata = kaiwo_job(number, "raw")["metadata"]
        path = f"{KAIWO_JOBS.format(namespace=metadata['namespace'])}/{metadata['name']}/status"
        async with session.patch(path, data=status, headers=merge) as response:
            await check(response)

    return (
        await _rate(count, create_kaiwo_job),
        await _rate(count, create_job),
        await _rate(count, patch_status),
    )


async def _run(server: Server, count: int) -> tuple[float, float, float]:
    async with server.access(OBSERVER).session(CLIENTS) as session:
        return await _measure(session, count)


def run(server: Server, count: int) -> list[Figure]:
    """Measure with `count` objects of each kind."""
    server.clear()
    kaiwo_jobs, jobs, patches = asyncio.run(_run(server, count))
    server.clear()
    return [
        Figure("raw API server: KaiwoJob creates", kaiwo_jobs, "/s"),
        Figure("raw API server: Job creates", jobs, "/s"),
        Figure("raw API server: status patches", patches, "/s"),
    ]
