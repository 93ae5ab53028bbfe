"""The cache of binaries: one directory per set and content key, complete or absent, never half-made."""

from __future__ import annotations

import hashlib
import platform
import shutil
from typing import TYPE_CHECKING

from kaiwo_sandbox.paths import cache_dir

if TYPE_CHECKING:
    from pathlib import Path

    from kaiwo_sandbox.catalogue import BinarySet

_KEY_LENGTH = 16


def key(binary_set: BinarySet) -> str:
    """A name for exactly this content: versions, checksums, packages, flags, operating system and processor.

    The Go version is left out: another compiler makes the same programs, and should not cost a build.
    """
    digest = hashlib.sha256()
    parts = [
        binary_set.wrapper.joinpath("go.mod").read_bytes(),
        binary_set.wrapper.joinpath("go.sum").read_bytes(),
        binary_set.ldflags.encode(),
        repr(binary_set.programs).encode(),
        repr(binary_set.manifests).encode(),
        f"{platform.system()}/{platform.machine()}".encode(),
    ]
    for part in parts:
        digest.update(len(part).to_bytes(8))
        digest.update(part)
    return digest.hexdigest()[:_KEY_LENGTH]


def location(binary_set: BinarySet) -> Path:
    """Where the set lies once it is complete."""
    return cache_dir() / f"{binary_set.name}-{key(binary_set)}"


def lock_file(binary_set: BinarySet) -> Path:
    """The lock that whoever makes the set holds."""
    return cache_dir() / f"{binary_set.name}-{key(binary_set)}.lock"


def complete(binary_set: BinarySet) -> bool:
    """Whether every program of the set lies in the cache."""
    directory = location(binary_set) / "bin"
    return all((directory / program.name).is_file() for program in binary_set.programs)


def store(binary_set: BinarySet, prepared: Path) -> Path:
    """Move a directory with ``bin`` and ``manifests`` into place in one step and return where it lies now."""
    place = location(binary_set)
    shutil.rmtree(place, ignore_errors=True)
    prepared.rename(place)
    return place
