"""The cache of binaries: one directory per binary set and key, moved into place only when complete."""

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

    from kaiwo_sandbox.builds.binary_sets import BinarySet

KEY_LENGTH = 16
"""Digits of the key in the name of a cached directory."""

_KEY = re.compile(rf"[0-9a-f]{{{KEY_LENGTH}}}")


def key(binary_set: BinarySet) -> str:
    """Hash the content of a set: module versions, checksums, packages, flags, operating system and processor.

    The Go version does not count, because another compiler is no reason to build again. The names of
    `Program`, `ManifestSource` and their fields do count, through `repr`.
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
    return digest.hexdigest()[:KEY_LENGTH]


def _candidates(binary_set: BinarySet) -> list[Path]:
    """The set's directory, then those of its earlier definitions."""
    keys = (key(binary_set), *binary_set.earlier)
    return [cache_dir() / f"{binary_set.name}-{each}" for each in keys]


def _has_all_programs(binary_set: BinarySet, directory: Path) -> bool:
    return all((directory / "bin" / program.name).is_file() for program in binary_set.programs)


def location(binary_set: BinarySet) -> Path:
    """The directory of the set in the cache, which may not exist yet."""
    candidates = _candidates(binary_set)
    return next((each for each in candidates if _has_all_programs(binary_set, each)), candidates[0])


def build_lock() -> Path:
    """The lock file of builds, which share a compiler cache."""
    return cache_dir() / "build.lock"


def complete(binary_set: BinarySet) -> bool:
    """Whether the cache has every program of the set."""
    return _has_all_programs(binary_set, location(binary_set))


def store(binary_set: BinarySet, prepared: Path) -> Path:
    """Move a directory with ``bin`` and ``manifests`` into the cache atomically and return its new path.

    Directories of earlier versions of the set are removed, except those that a sandbox uses.
    """
    target = _candidates(binary_set)[0]
    replace(prepared, target, f"{binary_set.name}-")
    return target


def replace(prepared: Path, target: Path, prefix: str) -> None:
    """Move a complete directory into the cache atomically.

    Directories with the same prefix and another key are removed, except those that a sandbox uses.
    """
    shutil.rmtree(target, ignore_errors=True)
    prepared.rename(target)
    keep = {target, *_used_directories()}
    for directory in cache_dir().glob(f"{prefix}*"):
        if _KEY.fullmatch(directory.name.removeprefix(prefix)) and directory not in keep:
            shutil.rmtree(directory, ignore_errors=True)


def _used_directories() -> Iterator[Path]:
    """The cache directories of the programs and manifests of all sandboxes."""
    for directory in state_root().glob("*"):
        loaded = state.load(directory)
        if loaded is not None:
            yield from (Path(program).parents[1] for program in loaded.programs.values())
            yield from (Path(manifests).parents[1] for manifests in loaded.manifests.values())
