"""``--watch``: show something again and again until the user has seen enough (Ctrl-C)."""

from __future__ import annotations

import io
import sys
import time
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable

INTERVAL = 2.0
"""Seconds between two looks, as in watch(1)."""

_HOME_AND_CLEAR = "\x1b[H\x1b[J"


def watch(show: Callable[[], None], *, on_terminal: bool | None = None, rounds: int | None = None) -> None:
    """Show until interrupted: a terminal is drawn anew, a pipe gets the text whenever it changed.

    Args:
        show: writes to standard output.
        on_terminal: None to look.
        rounds: stop after so many looks; None for never.
    """
    terminal = sys.stdout.isatty() if on_terminal is None else on_terminal
    before = None
    while rounds is None or rounds > 0:
        if terminal:
            click.echo(_HOME_AND_CLEAR, nl=False, color=True)
            show()
        else:
            text = io.StringIO()
            with redirect_stdout(text):
                show()
            if text.getvalue() != before:
                before = text.getvalue()
                click.echo(before, nl=False)
                sys.stdout.flush()
        rounds = None if rounds is None else rounds - 1
        if rounds != 0:
            time.sleep(INTERVAL)
