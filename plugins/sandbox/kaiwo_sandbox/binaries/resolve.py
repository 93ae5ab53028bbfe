"""Find each program of a sandbox in the first source that has it, or build it.

1. A directory (the argument, else `KUBEBUILDER_ASSETS`), which may hold some of the programs.
2. The cache of earlier builds and downloads.
3. Container images, and Go module archives for the manifests of addons (see `binaries.images`).
4. A Go build.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kaiwo_sandbox import generations
from kaiwo_sandbox.binaries import cache, downloads, go_build, images, module_archives
from kaiwo_sandbox.binaries.downloads import Found, ProgramRequest
from kaiwo_sandbox.binaries.module_archives import ModuleError
from kaiwo_sandbox.builds.binary_sets import (
    ADDON_PROGRAMS,
    CORE,
    CORE_PROGRAMS,
    HELM,
    NODE_PROGRAMS,
    SETS,
)
from kaiwo_sandbox.errors import SandboxError
from kaiwo_sandbox.generations import NEWER
from kaiwo_sandbox.locks import locked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kaiwo_sandbox.binaries.images import ImageList

    Progress = Callable[[str], None]

DIRECTORY_VARIABLE = "KUBEBUILDER_ASSETS"


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
    required: list[ProgramRequest] = []
    for binary_set in SETS:
        set_addons = [addon for addon in addons if addon_sets[addon] is binary_set]
        provided = [ADDON_PROGRAMS[addon] for addon in set_addons]
        provided += CORE_PROGRAMS if binary_set is CORE else ()
        provided += [name for name, its_set in node_programs.items() if its_set is binary_set]
        missing = [name for name in provided if name not in programs]
        if missing or set_addons:
            required.append(ProgramRequest(binary_set, tuple(missing), tuple(set_addons)))
    for found in _provide(required, progress):
        programs.update(found.programs)
        manifests.update(found.manifests)
        keys.extend(found.keys)
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
    (provided,) = _provide([ProgramRequest(HELM, (name,), ())], progress)
    return provided.programs[name]


def why_no_addons(addons: Sequence[str]) -> str:
    """Return why no source can have the manifests of the addons of the newer generation; "" if one can.

    It asks no network: without a known module proxy and without Go, only the cache can have them.

    Raises:
        SandboxError: the configured list of images is invalid.
    """
    if go_build.is_installed():
        return ""
    image_list = images.configured()
    for addon in addons:
        binary_set = generations.NEWER.addons[addon]
        if _cached(ProgramRequest(binary_set, (ADDON_PROGRAMS[addon],), (addon,)), image_list):
            continue
        if image_list.off:
            return f"{images.VARIABLE} is off and go is not installed"
        try:
            module_archives.proxies()
        except ModuleError as error:
            return str(error)
    return ""


def _provide(required: Sequence[ProgramRequest], progress: Progress) -> list[Found]:
    """Find what is required in the cache; download or build the rest, while other processes wait."""
    image_list = images.configured()
    found = {each: _cached(each, image_list) for each in required}
    if not all(found.values()):
        waiting = "another process is downloading or building programs; waiting for it"
        with locked(cache.build_lock(), on_wait=lambda: progress(waiting)):
            _fetch_or_build(
                [each for each in required if not _cached(each, image_list)], image_list, progress
            )
            found = {each: _cached(each, image_list) for each in required}
    return [each for each in found.values() if each is not None]


def _fetch_or_build(missing: Sequence[ProgramRequest], image_list: ImageList, progress: Progress) -> None:
    """Download what is in images, and build the rest.

    Raises:
        SandboxError: a program of a configured list cannot be downloaded, or the build failed.
    """
    failures = downloads.fetch(missing, image_list, progress) if missing else {}
    to_build = [each.binary_set for each in missing if not downloads.find(each, image_list)]
    if not to_build:
        return
    reasons = list(dict.fromkeys(failures.values()))
    if failures and not go_build.is_installed():
        raise downloads.unavailable(reasons)
    if reasons:
        minutes = go_build.in_words(sum(go_build.estimate(to_build)))
        progress(
            f"warning: cannot download programs: {'; '.join(reasons)}. "
            f"Building them with Go instead, which takes about {minutes}"
        )
    go_build.build(to_build, progress)
    images.remove_partial_downloads(layers_too=True)


def _cached(request: ProgramRequest, image_list: ImageList) -> Found | None:
    """What the cache has for a request, from a build or from downloads; None unless it is complete."""
    binary_set = request.binary_set
    if downloads.is_mandatory(request, image_list) or not cache.complete(binary_set):
        return downloads.find(request, image_list)
    place = cache.location(binary_set)
    return Found(
        programs={name: place / "bin" / name for name in request.programs},
        manifests={addon: place / "manifests" / addon for addon in request.addons},
        keys=(place.name,),
    )


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
