"""Shipping a folder with a workload: one small, compressed archive, the same for the same files.

The archive keeps what git keeps: contents, symbolic links, and whether a file is executable. Times and
owners are left out, so that equal folders give equal archives.
"""

from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

from kaiwo.client.shipping_files import IGNORE_FILE, ShippingError, list_paths, read_rules
from kaiwo.client.shipping_ignore import IgnoreRules, private_key, secret_name

MAX_ARCHIVE_BYTES = 900 * 1024
"""Largest archive: a ConfigMap takes 1 MiB in all."""

MAX_FOLDER_BYTES = 256 * 1024 * 1024
"""Largest folder that is read at all: what does not compress well is far too large before that."""

_TIME = 315_532_800
"""Modification time of everything in the archive: 1980-01-01, the first that zip files can hold."""

_READS = 3
"""Attempts to read a file that changes meanwhile."""

_BIGGEST = 5


@dataclass(frozen=True, slots=True)
class Archive:
    """A packed folder.

    Attributes:
        content: a gzip-compressed tar archive.
        files: how many files and links are in it.
        size: bytes of their contents.
        left_out: what is not in it although it belongs to the folder: the path, and why.
        notes: what else a person should know, a sentence each.
    """

    content: bytes
    files: int
    size: int
    left_out: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Packing:
    """What has been found so far."""

    root: Path
    rules: IgnoreRules
    left_out: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    files: int = 0


def pack(root: Path, *, limit: int = MAX_ARCHIVE_BYTES) -> Archive:
    """Pack a folder.

    Args:
        root: the folder.
        limit: bytes of the largest archive.

    Raises:
        ShippingError: it is too large, with the five biggest files; or a file cannot be read.
    """
    root = Path(os.path.realpath(root))
    if not root.is_dir():
        raise ShippingError(f"{root}: is not a folder", "run it in the folder with your code")
    rules = read_rules(root)
    packing = _Packing(root, rules)
    entries = [path for path in list_paths(root, rules) if _wanted(packing, path)]
    if sum(packing.sizes.values()) > MAX_FOLDER_BYTES:
        raise _too_large(packing, None, limit)
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=buffer, mtime=0) as zipped,
        tarfile.open(
            fileobj=zipped,
            mode="w",
            format=tarfile.GNU_FORMAT,
            encoding="utf-8",
            errors="surrogateescape",
        ) as tar,
    ):
        for path in entries:
            _add(tar, packing, path)
    if buffer.tell() > limit:
        raise _too_large(packing, buffer.tell(), limit)
    return Archive(
        buffer.getvalue(),
        packing.files,
        sum(packing.sizes.values()),
        tuple(packing.left_out),
        tuple(packing.notes),
    )


def _wanted(packing: _Packing, path: str) -> bool:
    """Whether an entry can be shipped; notes its size, or why not."""
    full = packing.root / path
    try:
        found = full.lstat()
    except FileNotFoundError:
        return False
    why = ""
    if stat.S_ISLNK(found.st_mode):
        why = "" if _inside(packing.root, full) else "the link points outside the folder"
    elif stat.S_ISREG(found.st_mode):
        packing.sizes[path] = found.st_size
    elif not stat.S_ISDIR(found.st_mode):
        why = "it is neither a file nor a folder"
    if not why and not path.endswith("/") and secret_name(path) and not packing.rules.included(path):
        why = "its name is that of a secret"
    if why:
        packing.sizes.pop(path, None)
        packing.left_out.append((path, why))
    return not why


def _inside(root: Path, link: Path) -> bool:
    """Whether a link and all that it leads to stay in the folder."""
    return _is_below(root, _target(root, link)) and _is_below(root, os.path.realpath(link))


def _target(root: Path, link: Path) -> str:
    """Where a link points, as an absolute path; one written with another spelling of the folder counts."""
    target = os.readlink(link)  # noqa: PTH115 -- Path would drop a trailing slash
    if os.path.isabs(target):  # noqa: PTH117
        # The folder itself may have been reached through a link.
        above = os.path.realpath(os.path.dirname(target))  # noqa: PTH120
        return os.path.join(above, os.path.basename(target)) if _is_below(root, above) else target  # noqa: PTH118, PTH119
    return os.path.normpath(os.path.join(link.parent, target))  # noqa: PTH118 -- not resolved


def _is_below(root: Path, path: str) -> bool:
    return path == os.fspath(root) or path.startswith(f"{root}{os.sep}")


def _add(tar: tarfile.TarFile, packing: _Packing, path: str) -> None:
    """Add one entry as it is now; what has gone meanwhile is passed over."""
    full = packing.root / path
    info = tarfile.TarInfo(path.rstrip("/"))
    info.mtime = _TIME
    try:
        found = full.lstat()
        if stat.S_ISLNK(found.st_mode):
            info.type, info.mode, info.linkname = tarfile.SYMTYPE, 0o777, _relative(packing.root, full)
            content = b""
        elif stat.S_ISDIR(found.st_mode):
            info.type, info.mode, content = tarfile.DIRTYPE, 0o755, b""
        else:
            content, executable = _read(packing, path, full)
            info.mode = 0o755 if executable else 0o644
    except FileNotFoundError:
        packing.sizes.pop(path, None)
        packing.notes.append(f"{path} was deleted while the folder was packed")
        return
    except OSError as error:
        raise ShippingError(
            f"{path}: cannot be read: {error.strerror}", f"check its permissions, or name it in {IGNORE_FILE}"
        ) from error
    if private_key(content) and not packing.rules.included(path):
        packing.sizes.pop(path, None)
        packing.left_out.append((path, "it is a private key"))
        return
    info.size = len(content)
    if info.isreg():
        packing.sizes[path] = len(content)
    packing.files += not info.isdir()
    tar.addfile(info, io.BytesIO(content))


def _relative(root: Path, link: Path) -> str:
    """The target of a link; an absolute one becomes relative, because the folder is elsewhere in the pod."""
    target = os.readlink(link)  # noqa: PTH115 -- as it is written
    return os.path.relpath(_target(root, link), link.parent) if target.startswith("/") else target


def _read(packing: _Packing, path: str, full: Path) -> tuple[bytes, bool]:
    """Content and mode of a file, read again while somebody writes into it."""
    for _ in range(_READS):
        # A file that became a link meanwhile must not lead outside; a pipe must not block.
        with open(
            full, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
        ) as stream:
            before = os.fstat(stream.fileno())
            if not stat.S_ISREG(before.st_mode):
                raise FileNotFoundError
            content = stream.read(MAX_FOLDER_BYTES)
            after = os.fstat(stream.fileno())
        if (
            (before.st_size, before.st_mtime_ns)
            == (after.st_size, after.st_mtime_ns)
            == (
                len(content),
                before.st_mtime_ns,
            )
        ):
            return content, bool(before.st_mode & stat.S_IXUSR)
    packing.notes.append(f"{path} changed while it was read; it is shipped as it was read last")
    return content, bool(before.st_mode & stat.S_IXUSR)


def _too_large(packing: _Packing, packed: int | None, limit: int) -> ShippingError:
    biggest = sorted(packing.sizes.items(), key=lambda item: (-item[1], item[0]))[:_BIGGEST]
    lines = "".join(f"\n  {_bytes(size):>10}  {path}" for path, size in biggest)
    what = f"{_bytes(packed)} when packed" if packed is not None else _bytes(sum(packing.sizes.values()))
    return ShippingError(
        f"the folder {packing.root} is too large to be shipped: {what}, at most {_bytes(limit)} packed; "
        f"the biggest files:{lines}",
        f"name what is not needed in {IGNORE_FILE}; or push the code and use --git URL; or put data into an "
        "object store and download it with spec.storage; --no-sync ships nothing",
    )


def _bytes(number: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number} B"
