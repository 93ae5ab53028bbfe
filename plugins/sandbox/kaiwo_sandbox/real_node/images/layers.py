"""The files of an image layer, and writing them as a reproducible tar file."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Copy:
    """A file or symbolic link with the content and the mode of one on this machine."""

    source: Path


@dataclass(frozen=True, slots=True)
class Text:
    """A file with this content."""

    content: bytes
    mode: int = 0o644


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link."""

    target: str


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory that needs a mode of its own."""

    mode: int = 0o755


Entry = Copy | Text | Link | Directory
Tree = dict[str, Entry]
"""Entries by their path in the image, without a leading slash. Parent directories are implied."""


def copy_tree(source: Path, target: str, *, skip: frozenset[str] = frozenset()) -> Tree:
    """The files below a directory of this machine; `skip` has names of files and directories to leave out."""
    found: Tree = {}
    for directory, names, files in os.walk(source):
        names[:] = sorted(name for name in names if name not in skip)
        relative = PurePosixPath(target, Path(directory).relative_to(source))
        for name in (*files, *(name for name in names if Path(directory, name).is_symlink())):
            if name not in skip:
                found[str(relative / name)] = Copy(Path(directory, name))
    return found


def digest_of_sources(tree: Mapping[str, Entry]) -> str:
    """Hash what a layer is made of: paths, texts, and size and time of each copied file."""
    digest = hashlib.sha256()
    for path in sorted(tree):
        entry = tree[path]
        if isinstance(entry, Copy):
            status = entry.source.lstat()
            made_of = f"{entry.source} {status.st_size} {status.st_mtime_ns} {status.st_mode}"
        else:
            made_of = repr(entry)
        digest.update(f"{path}\n{made_of}\n".encode())
    return digest.hexdigest()


def write(tree: Mapping[str, Entry], path: Path) -> tuple[str, int]:
    """Write the layer as an uncompressed tar file; its digest and its size.

    The layer is not compressed, because it goes over the loopback link only.
    """
    complete = dict(tree)
    for name in tree:
        for parent in PurePosixPath(name).parents:
            if str(parent) != ".":
                complete.setdefault(str(parent), Directory())
    with tarfile.open(path, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(complete):
            _add(archive, name, complete[name])
    return _digest(path), path.stat().st_size


def _add(archive: tarfile.TarFile, name: str, entry: Entry) -> None:
    header = tarfile.TarInfo(name)  # mtime 0, root, no user names
    match entry:
        case Directory(mode):
            header.type, header.mode = tarfile.DIRTYPE, mode
            archive.addfile(header)
        case Link(target):
            header.type, header.linkname, header.mode = tarfile.SYMTYPE, target, 0o777
            archive.addfile(header)
        case Text(content, mode):
            header.size, header.mode = len(content), mode
            archive.addfile(header, io.BytesIO(content))
        case Copy(source):
            if source.is_symlink():
                _add(archive, name, Link(str(source.readlink())))
                return
            status = source.stat()
            # Every user of a container may read what the image is made of.
            header.size, header.mode = status.st_size, (status.st_mode & 0o777) | 0o444
            with source.open("rb") as file:
                archive.addfile(header, file)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
