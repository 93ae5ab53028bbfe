"""Taking programs out of container images, as a file of digests says.

The file is the user's own (`KAIWO_SANDBOX_IMAGES` names it), because digests belong to releases::

    programs:
      etcd: {image: registry.example/etcd@sha256:..., path: usr/local/bin/etcd}
      kube-apiserver: {image: registry.example/kube-apiserver@sha256:...}
    manifests:
      kueue: /path/to/directory

`path` is where the program lies in the image. `manifests` is needed for addons: directories with the
projects' release manifests.
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

from kaiwo_sandbox.binaries import registry
from kaiwo_sandbox.errors import SandboxError
from kaiwo_sandbox.locks import locked
from kaiwo_sandbox.paths import cache_dir, make_private

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kaiwo_sandbox.binaries.registry import Registry

    Say = Callable[[str], None]

_USUAL_PATHS = {"kueue": "manager", "ray-operator": "manager"}
"""Where the projects' images have them; the others lie in usr/local/bin."""

_MOST_LINKS = 8
_KEY_LENGTH = 16


def ensure(file: Path, programs: Sequence[str], addons: Sequence[str], say: Say) -> Path:
    """Put the programs and manifests into the cache and return the directory with ``bin`` and ``manifests``.

    Raises:
        SandboxError: the file is wrong or incomplete, or an image cannot be read.
    """
    text, listed = _read(file)
    place = cache_dir() / f"images-{hashlib.sha256(text).hexdigest()[:_KEY_LENGTH]}"
    with locked(make_private(cache_dir()) / f"{place.name}.lock"):
        for program in programs:
            if not (place / "bin" / program).is_file():
                _fetch(program, _entry(listed, file, program), place / "bin", file, say)
        for addon in addons:
            if not (place / "manifests" / addon).is_dir():
                _copy_manifests(addon, listed, place / "manifests", file)
    return place


def _read(file: Path) -> tuple[bytes, dict[str, Any]]:
    try:
        text = file.read_bytes()
        document = yaml.safe_load(text)
    except (OSError, yaml.YAMLError) as error:
        raise SandboxError(
            f"{file} cannot be read as YAML.",
            why=str(error),
            next_step="Correct it, or unset KAIWO_SANDBOX_IMAGES to build with Go instead.",
        ) from error
    if not isinstance(document, dict) or not isinstance(document.get("programs"), dict):
        raise _incomplete(file, "programs", "It maps each program to an image.")
    return text, document


def _entry(listed: dict[str, Any], file: Path, program: str) -> dict[str, Any]:
    entry = listed["programs"].get(program)
    if not isinstance(entry, dict) or not isinstance(entry.get("image"), str):
        raise _incomplete(file, f"programs.{program}.image", "This sandbox needs the program.")
    return entry


def _incomplete(file: Path, field: str, why: str) -> SandboxError:
    return SandboxError(
        f"{file}: {field} is missing.",
        why=why,
        next_step="Add it; the sandbox's README shows the whole file.",
    )


def _copy_manifests(addon: str, listed: dict[str, Any], target: Path, file: Path) -> None:
    given = (listed.get("manifests") or {}).get(addon)
    source = file.parent / str(given)
    if not given or not source.is_dir():
        raise _incomplete(
            file, f"manifests.{addon}", "It is the directory with the addon's release manifests."
        )
    make_private(target)
    shutil.copytree(source, target / addon)


def _fetch(program: str, entry: dict[str, Any], target: Path, file: Path, say: Say) -> None:
    reference = registry.parse(entry["image"], where=f"{file}: programs.{program}.image")
    path = str(entry.get("path") or _USUAL_PATHS.get(program, f"usr/local/bin/{program}"))
    say(f"Downloading {program} from {reference.host}/{reference.name}.")
    make_private(target)
    source = registry.Registry(reference)
    with tempfile.TemporaryDirectory(prefix="image-", dir=target.parent) as temporary:
        layers = [str(layer["digest"]) for layer in source.layers()]
        fresh = Path(temporary) / program
        if not _extract(source, layers, path, fresh):
            raise SandboxError(
                f"Image {reference} has no file {path}.",
                why="None of its layers holds it.",
                next_step=f"Set programs.{program}.path in {file} to where it lies.",
            )
        fresh.chmod(0o755)
        fresh.rename(target / program)


def _extract(source: Registry, layers: Sequence[str], path: str, target: Path) -> bool:
    """Find the file in the uppermost layer that has it, following links, and write it to `target`."""
    wanted = _normal(path)
    for _ in range(_MOST_LINKS):
        link = _search(source, layers, wanted, target)
        if link is None:
            return target.is_file()
        wanted = link
    return False


def _search(source: Registry, layers: Sequence[str], wanted: str, target: Path) -> str | None:
    """Write the file, or return what it links to; neither when no layer has it or an upper one deleted it."""
    for number, digest in reversed(list(enumerate(layers))):
        blob = target.with_name(f"layer-{number}")
        if not blob.exists():
            source.download(digest, blob)
        try:
            with tarfile.open(blob, "r:*") as archive:
                members = {_normal(member.name): member for member in archive}
                member = members.get(wanted)
                if member is None:
                    if _deleted(wanted, members):
                        return None
                    continue
                if member.issym():
                    return _normal(posixpath.join("/", posixpath.dirname(wanted), member.linkname))
                if member.islnk():
                    return _normal(member.linkname)
                stream = archive.extractfile(member)
                if stream is not None:
                    with stream, target.open("wb") as file:
                        shutil.copyfileobj(stream, file)
                return None
        except tarfile.TarError as error:
            raise SandboxError(
                f"Layer {digest} cannot be unpacked.",
                why="It is neither a plain nor a gzip-compressed tar archive.",
                next_step="Use an image with gzip layers, or unset KAIWO_SANDBOX_IMAGES to build with Go.",
            ) from error
    return None


def _normal(path: str) -> str:
    return posixpath.normpath(posixpath.join("/", path)).lstrip("/")


def _deleted(wanted: str, members: dict[str, tarfile.TarInfo]) -> bool:
    """Whether this layer hides the file: a whiteout of it or a directory above it, or an opaque directory."""
    while wanted:
        directory, name = posixpath.split(wanted)
        if posixpath.join(directory, f".wh.{name}") in members:
            return True
        if directory and posixpath.join(directory, ".wh..wh..opq") in members:
            return True
        wanted = directory
    return False
