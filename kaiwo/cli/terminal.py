"""What may be written to a terminal: text of others without control characters, status words in colour."""

from __future__ import annotations

import sys

import click

from kaiwo.cli.options import settings

STATUS_COLORS = {
    "COMPLETE": "green",
    "READY": "green",
    "RUNNING": "cyan",
    "STARTING": "cyan",
    "PENDING": "yellow",
    "TERMINATING": "yellow",
    "TERMINATED": "magenta",
    "FAILED": "red",
    "ERROR": "red",
}
"""Colour of each status word."""


def clean(text: str, keep: str = "") -> str:
    """Text of others as it may be written to a terminal: no control characters, no escape sequences."""
    return "".join(char if char.isprintable() or char in keep else " " for char in text)


def styled_status(word: str) -> str:
    """A status word in its colour, for text on a terminal; any other text is only cleaned."""
    colored = sys.stdout.isatty() and settings().color and word in STATUS_COLORS
    return click.style(word, fg=STATUS_COLORS[word]) if colored else clean(word)
