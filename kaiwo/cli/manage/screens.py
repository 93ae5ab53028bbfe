"""The screens above the list: details, logs, a question, a port, help."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, Static

from kaiwo.cli.failures import plain, translated
from kaiwo.cli.manage.pager import LONGEST, Pager
from kaiwo.cli.terminal import clean

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.timer import Timer

    from kaiwo.cli.manage.rows import WorkloadRow
    from kaiwo.cli.manage.source import WorkloadSource

KEYS = (
    ("Up, Down, j, k", "select"),
    ("PgUp, PgDn, Home, End", "move by a screen, to the ends"),
    ("Enter", "details"),
    ("l", "logs"),
    ("e", "a shell in the workload"),
    ("f", "forward a port"),
    ("d", "delete, after a question"),
    ("/", "filter: name, namespace, status, reason, queue, user"),
    ("Esc", "back; in the list: no filter"),
    ("m", "only my workloads, or everybody's"),
    ("r", "draw everything again"),
    ("?", "this help"),
    ("q", "quit"),
)

FLUSH = 0.1
"""Seconds in which lines of a log are collected and drawn together."""

LONGEST_LINE = 4_000
"""Characters of a line of a log that are shown: to wrap megabytes of one line would hold up every key."""

RESIZED = 0.3
"""Seconds without a further change of the width after which the details are laid out for it."""


def shown_line(line: str) -> str:
    """A line of a log without what a terminal obeys, and cut where nobody reads on."""
    over = len(line) - LONGEST_LINE
    return clean(line[:LONGEST_LINE]) + (f" ... {over} more characters (kaiwo logs)" if over > 0 else "")


def error_text(error: Exception) -> str:
    """One line about an error."""
    failure = translated(error)
    return clean(failure.message if failure else f"{type(error).__name__}: {plain(error)}")


def colored_line(line: str) -> Text:
    """A line with the colours of its escape sequences, and nothing else that a terminal obeys."""
    text = Text.from_ansi(line)
    text.plain = clean(text.plain)
    return text


class TextScreen(Screen[None]):
    """A title, a long text, and the keys."""

    BINDINGS: ClassVar = [
        Binding("escape,q,left", "app.pop_screen", show=False),
        Binding("question_mark", "app.help", show=False),
    ]
    keys = "Esc back   Up Down PgUp PgDn scroll   ? help"

    def __init__(self, row: WorkloadRow, source: WorkloadSource, *, follow: bool = False) -> None:
        """Prepare.

        Args:
            row: the workload.
            source: where to read.
            follow: show the end whenever lines are added.
        """
        super().__init__()
        self.row = row
        self.source = source
        self.pager = Pager(follow=follow)

    def compose(self) -> ComposeResult:
        """The widgets from top to bottom."""
        yield Static(self.title_text(), classes="bar", markup=False)
        yield self.pager
        yield Static(self.keys, classes="bar", markup=False)

    def title_text(self) -> str:
        """The first line."""
        return f"{self.row.target}  namespace {self.row.key.namespace}"


class DetailScreen(TextScreen):
    """Everything about one workload; read again when the screen has another width, which tables fit."""

    BINDINGS: ClassVar = [
        Binding("r", "read", show=False),
        Binding("l", "logs", show=False),
    ]
    keys = "Esc back   l logs   r read again   Up Down PgUp PgDn scroll   ? help"
    _resized: Timer | None = None
    _read_width = 0

    def on_mount(self) -> None:
        """Read the page."""
        self.pager.show([Text("reading ...")])
        self.action_read()

    def on_resize(self) -> None:
        """Read the page when the width has changed and stays."""
        if self._resized is not None:
            self._resized.stop()
        self._resized = self.set_timer(RESIZED, self._read_at_width)

    def _read_at_width(self) -> None:
        if self.app.size.width != self._read_width:
            self.action_read()

    def action_read(self) -> None:
        """Read the page; a reading under way is given up."""
        self._read_width = self.app.size.width
        self.run_worker(self._read(), exclusive=True)

    def action_logs(self) -> None:
        """Show the logs instead."""
        self.app.switch_screen(LogScreen(self.row, self.source, follow=True))

    async def _read(self) -> None:
        try:
            text = await self.source.details(self.row)
        except Exception as error:  # noqa: BLE001  whatever it is, the view goes on
            text = error_text(error)
        self.pager.show([colored_line(line) for line in text.splitlines()])


class LogScreen(TextScreen):
    """The logs of one workload, followed."""

    keys = "Esc back   Home first   End follow   Up Down PgUp PgDn scroll   ? help"

    def on_mount(self) -> None:
        """Start reading."""
        self._pending: list[str] = []
        self._flushing = False
        self.run_worker(self._read())

    def title_text(self) -> str:
        """The first line."""
        return f"logs of {super().title_text()}"

    async def _read(self) -> None:
        try:
            async for batch in self.source.logs(self.row, self._notice):
                self._add(batch)
            self._notice("end of the logs")
        except Exception as error:  # noqa: BLE001  whatever it is, the view goes on
            self._notice(error_text(error))

    def _notice(self, text: str) -> None:
        self._add([f"-- {clean(text)}"])

    def _add(self, lines: list[str]) -> None:
        self._pending += map(shown_line, lines[-LONGEST:])
        # A program that writes faster than anybody reads must not fill the memory.
        del self._pending[:-LONGEST]
        if not self._flushing:
            self._flushing = True
            self.set_timer(FLUSH, self._flush)

    def _flush(self) -> None:
        lines, self._pending, self._flushing = self._pending, [], False
        self.pager.append(map(Text, lines))


class QuestionScreen(ModalScreen[bool]):
    """A question that only ``y`` answers with yes."""

    BINDINGS: ClassVar = [
        Binding("y", "dismiss(True)", show=False),
        Binding("n,escape,q,enter", "dismiss(False)", show=False),
    ]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """The question and its answers."""
        with Vertical(classes="box"):
            yield Static(self._text, markup=False)
            yield Static("y yes   n no", markup=False)


class PortScreen(ModalScreen[str]):
    """Asks for a port."""

    BINDINGS: ClassVar = [Binding("escape", "dismiss('')", show=False)]

    def __init__(self, target: str) -> None:
        super().__init__()
        self._target = target

    def compose(self) -> ComposeResult:
        """The question and a line to answer it."""
        with Vertical(classes="box"):
            yield Static(f"Forward to which port of {self._target}?  (8080, or LOCAL:REMOTE)", markup=False)
            yield Input(restrict=r"[0-9]{0,5}(:[0-9]{0,5})?", compact=True)
            yield Static("Enter forward   Esc back", markup=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Give the answer back."""
        self.dismiss(event.value.strip(":"))


class HelpScreen(ModalScreen[None]):
    """The keys."""

    BINDINGS: ClassVar = [Binding("escape,q,enter,question_mark,space", "dismiss", show=False)]

    def compose(self) -> ComposeResult:
        """A line for each key."""
        with Vertical(classes="box"):
            yield Static("\n".join(f"{key:<22} {what}" for key, what in KEYS), markup=False)
            yield Static("\nEsc back", markup=False)
