"""Checks that what is still to be written fits on the volumes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kaiwo_storage_s3_gcs_azure_git_hf.download.errors import DiskFullError
from kaiwo_storage_s3_gcs_azure_git_hf.download.progress import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo_storage_s3_gcs_azure_git_hf.download.target_paths import TargetVolume
    from kaiwo_storage_s3_gcs_azure_git_hf.download.transfer_types import ObjectFile


def free_bytes(volume: TargetVolume) -> int:
    """Bytes that can still be written to a volume."""
    found = os.statvfs(volume.root)
    return found.f_bavail * found.f_frsize


def check_free_space(where: str, volume: TargetVolume, required: int) -> None:
    """Check that a volume has space for so many bytes.

    Raises:
        DiskFullError: it has not.
    """
    free = free_bytes(volume)
    if required > free:
        raise DiskFullError(
            where,
            f"{volume.root}: {format_bytes(required)} required, {format_bytes(free)} free",
            "increase storageSize",
        )


def check_files(files: Iterable[ObjectFile]) -> None:
    """Check that files fit on their volumes, less what an earlier run downloaded of them.

    Raises:
        DiskFullError: it has not.
    """
    required: dict[TargetVolume, int] = {}
    for file in files:
        required[file.volume] = required.get(file.volume, 0) + max(file.size - _written_bytes(file), 0)
    for volume, count in required.items():
        check_free_space("", volume, count)


def _written_bytes(file: ObjectFile) -> int:
    """Bytes of a partial file that are on the disk already."""
    try:
        return os.stat(file.partial_path).st_blocks * 512  # noqa: PTH116 - a Path for each would be slow
    except OSError:
        return 0
