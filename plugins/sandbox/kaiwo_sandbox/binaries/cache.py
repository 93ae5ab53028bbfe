"""The cache of binaries: one directory per set and content key, complete or absent, never half-made."""

from __future__ import annotations

import hashlib
import platform
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from kaiwo_sandbox import state
from kaiwo_sandbox.paths import cache_dir, state_root

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo_sandbox.catalogue import BinarySet

_KEY_LENGTH = 16
_KEY = re.compile(rf"[0-9a-f]{{{_KEY_LENGTH}}}")


def key(binary_set: BinarySet) -> str:
    """A name for exactly this content: versions, checksums, packages, flags, operating system and processor.

    The Go version is left out: another compiler makes the same programs, and should not cost a build.
    """
    digest = hashlib.sha256()
    parts = [
        *binary_set.files.values(),
        binary_set.ldflags.encode(),
        repr(binary_set.programs).encode(),
        repr(binary_set.manifests).encode(),
        f"{platform.system()}/{platform.machine()}".encode(),
    ]
    for part in parts:
        digest.update(len(part).to_bytes(8))
        digest.update(part)
    return digest.hexdigest()[:_KEY_LENGTH]


def _places(binary_set: BinarySet) -> list[Path]:
    keys = (key(binary_set), *binary_set.earlier)
    return [cache_dir() / f"{binary_set.name}-{each}" for each in keys]


def _whole(binary_set: BinarySet, place: Path) -> bool:
    return all((place / "bin" / program.name).is_file() for program in binary_set.programs)


def location(binary_set: BinarySet) -> Path:
    """Where the set lies, or where it will lie once it is made."""
    places = _places(binary_set)
    return next((place for place in places if _whole(binary_set, place)), places[0])


def build_lock() -> Path:
    """The lock that whoever builds holds, because builds share a compiler cache."""
    return cache_dir() / "build.lock"


def complete(binary_set: BinarySet) -> bool:
    """Whether every program of the set lies in the cache."""
    return _whole(binary_set, location(binary_set))


def store(binary_set: BinarySet, prepared: Path) -> Path:
    """Move a directory with ``bin`` and ``manifests`` into place in one step and return where it lies now.

    What earlier versions of the set left is removed, unless a sandbox still uses it.
    """
    place = _places(binary_set)[0]
    shutil.rmtree(place, ignore_errors=True)
    prepared.rename(place)
    prune(binary_set)
    return place


def prune(binary_set: BinarySet) -> None:
    """Remove the set's directories of other keys, but none that a sandbox's programs come from."""
    used = set(_used())
    for directory in cache_dir().glob(f"{binary_set.name}-*"):
        is_a_version = _KEY.fullmatch(directory.name.removeprefix(f"{binary_set.name}-"))
        if is_a_version and directory not in {location(binary_set), *used}:
            shutil.rmtree(directory, ignore_errors=True)


def _used() -> Iterator[Path]:
    """The cache directories that sandboxes with a directory of their own take programs and files from."""
    for directory in state_root().glob("*"):
        known = state.load(directory)
        if known is not None:
            yield from (Path(program).parents[1] for program in known.programs.values())
            yield from (Path(manifests).parents[1] for manifests in known.manifests.values())
