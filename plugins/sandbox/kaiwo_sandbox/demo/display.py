"""The output of the demo: a live table on a terminal, one line per change in a pipe."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from kaiwo.cli import kit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

    from kaiwo_sandbox.demo.scenario import DemoWorkload, ObservedStatus
    from kaiwo_sandbox.demo.scenario_run import ScenarioRun

_DONE = "✔ "
_GAP = 2
_STATUS_WIDTH = 11
"""The length of TERMINATING, the longest word."""

_MIN_REASON_WIDTH = 20
_OTHER_LINES = 4
"""The header, the lines above the table, and the line of the cursor."""


class Display:
    """Prints the demo.

    Args:
        color: whether colours are allowed; a pipe never gets any.
    """

    def __init__(self, *, color: bool) -> None:
        from rich.console import Console

        self._console: Console = Console(no_color=not color, highlight=False, soft_wrap=False)
        self._live: Live | None = None
        self._started = time.monotonic()

    @property
    def _on_terminal(self) -> bool:
        return self._console.is_terminal

    def print(self, text: str = "") -> None:
        """Print a line."""
        if self._on_terminal:
            self._console.print(text, markup=False, soft_wrap=True)
        else:
            click.echo(text)

    def detail(self, text: str) -> None:
        """Print the output of a command, less prominent and indented."""
        if self._on_terminal:
            self._console.print(f"  {kit.clean(text)}", style="dim", markup=False, soft_wrap=True)
        else:
            click.echo(f"  {kit.clean(text)}")

    @contextmanager
    def step(self, doing: str, done: str) -> Iterator[None]:
        """Show a step while it runs, then its result and duration."""
        started = time.monotonic()
        if self._on_terminal:
            with self._console.status(f"{doing} …"):
                yield
            self._console.print(f"[green]✔[/green] {done} [dim]({time.monotonic() - started:.1f} s)[/dim]")
        else:
            click.echo(f"… {doing}")
            yield
            click.echo(f"✔ {done} ({time.monotonic() - started:.1f} s)")

    @contextmanager
    def watching(self, run: ScenarioRun) -> Iterator[None]:
        """Start the clock and keep the table on the screen."""
        self._started = time.monotonic()
        if not self._on_terminal:
            yield
            return
        from rich.live import Live

        with Live(self._table(run), console=self._console, auto_refresh=False) as self._live:
            yield
            self._live.update(self._table(run, complete=True), refresh=True)
        self._live = None

    def update(self, run: ScenarioRun, changed: list[DemoWorkload]) -> None:
        """Show the current status of the workloads."""
        if self._live is not None:
            self._live.update(self._table(run), refresh=True)
            return
        for workload in changed:
            status = run.statuses[workload.name]
            reason = ": ".join(part for part in (status.reason, status.message) if part)
            line = (
                f"{self._clock()}  {workload.name:<13} {status.status:<{_STATUS_WIDTH}} {kit.clean(reason)}"
            )
            click.echo(line.rstrip())

    def announce(self, text: str) -> None:
        """Print an action of the demo between the changes of the workloads."""
        if self._live is not None:
            self._console.print(f"[bold]{self._clock()}  {text}[/bold]")
        else:
            click.echo(f"{self._clock()}  {text}")

    def _clock(self) -> str:
        return f"{time.monotonic() - self._started:5.1f} s"

    def _table(self, run: ScenarioRun, *, complete: bool = False) -> Table:
        """The table; its reasons are shortened to the height of the screen unless it must be complete."""
        from rich.table import Table
        from rich.text import Text

        workloads = run.scenario.workloads
        names = max(len(workload.name) for workload in workloads) + len(_DONE)
        requests = max(len(workload.requests) for workload in workloads)
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, _GAP, 0, 0))
        table.add_column("  WORKLOAD", no_wrap=True, width=names)
        table.add_column("REQUESTS", no_wrap=True, width=requests)
        table.add_column("STATUS", no_wrap=True, width=_STATUS_WIDTH)
        width = max(_MIN_REASON_WIDTH, self._console.width - names - requests - _STATUS_WIDTH - 3 * _GAP)
        table.add_column("REASON", width=width)
        reasons = [self._reason(run.statuses[workload.name], width) for workload in workloads]
        if not complete:
            shorten(reasons, self._console.height - _OTHER_LINES)
        for workload, reason in zip(workloads, reasons, strict=True):
            status = run.statuses[workload.name].status
            mark = Text(_DONE if run.is_done(workload) else " " * len(_DONE), style="green")
            table.add_row(
                Text.assemble(mark, workload.name),
                Text(workload.requests),
                Text.from_ansi(kit.styled_status(status or "-")),
                Text("\n").join(reason),
            )
        return table

    def _reason(self, status: ObservedStatus, width: int) -> list[Text]:
        """Reason and message in lines of this width."""
        from rich.text import Text

        reason = Text(kit.clean(status.message))
        if status.reason:
            reason = Text.assemble((kit.clean(status.reason), "bold"), ": ", reason)
        lines = list(reason.wrap(self._console, width))
        for line in lines:
            line.rstrip()
        return lines or [reason]


def shorten(reasons: list[list[Text]], lines: int) -> None:
    """Shorten the longest reasons until all of them together have this many lines, or one line each."""
    while sum(map(len, reasons)) > lines:
        longest = max(reversed(reasons), key=len)
        if len(longest) == 1:
            return
        longest.pop()
        longest[-1].truncate(max(len(longest[-1]) - 1, 1))
        longest[-1].append("…")
