"""Logs of download pods: followed by one stream each, told seldom, and never in the way."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from kaiwo.engine.errors import ConnectionBroken, Forbidden
from kaiwo.engine.workqueue import Key
from kaiwo.host.workload.download_progress import DownloadFollower
from kaiwo.workload.download.progress import Progress

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

KEY = Key("team", "tune")


class Logs:
    """A client whose pods have logs, and the controller that is called back."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.errors: list[Exception] = []
        self.reported: list[Key] = []
        self.now = 0.0
        self.leading = True
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()

    async def log(self, namespace: str, pod: str, *, container: str) -> AsyncIterator[bytes]:
        """Lines as they come."""
        assert (namespace, container) == ("team", "download")
        self.opened.append(pod)
        if self.errors:
            raise self.errors.pop(0)
        while line := await self._lines.get():
            yield line

    async def says(self, done: int, total: int = 100) -> None:
        """The program writes a line, and everybody had time to read it."""
        await self.writes(json.dumps({"event": "progress", "bytesDone": done, "bytesTotal": total}).encode())

    async def writes(self, line: bytes) -> None:
        """Any line; an empty one ends the log."""
        self._lines.put_nowait(line)
        for _ in range(5):
            await asyncio.sleep(0)


@asynccontextmanager
async def following() -> AsyncIterator[tuple[Logs, DownloadFollower]]:
    """Followers with an interval of a minute, and nothing left afterwards."""
    logs = Logs()
    downloads = DownloadFollower(
        logs,  # type: ignore[arg-type]  it has what is used of a client
        on_progress=logs.reported.append,
        active=lambda _: logs.leading,
        clock=lambda: logs.now,
    )
    try:
        yield logs, downloads
    finally:
        await downloads.close()


async def test_the_first_progress_is_reported_at_once_and_the_next_a_minute_later() -> None:
    """Whatever the program writes meanwhile."""
    async with following() as (logs, downloads):
        downloads.follow(KEY, "pod", reported=False)
        await logs.says(1)
        assert (downloads.progress(KEY), logs.reported) == (Progress(1, 100), [KEY])
        for share in range(2, 60):
            logs.now += 1
            await logs.says(share)
        assert (downloads.progress(KEY), logs.reported) == (Progress(1, 100), [KEY])
        logs.now += 2
        await logs.says(60)
        assert (downloads.progress(KEY), len(logs.reported)) == (Progress(60, 100), 2)


async def test_the_same_number_again_is_no_news() -> None:
    """A download that stands still costs no write."""
    async with following() as (logs, downloads):
        downloads.follow(KEY, "pod", reported=False)
        await logs.says(1)
        logs.now += 120
        await logs.says(1)
        await logs.writes(b"Cloning into 'r'...")
        assert len(logs.reported) == 1


async def test_after_a_restart_the_first_number_waits_for_its_minute() -> None:
    """The status holds one already."""
    async with following() as (logs, downloads):
        downloads.follow(KEY, "pod", reported=True)
        await logs.says(50)
        assert downloads.progress(KEY) is None
        logs.now += 60
        await logs.says(51)
        assert downloads.progress(KEY) == Progress(51, 100)


async def test_one_stream_for_each_pod() -> None:
    """Looking again opens nothing; another pod takes the place of the first; none ends it."""
    async with following() as (logs, downloads):
        for pod in ("one", "one", "two", "two"):
            downloads.follow(KEY, pod, reported=False)
            await asyncio.sleep(0)
        assert logs.opened == ["one", "two"]
        downloads.follow(KEY, "", reported=False)
        assert downloads.progress(KEY) is None
        await logs.says(1)
        assert logs.reported == []


async def test_a_log_that_cannot_be_read_is_tried_again() -> None:
    """Later and later; nothing else notices."""
    async with following() as (logs, downloads):
        logs.errors = [Forbidden(403, "Forbidden", "no", "log"), ConnectionBroken("cut")]
        downloads.follow(KEY, "pod", reported=False)
        await asyncio.sleep(3.5)
        assert logs.opened == ["pod"] * 3
        await logs.says(7)
        assert downloads.progress(KEY) == Progress(7, 100)


async def test_a_missing_right_to_read_logs_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise nobody learns why no download has a progress."""
    async with following() as (logs, downloads):
        words = 'cannot get resource "pods/log"'
        logs.errors = [Forbidden(403, "Forbidden", words, "log"), Forbidden(403, "Forbidden", words, "log")]
        downloads.follow(KEY, "pod", reported=False)
        while len(logs.opened) < 3:
            await asyncio.sleep(0.1)
        warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert len(warnings) == 1
        assert words in warnings[0]


async def test_who_does_not_lead_reads_no_logs() -> None:
    """A process that lost its Lease ends its streams at the next line."""
    async with following() as (logs, downloads):
        downloads.follow(KEY, "pod", reported=False)
        await logs.says(1)
        logs.leading = False
        await logs.says(2)
        await asyncio.sleep(0)
        logs.leading = True
        downloads.resume(KEY)
        await asyncio.sleep(0)
        assert logs.opened == ["pod", "pod"]


async def test_a_flood_of_lines_is_read_in_turns_of_a_second() -> None:
    """Who may change the image of a download pod cannot keep the operator busy with what it writes."""
    async with following() as (logs, downloads):
        read = 0

        async def flood(*_: object, container: str) -> AsyncIterator[bytes]:
            nonlocal read
            del container
            while read < 10_000:
                read += 1
                yield b"x"

        logs.log = flood  # type: ignore[method-assign]
        downloads.follow(KEY, "pod", reported=False)
        for _ in range(50):
            await asyncio.sleep(0)
        assert read < 1_000
