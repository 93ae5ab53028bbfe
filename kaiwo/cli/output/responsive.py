"""Tables and paragraphs that fit the terminal: a row that is too long becomes a block, no word is cut.

In a pipe a table is plain columns of any length, so that grep and awk see the same every time.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from kaiwo.cli.options import settings
from kaiwo.cli.output.layout import GAP, width_of, wrap
from kaiwo.cli.output.table import terminal_width
from kaiwo.cli.terminal import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

GOOD, WAITS, BAD = "green", "yellow", "red"
"""Colours: all is well, something waits, the user must act."""

_NARROWEST = 20


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table: text of anybody, and its colour, empty for none."""

    text: str
    color: str = ""


def _line_width() -> int | None:
    """Columns of a line; None where standard output is no terminal."""
    return terminal_width() if sys.stdout.isatty() else None


def styled(text: str, color: str) -> str:
    """Cleaned text in a colour, where standard output is a terminal that has colours."""
    shown = clean(text)
    colored = color and sys.stdout.isatty() and settings().color
    return click.style(shown, fg=color) if colored else shown


def write_rows(titles: Sequence[str], rows: Sequence[Sequence[Cell | str]], *, indent: str = "") -> None:
    """Write a table; nothing without rows.

    Args:
        titles: of the columns.
        rows: one cell for each column; an empty one is a dash.
        indent: before each line.
    """
    cells = [[_cell(cell) for cell in row] for row in rows]
    if not cells:
        return
    widths = [
        max(len(title), *(width_of(clean(row[at].text)) for row in cells)) for at, title in enumerate(titles)
    ]
    width = _line_width()
    if width is not None and len(indent) + sum(widths) + GAP * (len(widths) - 1) > width:
        for row in cells:
            _write_block(titles, row, indent, width)
        return
    _write_line([Cell(title) for title in titles], widths, indent)
    for row in cells:
        _write_line(row, widths, indent)


def _cell(cell: Cell | str) -> Cell:
    found = Cell(cell) if isinstance(cell, str) else cell
    return found if found.text else Cell("-")


def _write_line(row: Sequence[Cell], widths: Sequence[int], indent: str) -> None:
    parts = [
        styled(cell.text, cell.color) + " " * (width - width_of(clean(cell.text)))
        for cell, width in zip(row, widths, strict=True)
    ]
    click.echo((indent + (" " * GAP).join(parts)).rstrip())


def _write_block(titles: Sequence[str], row: Sequence[Cell], indent: str, width: int) -> None:
    """One row as pairs of title and text, as many on a line as fit; a long text goes on below its title."""
    line, length = indent, len(indent)
    inner = indent + "  "
    for title, cell in zip(titles, row, strict=True):
        if cell.text == "-":
            continue
        text = clean(cell.text)
        size = len(title) + 1 + width_of(text)
        gap = 2 if line.strip() else 0
        if length + gap + size <= width:
            line += " " * gap + f"{title} {styled(text, cell.color)}"
            length += gap + size
            continue
        if line.strip():
            click.echo(line)
        lines = wrapped(f"{title} {text}", width - len(inner))
        for part in lines[:-1]:
            click.echo(inner + styled(part, cell.color))
        line, length = inner + styled(lines[-1], cell.color), len(inner) + width_of(lines[-1])
    if line.strip():
        click.echo(line)


def wrapped(text: str, width: int) -> list[str]:
    """Text in lines of at most a width, broken between words; a longer word has a line of its own."""
    return wrap(clean(text), max(width, _NARROWEST))


def write_pair(title: str, text: str, *, column: int = 12, indent: str = "", color: str = "") -> None:
    """Write a title and a text, which is wrapped on a terminal; nothing without text."""
    if not text:
        return
    width = _line_width()
    lines = [clean(text)] if width is None else wrapped(text, width - len(indent) - column)
    click.echo(f"{indent}{clean(title):<{column}}{styled(lines[0], color)}")
    for line in lines[1:]:
        click.echo(indent + " " * column + styled(line, color))
