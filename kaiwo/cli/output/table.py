"""Tables on standard output.

On a terminal a table has colours, and what does not fit its width is spread over several lines, broken
between columns and words; in a pipe it is plain columns, so that grep and awk see the same thing every time.
Nothing is ever cut.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from kaiwo.cli.options import settings
from kaiwo.cli.output.layout import GAP, groups, width_of, wrap
from kaiwo.cli.terminal import clean, styled_state, styled_status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kaiwo.engine.resource import Object


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes:
        title: in capitals.
        value: text of a row.
        wide: shown with ``-o wide`` only.
        status: coloured as a status word.
        state: coloured as the state of an object or pod.
        if_room: with ``wide``: shown without ``-o wide``, too, on a terminal that has room for it.
    """

    title: str
    value: Callable[[Object], str]
    wide: bool = False
    status: bool = False
    state: bool = False
    if_room: bool = False

    def styled(self, text: str) -> str:
        """The text in its colour."""
        return styled_status(text) if self.status else styled_state(text) if self.state else text


_MESSAGE = "MESSAGE"
"""Title of the column whose text may be wrapped."""

_MESSAGE_ROOM = 30
"""Columns below which a message is not put beside the others but on lines of its own."""


def terminal_width() -> int:
    """Columns of the terminal."""
    return shutil.get_terminal_size().columns


def write_table(columns: Sequence[Column], rows: Iterable[Object], *, indent: str = "") -> None:
    """Write a table; nothing at all when there are no rows.

    Args:
        columns: from left to right; those that are for a wide table only are left out without ``-o wide``.
        rows: one object each.
        indent: before each line.
    """
    wide = settings().output == "wide"
    shown = [column for column in columns if wide or not column.wide or column.if_room]
    cells = [[clean(column.value(row)) or "-" for column in shown] for row in rows]
    if not cells:
        return
    widths = [max(len(column.title), *(width_of(row[i]) for row in cells)) for i, column in enumerate(shown)]
    width = terminal_width() - len(indent) if sys.stdout.isatty() else None
    optional = [not wide and column.if_room for column in shown]
    if any(optional) and (width is None or not _fits(shown, widths, width)):
        kept = [index for index, dropped in enumerate(optional) if not dropped]
        shown, widths = [shown[index] for index in kept], [widths[index] for index in kept]
        cells = [[row[index] for index in kept] for row in cells]
    table = _Table(shown, widths, width)
    lines = table.lines([column.title for column in shown], header=True)
    for row in cells:
        lines += table.lines(row)
    click.echo("\n".join(f"{indent}{line}".rstrip() for line in lines))


def _fits(columns: Sequence[Column], widths: Sequence[int], width: int) -> bool:
    """Whether the terminal has room for all but the messages, and enough for these."""
    room = [
        min(size, _MESSAGE_ROOM) if column.title == _MESSAGE else size
        for column, size in zip(columns, widths, strict=True)
    ]
    return sum(room) + GAP * (len(room) - 1) <= width


class _Table:
    """How the rows of a table are laid out; ``width`` is None for one line each, however long."""

    def __init__(self, columns: Sequence[Column], widths: Sequence[int], width: int | None) -> None:
        self._columns = columns
        self._widths = widths
        self._width = width
        last = len(columns) - 1
        wrapped = width is not None and columns[last].title == _MESSAGE
        self._message = last if wrapped else None
        self._groups = [list(range(len(columns)))]
        self._room = 0
        if width is None or sum(widths) + GAP * last <= width:
            self._message = None
            return
        short = list(widths[:last]) if wrapped else list(widths)
        self._groups = groups(short, width)
        used = sum(short) + GAP * len(short)
        if len(self._groups) == 1 and width - used >= _MESSAGE_ROOM:
            self._room = width - used

    def lines(self, row: Sequence[str], *, header: bool = False) -> list[str]:
        """The lines of one row."""
        found = []
        for number, group in enumerate(self._groups):
            text = "".join(self._cell(index, row[index], header=header) for index in group)
            found.append(text if number == 0 else " " * GAP + text)
        if self._message is None or self._width is None:
            return found
        text = row[self._message]
        if self._room:
            parts = wrap(text, self._room)
            margin = " " * (self._width - self._room)
            return [found[0] + _bold(parts[0], header=header), *(margin + part for part in parts[1:])]
        return [
            *found,
            *(
                " " * GAP + _bold(part, header=header)
                for part in wrap(text, self._width - GAP)
                if part != "-"
            ),
        ]

    def _cell(self, index: int, text: str, *, header: bool) -> str:
        styled = _bold(text, header=header) if header else self._columns[index].styled(text)
        return styled + " " * (self._widths[index] - width_of(text) + GAP)


def _bold(text: str, *, header: bool) -> str:
    return click.style(text, bold=True) if header and sys.stdout.isatty() and settings().color else text
