"""One file under way: what is missing of it, writing parts, checking the whole, giving it its name."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kaiwo_storage_s3_gcs_azure_git_hf.download import checks, disk, errors
from kaiwo_storage_s3_gcs_azure_git_hf.download.journal import fingerprint

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

    from kaiwo_storage_s3_gcs_azure_git_hf.download.journal import Journal
    from kaiwo_storage_s3_gcs_azure_git_hf.download.model import File

_WORTH_A_REQUEST: Final = 1024**2
"""Bytes from which asking for a quick checksum costs less than the MD5 that is known already."""


def content_key(file: File) -> str:
    """What tells whether two files have the same content: store, key, version and size."""
    return fingerprint(file.store.name, file.key, file.etag, file.version, file.size, file.sha256)


def must_be_asked_for(file: File) -> bool:
    """Whether only a request of its own tells the checksum of a file, or a better one than is known."""
    if file.sha256 or not file.size or file.store.headers is None:
        return False
    return file.size >= _WORTH_A_REQUEST or _md5(file) is None


def expected(file: File, headers: Mapping[str, str]) -> checks.Expected | None:
    """What the content of a file must have; None when nobody says.

    Args:
        file: the file.
        headers: of its store's answer to a HEAD request; empty when it was not asked.
    """
    if file.sha256:
        return checks.Expected("sha256", file.sha256, "the item's sha256")
    return checks.from_headers(headers) or (None if _encrypted(headers) else _md5(file))


def _md5(file: File) -> checks.Expected | None:
    return checks.from_etag(file.etag) if file.store.md5_etag else None


def _encrypted(headers: Mapping[str, str]) -> bool:
    """Whether an ETag is no MD5, as of objects that S3 encrypts with a key of their own."""
    return "kms" in headers.get("x-amz-server-side-encryption", "") or (
        "x-amz-server-side-encryption-customer-algorithm" in headers
    )


class Unfinished:
    """A file under way.

    Attributes:
        file: which one.
        sizes: bytes of each part.
        missing: indexes of the parts that are to be fetched.
        there: bytes of the others.
    """

    def __init__(
        self, file: File, journal: Journal, part_size: int, headers: Future[Mapping[str, str]] | None
    ) -> None:
        """Open the file and make room for it.

        Args:
            file: which one.
            journal: what earlier runs fetched, and where this one is noted.
            part_size: bytes of a part.
            headers: the store's answer about it; None when it is not asked.
        """
        self.file = file
        self._key = content_key(file)
        self._journal = journal
        self._headers = headers
        self._lock = threading.Lock()
        self._syncing = threading.Lock()
        self._closed = False
        part_size = part_size if file.ranged else max(file.size, 1)
        # An empty object is one empty part.
        self.sizes = [min(part_size, file.size - start) for start in range(0, file.size, part_size)] or [0]
        self._part_key = fingerprint(self._key, part_size)
        self._partial = Path(file.partial)
        self._done = journal.parts(file.path, self._part_key)
        if self._done and not self._partial.exists():
            self._done = set()
        file.volume.ready(file.where, file.path)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(self._partial, flags if self._done else flags | os.O_TRUNC, 0o644)
        try:
            disk.reserve(self._fd, file.size)
        except OSError:
            os.close(self._fd)
            if not self._done:
                self._partial.unlink()
            raise
        self.missing = [index for index in range(len(self.sizes)) if index not in self._done]
        self.there = sum(self.sizes[index] for index in self._done)
        self._left = len(self.missing)
        self._check: checks.Check | None = None
        self._known = False

    def check(self) -> checks.Check | None:
        """What the content is checked with, once the store has answered; None when nobody says.

        Raises:
            ConnectionError: the store did not answer.
        """
        headers = self._headers.result() if self._headers else {}
        with self._lock:
            if not self._known:
                self._known = True
                if says := expected(self.file, headers):
                    self._check = checks.check(says, self._fd, self.sizes)
                    for index in sorted(self._done):
                        self._check.arrived(index)
            return self._check

    def write(self, pieces: list[Any], offset: int) -> None:
        """Write bytes, anything with the buffer protocol, one after another.

        Raises:
            OSError: there is no room, or the volume cannot be written.
        """
        while pieces:
            written = os.pwritev(self._fd, pieces, offset)
            offset += written
            while pieces and written >= len(pieces[0]):
                written -= len(pieces.pop(0))
            if pieces:
                pieces[0] = memoryview(pieces[0])[written:]

    def arrived(self, index: int) -> int:
        """Note a part that was written; how many are missing now."""
        if check := self.check():
            check.arrived(index)
        if len(self.sizes) > 1:
            self._journal.part(self.file.path, self._part_key, index)
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
                os.fdatasync(self._fd)
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
            try:
                self._verify()
                os.fsync(self._fd)
            finally:
                os.close(self._fd)
            self._partial.replace(self.file.path)
            self._journal.finish(self.file.path, self._key)

    def _verify(self) -> None:
        check = self.check()
        if check is None:
            return
        found, says = check.digest(), check.expected
        if found == says.digest or self._excused():
            return
        self._partial.unlink()
        raise errors.IntegrityError(
            self.file.where,
            f"{self.file.name} has {says.algorithm} {found}, and {says.origin} says {says.digest}",
            "check the source, and the sha256 of the item if it has one",
        )

    def _excused(self) -> bool:
        """Whether what differs is an ETag that is no MD5, of a file whose store was not asked before."""
        asking = self.file.store.headers
        if self.file.sha256 or self._headers or asking is None:
            return False
        with contextlib.suppress(ConnectionError):
            return _encrypted(asking.of(self.file.key))
        return False
