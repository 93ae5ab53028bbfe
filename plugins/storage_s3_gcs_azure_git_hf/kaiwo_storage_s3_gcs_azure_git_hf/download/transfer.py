"""The part engine: ranged reads of all files at once, written where they belong, checked, then renamed.

One pool of workers takes parts from all files of all items, so the memory bound is workers times part size
whatever the number and size of files.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from kaiwo_storage_s3_gcs_azure_git_hf.download import errors
from kaiwo_storage_s3_gcs_azure_git_hf.download.unfinished import (
    Unfinished,
    content_key,
    must_be_asked_for,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from concurrent.futures import Future

    from obstore import GetOptions

    from kaiwo.api.download import DownloadLimits
    from kaiwo_storage_s3_gcs_azure_git_hf.download.journal import Journal
    from kaiwo_storage_s3_gcs_azure_git_hf.download.model import File, Task
    from kaiwo_storage_s3_gcs_azure_git_hf.download.paths import Volume
    from kaiwo_storage_s3_gcs_azure_git_hf.download.progress import Progress

_T = TypeVar("_T")

Explained: TypeAlias = "Callable[[str, str, BaseException], errors.DownloadError]"
"""Turns item, object and failure into what the user reads."""

_CHUNK = 256 * 1024
"""Least bytes of a piece of an answer: what the client has read so far, or joined from smaller reads."""

_BATCH = 512 * 1024
"""Bytes from which pieces are written: few system calls, and little memory for each worker."""

_SYNC_EVERY = 4
"""Parts after which a file is synced in the background, so that the disk works while more arrives."""

_FINISHERS = 8
_UNFINISHED = 64
"""Whole files that may wait for the disk; each is an open file descriptor."""

_ASKING = 4
_AHEAD = 32
"""Files whose stores are asked for checksums before their turn, so that no worker waits for the answer."""

_TASKS_AT_ONCE = 4
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 20.0


def retried(
    action: Callable[[], _T],
    limits: DownloadLimits,
    stop: threading.Event,
    patience: Callable[[], float] = float,
) -> _T:
    """Run an action until it works, it fails for good, or its time is over.

    Args:
        action: what to do.
        limits: how long it is tried.
        stop: set when nothing is to be tried any more.
        patience: seconds that a server which said it is busy wants to be left alone.

    Returns:
        What the action returns.

    Raises:
        Exception: the last failure of the action.
    """
    began, pause = time.monotonic(), _FIRST_PAUSE
    while True:
        try:
            return action()
        except Exception as error:
            if stop.is_set() or not errors.transient(error):
                raise
            asked = patience() if errors.busy(error) else 0.0
            if time.monotonic() - began + max(pause, asked) > limits.retry_seconds:
                raise
            stop.wait(max(asked, pause * random.uniform(0.75, 1.25)))  # noqa: S311 - spreads retries, no secret
            pause = min(pause * 2, _LONGEST_PAUSE)


class Transfer:
    """One run over a plan."""

    def __init__(
        self,
        limits: DownloadLimits,
        journals: Mapping[Volume, Journal],
        progress: Progress,
        explained: Explained,
        stop: threading.Event,
    ) -> None:
        self._limits = limits
        self._journals = journals
        self._progress = progress
        self._explained = explained
        self._stop = stop
        self._lock = threading.Lock()
        self._failure: errors.DownloadError | None = None
        self._finishers = ThreadPoolExecutor(_FINISHERS, "finish")
        self._asking = ThreadPoolExecutor(_ASKING, "ask")
        self._unfinished = threading.BoundedSemaphore(_UNFINISHED)

    def finished(self, file: File) -> bool:
        """Whether a file is there from an earlier run."""
        return self._journals[file.volume].finished(file.path, content_key(file))

    def run(self, files: Iterable[File], tasks: Iterable[Task]) -> None:
        """Fetch everything; the first failure stops the rest.

        Raises:
            DownloadError: the first failure.
        """
        parts = self._parts(files)
        with (
            self._asking,
            self._finishers,
            ThreadPoolExecutor(self._limits.workers, "part") as workers,
            ThreadPoolExecutor(_TASKS_AT_ONCE, "task") as others,
        ):
            running = [others.submit(self._task, task) for task in tasks]
            running += [workers.submit(self._worker, parts) for _ in range(self._limits.workers)]
            try:
                wait(running)
            except BaseException:
                self._stop.set()
                raise
        for future in running:
            future.result()
        if self._failure:
            raise self._failure

    def _parts(self, files: Iterable[File]) -> Iterator[tuple[Unfinished, int]]:
        for file, headers in self._ahead(files):
            try:
                opened = Unfinished(file, self._journals[file.volume], self._limits.part_size, headers)
            except Exception as error:  # noqa: BLE001 - whatever it is becomes the item's one line
                self._fail(self._explained(file.where, file.name, error))
                return
            self._progress.skip(opened.there)
            if not opened.missing:
                self._to_finish(opened)
            for index in opened.missing:
                yield opened, index

    def _ahead(self, files: Iterable[File]) -> Iterator[tuple[File, Future[Mapping[str, str]] | None]]:
        """Files in their order, with what their stores are asked for some files earlier."""
        waiting: deque[tuple[File, Future[Mapping[str, str]] | None]] = deque()
        for file in files:
            asked = must_be_asked_for(file)
            waiting.append((file, self._asking.submit(self._ask, file) if asked else None))
            if len(waiting) > _AHEAD:
                yield waiting.popleft()
        yield from waiting

    def _ask(self, file: File) -> Mapping[str, str]:
        headers = file.store.headers
        if headers is None or self._stop.is_set():
            return {}
        return retried(partial(headers.of, file.key), self._limits, self._stop)

    def _worker(self, parts: Iterator[tuple[Unfinished, int]]) -> None:
        while not self._stop.is_set():
            with self._lock:
                taken = None if self._stop.is_set() else next(parts, None)
            if taken is None:
                return
            opened, index = taken
            try:
                headers = opened.file.store.headers
                opened.check()  # its store was asked with retries of its own
                patience = partial(headers.patience, opened.file.key) if headers else float
                retried(partial(self._fetch, opened, index), self._limits, self._stop, patience)
                left = opened.arrived(index)
            except Exception as error:  # noqa: BLE001 - whatever it is becomes the item's one line
                self._fail(self._explained(opened.file.where, opened.file.name, error))
                return
            if not left:
                self._to_finish(opened)
            elif left % _SYNC_EVERY == 0:
                self._finishers.submit(self._settle, opened, opened.sync)

    def _to_finish(self, opened: Unfinished) -> None:
        """Have a whole file checked, synced and renamed, while workers fetch more."""
        self._unfinished.acquire()
        done = self._finishers.submit(self._settle, opened, opened.finish)
        done.add_done_callback(lambda _: self._unfinished.release())

    def _settle(self, opened: Unfinished, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - whatever it is becomes the item's one line
            self._fail(self._explained(opened.file.where, opened.file.name, error))

    def _fetch(self, opened: Unfinished, index: int) -> None:
        import obstore

        file, size = opened.file, opened.sizes[index]
        start = index * self._limits.part_size
        options: GetOptions = {}
        weak = file.etag is not None and file.etag.startswith("W/")
        if file.etag and not weak:  # a weak one never matches (RFC 9110 13.1.1)
            options["if_match"] = file.etag
        if len(opened.sizes) > 1:
            options["range"] = (start, start + size)
        check = opened.check()
        if check:
            check.begin(index)
        pieces: list[Any] = []
        got = held = 0
        try:
            # Streamed in chunks: a whole part in memory would be copied once more by the client.
            answer = obstore.get(file.store.remote, file.key, options=options)
            if weak and answer.meta["e_tag"] != file.etag:
                raise errors.changed(file.where, file.name)
            for piece in answer.stream(_CHUNK):
                pieces.append(piece)
                held += len(piece)
                if held >= _BATCH:
                    got += self._write(opened, index, pieces, start + got)
                    pieces, held = [], 0
            got += self._write(opened, index, pieces, start + got)
        finally:
            if got != size:
                self._progress.add(-got)
        if got != size:
            raise ConnectionError("the answer ended too early")

    def _write(self, opened: Unfinished, index: int, pieces: list[Any], offset: int) -> int:
        """Check and write what came of a part; how many bytes that was."""
        count = sum(map(len, pieces))
        start, size = index * self._limits.part_size, opened.sizes[index]
        self._check_goes_on(opened.file, offset + count - start, size)
        if check := opened.check():
            for piece in pieces:
                check.take(index, piece)
        opened.write(pieces, offset)
        self._progress.add(count)
        return count

    def _check_goes_on(self, file: File, got: int, size: int) -> None:
        if self._stop.is_set():
            raise errors.NetworkError(file.where, f"{file.name} was interrupted", "run again")
        if got > size:
            raise errors.IntegrityError(
                file.where, f"{file.name} is longer than it was", "run again when nobody writes to it"
            )

    def _task(self, task: Task) -> None:
        if self._stop.is_set():
            return
        try:
            task.run(self._progress)
        except Exception as error:  # noqa: BLE001 - whatever it is becomes the item's one line
            self._fail(self._explained(task.where, task.summary, error))

    def _fail(self, error: errors.DownloadError) -> None:
        if self._failure is None:
            self._failure = error
        self._stop.set()
