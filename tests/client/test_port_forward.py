"""Ports: what users write, and connections that end in all ways."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from kaiwo.client.errors import InvalidArgument
from kaiwo.client.port_forward import parse_ports, pipe
from kaiwo.engine.errors import ConnectionBroken, StreamFailed
from kaiwo.testing.stream_server import stream_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.mark.parametrize(
    ("text", "ports"), [("8080", (8080, 8080)), ("8080:80", (8080, 80)), (":80", (0, 80)), ("0:80", (0, 80))]
)
def test_ports_are_written_as_for_kubectl(text: str, ports: tuple[int, int]) -> None:
    """Local and remote."""
    assert parse_ports(text) == ports


@pytest.mark.parametrize("text", ["", ":", "80:", "http", "70000", "80:70000", "-1", "1:2:3", "80:0", "٣"])
def test_other_texts_are_usage_errors(text: str) -> None:
    """With the text."""
    with pytest.raises(InvalidArgument, match="expected a port such as 8080, 8080:80 or :80"):
        parse_ports(text)


class Pod:
    """The pod's side of a connection.

    Attributes:
        says: what it sends; None ends it.
        heard: what it got.
    """

    def __init__(self) -> None:
        self.says: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.heard = b""

    async def read(self) -> bytes | None:
        """What the pod sends next."""
        said = await self.says.get()
        if isinstance(said, Exception):
            raise said
        return said

    async def write(self, data: bytes) -> None:
        """What the pod gets."""
        self.heard += data


@asynccontextmanager
async def piped(
    pod: Pod, ended: list[BaseException | None]
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A local program's connection to the pod."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await pipe(reader, writer, pod, quiet_seconds=0.3)  # type: ignore[arg-type]
            ended.append(None)
        except Exception as error:  # noqa: BLE001  the test looks at it
            ended.append(error)

    async with stream_server(accept) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            async with asyncio.timeout(10):
                yield reader, writer
        finally:
            writer.close()


async def test_the_pods_end_is_the_local_end() -> None:
    """All that was sent before comes."""
    pod, ended = Pod(), []
    async with piped(pod, ended) as (reader, writer):
        writer.write(b"question")
        for said in (b"an", b"swer", None):
            pod.says.put_nowait(said)
        assert await reader.read() == b"answer"
    assert ended == [None]
    assert pod.heard in (b"question", b"")


async def test_an_answer_comes_after_the_local_program_has_sent_its_last() -> None:
    """As from ``nc -N``."""
    pod, ended = Pod(), []
    async with piped(pod, ended) as (reader, writer):
        writer.write(b"question")
        writer.write_eof()
        await asyncio.sleep(0.2)
        pod.says.put_nowait(b"answer")
        assert await reader.read() == b"answer"
    assert (ended, pod.heard) == ([None], b"question")


@pytest.mark.parametrize("failure", [StreamFailed("refused"), ConnectionBroken("cut")])
async def test_failures_are_raised(failure: Exception) -> None:
    """So that the user is told."""
    pod, ended = Pod(), []
    async with piped(pod, ended) as (reader, _):
        pod.says.put_nowait(failure)
        assert await reader.read() == b""
    assert ended == [failure]


async def test_a_local_program_that_does_not_read_holds_the_pod_up() -> None:
    """Memory is bounded."""
    pod, ended = Pod(), []
    async with piped(pod, ended) as (reader, _):
        for _ in range(1000):
            pod.says.put_nowait(b"x" * 65536)
        pod.says.put_nowait(None)
        await asyncio.sleep(0.3)
        assert pod.says.qsize() > 500
        assert len(await reader.read()) == 1000 * 65536
    assert ended == [None]
