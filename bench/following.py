"""What the floors have in common that follow a watch: its lines, and a process that ends with SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import aiohttp
import msgspec

from bench.access import Access, check

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

READY = "ready"
"""What a floor prints once it follows."""


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str


class _List(msgspec.Struct):
    metadata: _ListMetadata


class _Metadata(Protocol):
    resource_version: str


class _Object(Protocol):
    @property
    def metadata(self) -> _Metadata: ...


class _Event(Protocol):
    @property
    def object(self) -> _Object: ...


E = TypeVar("E", bound=_Event)


async def events(session: aiohttp.ClientSession, path: str, kind: type[E]) -> AsyncIterator[E]:
    """The events of a watch, from now on."""
    async with session.get(path, params={"limit": "1"}) as response:
        version = msgspec.json.decode(await check(response), type=_List).metadata.resource_version
    print(READY, flush=True)
    decode = msgspec.json.Decoder(kind).decode
    no_limit = aiohttp.ClientTimeout(total=None)
    while True:
        # The API server ends a watch whose reader falls behind; the next one takes up where it ended.
        query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "3600"}
        async with session.get(path, params=query, timeout=no_limit) as response:
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = decode(line)
                    version = event.object.metadata.resource_version
                    yield event


async def _until_stopped(follow: Callable[[Access], Awaitable[None]], access: Access) -> None:
    following = asyncio.ensure_future(follow(access))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, following.cancel)
    await asyncio.wait([following])
    if not following.cancelled():
        following.result()


def serve(follow: Callable[[Access], Awaitable[None]], description: str | None) -> None:
    """Run a floor's process until SIGTERM."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--access", type=Path, required=True)
    asyncio.run(_until_stopped(follow, Access.read(parser.parse_args().access)))
