"""Find each program of a sandbox in the first source that has it, or build it.

1. A directory (the argument, else `KUBEBUILDER_ASSETS`), which may hold some of the programs.
2. The cache of earlier builds.
3. Container images by digest, if `KAIWO_SANDBOX_IMAGES` names a list of them.
4. A Go build.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kaiwo_sandbox import generations
from kaiwo_sandbox.binaries import cache, go_build, images
from kaiwo_sandbox.builds.binary_sets import (
    ADDON_PROGRAMS,
    CORE,
    CORE_PROGRAMS,
    HELM,
    NODE_PROGRAMS,
    SETS,
    BinarySet,
)
from kaiwo_sandbox.errors import SandboxError
from kaiwo_sandbox.generations import NEWER
from kaiwo_sandbox.locks import locked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Progress = Callable[[str], None]

DIRECTORY_VARIABLE = "KUBEBUILDER_ASSETS"
IMAGES_VARIABLE = "KAIWO_SANDBOX_IMAGES"


@dataclass(frozen=True, slots=True)
class Binaries:
    """Paths of the programs and of the addons' manifests.

    Attributes:
        programs: path by program name.
        manifests: directory of YAML files by addon name.
        key: identifies this combination of programs.
    """

    programs: Mapping[str, Path]
    manifests: Mapping[str, Path]
    key: str

    def __getitem__(self, program: str) -> Path:
        """Return the path of a program."""
        return self.programs[program]


def ensure(
    addons: Sequence[str] = (),
    *,
    directory: Path | None = None,
    generation: str = NEWER.name,
    real_node: bool = False,
    progress: Progress = print,
) -> Binaries:
    """Find or build the programs of a sandbox with `addons`.

    Args:
        addons: any of ``kueue``, ``kuberay``, ``appwrapper``.
        directory: a directory of binaries; other sources provide only the programs that it lacks.
        generation: ``newer`` or ``older`` releases of the addons.
        real_node: also the programs of a real node.
        progress: receives lines about builds and downloads.

    Raises:
        SandboxError: no source has the programs, this is not Linux, or the generation is unknown.
    """
    addon_sets = generations.generation(generation).addons
    _check_platform()
    node_programs = NODE_PROGRAMS if real_node else {}
    needed = (*CORE_PROGRAMS, *(ADDON_PROGRAMS[addon] for addon in addons), *node_programs)
    programs = _find_in_directory(_explicit_directory(directory), needed)
    manifests: dict[str, Path] = {}
    keys = [f"{path}:{path.stat().st_mtime_ns}" for path in programs.values()]
    required: list[tuple[BinarySet, list[str], list[str]]] = []
    for binary_set in SETS:
        set_addons = [addon for addon in addons if addon_sets[addon] is binary_set]
        provided = [ADDON_PROGRAMS[addon] for addon in set_addons]
        provided += CORE_PROGRAMS if binary_set is CORE else ()
        provided += [name for name, its_set in node_programs.items() if its_set is binary_set]
        missing = [name for name in provided if name not in programs]
        if missing or set_addons:
            required.append((binary_set, missing, set_addons))
    _build([binary_set for binary_set, _, _ in required], progress)
    for binary_set, missing, set_addons in required:
        source = _source_directory(binary_set, missing, set_addons, progress)
        programs.update({name: source / "bin" / name for name in missing})
        manifests.update({addon: source / "manifests" / addon for addon in set_addons})
        keys.append(source.name)
    return Binaries(programs=programs, manifests=manifests, key="+".join(keys))


def ensure_helm(progress: Progress = print) -> Path:
    """Find or build Helm, which no sandbox runs: the tests of the chart need it.

    Raises:
        SandboxError: no source has it, or this is not Linux.
    """
    _check_platform()
    (name,) = (program.name for program in HELM.programs)
    found = _find_in_directory(_explicit_directory(None), (name,))
    if name in found:
        return found[name]
    _build([HELM], progress)
    return _source_directory(HELM, (name,), (), progress) / "bin" / name


def _build(sets: Sequence[BinarySet], progress: Progress) -> None:
    """Build the sets that are neither in the cache nor in images."""

    def missing() -> list[BinarySet]:
        return [each for each in sets if not cache.complete(each) and not _comes_from_images(each)]

    if missing():
        waiting = "another process is building programs; waiting for it"
        with locked(cache.build_lock(), on_wait=lambda: progress(waiting)):
            go_build.build(missing(), progress)


def _comes_from_images(binary_set: BinarySet) -> bool:
    """Whether images are configured and can have the set; none has a program of the sandbox's own source."""
    return bool(os.environ.get(IMAGES_VARIABLE)) and binary_set.source is None


def _check_platform() -> None:
    if platform.system() != "Linux":
        raise SandboxError(
            f"the sandbox needs Linux; this is {platform.system()}",
            hint="run it on Linux, for example in a virtual machine",
        )


def _explicit_directory(directory: Path | None) -> Path | None:
    configured = directory or os.environ.get(DIRECTORY_VARIABLE)
    if not configured:
        return None
    path = Path(configured)
    if not path.is_dir():
        raise SandboxError(
            f"{'--binaries' if directory else DIRECTORY_VARIABLE}: {path} is not a directory",
            hint="set it to the directory with etcd and kube-apiserver, or leave it out",
        )
    return path.resolve()


def _find_in_directory(directory: Path | None, needed: Sequence[str]) -> dict[str, Path]:
    if directory is None:
        return {}
    return {name: directory / name for name in needed if os.access(directory / name, os.X_OK)}


def _source_directory(
    binary_set: BinarySet, programs: Sequence[str], addons: Sequence[str], progress: Progress
) -> Path:
    """The directory with ``bin`` and ``manifests`` of a set, in the cache of builds or of images."""
    if not cache.complete(binary_set) and _comes_from_images(binary_set):
        return images.ensure(Path(os.environ[IMAGES_VARIABLE]), programs, addons, progress)
    return cache.location(binary_set)
