"""What the audience sees: a live table on a terminal, one line per change in a pipe."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from kaiwo.cli.demo.story import CHAPTERS
from kaiwo.cli.output import STYLES, clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console
    from rich.live import Live
    from rich.table import Table

    from kaiwo.cli.demo.story import Chapter, Story


class Board:
    """Prints the demo.

    Args:
        color: whether colours are allowed; a pipe never gets any.
    """

    def __init__(self, *, color: bool) -> None:
        from rich.console import Console  # noqa: PLC0415  only when something is drawn

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
    def showing(self, story: Story) -> Iterator[None]:
        """Begin the clock, and keep the table on the screen."""
        self._began = time.monotonic()
        if not self.drawn:
            yield
            return
        from rich.live import Live  # noqa: PLC0415  as above

        with Live(self._table(story), console=self._console, auto_refresh=False) as self._live:
            yield
            self._live.update(self._table(story), refresh=True)
        self._live = None

    def update(self, story: Story, changed: list[Chapter]) -> None:
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

    def _table(self, story: Story) -> Table:
        from rich.table import Table  # noqa: PLC0415  as above
        from rich.text import Text  # noqa: PLC0415  as above

        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0), expand=True)
        table.add_column("WORKLOAD", no_wrap=True)
        table.add_column("ASKS FOR", no_wrap=True)
        table.add_column("STATUS", no_wrap=True, min_width=9)
        table.add_column("WHY", ratio=1)
        for chapter in CHAPTERS:
            look = story.looks[chapter.name]
            why = Text(clean(look.message))
            if look.reason:
                why = Text.assemble((clean(look.reason), "bold"), ": ", why)
            end = Text("✔ " if story.as_told(chapter) else "  ", style="green")
            table.add_row(
                Text.assemble(end, chapter.name),
                Text(chapter.asks),
                Text(look.status or "-", style=STYLES.get(look.status, "")),
                why,
            )
        return table
