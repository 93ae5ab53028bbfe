"""What the audience sees: a live table on a terminal, one line per change in a pipe."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from kaiwo.cli.output.printer import STYLES, clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

    from kaiwo.cli.demo.script import Chapter, Look
    from kaiwo.cli.demo.story import DemoRun

_TOLD = "✔ "
_GAP = 2
_STATUS_WIDTH = 9
_LEAST_WHY = 20
_LINES_AROUND = 4
"""Header, the lines above that explain the table, and the cursor's."""


class Board:
    """Prints the demo.

    Args:
        color: whether colours are allowed; a pipe never gets any.
    """

    def __init__(self, *, color: bool) -> None:
        from rich.console import Console

        self._console: Console = Console(no_color=not color, highlight=False, soft_wrap=False)
        self._live: Live | None = None
        self._began = time.monotonic()

    @property
    def drawn(self) -> bool:
        """Whether a table is drawn, not lines printed."""
        return self._console.is_terminal

    def say(self, text: str = "") -> None:
        """A line of the story."""
        if self.drawn:
            self._console.print(text, markup=False)
        else:
            click.echo(text)

    def detail(self, text: str) -> None:
        """What a command says while it works, less prominent."""
        if self.drawn:
            self._console.print(f"  {clean(text)}", style="dim", markup=False)
        else:
            click.echo(f"  {clean(text)}")

    @contextmanager
    def step(self, doing: str, done: str) -> Iterator[None]:
        """Show what is being done, and when it is, how long it took."""
        began = time.monotonic()
        if self.drawn:
            with self._console.status(f"{doing} …"):
                yield
            self._console.print(f"[green]✔[/green] {done} [dim]({time.monotonic() - began:.1f} s)[/dim]")
        else:
            click.echo(f"… {doing}")
            yield
            click.echo(f"✔ {done} ({time.monotonic() - began:.1f} s)")

    @contextmanager
    def showing(self, story: DemoRun) -> Iterator[None]:
        """Begin the clock, and keep the table on the screen."""
        self._began = time.monotonic()
        if not self.drawn:
            yield
            return
        from rich.live import Live

        with Live(self._table(story), console=self._console, auto_refresh=False) as self._live:
            yield
            self._live.update(self._table(story, whole=True), refresh=True)
        self._live = None

    def update(self, story: DemoRun, changed: list[Chapter]) -> None:
        """Show the state of things."""
        if self._live is not None:
            self._live.update(self._table(story), refresh=True)
            return
        for chapter in changed:
            look = story.looks[chapter.name]
            why = ": ".join(part for part in (look.reason, look.message) if part)
            click.echo(f"{self._clock()}  {chapter.name:<13} {look.status:<9} {clean(why)}".rstrip())

    def aside(self, text: str) -> None:
        """Something happens between the workloads' own changes."""
        if self._live is not None:
            self._console.print(f"[bold]{self._clock()}  {text}[/bold]")
        else:
            click.echo(f"{self._clock()}  {text}")

    def _clock(self) -> str:
        return f"{time.monotonic() - self._began:5.1f} s"

    def _table(self, story: DemoRun, *, whole: bool = False) -> Table:
        """The state of things; unless the whole is wanted, with reasons cut so that the screen holds it."""
        from rich.table import Table
        from rich.text import Text

        chapters = story.script.chapters
        names = max(len(chapter.name) for chapter in chapters) + len(_TOLD)
        asks = max(len(chapter.asks) for chapter in chapters)
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, _GAP, 0, 0))
        table.add_column("WORKLOAD", no_wrap=True, width=names)
        table.add_column("ASKS FOR", no_wrap=True, width=asks)
        table.add_column("STATUS", no_wrap=True, width=_STATUS_WIDTH)
        width = max(_LEAST_WHY, self._console.width - names - asks - _STATUS_WIDTH - 3 * _GAP)
        table.add_column("WHY", width=width)
        reasons = [self._why(story.looks[chapter.name], width) for chapter in chapters]
        if not whole:
            _fit(reasons, self._console.height - _LINES_AROUND)
        for chapter, why in zip(chapters, reasons, strict=True):
            status = story.looks[chapter.name].status
            told = Text(_TOLD if story.as_told(chapter) else " " * len(_TOLD), style="green")
            table.add_row(
                Text.assemble(told, chapter.name),
                Text(chapter.asks),
                Text(status or "-", style=STYLES.get(status, "")),
                Text("\n").join(why),
            )
        return table

    def _why(self, look: Look, width: int) -> list[Text]:
        """A reason in lines of a width."""
        from rich.text import Text

        why = Text(clean(look.message))
        if look.reason:
            why = Text.assemble((clean(look.reason), "bold"), ": ", why)
        lines = list(why.wrap(self._console, width))
        for line in lines:
            line.rstrip()
        return lines or [why]


def _fit(reasons: list[list[Text]], lines: int) -> None:
    """Shorten the longest reasons until all of them together have so many lines, or one each."""
    while sum(map(len, reasons)) > lines:
        longest = max(reversed(reasons), key=len)
        if len(longest) == 1:
            return
        longest.pop()
        longest[-1].truncate(max(len(longest[-1]) - 1, 1))
        longest[-1].append("…")
