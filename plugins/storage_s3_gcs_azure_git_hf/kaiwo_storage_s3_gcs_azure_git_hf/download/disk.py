"""System calls for disk space and durability that Python does not have."""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

DIRECT_BLOCK: Final = 4096
"""Bytes of the largest block that disks have."""

_NO_RESERVATION: Final = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EINTR)

_DIRECT_FILE_SYSTEMS: Final = frozenset({0xEF53, 0x58465342})
"""ext4 and XFS: file systems of a disk of the node. On a network file system each direct write would wait for
the disk of the server."""

_STATFS_BYTES: Final = 512
"""More than a ``struct statfs`` has on any system."""


@cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(libc, "fallocate"):
        libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return libc


def preallocate(fd: int, size: int) -> None:
    """Set the size of a file, and reserve its space where the file system supports that.

    posix_fallocate, which Python has, would write to every block where it does not.

    Raises:
        OSError: there is no space left.
    """
    libc = _libc()
    if size and hasattr(libc, "fallocate") and libc.fallocate(fd, 0, 0, size):
        number = ctypes.get_errno()
        if number not in _NO_RESERVATION:
            raise OSError(number, os.strerror(number))
    os.ftruncate(fd, size)


def open_direct(path: Path) -> int | None:
    """Open a file for writes that bypass the page cache; None where they are not supported, or no gain.

    The offset and the length of such a write are multiples of :data:`DIRECT_BLOCK`, and the buffer begins at
    a page of memory.

    Raises:
        OSError: the file cannot be opened.
    """
    if not hasattr(os, "O_DIRECT") or not hasattr(_libc(), "fstatfs"):
        return None
    try:
        fd = os.open(path, os.O_WRONLY | os.O_DIRECT | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise
    if _file_system_type(fd) in _DIRECT_FILE_SYSTEMS:
        return fd
    os.close(fd)
    return None


def _file_system_type(fd: int) -> int:
    """The magic number of the file system of an open file (statfs(2)); 0 when it is unknown."""
    buffer = ctypes.create_string_buffer(_STATFS_BYTES)
    if _libc().fstatfs(fd, buffer):
        return 0
    return ctypes.c_long.from_buffer(buffer).value & 0xFFFFFFFF


def write_all(fd: int, data: memoryview, offset: int) -> None:
    """Write data at an offset.

    Raises:
        OSError: there is no space left, or the volume cannot be written.
    """
    while data:
        written = os.pwrite(fd, data, offset)
        data = data[written:]
        offset += written


def sync_data(fd: int) -> None:
    """Sync the content of a file, and its other metadata where the system cannot leave that out.

    Raises:
        OSError: a write failed.
    """
    if hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        os.fsync(fd)


def sync_filesystem(folder: str) -> None:
    """Sync the whole file system of a folder: content, names and folders, from whatever process.

    Raises:
        OSError: a write failed.
    """
    libc = _libc()
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not hasattr(libc, "syncfs"):
            os.sync()
        elif libc.syncfs(fd):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), folder)
    finally:
        os.close(fd)
