"""Tables on standard output.

On a terminal a table has colours, and Rich wraps its messages; in a pipe it is plain columns, so that grep
and awk see the same thing every time. Nothing is ever cut: a terminal that is too narrow wraps whole lines.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from kaiwo.cli.options import settings
from kaiwo.cli.terminal import STATUS_COLORS, clean, styled_status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.console import Console

    from kaiwo.engine.resource import Object


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes:
        title: in capitals.
        value: text of a row.
        wide: shown with ``-o wide`` only.
        status: coloured as a status word.
    """

    title: str
    value: Callable[[Object], str]
    wide: bool = False
    status: bool = False


_MESSAGE = "MESSAGE"
"""Title of the column whose text may be wrapped."""

_MESSAGE_ROOM = 30
"""Characters below which a wrapped message is harder to read than a line that the terminal wraps."""


def write_table(columns: Sequence[Column], rows: Iterable[Object], *, indent: str = "") -> None:
    """Write a table; nothing at all when there are no rows.

    Args:
        columns: from left to right.
        rows: one object each.
        indent: before each line.
    """
    cells = [[clean(column.value(row)) or "-" for column in columns] for row in rows]
    if not cells:
        return
    widths = [max(len(column.title), *(len(row[i]) for row in cells)) for i, column in enumerate(columns)]
    if sys.stdout.isatty() and _fits(columns, widths, indent):
        _write_rich_table(columns, cells, indent)
        return
    for row in [[column.title for column in columns], *cells]:
        shown = [
            (styled_status(cell) if column.status else cell) + " " * (width - len(cell))
            for column, cell, width in zip(columns, row, widths, strict=True)
        ]
        click.echo(indent + "   ".join(shown).rstrip())


def _fits(columns: Sequence[Column], widths: Sequence[int], indent: str) -> bool:
    """Whether the terminal has room for all but the messages, and enough for these."""
    room = [
        min(width, _MESSAGE_ROOM) if column.title == _MESSAGE else width
        for column, width in zip(columns, widths, strict=True)
    ]
    return len(indent) + sum(room) + 3 * (len(room) - 1) <= shutil.get_terminal_size().columns


def _write_rich_table(columns: Sequence[Column], cells: Sequence[Sequence[str]], indent: str) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for column in columns:
        drawn.add_column(column.title, overflow="fold", no_wrap=column.title != _MESSAGE)
    for row in cells:
        drawn.add_row(
            *(
                Text(cell, style=STATUS_COLORS.get(cell, "") if column.status else "")
                for column, cell in zip(columns, row, strict=True)
            )
        )
    _console().print(Padding(drawn, (0, 0, 0, len(indent))))


def _console() -> Console:
    """Rich's console on standard output, with colours unless the user wants none."""
    from rich.console import Console as RichConsole

    return RichConsole(no_color=not settings().color, highlight=False, markup=False, emoji=False)
