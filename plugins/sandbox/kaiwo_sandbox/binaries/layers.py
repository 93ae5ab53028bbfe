"""Reads one program out of image layers. Nothing is written but that program, and its size is bounded."""

from __future__ import annotations

import contextlib
import gzip
import io
import posixpath
import shutil
import subprocess
import tarfile
import zlib
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Literal, cast

from kaiwo_sandbox.binaries.image_registry import ImageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

MAX_UNPACKED_BYTES = 2 << 30
"""Of one layer. The largest official one has a third of it."""

_MAX_PROGRAM_BYTES = 512 << 20
_MAX_MEMBERS = 50_000
_MAX_METADATA_BYTES = 1 << 20
_MAX_LINKS = 8
_CHUNK = 1 << 20
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_METADATA = {
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
}


def extract(layers: Sequence[Callable[[], Path]], path: str, target: Path) -> int | None:
    """Write the file `path` of an image to `target` and return the index of its layer; None without one.

    Args:
        layers: functions that return the file of each layer, lowest first. Only those that are needed are
            called, from the top.
        path: the path in the image; links are followed.
        target: the file to write.

    Raises:
        ImageError: a layer is not a tar archive, exceeds a limit, or has paths outside of its root.
    """
    path = _normalized(path)
    for _ in range(_MAX_LINKS):
        for index in reversed(range(len(layers))):
            found = _search(layers[index](), path, target)
            if found is True:
                return index
            if found is not None:
                path = found
                break
        else:
            return None
        if not path:
            return None
    return None


def _search(layer: Path, path: str, target: Path) -> Literal[True] | str | None:
    """Look for the file in one layer.

    Returns:
        True if the file was written, the path that a link names, "" if this layer deletes the file, and
        None if it has nothing of it.
    """
    found: Literal[True] | str | None = None
    deletions = _deletions(path)
    deleted = False
    try:
        with (
            _unpacked(layer) as stream,
            tarfile.open(fileobj=stream, mode="r|", tarinfo=_Member, bufsize=_CHUNK) as archive,
        ):
            for number, member in enumerate(archive):
                if number >= _MAX_MEMBERS:
                    raise ImageError(f"a layer has more than {_MAX_MEMBERS} files")
                if ".." in member.name.split("/"):
                    raise ImageError(f'a layer has a path outside of its root: "{member.name[:200]}"')
                name = _normalized(member.name)
                deleted = deleted or name in deletions
                if name == path:
                    found = _read(archive, member, path, target)
    except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError) as error:
        raise ImageError(f"a layer cannot be unpacked: {error}") from error
    if found is None and deleted:
        return ""
    return found


def _read(
    archive: tarfile.TarFile, member: tarfile.TarInfo, path: str, target: Path
) -> Literal[True] | str | None:
    """Write a file, or return what a link names."""
    if member.issym():
        return _normalized(posixpath.join("/", posixpath.dirname(path), member.linkname))
    if member.islnk():
        return _normalized(member.linkname)
    if not member.isreg() or member.issparse():
        return None
    if member.size > _MAX_PROGRAM_BYTES:
        raise ImageError(f"{path} has {member.size} bytes; expected at most {_MAX_PROGRAM_BYTES}")
    content = archive.extractfile(member)
    if content is None:
        return None
    with content, target.open("wb") as file:
        shutil.copyfileobj(content, file, _CHUNK)
    return True


class _Member(tarfile.TarInfo):
    """A member whose long names and extended headers are bounded, because tarfile reads them into memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Member:
        """Parse a header."""
        member = super().frombuf(buf, encoding, errors)
        if member.type in _METADATA and member.size > _MAX_METADATA_BYTES:
            raise tarfile.ReadError(f"an extended header has {member.size} bytes")
        return member


class _Bounded(io.RawIOBase):
    """The unpacked layer, which ends with an error when it is too large."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile, limit: int) -> None:
        self._stream = stream
        self._remaining = limit
        self._limit = limit

    def readable(self) -> bool:
        """It can be read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Read at most `size` bytes."""
        chunk = self._stream.read(min(size, _CHUNK) if size >= 0 else _CHUNK)
        self._remaining -= len(chunk)
        if self._remaining < 0:
            raise ImageError(f"a layer has more than {self._limit} bytes when it is unpacked")
        return chunk


@contextmanager
def _unpacked(layer: Path) -> Iterator[_Bounded]:
    """Open a layer: plain, gzip, or zstd with the program of that name."""
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(layer.open("rb"))
        start = file.read(4)
        file.seek(0)
        stream: IO[bytes] | gzip.GzipFile = file
        if start.startswith(_GZIP):
            stream = stack.enter_context(gzip.GzipFile(fileobj=file))
        elif start == _ZSTD:
            stream = stack.enter_context(_zstd(layer))
        yield _Bounded(stream, MAX_UNPACKED_BYTES)


@contextmanager
def _zstd(layer: Path) -> Iterator[IO[bytes]]:
    """Unpack with the program zstd, in bounded memory; Python has no module for it before 3.14."""
    program = shutil.which("zstd")
    if program is None:
        raise ImageError("a layer is compressed with zstd, and the program zstd is not installed")
    command = [program, "--decompress", "--stdout", "--quiet", "--memory=128MB", str(layer)]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield cast("IO[bytes]", process.stdout)
        finally:
            process.kill()


def _normalized(path: str) -> str:
    return posixpath.normpath(posixpath.join("/", path)).lstrip("/")


def _deletions(path: str) -> set[str]:
    """The members that delete a file of a lower layer: whiteouts of it and its parents, opaque parents."""
    found = set()
    while path:
        directory, name = posixpath.split(path)
        found.add(posixpath.join(directory, f".wh.{name}"))
        if directory:
            found.add(posixpath.join(directory, ".wh..wh..opq"))
        path = directory
    return found
