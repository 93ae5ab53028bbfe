"""The widget for long texts: a page of details, a log that grows."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.strip import Strip
from textual.widget import Widget

from kaiwo.cli.manage.scroll_keys import SCROLL_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual import events

_PLAIN = Style()
"""Every segment has a style: the filter for NO_COLOR fails on one without."""

LONGEST = 10_000
"""Lines that are kept; older ones are dropped."""


class Pager(Widget, can_focus=True):
    """Lines of text, wrapped at the width of the screen.

    Attributes:
        follow: show the end whenever lines are added.
    """

    BINDINGS: ClassVar = SCROLL_KEYS

    def __init__(self, *, follow: bool = False) -> None:
        super().__init__()
        self.follow = follow
        self._lines: deque[Text] = deque(maxlen=LONGEST)
        self._wrapped: list[Text] = []
        self._top = 0

    @property
    def at_end(self) -> bool:
        """Whether the last line is on the screen."""
        return self._top >= self._last_top()

    def show(self, lines: Iterable[Text]) -> None:
        """Replace the text; the place in it stays."""
        self._lines = deque(lines, maxlen=LONGEST)
        self._wrap()

    def append(self, lines: Iterable[Text]) -> None:
        """Add lines at the end; who has scrolled up stays where they are."""
        follow = self.follow and self.at_end
        for line in lines:
            self._lines.append(line)
            self._wrapped += self._parts(line)
        over = len(self._wrapped) - LONGEST
        if over > 0:
            del self._wrapped[:over]
            self._top -= over
        self._top = self._last_top() if follow else max(0, self._top)
        self.refresh()

    def action_move(self, by: int) -> None:
        """Scroll by so many lines."""
        top = max(0, min(self._last_top(), self._top + by))
        if top != self._top:
            self._top = top
            self.refresh()

    def action_page(self, by: int) -> None:
        """Scroll by a screen."""
        self.action_move(by * max(1, self.size.height - 1))

    def on_resize(self, event: events.Resize) -> None:
        """Wrap the text at the new width."""
        del event
        self._wrap()

    def on_mouse_scroll_down(self) -> None:
        """Scroll down."""
        self.action_move(3)

    def on_mouse_scroll_up(self) -> None:
        """Scroll up."""
        self.action_move(-3)

    def render_line(self, y: int) -> Strip:
        """One line of the screen."""
        place = self._top + y
        width = self.size.width
        if place >= len(self._wrapped):
            return Strip.blank(width, _PLAIN)
        segments = self._wrapped[place].render(self.app.console)
        return Strip(Segment.apply_style(segments, _PLAIN)).adjust_cell_length(width, _PLAIN)

    def _last_top(self) -> int:
        return max(0, len(self._wrapped) - max(1, self.size.height))

    def _wrap(self) -> None:
        follow = self.follow and self.at_end
        self._wrapped = [part for line in self._lines for part in self._parts(line)]
        self._top = self._last_top() if follow else min(self._top, self._last_top())
        self.refresh()

    def _parts(self, line: Text) -> list[Text]:
        width = self.size.width
        if not width or line.cell_len <= width:
            return [Text("", end="") + line] if line.end else [line]
        return [_ended(part) for part in line.wrap(self.app.console, width, overflow="fold")]


def _ended(part: Text) -> Text:
    part.end = ""
    return part
