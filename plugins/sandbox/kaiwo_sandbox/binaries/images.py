"""Programs from container images: the official ones by tag, or those of a list.

`KAIWO_SANDBOX_IMAGES` names the list, a YAML file; ``off`` uses no images. With a list, its digests are
mandatory, and nothing else is tried when an image cannot be used::

    programs:
      etcd: {image: registry.example/etcd:3.6.8-0@sha256:..., path: usr/local/bin/etcd}
      kube-apiserver: {image: registry.example/kube-apiserver@sha256:...}

What was read, with all digests, is recorded beside each program.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from kaiwo_sandbox.binaries import cache, layers
from kaiwo_sandbox.binaries.image_registry import ImageError, ImageRegistryClient, architecture, parse
from kaiwo_sandbox.binaries.sources import IMAGE_RECORD
from kaiwo_sandbox.builds.binary_sets import ADDON_PROGRAMS, CORE_PROGRAMS
from kaiwo_sandbox.builds.official_images import ProgramImage, file_name, official_image, path_in_image
from kaiwo_sandbox.errors import SandboxError
from kaiwo_sandbox.paths import cache_dir, make_private

if TYPE_CHECKING:
    from kaiwo_sandbox.binaries.image_registry import ImageManifest, ImageReference
    from kaiwo_sandbox.binaries.transfer import TransferSession
    from kaiwo_sandbox.builds.binary_sets import BinarySet

VARIABLE = "KAIWO_SANDBOX_IMAGES"
_OFF = "off"
_TRIAL_SECONDS = 10
_BUSY_SECONDS = 5
_BUSY_PAUSE_SECONDS = 0.01
_NOT_EXECUTABLE = {126, 127}


@dataclass(frozen=True, slots=True)
class ImageList:
    """The images that programs come from.

    Attributes:
        file: the list that the user configured; None for the official images.
        entries: image by program, from that file.
        off: whether no images are used.
    """

    file: Path | None = None
    entries: dict[str, ProgramImage] | None = None
    off: bool = False

    def find(self, binary_set: BinarySet, program: str) -> ProgramImage | None:
        """Return the image of a program; None if it comes from no image.

        Raises:
            SandboxError: the file lacks the program.
        """
        official = official_image(binary_set, program)
        if self.off or official is None or self.entries is None:
            return None if self.off else official
        if program not in self.entries:
            raise _missing_field(self.file, f"programs.{program}.image", "an image")
        return self.entries[program]


def configured() -> ImageList:
    """Read the setting, and the file that it names.

    Raises:
        SandboxError: the file is invalid.
    """
    setting = os.environ.get(VARIABLE, "")
    if setting in {"", _OFF}:
        return ImageList(off=setting == _OFF)
    file = Path(setting)
    known = (*CORE_PROGRAMS, *ADDON_PROGRAMS.values())
    entries = {
        program: _entry(file, program, entry) for program, entry in _read(file).items() if program in known
    }
    return ImageList(file, entries)


def _read(file: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(file.read_bytes())
    except (OSError, yaml.YAMLError, RecursionError) as error:
        raise SandboxError(
            f"{VARIABLE}: cannot read {file} as YAML",
            detail=str(error),
            hint="correct it, or unset the variable to use the official images",
        ) from error
    programs = document.get("programs") if isinstance(document, dict) else None
    if not isinstance(programs, dict):
        raise _missing_field(file, "programs", "a map of programs to images")
    return programs


def _entry(file: Path, program: str, entry: Any) -> ProgramImage:
    image = entry.get("image") if isinstance(entry, dict) else None
    if not isinstance(image, str):
        raise _missing_field(file, f"programs.{program}.image", "an image")
    parse(image, field=f"{file}: programs.{program}.image")
    return ProgramImage(image, str(entry.get("path") or path_in_image(program)))


def _missing_field(file: Path | None, field: str, expected: str) -> SandboxError:
    return SandboxError(
        f"{file}: {field} is missing; expected {expected}",
        hint="add it; kaiwo sandbox build -o yaml prints a whole file once the programs came from images",
    )


def location(binary_set: BinarySet, program: str, image: ProgramImage) -> Path:
    """The program in the cache, which may not exist yet."""
    parts = (image.reference, image.path, architecture())
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[: cache.KEY_LENGTH]
    return cache_dir() / f"{_prefix(binary_set, program)}{key}" / "bin" / file_name(program)


def _prefix(binary_set: BinarySet, program: str) -> str:
    return f"image-{binary_set.name}-{program}-"


def fetch(binary_set: BinarySet, program: str, image: ProgramImage, transfer: TransferSession) -> str:
    """Download a program into the cache and return a line that says so.

    Raises:
        ImageError: the image has another digest, lacks the program, or is not for this machine.
        TransferError: the registry failed.
    """
    reference = parse(image.reference, field=program)
    try:
        _fetch(binary_set, program, image, reference, transfer)
    except ImageError as error:
        raise ImageError(f"image {reference}: {error}") from error
    return f"  {program} downloaded from {reference.host}/{reference.name}"


def _fetch(
    binary_set: BinarySet,
    program: str,
    image: ProgramImage,
    reference: ImageReference,
    transfer: TransferSession,
) -> None:
    client = ImageRegistryClient(reference, transfer)
    manifest = client.resolve()
    blobs = downloads_directory()

    def download(index: int) -> Path:
        # A layer of two images at once must not be written by two threads.
        blob = blobs / f"{program}-{manifest.layers[index].digest.removeprefix('sha256:')}"
        if index not in verified:
            client.download(manifest.layers[index], blob)
            verified.add(index)
        return blob

    verified: set[int] = set()
    try:
        with tempfile.TemporaryDirectory(dir=blobs) as temporary:
            prepared = Path(temporary) / "prepared"
            target = prepared / "bin" / file_name(program)
            target.parent.mkdir(parents=True)
            layer = layers.extract(
                [partial(download, index) for index in range(len(manifest.layers))], image.path, target
            )
            if layer is None:
                raise ImageError(f"it has no file {image.path}")
            target.chmod(0o755)
            _try(target)
            record = _record(program, image, manifest, manifest.layers[layer].digest, target)
            (prepared / IMAGE_RECORD).write_text(yaml.safe_dump(record, sort_keys=False))
            place = location(binary_set, program, image).parents[1]
            cache.replace(prepared, place, _prefix(binary_set, program))
    finally:
        for each in verified:
            download(each).unlink(missing_ok=True)


def downloads_directory() -> Path:
    """The directory of the cache with what is being downloaded.

    Its files are layers that arrived in part, which the next attempt continues. Directories are of use to the
    process that made them only.
    """
    return make_private(cache_dir() / "downloads")


def remove_partial_downloads(*, layers_too: bool) -> None:
    """Remove what interrupted downloads left; the layers only when they are no longer needed."""
    if layers_too:
        shutil.rmtree(downloads_directory(), ignore_errors=True)
        return
    for path in downloads_directory().iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)


def _try(program: Path) -> None:
    """Run the program once, because it may need another processor or C library than this machine's."""
    try:
        code = _exit_code(program)
    except subprocess.TimeoutExpired:
        return
    except OSError as error:
        raise ImageError(f"{program.name} does not run on this machine: {error.strerror}") from error
    if code in _NOT_EXECUTABLE:
        raise ImageError(f"{program.name} does not run on this machine: exit code {code}")


def _exit_code(program: Path) -> int:
    """The exit code of the program's help.

    A process that another thread starts has this program open for writing until it executes its own, and the
    system refuses to run a file that is open for writing. That takes milliseconds.

    Raises:
        OSError: the system cannot run it.
        subprocess.TimeoutExpired: it runs, and does not end.
    """
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            return subprocess.run(
                [program, "--help"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_TRIAL_SECONDS,
                check=False,
            ).returncode
        except OSError as error:
            if error.errno != errno.ETXTBSY or time.monotonic() > deadline:
                raise
            time.sleep(_BUSY_PAUSE_SECONDS)


def _record(
    program: str, image: ProgramImage, manifest: ImageManifest, layer: str, file: Path
) -> dict[str, Any]:
    """What was read, in the format of a list of images."""
    tagged = image.reference.partition("@")[0]
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    entry = {
        "image": f"{tagged}@{manifest.digest}",
        "path": image.path,
        "manifest": manifest.manifest,
        "config": manifest.config,
        "layer": layer,
        "program": f"sha256:{digest}",
    }
    return {"programs": {program: entry}}
