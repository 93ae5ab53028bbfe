"""System calls for disk space and durability that Python does not have."""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache
from typing import Any, Final

_NO_RESERVATION: Final = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EINTR)


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


def write_at(fd: int, chunks: list[Any], offset: int) -> int:
    """Write chunks, anything with the buffer protocol, at an offset; how many bytes were written.

    Raises:
        OSError: there is no space left, or the volume cannot be written.
    """
    if hasattr(os, "pwritev"):
        return os.pwritev(fd, chunks, offset)
    return os.pwrite(fd, chunks[0], offset)


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
