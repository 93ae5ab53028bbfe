"""Where the full-screen view has its workloads from, and what it does to them."""

from __future__ import annotations

import asyncio
import io
import sys
from contextlib import aclosing, redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

import click

from kaiwo.cli import kit
from kaiwo.cli.manage.rows import RowKey, workload_row
from kaiwo.client.kinds import BY_KIND, WORKLOADS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable

    from kaiwo.cli.manage.rows import WorkloadRow
    from kaiwo.client.live_list import LiveList
    from kaiwo.engine.client import Client
    from kaiwo.engine.credentials import Connection
    from kaiwo.engine.resource import Object
    from kaiwo.engine.store import CacheEvent
    from kaiwo.plugin.registry import Plugins

LOG_TAIL = 1000
"""Lines of each container's log that are shown at first."""


class WorkloadSource(Protocol):
    """What the view needs; tests have one without a cluster."""

    def rows(self) -> Iterable[WorkloadRow]:
        """All workloads as of now."""

    def loaded(self) -> bool:
        """Whether the first lists are in."""

    def problems(self) -> list[str]:
        """Why the list may be incomplete or outdated."""

    async def run(self, on_change: Callable[[frozenset[RowKey]], None]) -> None:
        """Follow the cluster until cancelled.

        Args:
            on_change: called with the workloads that changed.
        """

    async def details(self, row: WorkloadRow) -> str:
        """The page of a workload, with ANSI colours; raises an engine's error."""

    def logs(self, row: WorkloadRow, notify: Callable[[str], None]) -> AsyncGenerator[list[str], None]:
        """Lines of the logs as they come."""

    async def delete(self, row: WorkloadRow) -> str:
        """Delete exactly this workload; what to report."""

    def command(self, row: WorkloadRow, *words: str) -> list[str]:
        """The arguments of a process that runs a ``kaiwo`` command for a workload."""


class ClusterSource:
    """The workloads of a cluster."""

    def __init__(self, connection: Connection, namespace: str | None) -> None:
        """Prepare; nothing is read yet.

        Args:
            connection: the cluster.
            namespace: None for all.
        """
        self._live: LiveList | None = None
        self._connection = connection
        self._namespace = namespace
        self._rows: dict[RowKey, WorkloadRow] = {}
        self._client: Client | None = None
        self._plugins: Plugins | None = None

    @property
    def client(self) -> Client:
        """The client, which lives as long as `run`."""
        assert self._client is not None  # noqa: S101  nothing is called before `run`
        return self._client

    def rows(self) -> Iterable[WorkloadRow]:
        """All workloads as of now."""
        return self._rows.values()

    def loaded(self) -> bool:
        """Whether the first lists are in."""
        return self._live is not None and self._live.loaded()

    def problems(self) -> list[str]:
        """Why the list may be incomplete or outdated."""
        return self._live.problems() if self._live is not None else []

    async def run(self, on_change: Callable[[frozenset[RowKey]], None]) -> None:
        """Follow the cluster until cancelled."""
        from kaiwo.client.live_list import LiveList
        from kaiwo.engine.client import Client

        def changed(events: list[CacheEvent]) -> None:
            on_change(frozenset(filter(None, map(self._take, events))))

        async with Client(self._connection, user_agent=kit.FIELD_MANAGER) as self._client:
            self._live = LiveList(self._client, WORKLOADS, self._namespace, changed)
            await self._live.run()

    def _take(self, event: CacheEvent) -> RowKey | None:
        from kaiwo.engine.errors import UndecodableObject

        entry = event.latest
        key = RowKey(entry.resource.kind, entry.namespace, entry.name)
        if event.new is None:
            self._rows.pop(key, None)
            return key
        try:
            self._rows[key] = workload_row({**entry.full(), "kind": entry.resource.kind})
        except UndecodableObject:
            return None
        return key

    async def details(self, row: WorkloadRow) -> str:
        """The verdict of ``kaiwo why``, then the page of ``kaiwo status``, with ANSI colours."""
        from kaiwo.cli.output import detail_view, verdict_page
        from kaiwo.cli.workload_details import gather_details
        from kaiwo.client.created_kinds import created_kinds
        from kaiwo.client.why import why

        workload = await self._get(row)
        verdict, found = await asyncio.gather(
            why(self.client, self._loaded, workload),
            gather_details(self.client, workload, created_kinds(workload, self._loaded())),
        )
        page = _Page()
        with redirect_stdout(page), redirect_stderr(page):
            verdict_page.write_verdict(verdict)
            click.echo()
            detail_view.write_details(workload, found, datetime.now(UTC))
        return page.getvalue()

    async def logs(self, row: WorkloadRow, notify: Callable[[str], None]) -> AsyncGenerator[list[str], None]:
        """Lines of the logs as they come, with the pod's name where there are several."""
        from kaiwo.client.log_follower import LogOptions
        from kaiwo.client.logs import follow_batches

        workload = await self._get(row)
        pods: set[str] = set()
        batches = follow_batches(self.client, workload, LogOptions(tail=LOG_TAIL), notify)
        async with aclosing(batches):
            async for batch in batches:
                pods |= {line.pod for line in batch}
                several = len(pods) > 1
                yield [
                    (f"[{line.pod}] " if several else "") + line.text.decode("utf-8", "replace")
                    for line in batch
                ]

    async def delete(self, row: WorkloadRow) -> str:
        """Delete exactly this workload."""
        from kaiwo.client.deletion import delete

        metadata = {"namespace": row.key.namespace, "name": row.key.name, "uid": row.uid}
        goes_later = await delete(self.client, {"kind": row.key.kind, "metadata": metadata})
        return f"{row.target} {'is being deleted' if goes_later else 'deleted'}"

    def command(self, row: WorkloadRow, *words: str) -> list[str]:
        """The arguments of a process that runs a ``kaiwo`` command for a workload."""
        chosen = kit.settings()
        options = [f"--namespace={row.key.namespace}"]
        options += [f"--kubeconfig={chosen.kubeconfig}"] if chosen.kubeconfig else []
        options += [f"--context={chosen.context}"] if chosen.context else []
        options += [] if chosen.color else ["--no-color"]
        command, *rest = words
        program = "from kaiwo.cli.main import main; main()"
        return [sys.executable, "-c", program, command, *options, row.target, *rest]

    def _loaded(self) -> Plugins:
        if self._plugins is None:
            self._plugins = kit.plugins()
        return self._plugins

    async def _get(self, row: WorkloadRow) -> Object:
        return await self.client.get(BY_KIND[row.key.kind], row.key.namespace, row.key.name)


class _Page(io.StringIO):
    """Text for a terminal: what is written to it keeps its colours."""

    def isatty(self) -> bool:
        """Whether colours are wanted, as by the terminal itself."""
        return True
