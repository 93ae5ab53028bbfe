"""Which columns a screen has room for, and the text of a line."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size

from kaiwo.cli.duration import span

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kaiwo.cli.manage.rows import WorkloadRow

MARK = 2
"""Width of the column with the mark of the selected row."""

_LONGEST = 40
"""Width that a name or a reason takes at most."""

_MESSAGE_ROOM = 20
"""Width below which a message is not worth a column."""


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """One column.

    Attributes:
        title: in capitals.
        width: in cells.
    """

    title: str
    width: int


def row_age(row: WorkloadRow, now: datetime) -> str:
    """How long ago a workload was created."""
    return span((now - row.created).total_seconds()) if row.created else ""


_TEXT: dict[str, Callable[[WorkloadRow, datetime], str]] = {
    "NAMESPACE": lambda row, _: row.key.namespace,
    "NAME": lambda row, _: row.key.name,
    "KIND": lambda row, _: row.kind,
    "STATUS": lambda row, _: row.status,
    "REASON": lambda row, _: row.reason,
    "GPUS": lambda row, _: row.gpus,
    "QUEUE": lambda row, _: row.queue,
    "USER": lambda row, _: row.user,
    "AGE": row_age,
    "MESSAGE": lambda row, _: row.message,
}
"""Text of each column, in the order of the columns."""

_NEVER = datetime.min.replace(tzinfo=UTC)
"""The time for columns whose text does not depend on it."""


def column_layout(width: int, rows: Sequence[WorkloadRow], *, everywhere: bool) -> list[ColumnLayout]:
    """The columns for a width: the most useful ones first, a message where there is room.

    Args:
        width: of the screen in cells.
        rows: what is shown.
        everywhere: with the namespaces.
    """

    def wanted(title: str, least: int) -> int:
        longest = max((cell_len(_TEXT[title](row, _NEVER)) for row in rows), default=0)
        return max(least, min(longest, _LONGEST))

    widths = {"NAME": 16, "STATUS": 11, "REASON": 12, "GPUS": 4, "AGE": 5}
    if everywhere:
        widths["NAMESPACE"] = min(wanted("NAMESPACE", 9), 20)
    room = width - MARK - sum(widths.values()) - len(widths) + 1
    for title in ("NAME", "REASON"):
        more = max(0, min(room, wanted(title, widths[title]) - widths[title]))
        widths[title] += more
        room -= more
    for title, size in (("KIND", 7), ("QUEUE", wanted("QUEUE", 5)), ("USER", wanted("USER", 5))):
        if room > size:
            widths[title] = size
            room -= size + 1
    if room > _MESSAGE_ROOM:
        widths["MESSAGE"] = room - 1
    return [ColumnLayout(title, widths[title]) for title in _TEXT if title in widths]


def cells(row: WorkloadRow, columns: Sequence[ColumnLayout], now: datetime) -> list[str]:
    """The texts of a row, each as wide as its column."""
    return [_fitted(_TEXT[column.title](row, now), column.width) for column in columns]


def header_cells(columns: Sequence[ColumnLayout]) -> list[str]:
    """The titles, each as wide as its column."""
    return [_fitted(column.title, column.width) for column in columns]


def _fitted(text: str, width: int) -> str:
    """Text of exactly so many cells; cut text ends with three dots."""
    if text.isascii():
        return text.ljust(width) if len(text) <= width else text[: width - 3] + "..."
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, width - 3) + "..."
