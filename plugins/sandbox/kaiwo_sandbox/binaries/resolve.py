"""Which source the programs come from, in a fixed order, and one answer: where each lies.

1. An explicit directory (the argument, else `KUBEBUILDER_ASSETS`). It may hold some programs only.
2. The cache.
3. Container images by digest, when `KAIWO_SANDBOX_IMAGES` names the file that lists them.
4. A Go build.
"""

from __future__ import annotations

import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kaiwo_sandbox.binaries import cache, go_build, oci
from kaiwo_sandbox.catalogue import BARE_PROGRAMS, SETS, BinarySet
from kaiwo_sandbox.errors import SandboxError
from kaiwo_sandbox.locks import locked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Say = Callable[[str], None]

DIRECTORY_VARIABLE = "KUBEBUILDER_ASSETS"
IMAGES_VARIABLE = "KAIWO_SANDBOX_IMAGES"


@dataclass(frozen=True, slots=True)
class Binaries:
    """Where the programs and the addons' manifests lie.

    Attributes:
        programs: path per program name.
        manifests: directory of YAML files per addon.
        key: a name for this combination, for data prepared with it.
    """

    programs: Mapping[str, Path]
    manifests: Mapping[str, Path]
    key: str

    def __getitem__(self, program: str) -> Path:
        return self.programs[program]


def _needed(addons: Sequence[str]) -> tuple[str, ...]:
    controllers = {"kueue": "kueue", "kuberay": "ray-operator", "appwrapper": "appwrapper"}
    return (*BARE_PROGRAMS, *(controllers[addon] for addon in addons))


def _in_directory(directory: Path | None, needed: Sequence[str]) -> dict[str, Path]:
    if directory is None:
        return {}
    return {name: directory / name for name in needed if os.access(directory / name, os.X_OK)}


def _explicit(directory: Path | None) -> Path | None:
    if directory is not None:
        if not directory.is_dir():
            raise SandboxError(
                f"{directory} is not a directory of binaries.",
                why="It was given as the explicit source and does not exist.",
                next_step="Give the directory that holds etcd and kube-apiserver, or none.",
            )
        return directory
    from_environment = os.environ.get(DIRECTORY_VARIABLE)
    return Path(from_environment) if from_environment else None


def _make(binary_set: BinarySet, needed: Sequence[str], say: Say) -> None:
    """Put the set into the cache, by images when they are set and by a build otherwise."""
    if platform.system() != "Linux":
        raise SandboxError(
            f"The sandbox runs on Linux, and this is {platform.system()}.",
            why="It reads /proc to know its processes.",
            next_step="Run it in a Linux machine, a virtual one will do.",
        )
    waiting = f"Another process is making the '{binary_set.name}' binaries; waiting for it."
    with locked(cache.lock_file(binary_set), on_wait=lambda: say(waiting)):
        if cache.complete(binary_set):
            return
        images = os.environ.get(IMAGES_VARIABLE)
        if images:
            oci.download_set(binary_set, Path(images), needed, say)
        else:
            go_build.build_set(binary_set, say)


def ensure(addons: Sequence[str] = (), *, directory: Path | None = None, say: Say = print) -> Binaries:
    """Find or make the programs that a sandbox with `addons` needs.

    Args:
        addons: any of ``kueue``, ``kuberay``, ``appwrapper``.
        directory: an explicit directory of binaries; a set is made only for what it lacks.
        say: receives one line at a time about what is being done and how long it takes.

    Raises:
        SandboxError: no source can provide them.
    """
    needed = _needed(addons)
    programs = _in_directory(_explicit(directory), needed)
    manifests: dict[str, Path] = {}
    keys: list[str] = [f"{path}:{path.stat().st_mtime_ns}" for path in programs.values()]
    for binary_set in SETS:
        missing = [p.name for p in binary_set.programs if p.name in needed and p.name not in programs]
        sources = [source.addon for source in binary_set.manifests if source.addon in addons]
        if not missing and not sources:
            continue
        if not _available(binary_set, missing, sources):
            _make(binary_set, needed, say)
        place = cache.location(binary_set)
        programs.update({name: place / "bin" / name for name in missing})
        manifests.update({addon: place / "manifests" / addon for addon in sources})
        keys.append(place.name)
    return Binaries(programs=programs, manifests=manifests, key="+".join(keys))


def _available(binary_set: BinarySet, missing: Sequence[str], addons: Sequence[str]) -> bool:
    place = cache.location(binary_set)
    have_programs = all((place / "bin" / name).is_file() for name in missing)
    return have_programs and all((place / "manifests" / addon).is_dir() for addon in addons)


def total_minutes(addons: Sequence[str]) -> float:
    """How long a build of everything that is missing for `addons` takes on two cores, in minutes."""
    needed = _needed(addons)
    return sum(
        each.minutes
        for each in SETS
        if any(program.name in needed for program in each.programs) and not cache.complete(each)
    )


def go_available() -> bool:
    """Whether a Go command is on the path."""
    return shutil.which("go") is not None
