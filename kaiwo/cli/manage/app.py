"""The full-screen view: the list, its keys, and what they do."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from textual.app import App, SuspendNotSupported
from textual.binding import Binding
from textual.widgets import Input, Static

from kaiwo.cli.manage.rows import chosen_rows, counts
from kaiwo.cli.manage.screens import (
    DetailScreen,
    HelpScreen,
    LogScreen,
    PortScreen,
    QuestionScreen,
    error_text,
)
from kaiwo.cli.manage.table import WorkloadTable
from kaiwo.cli.terminal import clean, counted

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from textual.app import ComposeResult

    from kaiwo.cli.manage.rows import RowKey, WorkloadRow
    from kaiwo.cli.manage.source import WorkloadSource

STATE_INTERVAL = 1.0
"""Seconds after which the state of the connection is looked up."""

AGE_INTERVAL = 10.0
"""Seconds after which ages are drawn anew."""

NOTICE = 10.0
"""Seconds for which a notice stays."""

KEYS = "Enter details  l logs  e shell  f forward  d delete  / filter  ? help  q quit"


class ManageApp(App[None]):
    """The full-screen view of ``kaiwo manage``.

    Attributes:
        failure: why it ended, None if the user did.
    """

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { background: ansi_default; color: ansi_default; layout: vertical; }
    ModalScreen { align: center middle; background: ansi_default; }
    .bar { height: 1; text-style: bold; text-wrap: nowrap; text-overflow: ellipsis; }
    .line { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    WorkloadTable, Pager { height: 1fr; width: 1fr; }
    .box { width: auto; height: auto; max-width: 100%; border: ascii; padding: 0 1; }
    .box Static { width: auto; }
    Input { border: none; height: 1; padding: 0; background: ansi_default; color: ansi_default; }
    #filter { display: none; }
    """
    BINDINGS: ClassVar = [
        Binding("enter,right", "details", show=False),
        Binding("l", "logs", show=False),
        Binding("e", "exec", show=False),
        Binding("f", "forward", show=False),
        Binding("d,delete", "delete", show=False),
        Binding("slash", "filter", show=False),
        Binding("escape", "no_filter", show=False),
        Binding("m", "mine", show=False),
        Binding("r", "redraw", show=False),
        Binding("question_mark", "help", show=False),
        Binding("q", "quit", show=False),
        Binding("ctrl+c", "quit", show=False, priority=True),
    ]

    def __init__(
        self,
        source: WorkloadSource,
        *,
        namespace: str | None,
        user: str | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        """Prepare; nothing is read before it runs.

        Args:
            source: where the workloads are.
            namespace: the one that is shown, None for all.
            user: whose workloads are shown first; None for everybody's.
            clock: what ages are counted to.
        """
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.failure: Exception | None = None
        self.table = WorkloadTable(everywhere=namespace is None, clock=clock)
        self._source = source
        self._namespace = namespace
        self._user = user
        self._mine = user is not None
        self._words = ""
        self._notice = ""
        self._notice_ends = 0.0
        self._forwards: list[asyncio.subprocess.Process] = []

    def compose(self) -> ComposeResult:
        """The widgets from top to bottom."""
        yield Static(classes="bar", id="title", markup=False)
        yield self.table
        yield Static(classes="line", id="message", markup=False)
        yield Input(placeholder="filter", id="filter", compact=True)
        yield Static(classes="line", id="state", markup=False)
        yield Static(KEYS, classes="bar", markup=False)

    def on_mount(self) -> None:
        """Start following the cluster."""
        self.table.focus()
        self._show()
        self.run_worker(self._follow())
        self.set_interval(STATE_INTERVAL, self._show_state)
        self.set_interval(AGE_INTERVAL, self.table.refresh_ages)

    async def on_unmount(self) -> None:
        """End what runs beside the view."""
        for process in self._forwards:
            with suppress(ProcessLookupError):
                process.terminate()
        await asyncio.gather(*(process.wait() for process in self._forwards))

    async def _follow(self) -> None:
        try:
            await self._source.run(self._changed)
        except Exception as error:  # noqa: BLE001  the command reports it after the screen is restored
            self.failure = error
            self.exit()

    def _changed(self, keys: frozenset[RowKey]) -> None:
        self._show()
        screen = self.screen
        if isinstance(screen, DetailScreen) and screen.row.key in keys:
            screen.action_read()

    def _show(self) -> None:
        """Show the rows that the filter keeps."""
        user = self._user if self._mine else None
        self.table.show(chosen_rows(self._source.rows(), self._words, user))
        where = f"namespace {self._namespace}" if self._namespace else "all namespaces"
        whose = f", workloads of {clean(user)} (m: everybody's)" if user else ""
        words = f", filter: {self._words}" if self._words else ""
        self._write("#title", f"kaiwo: {where}{whose}{words}")
        self._show_message()
        self._show_state()

    def _show_message(self) -> None:
        row = self.table.selected
        if row is not None:
            self._write("#message", row.message)
        elif not self._source.loaded():
            self._write("#message", "reading ...")
        elif self._words or self._mine:
            self._write("#message", "no workloads match; Esc takes the filter away, m shows everybody's")
        else:
            self._write("#message", "no workloads; send one with kaiwo submit -f FILE or kaiwo run")

    def _show_state(self) -> None:
        """The line with problems, a notice, or the numbers."""
        if self._notice and self._now() > self._notice_ends:
            self._notice = ""
        problems = [clean(problem) for problem in self._source.problems()]
        text = self._notice or "; ".join(problems)
        if not text:
            rows = self.table.rows
            plural = "" if len(rows) == 1 else "s"
            text = f"{len(rows)} workload{plural}" + (f": {counts(rows)}" if rows else "")
        elif problems and not self._notice:
            text = f"! {text}"
        self._write("#state", text)

    def _write(self, where: str, text: str) -> None:
        """Change a line, unless it has the text already."""
        widget = self.screen_stack[0].query_one(where, Static)
        if str(widget.content) != text:
            widget.update(text)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def notice(self, text: str) -> None:
        """Show a text in the state line for a while."""
        self._notice, self._notice_ends = clean(text), self._now() + NOTICE
        self._show_state()

    def on_workload_table_selected(self) -> None:
        """Show the message of the selected workload."""
        self._show_message()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while the user types."""
        if event.input.id == "filter":
            self._words = event.value
            self._show()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the filter and go back to the list."""
        if event.input.id == "filter":
            self._close_filter()

    def _close_filter(self) -> None:
        field = self.screen_stack[0].query_one("#filter", Input)
        field.display = False
        self.screen_stack[0].query_one("#message", Static).display = True
        self.table.focus()

    def action_filter(self) -> None:
        """Open the line for the filter."""
        if self._in_list():
            field = self.screen.query_one("#filter", Input)
            self.screen.query_one("#message", Static).display = False
            field.display = True
            field.focus()

    def action_no_filter(self) -> None:
        """Show everything again."""
        if self._in_list():
            self.screen.query_one("#filter", Input).value = ""
            self._close_filter()

    def action_mine(self) -> None:
        """Show only the user's workloads, or everybody's."""
        if self._user is None:
            self.notice("whose workloads are yours is not known; write user: NAME into kaiwoconfig.yaml")
        else:
            self._mine = not self._mine
            self._show()

    def action_redraw(self) -> None:
        """Draw everything again, after another program wrote to the terminal."""
        self.refresh(layout=True)

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(HelpScreen())

    def action_details(self) -> None:
        """Show the page of the selected workload."""
        if (row := self._row()) is not None:
            self.push_screen(DetailScreen(row, self._source))

    def action_logs(self) -> None:
        """Show the logs of the selected workload."""
        if (row := self._row()) is not None:
            self.push_screen(LogScreen(row, self._source, follow=True))

    def action_delete(self) -> None:
        """Delete the selected workload, after a question."""
        row = self._row()
        if row is None:
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self.run_worker(self._delete(row))

        state = f"{row.status or 'new'}, {counted(int(row.gpus), 'GPU')}"
        text = f"Delete {row.target} in namespace {row.key.namespace} ({state})?"
        self.push_screen(QuestionScreen(f"{text}\nIts data volumes go with it."), answered)

    async def _delete(self, row: WorkloadRow) -> None:
        try:
            self.notice(await self._source.delete(row))
        except Exception as error:  # noqa: BLE001  whatever it is, the view goes on
            self.notice(error_text(error))

    def action_exec(self) -> None:
        """Leave the screen to a shell in the selected workload until it ends."""
        if (row := self._row()) is not None:
            self._run_outside(self._source.command(row, "exec"))

    def _run_outside(self, arguments: list[str]) -> None:
        try:
            with self.suspend():
                # Ctrl-C is for the other program; a handler, unlike SIG_IGN, is not inherited by it.
                before = signal.signal(signal.SIGINT, lambda *_: None)
                try:
                    code = subprocess.run(arguments, check=False).returncode
                    if code:
                        print(f"exit code {code}; press Enter to go back")  # noqa: T201  the screen is restored
                        with suppress(EOFError):
                            input()
                finally:
                    signal.signal(signal.SIGINT, before)
        except SuspendNotSupported:
            self.notice("this terminal cannot be left to another program")

    def action_forward(self) -> None:
        """Ask for a port and forward it until the view ends."""
        row = self._row()
        if row is None:
            return

        def answered(port: str | None) -> None:
            if port:
                self.run_worker(self._forward(row, port))

        self.push_screen(PortScreen(row.target), answered)

    async def _forward(self, row: WorkloadRow, port: str) -> None:
        process = await asyncio.create_subprocess_exec(
            *self._source.command(row, "port-forward", port),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        self._forwards.append(process)
        assert process.stdout is not None  # noqa: S101  it is a pipe
        lines: list[str] = []
        async for line in process.stdout:
            lines.append(line.decode("utf-8", "replace").strip())
            self.notice(lines[-1])
        code = await process.wait()
        self._forwards.remove(process)
        why = next((f": {line}" for line in lines if line.startswith("error: ")), "")
        self.notice(f"port-forward to {row.target} ended with exit code {code}{why}")

    def _in_list(self) -> bool:
        """Whether the list is the screen that is shown."""
        return len(self.screen_stack) == 1

    def _row(self) -> WorkloadRow | None:
        return self.table.selected if self._in_list() else None
