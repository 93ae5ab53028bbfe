"""The digest of an installed distribution's files: the same wherever the same wheel is installed.

It is the SHA-256 of what ``sha256sum`` prints for the files of the wheel, sorted by path::

    <sha256 of the file>  kaiwo_batch_job/plugin.py

Left out is what an installer writes: RECORD and the notes beside it, byte code, and files outside the folder
of packages, which are the scripts made of the entry points.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
from importlib.machinery import all_suffixes
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from importlib_metadata import Distribution

_OF_INSTALLERS = frozenset(
    {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_build.json", "uv_cache.json"}
)
"""Files that installers write into the folder ``*.dist-info``."""

_METADATA = ".dist-info"
_BYTE_CODE = "__pycache__"


class NoDigestError(Exception):
    """The files of a distribution have no digest; the message says why and what to do."""


def installed_digest(distribution: Distribution) -> str:
    """SHA-256 of the files that the wheel of an installed distribution has, as hexadecimal digits.

    Raises:
        NoDigestError: it is editable, its files are not known, or they are not those that its RECORD lists.
    """
    if is_editable(distribution):
        raise NoDigestError("is installed in editable mode; install a wheel of it")
    listed = _listed(distribution)
    lines = []
    for file in sorted(listed):
        try:
            content = Path(str(distribution.locate_file(file))).read_bytes()
        except OSError as error:
            raise NoDigestError(
                f"lacks {file}, which its RECORD lists ({error.strerror}); install it again"
            ) from error
        lines.append(f"{hashlib.sha256(content).hexdigest()}  {file}\n")
    if unlisted := min(_unlisted(distribution, listed), default=""):
        raise NoDigestError(f"has {unlisted} in its folder, which its RECORD does not list; install it again")
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def is_editable(distribution: Distribution) -> bool:
    """Whether only a reference to the source tree is installed."""
    try:
        origin = json.loads(distribution.read_text("direct_url.json") or "{}")
        return bool(origin.get("dir_info", {}).get("editable"))
    except (ValueError, AttributeError):
        return False


def _listed(distribution: Distribution) -> list[str]:
    """The files of the wheel, as its RECORD writes them.

    Raises:
        NoDigestError: there is no RECORD, or it lists byte code with a hash, so that it is from the wheel.
    """
    record = distribution.read_text("RECORD")
    if not record:
        raise NoDigestError("has no RECORD; install a wheel of it")
    found = []
    for row in csv.reader(record.splitlines()):
        path, digest = PurePosixPath(row[0]), "".join(row[1:2])
        if _BYTE_CODE in path.parts:
            if digest:
                raise NoDigestError(f"has byte code in its wheel ({path}); build the wheel without it")
        elif not path.is_absolute() and path.parts[0] != ".." and not _is_of_installer(path):
            found.append(str(path))
    return found


def _is_of_installer(path: PurePosixPath) -> bool:
    return path.parent.name.endswith(_METADATA) and path.name in _OF_INSTALLERS


def _unlisted(distribution: Distribution, listed: Iterable[str]) -> Iterator[str]:
    """Modules in the folders of a distribution that are not its own; they could be imported instead."""
    own = {os.path.normpath(str(distribution.locate_file(file))) for file in listed}
    folders = {os.path.dirname(path) for path in own}  # noqa: PTH120  thousands of paths
    root = os.path.normpath(str(distribution.locate_file("")))
    folders = {folder for folder in folders if folder != root and not folder.endswith(_METADATA)}
    suffixes = tuple(all_suffixes())
    for top in folders:
        if any(top.startswith(f"{other}{os.sep}") for other in folders):
            continue
        for folder, below, names in os.walk(top):
            below[:] = [name for name in below if name != _BYTE_CODE]
            for name in names:
                path = os.path.join(folder, name)  # noqa: PTH118
                if name.endswith(suffixes) and path not in own:
                    yield os.path.relpath(path, root)
