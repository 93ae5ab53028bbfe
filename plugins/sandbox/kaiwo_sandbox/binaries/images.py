"""Extract programs from container images, which a file lists by digest.

`KAIWO_SANDBOX_IMAGES` names the file. Users write it, because digests belong to releases::

    programs:
      etcd: {image: registry.example/etcd@sha256:..., path: usr/local/bin/etcd}
      kube-apiserver: {image: registry.example/kube-apiserver@sha256:...}
    manifests:
      kueue: /path/to/directory

`path` is the path of the program in the image. Addons also need `manifests`: directories with the release
manifests of their projects.
"""

from __future__ import annotations

import hashlib
import posixpath
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from kaiwo_sandbox.binaries import image_registry
from kaiwo_sandbox.errors import SandboxError
from kaiwo_sandbox.locks import locked
from kaiwo_sandbox.paths import cache_dir, make_private

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kaiwo_sandbox.binaries.image_registry import ImageRegistryClient

    Progress = Callable[[str], None]

_DEFAULT_PATHS = {"kueue": "manager", "ray-operator": "manager"}
"""Paths of programs in their projects' images, if not usr/local/bin."""

_MAX_LINKS = 8
_KEY_LENGTH = 16


def ensure(file: Path, programs: Sequence[str], addons: Sequence[str], progress: Progress) -> Path:
    """Put the programs and manifests into the cache and return the directory with ``bin`` and ``manifests``.

    Raises:
        SandboxError: the file is invalid or incomplete, or an image cannot be read.
    """
    text, document = _read(file)
    directory = cache_dir() / f"images-{hashlib.sha256(text).hexdigest()[:_KEY_LENGTH]}"
    with locked(make_private(cache_dir()) / f"{directory.name}.lock"):
        for program in programs:
            if not (directory / "bin" / program).is_file():
                _download(program, _program_entry(document, file, program), directory / "bin", file, progress)
        for addon in addons:
            if not (directory / "manifests" / addon).is_dir():
                _copy_manifests(addon, document, directory / "manifests", file)
    return directory


def _read(file: Path) -> tuple[bytes, dict[str, Any]]:
    try:
        text = file.read_bytes()
        document = yaml.safe_load(text)
    except (OSError, yaml.YAMLError) as error:
        raise SandboxError(
            f"cannot read {file} as YAML",
            detail=str(error),
            hint="correct it, or unset KAIWO_SANDBOX_IMAGES to build with Go",
        ) from error
    if not isinstance(document, dict) or not isinstance(document.get("programs"), dict):
        raise _missing_field(file, "programs", "a map of programs to images")
    return text, document


def _program_entry(document: dict[str, Any], file: Path, program: str) -> dict[str, Any]:
    entry = document["programs"].get(program)
    if not isinstance(entry, dict) or not isinstance(entry.get("image"), str):
        raise _missing_field(file, f"programs.{program}.image", "an image by digest")
    return entry


def _missing_field(file: Path, field: str, expected: str) -> SandboxError:
    return SandboxError(
        f"{file}: {field} is missing; expected {expected}",
        hint="add it; the sandbox's README shows the whole file",
    )


def _copy_manifests(addon: str, document: dict[str, Any], target: Path, file: Path) -> None:
    configured = (document.get("manifests") or {}).get(addon)
    source = file.parent / str(configured)
    if not configured or not source.is_dir():
        raise _missing_field(file, f"manifests.{addon}", "a directory with the addon's release manifests")
    make_private(target)
    shutil.copytree(source, target / addon)


def _download(program: str, entry: dict[str, Any], target: Path, file: Path, progress: Progress) -> None:
    reference = image_registry.parse(entry["image"], field=f"{file}: programs.{program}.image")
    path = str(entry.get("path") or _DEFAULT_PATHS.get(program, f"usr/local/bin/{program}"))
    progress(f"downloading {program} from {reference.host}/{reference.name}")
    make_private(target)
    client = image_registry.ImageRegistryClient(reference)
    with tempfile.TemporaryDirectory(prefix="image-", dir=target.parent) as temporary:
        layers = [str(layer["digest"]) for layer in client.layers()]
        fresh = Path(temporary) / program
        if not _extract(client, layers, path, fresh):
            raise SandboxError(
                f"image {reference} has no file {path}",
                hint=f"set programs.{program}.path in {file} to the program's path in the image",
            )
        fresh.chmod(0o755)
        fresh.rename(target / program)


def _extract(client: ImageRegistryClient, layers: Sequence[str], path: str, target: Path) -> bool:
    """Write the file from the topmost layer with it to `target`, following links; False if there is none."""
    path = _normalized(path)
    for _ in range(_MAX_LINKS):
        link = _extract_or_read_link(client, layers, path, target)
        if link is None:
            return target.is_file()
        path = link
    return False


def _extract_or_read_link(
    client: ImageRegistryClient, layers: Sequence[str], path: str, target: Path
) -> str | None:
    """Write the file, or return the target of a link; do neither if the image has no such file."""
    for number, digest in reversed(list(enumerate(layers))):
        blob = target.with_name(f"layer-{number}")
        if not blob.exists():
            client.download(digest, blob)
        try:
            with tarfile.open(blob, "r:*") as archive:
                members = {_normalized(member.name): member for member in archive}
                member = members.get(path)
                if member is None:
                    if _is_deleted(path, members):
                        return None
                    continue
                if member.issym():
                    return _normalized(posixpath.join("/", posixpath.dirname(path), member.linkname))
                if member.islnk():
                    return _normalized(member.linkname)
                stream = archive.extractfile(member)
                if stream is not None:
                    with stream, target.open("wb") as file:
                        shutil.copyfileobj(stream, file)
                return None
        except tarfile.TarError as error:
            raise SandboxError(
                f"cannot unpack layer {digest}: expected a tar archive, plain or compressed with gzip",
                hint="use an image with gzip layers, or unset KAIWO_SANDBOX_IMAGES to build with Go",
            ) from error
    return None


def _normalized(path: str) -> str:
    return posixpath.normpath(posixpath.join("/", path)).lstrip("/")


def _is_deleted(path: str, members: dict[str, tarfile.TarInfo]) -> bool:
    """Whether this layer deletes the file: by a whiteout of it or of a parent, or by an opaque directory."""
    while path:
        directory, name = posixpath.split(path)
        if posixpath.join(directory, f".wh.{name}") in members:
            return True
        if directory and posixpath.join(directory, ".wh..wh..opq") in members:
            return True
        path = directory
    return False
