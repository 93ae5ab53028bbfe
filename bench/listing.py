"""The floor of a restart: list all KaiwoJobs and Jobs once, page by page, and keep their bytes.

A process of its own (``python -m bench.listing``) that reports when it has everything, and keeps running.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from pathlib import Path

import msgspec

from bench.access import ALL_KAIWO_JOBS, Access, check
from bench.following import READY

ALL_JOBS = "/apis/batch/v1/jobs"
_PAGE = 500


class _Metadata(msgspec.Struct):
    proceed: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _Metadata
    items: list[msgspec.Raw]


async def _list(access: Access) -> list[bytes]:
    kept: list[bytes] = []
    async with access.session(1) as session:
        for path in (ALL_KAIWO_JOBS, ALL_JOBS):
            proceed = ""
            while True:
                query = {"limit": str(_PAGE), **({"continue": proceed} if proceed else {})}
                async with session.get(path, params=query) as response:
                    page = msgspec.json.decode(await check(response), type=_Page)
                kept += [bytes(item) for item in page.items]
                proceed = page.metadata.proceed
                if not proceed:
                    break
    return kept


async def _hold(access: Access) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    kept = await _list(access)
    print(READY, len(kept), flush=True)
    await stopped.wait()


def main() -> None:
    """Entry point of the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--access", type=Path, required=True)
    asyncio.run(_hold(Access.read(parser.parse_args().access)))


if __name__ == "__main__":
    main()
