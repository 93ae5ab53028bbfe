"""This process's terminal or pipes as those of a command in a container."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from kaiwo.cli.output.byte_writer import ByteWriter
from kaiwo.engine.errors import ConnectionBroken
from kaiwo.engine.exec_session import STDOUT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from kaiwo.engine.exec_session import ExecSession

_PIECE = 32 << 10


@contextmanager
def raw_terminal(descriptor: int) -> Iterator[None]:
    """Pass every key on, Ctrl-C too; the terminal is as before afterwards, also when this process is ended.

    Args:
        descriptor: of the terminal.
    """
    import termios
    import tty

    before = termios.tcgetattr(descriptor)
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    killed = False

    def end() -> None:
        nonlocal killed
        killed = True
        if task is not None:
            task.cancel()

    # A closed window or a kill would leave the terminal raw.
    ends = (signal.SIGTERM, signal.SIGHUP)
    for number in ends:
        loop.add_signal_handler(number, end)
    try:
        tty.setraw(descriptor, termios.TCSADRAIN)
        yield
    except asyncio.CancelledError:
        if killed:
            raise click.Abort from None
        raise
    finally:
        # The window may be gone.
        with suppress(termios.error, OSError):
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        for number in ends:
            loop.remove_signal_handler(number)


async def attach(session: ExecSession, *, stdin: bool, tty: bool) -> int:
    """Connect this process's streams with a command until it ends; returns its exit code.

    Args:
        session: the running command.
        stdin: pass standard input on.
        tty: standard input is a terminal, and the command has one, too.

    Raises:
        ConnectionBroken: the connection broke before the command ended.
        ApiError: the command could not be started.
    """
    if not tty:
        return await _connect(session, stdin=stdin)
    with raw_terminal(sys.stdin.fileno()):
        resizes = asyncio.ensure_future(_pass_sizes(session))
        try:
            return await _connect(session, stdin=stdin)
        finally:
            resizes.cancel()
            await asyncio.wait({resizes})


async def _connect(session: ExecSession, *, stdin: bool) -> int:
    writers = {True: ByteWriter("stdout"), False: ByteWriter("stderr")}
    feeding = asyncio.ensure_future(_pass_input(session)) if stdin else None
    try:
        while (piece := await session.read()) is not None:
            await writers[piece[0] == STDOUT].write(piece[1])
    finally:
        if feeding is not None:
            feeding.cancel()
            await asyncio.wait({feeding})
    return session.exit_code or 0


async def _pass_input(session: ExecSession) -> None:
    # Whoever reads the output learns that the connection broke.
    with suppress(ConnectionBroken):
        async for piece in _input():
            await session.write(piece)
        await session.end_stdin()


async def _input() -> AsyncIterator[bytes]:
    """Standard input as it comes; the next piece is read when the last one was taken."""
    try:
        descriptor = sys.stdin.fileno()
    except (OSError, ValueError):
        if data := sys.stdin.buffer.read():
            yield data
        return
    while True:
        await _has_input(descriptor)
        try:
            data = os.read(descriptor, _PIECE)
        except OSError:
            return  # the terminal is gone
        if not data:
            return
        yield data


async def _has_input(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except PermissionError:
        return  # a file always has
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


async def _pass_sizes(session: ExecSession) -> None:
    """Send the size of the terminal, and each new one."""
    changed = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGWINCH, changed.set)
    try:
        with suppress(ConnectionBroken):
            while True:
                # Not shutil's, which prefers the variable COLUMNS of a shell to the window.
                with suppress(OSError):
                    size = os.get_terminal_size(sys.stdin.fileno())
                    await session.resize(size.columns, size.lines)
                await changed.wait()
                changed.clear()
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
