"""The list widget: draws only the rows on the screen, and of these only the changed ones."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from kaiwo.cli.manage.layout import MARK, cells, column_layout, header_cells
from kaiwo.cli.manage.scroll_keys import SCROLL_KEYS
from kaiwo.cli.terminal import STATUS_COLORS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual import events

    from kaiwo.cli.manage.layout import ColumnLayout
    from kaiwo.cli.manage.rows import WorkloadRow

_PLAIN = Style()
"""Every segment has a style: the filter for NO_COLOR fails on one without."""

_BOLD = Style(bold=True)
_SELECTED = Style(reverse=True)
_COLORED = {word: Style(color=color) for word, color in STATUS_COLORS.items()}


class WorkloadTable(Widget, can_focus=True):
    """The workloads, one line each, below a line of titles; one of them is selected.

    The selection stays with its workload when rows move.
    """

    BINDINGS: ClassVar = SCROLL_KEYS

    class Selected(Message):
        """Another row is selected, or its content changed."""

    def __init__(self, *, everywhere: bool, clock: Callable[[], datetime] | None = None) -> None:
        """Prepare an empty list.

        Args:
            everywhere: with the namespaces.
            clock: what ages are counted to.
        """
        super().__init__()
        self.drawn_lines = 0
        self._everywhere = everywhere
        self._clock = clock or (lambda: datetime.now(UTC))
        self._rows: Sequence[WorkloadRow] = ()
        self._columns: list[ColumnLayout] = []
        self._top = 0
        self._cursor = 0

    @property
    def selected(self) -> WorkloadRow | None:
        """The selected row, None when there is none."""
        return self._rows[self._cursor] if self._rows else None

    @property
    def rows(self) -> Sequence[WorkloadRow]:
        """All rows, in their order."""
        return self._rows

    def show(self, rows: Sequence[WorkloadRow]) -> None:
        """Replace the rows; lines whose workload did not change are not drawn again."""
        before, top, cursor = self._rows, self._top, self._cursor
        selected = self.selected
        self._rows = rows
        if selected is not None:
            place = next((i for i, row in enumerate(rows) if row.key == selected.key), None)
            self._cursor = self._cursor if place is None else place
        self._settle()
        columns = column_layout(self.size.width, rows, everywhere=self._everywhere)
        if columns != self._columns or top != self._top:
            self._columns = columns
            self.refresh()
        else:
            for line in range(self._height()):
                self._refresh_changed(before, cursor, self._top + line, line)
        if self.selected is not selected:
            self.post_message(self.Selected())

    def refresh_ages(self) -> None:
        """Draw all visible lines again."""
        self.refresh()

    def action_move(self, by: int) -> None:
        """Select another row, so many lines below."""
        if not self._rows:
            return
        before, top = self._cursor, self._top
        self._cursor = max(0, min(len(self._rows) - 1, self._cursor + by))
        if before == self._cursor:
            return
        self._settle()
        if top != self._top:
            self.refresh()
        else:
            self._refresh_line(before - top)
            self._refresh_line(self._cursor - top)
        self.post_message(self.Selected())

    def action_page(self, by: int) -> None:
        """Select the row a screen below, or above with -1."""
        self.action_move(by * max(1, self._height() - 1))

    def on_resize(self, event: events.Resize) -> None:
        """Choose the columns for the new size; the selected row stays visible."""
        del event
        self._columns = column_layout(self.size.width, self._rows, everywhere=self._everywhere)
        self._settle()
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """Select the row that was clicked."""
        line = event.y - 1
        if line >= 0 and self._top + line < len(self._rows):
            self.action_move(self._top + line - self._cursor)

    def on_mouse_scroll_down(self) -> None:
        """Select a row further down."""
        self.action_move(3)

    def on_mouse_scroll_up(self) -> None:
        """Select a row further up."""
        self.action_move(-3)

    def render_line(self, y: int) -> Strip:
        """One line of the screen: the titles, or a row."""
        width = self.size.width
        if y == 0:
            titles = " ".join(header_cells(self._columns))
            return _line([Segment(" " * MARK, _BOLD), Segment(titles, _BOLD)], width)
        place = self._top + y - 1
        if place >= len(self._rows):
            return Strip.blank(width, _PLAIN)
        self.drawn_lines += 1
        row = self._rows[place]
        selected = place == self._cursor
        texts = cells(row, self._columns, self._clock())
        if selected:
            return _line([Segment("> " + " ".join(texts), _SELECTED)], width, _SELECTED)
        segments = [Segment(" " * MARK, _PLAIN)]
        for column, text in zip(self._columns, texts, strict=True):
            style = _COLORED.get(row.status, _PLAIN) if column.title == "STATUS" else _PLAIN
            segments += [Segment(text, style), Segment(" ", _PLAIN)]
        return _line(segments, width)

    def _height(self) -> int:
        """Rows on the screen."""
        return max(0, self.size.height - 1)

    def _settle(self) -> None:
        """Keep the selected row on the screen, and the screen full."""
        height = max(1, self._height())
        self._cursor = max(0, min(len(self._rows) - 1, self._cursor))
        self._top = max(0, min(self._top, self._cursor, len(self._rows) - height))
        if self._cursor >= self._top + height:
            self._top = self._cursor - height + 1

    def _refresh_changed(self, before: Sequence[WorkloadRow], cursor: int, place: int, line: int) -> None:
        old = before[place] if place < len(before) else None
        new = self._rows[place] if place < len(self._rows) else None
        moved = cursor != self._cursor and place in (cursor, self._cursor)
        if old is not new or moved:
            self._refresh_line(line)

    def _refresh_line(self, line: int) -> None:
        self.refresh(Region(0, line + 1, self.size.width, 1))


def _line(segments: list[Segment], width: int, style: Style = _PLAIN) -> Strip:
    return Strip(segments).adjust_cell_length(width, style)
