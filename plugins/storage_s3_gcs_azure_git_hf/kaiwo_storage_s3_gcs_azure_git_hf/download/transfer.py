"""The part engine: ranged reads of all files at once, written where they belong, checked, then renamed.

One pool of workers takes parts from all files of all items, so the memory bound is workers times part size
whatever the number and size of files.
"""

from __future__ import annotations

import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from kaiwo_storage_s3_gcs_azure_git_hf.download import checks, errors
from kaiwo_storage_s3_gcs_azure_git_hf.download.journal import Journal, fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from obstore import GetOptions

    from kaiwo.api.download import DownloadLimits
    from kaiwo_storage_s3_gcs_azure_git_hf.download.model import File, Task
    from kaiwo_storage_s3_gcs_azure_git_hf.download.paths import Volume
    from kaiwo_storage_s3_gcs_azure_git_hf.download.progress import Progress

_T = TypeVar("_T")

Explained: TypeAlias = "Callable[[str, str, BaseException], errors.DownloadError]"
"""Turns item, object and failure into what the user reads."""

_CHUNK = 64 * 1024
"""Least bytes of a piece of an answer: what the client has read so far, or joined from smaller reads."""

_SYNC_EVERY = 8
"""Parts after which a file is synced in the background, so that the disk works while more arrives."""

_FINISHERS = 8
_UNFINISHED = 64
"""Whole files that may wait for the disk; each is an open file descriptor."""

_TASKS_AT_ONCE = 4
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 20.0


def content_key(file: File) -> str:
    """What tells whether two files have the same content: store, key, version and size."""
    return fingerprint(file.store.name, file.key, file.etag, file.version, file.size, file.sha256)


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


class _Open:
    """A file under way."""

    def __init__(self, file: File, journal: Journal, part_size: int) -> None:
        self.file = file
        self.key = content_key(file)
        part_size = part_size if file.ranged else max(file.size, 1)
        self.partial = Path(f"{file.path}.part")
        self._journal = journal
        self._lock = threading.Lock()
        self._syncing = threading.Lock()
        self._closed = False
        self.sizes = [min(part_size, file.size - start) for start in range(0, file.size, part_size)] or [
            0
        ]  # an empty object is one empty part
        self.part_key = fingerprint(self.key, part_size)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        done = journal.parts(file.path, self.part_key)
        if done and not self.partial.exists():
            done = set()
        file.volume.ready(file.where, file.path)
        self.fd = os.open(self.partial, flags if done else flags | os.O_TRUNC, 0o644)
        os.ftruncate(self.fd, file.size)
        self.missing = [index for index in range(len(self.sizes)) if index not in done]
        self.there = sum(self.sizes[index] for index in done)
        self._left = len(self.missing)
        self.digest = self._digest(done)

    def _digest(self, done: set[int]) -> checks.InOrder | None:
        expected = self._expected()
        if expected is None:
            return None
        digest = checks.InOrder(expected, self.fd, self.sizes)
        for index in sorted(done):
            digest.arrived(index)
        return digest

    def _expected(self) -> checks.Expected | None:
        file = self.file
        if file.sha256:
            return checks.Expected("sha256", file.sha256, "the item's sha256")
        if file.store.md5_etag and (expected := checks.from_etag(file.etag)):
            return expected
        return None

    def arrived(self, index: int) -> int:
        """Note a part; how many are missing now."""
        if self.digest:
            self.digest.arrived(index)
        if len(self.sizes) > 1:
            self._journal.part(self.file.path, self.part_key, index)
        with self._lock:
            self._left -= 1
            return self._left

    def sync(self) -> None:
        """Bring to the disk what is there, unless that is going on; parts may arrive meanwhile."""
        if not self._syncing.acquire(blocking=False):
            return
        try:
            if not self._closed:
                self._journal.mark(self.file.path)
                os.fdatasync(self.fd)
                self._journal.synced(self.file.path)
        finally:
            self._syncing.release()

    def finish(self) -> None:
        """Check, sync and rename.

        Raises:
            IntegrityError: the content is not what it should be; nothing is left of it.
        """
        with self._syncing:
            self._closed = True
            self._finish(self.digest or self._late_digest(), self.file)

    def _finish(self, digest: checks.InOrder | None, file: File) -> None:
        if digest and digest.digest() != digest.expected.digest and not self._encrypted(digest.expected):
            os.close(self.fd)
            self.partial.unlink()
            expected = digest.expected
            raise errors.IntegrityError(
                file.where,
                f"{file.name} has not the {expected.algorithm} that {expected.origin} says",
                "check the source, and the sha256 of the item if it has one",
            )
        os.fsync(self.fd)
        os.close(self.fd)
        self.partial.replace(file.path)
        self._journal.finish(file.path, self.key)

    def _late_digest(self) -> checks.InOrder | None:
        """A digest that only a request of its own tells; asked for by the worker that wrote the last part."""
        if self.file.store.headers is None or not self.file.size:
            return None
        expected = checks.from_headers(self.file.store.headers.of(self.file.key))
        if expected is None:
            return None
        digest = checks.InOrder(expected, self.fd, self.sizes)
        for index in range(len(self.sizes)):
            digest.arrived(index)
        return digest

    def _encrypted(self, expected: checks.Expected) -> bool:
        """Whether the ETag is no MD5 after all, as of objects that S3 encrypts with a key of its own."""
        headers = self.file.store.headers
        if expected.origin != "the ETag" or headers is None:
            return False
        given = {name.lower(): value for name, value in headers.of(self.file.key).items()}
        return "kms" in given.get("x-amz-server-side-encryption", "") or (
            "x-amz-server-side-encryption-customer-algorithm" in given
        )


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

    def _parts(self, files: Iterable[File]) -> Iterator[tuple[_Open, int]]:
        for file in files:
            try:
                opened = _Open(file, self._journals[file.volume], self._limits.part_size)
            except Exception as error:  # noqa: BLE001 - whatever it is becomes the item's one line
                self._fail(self._explained(file.where, file.name, error))
                return
            self._progress.skip(opened.there)
            if not opened.missing:
                self._to_finish(opened)
            for index in opened.missing:
                yield opened, index

    def _worker(self, parts: Iterator[tuple[_Open, int]]) -> None:
        while not self._stop.is_set():
            with self._lock:
                taken = None if self._stop.is_set() else next(parts, None)
            if taken is None:
                return
            opened, index = taken
            try:
                headers = opened.file.store.headers
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

    def _to_finish(self, opened: _Open) -> None:
        """Have a whole file checked, synced and renamed, while workers fetch more."""
        self._unfinished.acquire()
        done = self._finishers.submit(self._settle, opened, opened.finish)
        done.add_done_callback(lambda _: self._unfinished.release())

    def _settle(self, opened: _Open, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - whatever it is becomes the item's one line
            self._fail(self._explained(opened.file.where, opened.file.name, error))

    def _fetch(self, opened: _Open, index: int) -> None:
        import obstore  # noqa: PLC0415 - only the download container has it

        file, size = opened.file, opened.sizes[index]
        start = index * self._limits.part_size
        options: GetOptions = {}
        if file.etag:
            options["if_match"] = file.etag
        if len(opened.sizes) > 1:
            options["range"] = (start, start + size)
        offset = start
        # A file of one part is checked on its way, larger ones are read again from memory in their order.
        digest = opened.digest if len(opened.sizes) == 1 else None
        if digest:
            digest.restart()
        try:
            # Streamed in chunks: a whole part in memory would be copied once more by the client.
            for chunk in obstore.get(file.store.remote, file.key, options=options).stream(_CHUNK):
                data = memoryview(chunk)
                self._check_goes_on(file, offset + len(data) - start, size)
                if digest:
                    digest.take(data)
                while data:
                    written = os.pwrite(opened.fd, data, offset)
                    offset += written
                    self._progress.add(written)
                    data = data[written:]
        finally:
            if offset != start + size:
                self._progress.add(start - offset)
        if offset != start + size:
            raise ConnectionError("the answer ended too early")

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
