"""The limits on size and number of files of one run."""

from __future__ import annotations

import threading

from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import LimitError
from kaiwo_storage_s3_gcs_azure_git_hf.download.progress import format_bytes


class DownloadBudget:
    """Counts files and bytes of all items against the limits.

    Attributes:
        max_bytes: bytes of all files together.
        max_files: number of files of all items together.
    """

    def __init__(self, max_bytes: int, max_files: int) -> None:
        self.max_bytes = max_bytes
        self.max_files = max_files
        self._bytes = 0
        self._files = 0
        self._lock = threading.Lock()

    def add(self, where: str, *, files: int, size: int) -> None:
        """Count files before they are downloaded.

        Raises:
            LimitError: a limit is exceeded.
        """
        with self._lock:
            self._files += files
            self._bytes += size
            too_many, too_large = self._files > self.max_files, self._bytes > self.max_bytes
        if too_many:
            raise self._too_many(where)
        if too_large:
            raise self._too_large(where)

    def check_size(self, where: str, size: int) -> None:
        """Check that bytes of unknown files do not exceed the limit; they are not counted.

        Raises:
            LimitError: they do.
        """
        if self._bytes + size > self.max_bytes:
            raise self._too_large(where)

    def check_listing(self, where: str, count: int) -> None:
        """Check that a listing does not exceed the limit on files, whatever a glob selects of it.

        Raises:
            LimitError: it does.
        """
        if count > self.max_files:
            raise LimitError(
                "max-files",
                where,
                f"path has more than {self.max_files} objects",
                "use a longer path, or raise the limit",
            )

    def _too_many(self, where: str) -> LimitError:
        return LimitError(
            "max-files",
            where,
            f"the download has more than {self.max_files} files",
            "select fewer files, or raise the limit",
        )

    def _too_large(self, where: str) -> LimitError:
        return LimitError(
            "max-bytes",
            where,
            f"the download is larger than {format_bytes(self.max_bytes)}",
            "select fewer files, or raise the limit",
        )
