"""The load generator: clients that create KaiwoJobs, or the Jobs they become, as fast as they are taken.

It runs as a process of its own (``python -m bench.load``), so that neither its CPU nor its memory is mistaken
for the subject's. Sixteen clients keep the API server busy.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from bench.access import JOBS, KAIWO_JOBS, Access, check, encode
from bench.subject import kaiwo_job, queued_job

CLIENTS = 16


FORMS = {"kaiwojobs": (KAIWO_JOBS, kaiwo_job), "jobs": (JOBS, queued_job)}


async def create(
    access: Access,
    numbers: range,
    prefix: str,
    *,
    clients: int,
    pause: float,
    kind: str = "kaiwojobs",
    run_time: str = "",
) -> None:
    """Create the objects with these numbers; every client rests `pause` seconds after each."""
    collection, made = FORMS[kind]
    left = iter(numbers)
    async with access.session(clients) as session:

        async def client() -> None:
            for number in left:
                body = made(number, prefix, run_time)
                path = collection.format(namespace=body["metadata"]["namespace"])
                async with session.post(path, data=encode(body)) as response:
                    await check(response)
                if pause:
                    await asyncio.sleep(pause)

        await asyncio.gather(*(client() for _ in range(clients)))


def main() -> None:
    """Entry point of the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--access", type=Path, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--prefix", default="job")
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--kind", choices=FORMS, default="kaiwojobs")
    parser.add_argument("--run-time", default="")
    given = parser.parse_args()
    numbers = range(given.first, given.first + given.count)
    access = Access.read(given.access)
    asyncio.run(
        create(
            access, numbers, given.prefix,
            clients=given.clients, pause=given.pause, kind=given.kind, run_time=given.run_time,
        )
    )  # fmt: skip


if __name__ == "__main__":
    main()
