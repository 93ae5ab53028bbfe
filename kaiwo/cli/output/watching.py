"""``--watch``: show something again whenever it changes, until Ctrl-C."""

from __future__ import annotations

import errno
import io
import os
import select
import shutil
import sys
import time
from contextlib import nullcontext, redirect_stderr, redirect_stdout, suppress
from typing import TYPE_CHECKING, TypeVar

import click

from kaiwo.cli import kit
from kaiwo.cli.failures import plain, until_interrupted
from kaiwo.cli.output.layout import width_of
from kaiwo.cli.terminal import clean, overwrites
from kaiwo.client.list_watch import is_transient

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")

INTERVAL = 2.0
"""Seconds after which ages are drawn anew, and what cannot be watched is read again."""

_MAX_DELAY = 30.0
"""Longest pause, in seconds, between two attempts to reach an API server that does not answer."""

_HOME = "\x1b[H"
_END_OF_LINE = "\x1b[K"
_REST_OF_SCREEN = "\x1b[J"


class _Screen(io.StringIO):
    """Text for a terminal: what is written to it keeps its colours."""

    def isatty(self) -> bool:
        """Whether colours are wanted, as by the terminal itself."""
        return True


@until_interrupted()
def watch(
    read: Callable[[], T],
    write: Callable[[T], None],
    changed: Callable[[float], bool],
    *,
    on_terminal: bool | None = None,
    rounds: int | None = None,
) -> None:
    """Show until interrupted: a terminal is drawn anew in place, a pipe gets the text of each change.

    Ages that grow are drawn on a terminal only.

    A failed request is retried, and the last result stays on the screen.

    Args:
        read: reads from the cluster.
        write: writes what was read to standard output.
        changed: waits so many seconds; True as soon as reading again is worth it.
        on_terminal: None to detect it.
        rounds: stop after so many drawings; None for never.
    """
    terminal = overwrites(sys.stdout) if on_terminal is None else on_terminal
    shown = ""
    while True:
        found = _read(read)
        while True:
            text = _text(write, found, terminal=terminal)
            if terminal:
                _draw(text)
            elif text != shown:
                click.echo(text, nl=False)
                sys.stdout.flush()
            shown = text
            rounds = None if rounds is None else rounds - 1
            if rounds == 0:
                return
            if _read_again(changed, terminal=terminal):
                break


def _read_again(changed: Callable[[float], bool], *, terminal: bool) -> bool:
    """Wait; False when ages are to be drawn anew, which a reader that keeps everything does not get."""
    while not changed(INTERVAL):
        if terminal:
            return False
        _require_reader()
    return True


def _require_reader() -> None:
    """Notice without a write that nobody reads any more, as after ``grep -m 1``.

    Raises:
        BrokenPipeError: standard output is a pipe whose other end is closed.
    """
    with suppress(ValueError, io.UnsupportedOperation):
        state = select.poll()
        state.register(sys.stdout.fileno(), 0)
        if any(event & select.POLLERR for _, event in state.poll(0)):
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def poll(seconds: float) -> bool:
    """Wait, then read again: for what cannot be watched cheaply."""
    time.sleep(seconds)
    return True


def _read(read: Callable[[], T]) -> T:
    delay = 1.0
    while True:
        try:
            return read()
        except Exception as error:
            if not is_transient(error):
                raise
            message = clean(plain(error)) or "timed out"
            kit.say(f"warning: no answer from the API server: {message}; trying again")
            time.sleep(delay)
            delay = min(2 * delay, _MAX_DELAY)


def _text(write: Callable[[T], None], found: T, *, terminal: bool) -> str:
    stream = _Screen() if terminal else io.StringIO()
    # Notes beside the screen would be drawn over, and would scroll it.
    notes = redirect_stderr(stream) if terminal else nullcontext()
    with redirect_stdout(stream), notes:
        write(found)
    return stream.getvalue()


def _draw(text: str) -> None:
    """Overwrite the screen line by line in one write: an emptied screen would flicker."""
    size = shutil.get_terminal_size()
    lines = "".join(
        f"{line}{_END_OF_LINE}\n" for line in visible(text.splitlines(), size.columns, size.lines)
    )
    sys.stdout.write(f"{_HOME}{lines}{_REST_OF_SCREEN}")
    sys.stdout.flush()


def visible(lines: Sequence[str], columns: int, height: int) -> list[str]:
    """What of some lines a screen can show from the first on, and how many it cannot.

    Args:
        lines: with colours.
        columns: of the screen; a longer line takes several of its lines.
        height: lines of the screen, of which the last one stays free for the cursor.
    """
    rows = [max(1, -(-width_of(click.unstyle(line)) // columns)) for line in lines]
    if sum(rows) < height:
        return list(lines)
    room, shown = height - 2, 0
    while shown < len(lines) and rows[shown] <= room:
        room -= rows[shown]
        shown += 1
    rest = len(lines) - shown
    return [*lines[:shown], f"... {rest} more lines: enlarge the window, or leave out -w"]
