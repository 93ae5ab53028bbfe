"""Downloads what a sandbox needs of a binary set: programs out of images, manifests out of modules."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from kaiwo_sandbox.binaries import images, module_archives
from kaiwo_sandbox.binaries.image_registry import ImageError
from kaiwo_sandbox.binaries.module_archives import ModuleError
from kaiwo_sandbox.binaries.transfer import TransferError, TransferLimits, TransferSession
from kaiwo_sandbox.builds.binary_sets import ADDON_PROGRAMS
from kaiwo_sandbox.builds.official_images import PROJECT_APPWRAPPER, file_name
from kaiwo_sandbox.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from kaiwo_sandbox.binaries.images import ImageList
    from kaiwo_sandbox.builds.binary_sets import BinarySet, ManifestSource

    Progress = Callable[[str], None]

LIMITS = TransferLimits()


@dataclass(frozen=True, slots=True)
class ProgramRequest:
    """The programs and addons of one binary set that a sandbox needs."""

    binary_set: BinarySet
    programs: tuple[str, ...]
    addons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """Paths of programs and of directories with manifests.

    Attributes:
        programs: path by program.
        manifests: directory by addon.
        keys: names of the directories of the cache, which identify their content.
    """

    programs: Mapping[str, Path]
    manifests: Mapping[str, Path]
    keys: tuple[str, ...]


def find(request: ProgramRequest, image_list: ImageList) -> Found | None:
    """Return what was downloaded for a request; None unless it is complete.

    Raises:
        SandboxError: the configured list lacks a program.
    """
    programs = {}
    for program in request.programs:
        image = image_list.find(request.binary_set, program)
        if image is None:
            return None
        programs[program] = images.location(request.binary_set, program, image)
    manifests = {
        source.addon: module_archives.location(request.binary_set, source) for source in _sources(request)
    }
    paths = [*programs.values(), *manifests.values()]
    if not paths or not all(path.exists() for path in paths):
        return None
    return Found(programs, manifests, tuple(path.parents[1].name for path in paths))


def fetch(requests: Sequence[ProgramRequest], image_list: ImageList, progress: Progress) -> dict[str, str]:
    """Download what images and modules have of the requests into the cache.

    Returns:
        Why downloads failed, by the name of the program or addon. A binary set with a failure is not in
        the cache completely.

    Raises:
        SandboxError: a download failed, and the user configured the images.
    """
    transfer = TransferSession(LIMITS)
    tasks: dict[str, Callable[[], str]] = {}
    for request in requests:
        tasks.update(_tasks(request, image_list, transfer))
    if not tasks:
        return {}
    images.remove_partial_downloads(layers_too=False)
    progress(f"downloading {', '.join(tasks)}")
    failures: dict[str, str] = {}
    for name, error in transfer.run(tasks, progress).items():
        if not isinstance(error, (ImageError, ModuleError, TransferError)):
            raise error
        failures[name] = str(error)
    if failures and image_list.file is not None:
        raise SandboxError(
            f"cannot download {', '.join(sorted(failures))}",
            detail="; ".join(dict.fromkeys(failures.values())),
            hint=f"correct {image_list.file}, or set {images.VARIABLE}=off to build with Go",
        )
    if not failures:
        images.remove_partial_downloads(layers_too=True)
    return failures


def is_mandatory(request: ProgramRequest, image_list: ImageList) -> bool:
    """Whether a configured list has the programs of a request, so that no other ones may run.

    Raises:
        SandboxError: the list lacks a program.
    """
    return image_list.file is not None and all(
        image_list.find(request.binary_set, program) for program in request.programs
    )


def unavailable(reasons: Sequence[str]) -> SandboxError:
    """The error for programs that can neither be downloaded nor built."""
    return SandboxError(
        "the control plane's programs cannot be downloaded, and go is not installed to build them",
        detail="; ".join(reasons),
        hint=(
            "check the connection, set GOPROXY to a Go module proxy if none is known, "
            f"install Go 1.26 or newer, or set {images.VARIABLE} or KUBEBUILDER_ASSETS (see its README)"
        ),
    )


def _tasks(
    request: ProgramRequest, image_list: ImageList, transfer: TransferSession
) -> Iterator[tuple[str, Callable[[], str]]]:
    """The downloads of a request that the cache lacks; none if one of its programs is in no image."""
    binary_set = request.binary_set
    found = {program: image_list.find(binary_set, program) for program in request.programs}
    if not all(found.values()):
        return
    for source in _sources(request):
        if not module_archives.location(binary_set, source).exists():
            name = f"manifests of {source.addon}"
            yield name, partial(module_archives.fetch, binary_set, source, transfer)
    for program, image in found.items():
        if image is not None and not images.location(binary_set, program, image).exists():
            yield program, partial(images.fetch, binary_set, program, image, transfer)


def _sources(request: ProgramRequest) -> list[ManifestSource]:
    """The manifests of the addons. AppWrapper's own program runs without its webhooks (see its addon)."""
    return [
        replace(source, files=tuple(each for each in source.files if "webhook" not in each))
        if file_name(ADDON_PROGRAMS[source.addon]) == PROJECT_APPWRAPPER
        and ADDON_PROGRAMS[source.addon] in request.programs
        else source
        for source in request.binary_set.manifests
        if source.addon in request.addons
    ]
