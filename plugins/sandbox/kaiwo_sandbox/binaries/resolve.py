"""Which source the programs come from, in a fixed order, and one answer: where each lies.

1. An explicit directory (the argument, else `KUBEBUILDER_ASSETS`). It may hold some programs only.
2. The cache of an earlier build.
3. Container images by digest, when `KAIWO_SANDBOX_IMAGES` names the file that lists them.
4. A Go build.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kaiwo_sandbox import catalogue
from kaiwo_sandbox.binaries import cache, go_build, oci
from kaiwo_sandbox.catalogue import ADDON_PROGRAMS, BARE_PROGRAMS, CORE, NEWER, SETS, BinarySet
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
        """The path of a program."""
        return self.programs[program]


def ensure(
    addons: Sequence[str] = (),
    *,
    directory: Path | None = None,
    generation: str = NEWER.name,
    say: Say = print,
) -> Binaries:
    """Find or make the programs that a sandbox with `addons` needs.

    Args:
        addons: any of ``kueue``, ``kuberay``, ``appwrapper``.
        directory: an explicit directory of binaries; a set is made only for what it lacks.
        generation: ``newer`` or ``older`` controllers.
        say: receives one line at a time about what is being done and how long it takes.

    Raises:
        SandboxError: no source can provide them, this is not Linux, or there is no such generation.
    """
    origins = catalogue.generation(generation).addons
    _check_platform()
    needed = (*BARE_PROGRAMS, *(ADDON_PROGRAMS[addon] for addon in addons))
    programs = _in_directory(_explicit(directory), needed)
    manifests: dict[str, Path] = {}
    keys = [f"{path}:{path.stat().st_mtime_ns}" for path in programs.values()]
    wanted: list[tuple[BinarySet, list[str], list[str]]] = []
    for binary_set in SETS:
        sources = [addon for addon in addons if origins[addon] is binary_set]
        provided = [ADDON_PROGRAMS[addon] for addon in sources]
        provided += BARE_PROGRAMS if binary_set is CORE else ()
        missing = [name for name in provided if name not in programs]
        if missing or sources:
            wanted.append((binary_set, missing, sources))
    _build([binary_set for binary_set, _, _ in wanted], say)
    for binary_set, missing, sources in wanted:
        place = _place(binary_set, missing, sources, say)
        programs.update({name: place / "bin" / name for name in missing})
        manifests.update({addon: place / "manifests" / addon for addon in sources})
        keys.append(place.name)
    return Binaries(programs=programs, manifests=manifests, key="+".join(keys))


def _build(sets: Sequence[BinarySet], say: Say) -> None:
    """Build what is neither in the cache nor to be taken out of images."""

    def missing() -> list[BinarySet]:
        return [each for each in sets if not cache.complete(each) and not _in_images(each)]

    if missing():
        waiting = "Another process is building programs; waiting for it."
        with locked(cache.build_lock(), on_wait=lambda: say(waiting)):
            go_build.build(missing(), say)


def _in_images(binary_set: BinarySet) -> bool:
    """Whether images are used and can have the set: what has a source of its own is in no project's image."""
    return bool(os.environ.get(IMAGES_VARIABLE)) and binary_set.source is None


def _check_platform() -> None:
    if platform.system() != "Linux":
        raise SandboxError(
            f"The sandbox runs on Linux, and this is {platform.system()}.",
            why="It reads /proc to know its processes.",
            next_step="Run it in a Linux machine; a virtual one will do.",
        )


def _explicit(directory: Path | None) -> Path | None:
    chosen = directory or os.environ.get(DIRECTORY_VARIABLE)
    if not chosen:
        return None
    path = Path(chosen)
    if not path.is_dir():
        raise SandboxError(
            f"{path} is not a directory of binaries.",
            why=f"It was given by {'an option' if directory else DIRECTORY_VARIABLE} and does not exist.",
            next_step="Give the directory that holds etcd and kube-apiserver, or none.",
        )
    return path.resolve()


def _in_directory(directory: Path | None, needed: Sequence[str]) -> dict[str, Path]:
    if directory is None:
        return {}
    return {name: directory / name for name in needed if os.access(directory / name, os.X_OK)}


def _place(binary_set: BinarySet, programs: Sequence[str], addons: Sequence[str], say: Say) -> Path:
    """The directory with ``bin`` and ``manifests`` of a set that is in the cache or comes out of images."""
    if not cache.complete(binary_set) and _in_images(binary_set):
        return oci.ensure(Path(os.environ[IMAGES_VARIABLE]), programs, addons, say)
    return cache.location(binary_set)
