"""Logs, commands and connections through a real API server, to a kubelet whose streams are real."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from kaiwo.client import logs
from kaiwo.client.log_follower import LogOptions
from kaiwo.engine.errors import ApiError, NotFound, StreamFailed
from kaiwo.engine.exec_session import STDERR, STDOUT
from kaiwo.engine.streaming import open_exec, open_port

pytestmark = pytest.mark.cluster


async def test_logs_are_followed_to_the_end_of_the_workload(kubelet: Any) -> None:
    """Lines from before and after the start come once, and the end is found though the stream stays open."""
    kubelet.write("one", "two")
    await kubelet.run_pod("train-0")
    got: list[logs.LogLine] = []

    async def follow() -> None:
        followed = logs.follow_batches(kubelet.client, kubelet.workload, LogOptions())
        async with aclosing(logs.each_line(followed)) as lines:
            async for line in lines:
                got.append(line)  # noqa: PERF401  the test waits for single lines

    task = asyncio.ensure_future(follow())
    async with asyncio.timeout(60):
        while len(got) < 2:
            await asyncio.sleep(0.05)
        kubelet.write("three")
        while len(got) < 3:
            await asyncio.sleep(0.05)
        await kubelet.end_pod("train-0")
        await kubelet.finish()
        await task
    assert [(line.pod, line.container, line.text) for line in got] == [
        ("train-0", "main", b"one"),
        ("train-0", "main", b"two"),
        ("train-0", "main", b"three"),
    ]


async def test_a_command_has_input_and_output(kubelet: Any) -> None:
    """Both outputs come back. kwok tells a command neither that its input ended, nor us its exit code."""
    await kubelet.run_pod("train-0")
    script = "echo $WHERE; head -n 20000; echo oops >&2"
    command = ["sh", "-c", script]
    session = await open_exec(
        kubelet.client, kubelet.namespace, "train-0", command, container="main", stdin=True
    )
    await session.write(b"input\n" * 20_000)
    output = {STDOUT: b"", STDERR: b""}
    async with asyncio.timeout(30):
        while (piece := await session.read()) is not None:
            output[piece[0]] += piece[1]
    await session.close()
    assert session.exit_code == 0
    assert output == {STDOUT: b"pod\n" + b"input\n" * 20_000, STDERR: b"oops\n"}


async def test_a_command_in_a_terminal_sees_its_size(kubelet: Any) -> None:
    """The size reaches the remote terminal, and changes.

    The command ends after its output was read: kwok closes the terminal of a command that ended, with what it
    has not sent yet.
    """
    await kubelet.run_pod("train-0")
    command = ["sh", "-c", "read go; stty size; read go; stty size; read go"]
    session = await open_exec(
        kubelet.client, kubelet.namespace, "train-0", command, container="main", stdin=True, tty=True
    )
    output = b""
    async with asyncio.timeout(30):
        for columns, rows in ((132, 43), (80, 24)):
            await session.resize(columns, rows)
            await asyncio.sleep(0.5)
            await session.write(b"go\n")
            while f"{rows} {columns}".encode() not in output:
                piece = await session.read()
                assert piece is not None, output
                output += piece[1]
        await session.write(b"go\n")
        while await session.read() is not None:
            pass
    await session.close()
    assert session.exit_code == 0


async def test_a_program_that_is_not_there_fails(kubelet: Any) -> None:
    """The kubelet's reason comes back."""
    await kubelet.run_pod("train-0")
    session = await open_exec(
        kubelet.client, kubelet.namespace, "train-0", ["no-such-program"], container="main"
    )
    with pytest.raises(ApiError, match="no-such-program"):
        await session.read()
    await session.close()


async def test_a_pod_that_is_not_there_is_not_found(kubelet: Any) -> None:
    """A rejected upgrade has the API server's own words."""
    with pytest.raises(NotFound, match='pods "nope" not found'):
        await open_exec(kubelet.client, kubelet.namespace, "nope", ["true"], container="main")
    with pytest.raises(NotFound, match='pods "nope" not found'):
        await open_port(kubelet.client, kubelet.namespace, "nope", kubelet.open_port)


async def test_a_port_carries_bytes_both_ways(kubelet: Any) -> None:
    """Many lines, and the end when the pod closes."""
    await kubelet.run_pod("train-0")
    session = await open_port(kubelet.client, kubelet.namespace, "train-0", kubelet.open_port)
    await session.write(b"hello\n" * 10_000)
    got = b""
    async with asyncio.timeout(30):
        while len(got) < 60_000:
            got += await session.read() or b""
    await session.close()
    assert got == b"HELLO\n" * 10_000


async def test_a_port_on_which_nothing_listens_fails(kubelet: Any) -> None:
    """The kubelet's reason comes back."""
    await kubelet.run_pod("train-0")
    session = await open_port(kubelet.client, kubelet.namespace, "train-0", kubelet.closed_port)
    with pytest.raises(StreamFailed, match="refused"):
        await session.read()
    await session.close()
