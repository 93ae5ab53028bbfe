"""The transfer: ranged reads of all files at once, written in place, checked, then renamed.

One pool of workers takes parts from all files of all items, so the memory bound is workers times part size
whatever the number and size of files.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from kaiwo_storage_s3_gcs_azure_git_hf.download import errors
from kaiwo_storage_s3_gcs_azure_git_hf.download.partial_file import (
    PartialFile,
    content_key,
    needs_header_request,
)
from kaiwo_storage_s3_gcs_azure_git_hf.download.retries import retry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from concurrent.futures import Future

    from obstore import GetOptions

    from kaiwo.plugin.kit.downloads import DownloadLimits
    from kaiwo_storage_s3_gcs_azure_git_hf.download.journal import Journal
    from kaiwo_storage_s3_gcs_azure_git_hf.download.progress import DownloadProgress
    from kaiwo_storage_s3_gcs_azure_git_hf.download.target_paths import TargetVolume
    from kaiwo_storage_s3_gcs_azure_git_hf.download.transfer_types import ObjectFile, TransferTask

ErrorTranslator: TypeAlias = "Callable[[str, str, BaseException], errors.DownloadError]"
"""Translates item, object and failure to the error that the user reads."""

_CHUNK_BYTES = 256 * 1024
"""The least bytes of a chunk of a response, which the client joins from smaller reads."""

_WRITE_BYTES = 512 * 1024
"""Bytes from which chunks are written: few system calls, and little memory for each worker."""

_SYNC_EVERY = 4
"""Parts after which a file is synced in the background, so that the disk works while more arrives."""

_FINISHERS = 8
_MAX_FINISHING = 64
"""Whole files that may wait for the disk; each is an open file descriptor."""

_HEADER_REQUESTS = 4
_AHEAD = 32
"""Files whose headers are requested before their turn, so that no worker waits for the response."""

_PARALLEL_TASKS = 4


class Transfer:
    """The transfer of one plan."""

    def __init__(
        self,
        limits: DownloadLimits,
        journals: Mapping[TargetVolume, Journal],
        progress: DownloadProgress,
        to_download_error: ErrorTranslator,
        stop: threading.Event,
    ) -> None:
        self._limits = limits
        self._journals = journals
        self._progress = progress
        self._to_download_error = to_download_error
        self._stop = stop
        self._lock = threading.Lock()
        self._failure: errors.DownloadError | None = None
        self._finishers = ThreadPoolExecutor(_FINISHERS, "finish")
        self._header_pool = ThreadPoolExecutor(_HEADER_REQUESTS, "headers")
        self._finishing = threading.BoundedSemaphore(_MAX_FINISHING)

    def finished(self, file: ObjectFile) -> bool:
        """Whether an earlier run finished a file."""
        return self._journals[file.volume].finished(file.path, content_key(file))

    def run(self, files: Iterable[ObjectFile], tasks: Iterable[TransferTask]) -> None:
        """Download everything; the first failure stops the rest.

        Raises:
            DownloadError: the first failure.
        """
        parts = self._parts(files)
        with (
            self._header_pool,
            self._finishers,
            ThreadPoolExecutor(self._limits.workers, "part") as workers,
            ThreadPoolExecutor(_PARALLEL_TASKS, "task") as others,
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

    def _parts(self, files: Iterable[ObjectFile]) -> Iterator[tuple[PartialFile, int]]:
        for file, headers in self._with_headers(files):
            try:
                opened = PartialFile(file, self._journals[file.volume], self._limits.part_size, headers)
            except Exception as error:  # noqa: BLE001 - every failure becomes the error of its item
                self._fail(self._to_download_error(file.where, file.name, error))
                return
            self._progress.skip(opened.existing_bytes)
            if not opened.missing:
                self._submit_finish(opened)
            for index in opened.missing:
                yield opened, index

    def _with_headers(
        self, files: Iterable[ObjectFile]
    ) -> Iterator[tuple[ObjectFile, Future[Mapping[str, str]] | None]]:
        """Files in their order, with headers that are requested some files earlier."""
        waiting: deque[tuple[ObjectFile, Future[Mapping[str, str]] | None]] = deque()
        for file in files:
            needed = needs_header_request(file)
            waiting.append((file, self._header_pool.submit(self._read_headers, file) if needed else None))
            if len(waiting) > _AHEAD:
                yield waiting.popleft()
        yield from waiting

    def _read_headers(self, file: ObjectFile) -> Mapping[str, str]:
        headers = file.store.headers
        if headers is None or self._stop.is_set():
            return {}
        return retry(partial(headers.read, file.key), self._limits, self._stop)

    def _worker(self, parts: Iterator[tuple[PartialFile, int]]) -> None:
        while not self._stop.is_set():
            with self._lock:
                taken = None if self._stop.is_set() else next(parts, None)
            if taken is None:
                return
            opened, index = taken
            try:
                headers = opened.file.store.headers
                opened.check()  # its headers were requested with retries of their own
                retry_after = partial(headers.retry_after, opened.file.key) if headers else float
                retry(partial(self._fetch, opened, index), self._limits, self._stop, retry_after)
                left = opened.arrived(index)
            except Exception as error:  # noqa: BLE001 - every failure becomes the error of its item
                self._fail(self._to_download_error(opened.file.where, opened.file.name, error))
                return
            if not left:
                self._submit_finish(opened)
            elif left % _SYNC_EVERY == 0:
                self._finishers.submit(self._run_or_fail, opened, opened.sync)

    def _submit_finish(self, opened: PartialFile) -> None:
        """Have a whole file checked, synced and renamed while workers download more."""
        self._finishing.acquire()
        done = self._finishers.submit(self._run_or_fail, opened, opened.finish)
        done.add_done_callback(lambda _: self._finishing.release())

    def _run_or_fail(self, opened: PartialFile, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - every failure becomes the error of its item
            self._fail(self._to_download_error(opened.file.where, opened.file.name, error))

    def _fetch(self, opened: PartialFile, index: int) -> None:
        import obstore

        file, size = opened.file, opened.sizes[index]
        start = index * self._limits.part_size
        options: GetOptions = {}
        if file.etag and not file.etag.startswith("W/"):  # a weak ETag never matches (RFC 9110 13.1.1)
            options["if_match"] = file.etag
        if len(opened.sizes) > 1:
            options["range"] = (start, start + size)
        check = opened.check()
        if check:
            check.begin(index)
        chunks: list[Any] = []
        got = held = 0
        try:
            # Streamed in chunks: the client would copy a whole part once more.
            response = obstore.get(file.store.remote, file.key, options=options)
            _check_version(opened, response.meta)
            for chunk in response.stream(_CHUNK_BYTES):
                chunks.append(chunk)
                held += len(chunk)
                if held >= _WRITE_BYTES:
                    got += self._write(opened, index, chunks, start + got)
                    chunks, held = [], 0
            got += self._write(opened, index, chunks, start + got)
        finally:
            if got != size:
                self._progress.add(-got)
        if got != size:
            raise ConnectionError("response ended early")

    def _write(self, opened: PartialFile, index: int, chunks: list[Any], offset: int) -> int:
        """Check and write chunks of a part; how many bytes that was."""
        count = sum(map(len, chunks))
        start, size = index * self._limits.part_size, opened.sizes[index]
        self._check_can_continue(opened.file, offset + count - start, size)
        if check := opened.check():
            for chunk in chunks:
                check.add(index, chunk)
        opened.write(chunks, offset)
        self._progress.add(count)
        return count

    def _check_can_continue(self, file: ObjectFile, received: int, size: int) -> None:
        if self._stop.is_set():
            raise errors.NetworkError(file.where, f"{file.name} was interrupted", "run the download again")
        if received > size:
            raise errors.IntegrityError(
                file.where,
                f"{file.name} is longer than listed",
                "run the download again when nothing writes to it",
            )

    def _task(self, task: TransferTask) -> None:
        if self._stop.is_set():
            return
        try:
            task.run(self._progress)
        except Exception as error:  # noqa: BLE001 - every failure becomes the error of its item
            self._fail(self._to_download_error(task.where, task.summary, error))

    def _fail(self, error: errors.DownloadError) -> None:
        if self._failure is None:
            self._failure = error
        self._stop.set()


def _check_version(opened: PartialFile, meta: Mapping[str, Any]) -> None:
    """Check that a response is about the version that was planned, where the request could not name it.

    Servers behind one name may report different times of the last change of one file. That matters only
    where parts of two versions could be mixed unseen.

    Raises:
        IntegrityError: it is about another.
    """
    file = opened.file
    if file.etag:
        if file.etag.startswith("W/") and meta["e_tag"] != file.etag:
            raise errors.changed_error(file.where, file.name)
        return
    mixable = len(opened.sizes) > 1 and not file.sha256
    if mixable and file.version and str(meta["last_modified"]) != file.version:
        raise errors.changed_error(
            file.where, file.name, advice="or set sha256 if its servers differ in Last-Modified alone"
        )
