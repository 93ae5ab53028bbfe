"""A partial file: what is missing of it, its parts on the disk, the check and the rename at the end."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kaiwo_storage_s3_gcs_azure_git_hf.download import checksums, disk, errors
from kaiwo_storage_s3_gcs_azure_git_hf.download.journal import fingerprint

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

    from kaiwo_storage_s3_gcs_azure_git_hf.download.journal import Journal
    from kaiwo_storage_s3_gcs_azure_git_hf.download.transfer_types import ObjectFile

_MIN_HEADER_REQUEST_BYTES: Final = 1024**2
"""The size from which a request for a quick checksum costs less than the MD5 that is known already."""


def content_key(file: ObjectFile) -> str:
    """The identity of the content of a file: store, key, version and size."""
    return fingerprint(file.store.name, file.key, file.etag, file.version, file.size, file.sha256)


def needs_header_request(file: ObjectFile) -> bool:
    """Whether only a HEAD request gives the checksum of a file, or a better one than is known."""
    if file.sha256 or not file.size or file.store.headers is None:
        return False
    return file.size >= _MIN_HEADER_REQUEST_BYTES or _etag_md5(file) is None


def expected_digest(file: ObjectFile, headers: Mapping[str, str]) -> checksums.ExpectedDigest | None:
    """The digest that the content of a file must have; None when there is none.

    Args:
        file: the file.
        headers: of the response to a HEAD request; empty when there was none.
    """
    if file.sha256:
        return checksums.ExpectedDigest("sha256", file.sha256, "the item's sha256")
    return checksums.from_headers(headers) or (None if _has_own_key(headers) else _etag_md5(file))


def _etag_md5(file: ObjectFile) -> checksums.ExpectedDigest | None:
    return checksums.from_etag(file.etag) if file.store.md5_etag else None


def _has_own_key(headers: Mapping[str, str]) -> bool:
    """Whether S3 encrypts an object with a key of its own, so that its ETag is not an MD5."""
    return "kms" in headers.get("x-amz-server-side-encryption", "") or (
        "x-amz-server-side-encryption-customer-algorithm" in headers
    )


class PartialFile:
    """An open partial file.

    Attributes:
        file: the file.
        sizes: bytes of each part.
        missing: indexes of the parts that are to be downloaded.
        existing_bytes: bytes of the other parts.
    """

    def __init__(
        self, file: ObjectFile, journal: Journal, part_size: int, headers: Future[Mapping[str, str]] | None
    ) -> None:
        """Open the file and reserve its space.

        Args:
            file: the file.
            journal: records finished parts.
            part_size: bytes of a part.
            headers: headers of the response to a HEAD request; None when there is none.
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
        self._partial = Path(file.partial_path)
        self._done = journal.parts(file.path, self._part_key)
        if self._done and not self._partial.exists():
            self._done = set()
        file.volume.prepare_folder(file.where, file.path)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(self._partial, flags if self._done else flags | os.O_TRUNC, 0o644)
        try:
            disk.preallocate(self._fd, file.size)
        except OSError:
            os.close(self._fd)
            if not self._done:
                self._partial.unlink()
            raise
        self.missing = [index for index in range(len(self.sizes)) if index not in self._done]
        self.existing_bytes = sum(self.sizes[index] for index in self._done)
        self._left = len(self.missing)
        self._check: checksums.RunningChecksum | None = None
        self._check_known = False

    def check(self) -> checksums.RunningChecksum | None:
        """The checksum of the content, after the store has responded; None when there is none.

        Raises:
            ConnectionError: the store did not respond.
        """
        headers = self._headers.result() if self._headers else {}
        with self._lock:
            if not self._check_known:
                self._check_known = True
                if digest := expected_digest(self.file, headers):
                    self._check = checksums.running_checksum(digest, self._fd, self.sizes)
                    for index in sorted(self._done):
                        self._check.arrived(index)
            return self._check

    def write(self, chunks: list[Any], offset: int) -> None:
        """Write chunks, anything with the buffer protocol, one after another.

        Raises:
            OSError: there is no space left, or the volume cannot be written.
        """
        while chunks:
            written = disk.write_at(self._fd, chunks, offset)
            offset += written
            while chunks and written >= len(chunks[0]):
                written -= len(chunks.pop(0))
            if chunks:
                chunks[0] = memoryview(chunks[0])[written:]

    def arrived(self, index: int) -> int:
        """Record a part that was written; how many are missing now."""
        if check := self.check():
            check.arrived(index)
        if len(self.sizes) > 1:
            self._journal.part(self.file.path, self._part_key, index)
        with self._lock:
            self._left -= 1
            return self._left

    def sync(self) -> None:
        """Sync the file unless another thread is doing so; parts may arrive meanwhile."""
        if not self._syncing.acquire(blocking=False):
            return
        try:
            if not self._closed:
                self._journal.mark(self.file.path)
                disk.sync_data(self._fd)
                self._journal.synced(self.file.path)
        finally:
            self._syncing.release()

    def finish(self) -> None:
        """Check, sync and rename.

        Raises:
            IntegrityError: the content has another checksum; the partial file is removed.
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
        found, wanted = check.digest(), check.expected
        if found == wanted.digest or self._etag_is_not_md5():
            return
        self._partial.unlink()
        raise errors.IntegrityError(
            self.file.where,
            f"{self.file.name}: expected {wanted.algorithm} {wanted.digest} ({wanted.origin}), got {found}",
            "check the source, and the sha256 of the item if it has one",
        )

    def _etag_is_not_md5(self) -> bool:
        """Whether the expected digest is an ETag that is not an MD5; headers were not read before."""
        reader = self.file.store.headers
        if self.file.sha256 or self._headers or reader is None:
            return False
        with contextlib.suppress(ConnectionError):
            return _has_own_key(reader.read(self.file.key))
        return False
