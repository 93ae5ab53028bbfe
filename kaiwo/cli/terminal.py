"""What may be written to a terminal: text of others without control characters, status words in colour."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

import click

from kaiwo.cli.options import DUMB, settings

if TYPE_CHECKING:
    from typing import TextIO

STATUS_COLORS = {
    "COMPLETE": "green",
    "READY": "green",
    "RUNNING": "green",
    "STARTING": "yellow",
    "PENDING": "yellow",
    "TERMINATING": "yellow",
    "TERMINATED": "red",
    "FAILED": "red",
    "ERROR": "red",
}
"""Colour of each status word: green is good, yellow waits, red needs the user."""

_STATE_COLORS = {
    "green": frozenset(
        [
            "Running",
            "Succeeded",
            "Completed",
            "Complete",
            "Bound",
            "Available",
            "Ready",
            "SUCCEEDED",
            "RUNNING",
        ]
    ),
    "yellow": frozenset(
        [
            "Pending",
            "Suspended",
            "Waiting",
            "Terminating",
            "ContainerCreating",
            "PodInitializing",
            "Warning",
            "PENDING",
        ]
    ),
}
"""Colour of the states of other objects, by their first word, and of types of events."""

_BAD = ("Fail", "Err", "BackOff", "OOMKilled", "Evicted", "Lost", "exit code", "FAILED")


def state_color(state: str) -> str:
    """The colour of the state of an object or pod; empty for a state that is neither good nor bad."""
    if any(word in state for word in _BAD):
        return "red"
    first = re.split("[, ]", state, maxsplit=1)[0]
    return next((color for color, words in _STATE_COLORS.items() if first in words), "")


def clean(text: str, keep: str = "") -> str:
    """Text of others as it may be written to a terminal: no control characters, no escape sequences."""
    return "".join(char if char.isprintable() or char in keep else " " for char in text)


def overwrites(stream: TextIO) -> bool:
    """Whether a stream is a terminal that can write over what it shows; that of an editor often cannot."""
    return stream.isatty() and os.environ.get("TERM") != DUMB


def can_show(text: str) -> bool:
    """Whether the encoding of standard output has all characters of a text."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def counted(number: int, noun: str) -> str:
    """A number and its noun: ``1 file``, ``2 files``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def styled_state(state: str) -> str:
    """The state of an object or pod in its colour, for text on a terminal; elsewhere it is only cleaned."""
    color = state_color(state)
    colored = sys.stdout.isatty() and settings().color and color
    return click.style(clean(state), fg=color) if colored else clean(state)


def styled_status(word: str) -> str:
    """A status word in its colour, for text on a terminal; any other text is only cleaned."""
    colored = sys.stdout.isatty() and settings().color and word in STATUS_COLORS
    return click.style(word, fg=STATUS_COLORS[word]) if colored else clean(word)
