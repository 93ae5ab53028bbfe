"""A source of workloads without a cluster, and the text on the screen."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kaiwo.cli.manage.app import ManageApp
from kaiwo.cli.manage.rows import RowKey, WorkloadRow, workload_row

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

NOW = datetime(2026, 1, 31, 9, tzinfo=UTC)


def workload(
    name: str, status: str, reason: str = "", *, age: float = 3600, kind: str = "KaiwoJob", **more: Any
) -> Any:
    """A workload as the API server returns it."""
    created = (NOW - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "kind": kind,
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}", "creationTimestamp": created},
        "spec": {"user": more.pop("user", "ann"), "clusterQueue": "kaiwo", "gpus": more.pop("gpus", 8)},
        "status": {"status": status, "reason": reason, **more},
    }


class FakeSource:
    """Workloads of a test; it records what was done to them."""

    def __init__(self, *objects: Any) -> None:
        self.found: dict[RowKey, WorkloadRow] = {}
        for obj in objects:
            row = workload_row(obj)
            self.found[row.key] = row
        self.is_loaded = True
        self.said: list[str] = []
        self.deleted: list[str] = []
        self.page = "Name:      job/train\nStatus:    \x1b[31mFAILED\x1b[0m (OutOfMemory)"
        self.reads = 0
        self.log: list[list[str]] = []
        self.error: Exception | None = None
        self.on_change: Callable[[frozenset[RowKey]], None] | None = None

    def rows(self) -> list[WorkloadRow]:
        """All workloads."""
        return list(self.found.values())

    def loaded(self) -> bool:
        """Whether lists are in."""
        return self.is_loaded

    def problems(self) -> list[str]:
        """What a test says."""
        return self.said

    async def run(self, on_change: Callable[[frozenset[RowKey]], None]) -> None:
        """Wait for `change`."""
        self.on_change = on_change
        if self.error is not None:
            raise self.error
        await asyncio.Event().wait()

    def change(self, *objects: Any) -> None:
        """Replace workloads, as a watch does."""
        rows = [workload_row(obj) for obj in objects]
        self.found |= {row.key: row for row in rows}
        assert self.on_change is not None
        self.on_change(frozenset(row.key for row in rows))

    async def details(self, row: WorkloadRow) -> str:
        """The page of a test."""
        del row
        self.reads += 1
        return self.page

    async def logs(self, row: WorkloadRow, notify: Callable[[str], None]) -> AsyncGenerator[list[str], None]:
        """The lines of a test."""
        notify(f"waiting for pods of {row.target}")
        for batch in self.log:
            yield batch

    async def delete(self, row: WorkloadRow) -> str:
        """Take it away."""
        self.deleted.append(row.uid)
        del self.found[row.key]
        assert self.on_change is not None
        self.on_change(frozenset({row.key}))
        return f"{row.target} deleted"

    def command(self, row: WorkloadRow, *words: str) -> list[str]:
        """A harmless process."""
        return ["echo", "forwarding", row.target, *words[1:]]


def several() -> list[Any]:
    """Workloads in many states."""
    return [
        workload("train", "RUNNING", "PodsReady", age=7200),
        workload("waits", "PENDING", "QuotaExhausted", message="8 GPUs wanted, 2 free in kaiwo", age=90),
        workload("oom", "FAILED", "OutOfMemory", message="container main ran out of memory", age=600),
        workload("typo", "ERROR", "ImageNotFound", message="example.org/tarin:1 does not exist", age=60),
        workload("done", "COMPLETE", "JobCompleted", age=86400 * 3),
        workload("chat", "READY", "", kind="KaiwoService", gpus=4, user="bob"),
        workload("new", "", age=1, gpus=0),
    ]


def screen_text(app: ManageApp) -> str:
    """The characters on the screen, without colours."""
    lines = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in lines) + "\n"


def app_of(source: FakeSource, **options: Any) -> ManageApp:
    """A view of a source, at a fixed time."""
    options.setdefault("namespace", "team")
    return ManageApp(source, clock=lambda: NOW, **options)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What tests of the view are made with."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    return SimpleNamespace(
        app=app_of, source=FakeSource, workload=workload, several=several, text=screen_text
    )
