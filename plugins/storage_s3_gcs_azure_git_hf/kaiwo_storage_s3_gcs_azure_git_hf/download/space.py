"""Whether what is still to be written has room on the volumes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import DiskFullError
from kaiwo_storage_s3_gcs_azure_git_hf.download.progress import human

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo_storage_s3_gcs_azure_git_hf.download.model import File
    from kaiwo_storage_s3_gcs_azure_git_hf.download.paths import Volume


def free_bytes(volume: Volume) -> int:
    """Bytes that may still be written to a volume."""
    found = os.statvfs(volume.root)
    return found.f_bavail * found.f_frsize


def check(where: str, volume: Volume, want: int) -> None:
    """Check that so many bytes have room.

    Raises:
        DiskFullError: they have not.
    """
    free = free_bytes(volume)
    if want > free:
        raise DiskFullError(
            where,
            f"{volume.root} has {human(free)} free, {human(want)} are needed",
            "make storageSize larger",
        )


def check_files(files: Iterable[File]) -> None:
    """Check that files have room, less what is there of them from an earlier run.

    Raises:
        DiskFullError: they have not.
    """
    by: dict[Volume, int] = {}
    for file in files:
        by[file.volume] = by.get(file.volume, 0) + max(file.size - _written_bytes(file), 0)
    for volume, want in by.items():
        check("", volume, want)


def _written_bytes(file: File) -> int:
    """Bytes of an unfinished file that are on the disk already."""
    try:
        return os.stat(file.partial).st_blocks * 512  # noqa: PTH116 - a Path for each would be slow
    except OSError:
        return 0
