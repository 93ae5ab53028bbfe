"""A line on the terminal for what takes longer than a second, gone when it is done."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kaiwo.cli.options import settings
from kaiwo.cli.terminal import clean, overwrites

if TYPE_CHECKING:
    from collections.abc import Iterator

_SECONDS = 1.0
"""Before the line appears, and between two of its changes."""

_ERASE = "\r\x1b[K"

_running: list[ProgressLine] = []
"""What goes on now, on a terminal."""


class ProgressLine:
    """What is done so far.

    Args:
        text: what goes on.
        total: number of steps; 0 where they are not counted.
    """

    def __init__(self, text: str, total: int = 0) -> None:
        self._text = text
        self._total = total
        self.done = 0

    def step(self) -> None:
        """Count one more step."""
        self.done += 1

    def line(self, seconds: float) -> str:
        """The line after so many seconds."""
        count = f": {self.done} of {self._total}" if self._total else ""
        return clean(f"{self._text}{count} ({seconds:.0f}s)")


@contextmanager
def progress(text: str, total: int = 0) -> Iterator[ProgressLine]:
    """Show on standard error what goes on, if it is a terminal and it takes longer than a second.

    Args:
        text: what goes on, for example ``checking workloads``.
        total: number of steps, which are counted with `ProgressLine.step`.
    """
    shown = ProgressLine(text, total)
    if not overwrites(sys.stderr) or settings().verbosity < 0:
        yield shown
        return
    ended = threading.Event()
    began = time.monotonic()
    stream = sys.stderr

    def show() -> None:
        while not ended.wait(_SECONDS):
            stream.write(_ERASE + shown.line(time.monotonic() - began))
            stream.flush()

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    _running.append(shown)
    try:
        yield shown
    finally:
        ended.set()
        thread.join()
        if time.monotonic() - began >= _SECONDS:
            erase()
        _running.remove(shown)


def erase() -> None:
    """Make room for a text on standard error; the line comes back later."""
    if _running:
        sys.stderr.write(_ERASE)
        sys.stderr.flush()
