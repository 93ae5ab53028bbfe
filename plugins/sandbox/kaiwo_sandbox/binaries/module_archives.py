"""CRDs and webhook manifests out of Go module archives, without Go.

The archive comes from a module proxy, by the protocol that Go uses. Its content is verified with the hash
that the go.sum of the wrapper module records, so a proxy need not be trusted. The proxy is what `GOPROXY`
says: in the environment, in Go's own configuration file, or in an installed Go of any version.
"""

from __future__ import annotations

import base64
import fnmatch
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import urllib.parse
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kaiwo_sandbox.binaries import cache
from kaiwo_sandbox.binaries.images import downloads_directory
from kaiwo_sandbox.binaries.transfer import TransferError
from kaiwo_sandbox.paths import cache_dir

if TYPE_CHECKING:
    from kaiwo_sandbox.binaries.transfer import TransferSession
    from kaiwo_sandbox.builds.binary_sets import BinarySet, ManifestSource

VARIABLE = "GOPROXY"
_MAX_ARCHIVE_BYTES = 64 << 20
_MAX_UNPACKED_BYTES = 512 << 20
_MAX_FILES = 50_000
_CHUNK = 1 << 20
_GO_SECONDS = 10
_SEPARATORS = re.compile(r"[,|]")


class ModuleError(Exception):
    """A module archive cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Module:
    """A module at a version, and the hash of its content as go.sum has it."""

    path: str
    version: str
    h1: str


def module_of(binary_set: BinarySet, source: ManifestSource) -> Module:
    """Read the version from the set's go.mod, and the hash from its go.sum.

    Raises:
        ModuleError: they do not have the module.
    """
    path = re.escape(source.module)
    version = re.search(rf"^\s*(?:require )?{path} (v\S+)", binary_set.files["go.mod"].decode(), re.MULTILINE)
    if version is not None:
        line = rf"^{path} {re.escape(version[1])} (h1:\S+)$"
        h1 = re.search(line, binary_set.files["go.sum"].decode(), re.MULTILINE)
        if h1 is not None:
            return Module(source.module, version[1], h1[1])
    raise ModuleError(f"go.mod and go.sum of the set {binary_set.name} lack {source.module}")


def proxies() -> list[str]:
    """The URLs of the module proxies that Go would use; ``direct`` and ``off`` are left out.

    Raises:
        ModuleError: there is none, or `GOPROXY` cannot be known.
    """
    configured = os.environ.get(VARIABLE) or _from_file() or _from_go()
    found = [each.strip().rstrip("/") for each in _SEPARATORS.split(configured)]
    urls = [each for each in found if each not in {"", "direct", "off"}]
    if not urls:
        reason = f"{VARIABLE} names none" if configured else f"{VARIABLE} is not set and go is not installed"
        raise ModuleError(f"no Go module proxy is known: {reason}")
    return urls


def _from_file() -> str:
    """The value that `go env -w` wrote. Go's documentation describes the place and the format."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    file = Path(os.environ.get("GOENV") or Path(base) / "go" / "env")
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return ""
    return next((line.partition("=")[2] for line in lines if line.startswith(f"{VARIABLE}=")), "")


def _from_go() -> str:
    go = shutil.which("go")
    if go is None:
        return ""
    try:
        completed = subprocess.run(
            [go, "env", VARIABLE], capture_output=True, text=True, timeout=_GO_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return completed.stdout.strip()


def location(binary_set: BinarySet, source: ManifestSource) -> Path:
    """The directory of an addon's manifests in the cache, which may not exist yet.

    Raises:
        ModuleError: the set lacks the module.
    """
    module = module_of(binary_set, source)
    parts = (module.path, module.version, module.h1, *source.files)
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[: cache.KEY_LENGTH]
    return cache_dir() / f"{prefix(binary_set, source)}{key}" / "manifests" / source.addon


def prefix(binary_set: BinarySet, source: ManifestSource) -> str:
    """The beginning of the name of the directory in the cache, without the digest of what is in it."""
    return f"module-{binary_set.name}-{source.addon}-"


def fetch(binary_set: BinarySet, source: ManifestSource, transfer: TransferSession) -> str:
    """Download a module, put the addon's manifests into the cache and return a line that says so.

    Raises:
        ModuleError: no proxy is known, or the archive is not what go.sum records.
        TransferError: no proxy has it.
    """
    module = module_of(binary_set, source)
    with tempfile.TemporaryDirectory(dir=downloads_directory()) as temporary:
        archive = Path(temporary) / "module.zip"
        archive.write_bytes(_download(module, transfer))
        prepared = Path(temporary) / "prepared"
        target = prepared / "manifests" / source.addon
        target.mkdir(parents=True)
        try:
            _unpack(archive, module, source.files, target)
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, RuntimeError) as error:
            raise ModuleError(f"the archive of {module.path} {module.version} is damaged: {error}") from error
        place = location(binary_set, source).parents[1]
        cache.replace(prepared, place, prefix(binary_set, source))
    return f"  manifests of {source.addon} downloaded from module {module.path} {module.version}"


def _download(module: Module, transfer: TransferSession) -> bytes:
    """Download the archive from the first proxy that has it."""
    failures = []
    for proxy in proxies():
        split = urllib.parse.urlsplit(f"{proxy}/{_escaped(module.path)}/@v/{_escaped(module.version)}.zip")
        if split.scheme == "file":
            try:
                return Path(urllib.parse.unquote(split.path)).read_bytes()
            except OSError as error:
                failures.append(f"{split.path}: {error.strerror}")
                continue
        if split.scheme not in {"https", "http"}:
            failures.append(f"{VARIABLE}: expected https, http or file, got the scheme {split.scheme!r}")
            continue
        credentials, _, host = split.netloc.rpartition("@")
        headers = {"Authorization": f"Basic {_basic(credentials)}"} if credentials else {}
        try:
            url = split._replace(netloc=host).geturl()
            return transfer.get(url, limit=_MAX_ARCHIVE_BYTES, headers=headers)
        except TransferError as error:
            failures.append(str(error))
    raise TransferError(f"module {module.path} {module.version}: {'; '.join(failures)}")


def _basic(credentials: str) -> str:
    return base64.b64encode(urllib.parse.unquote(credentials).encode()).decode()


def _escaped(text: str) -> str:
    """The path or version as proxies have it: an upper-case letter is "!" and the lower-case one."""
    return re.sub(r"[A-Z]", lambda match: f"!{match[0].lower()}", text)


def _unpack(archive: Path, module: Module, patterns: tuple[str, ...], target: Path) -> None:
    """Verify the archive and write the files that match into `target`, without their directories.

    Raises:
        ModuleError: its hash differs, it is too large, or it lacks a file.
    """
    prefix = f"{module.path}@{module.version}/"
    lines: list[str] = []
    remaining = _MAX_UNPACKED_BYTES
    wanted: dict[str, Path] = {}
    with zipfile.ZipFile(archive) as opened:
        members = opened.infolist()
        if len(members) > _MAX_FILES:
            raise ModuleError(f"the archive of {module.path} has more than {_MAX_FILES} files")
        for member in members:
            name = member.filename
            if not name.startswith(prefix) or ".." in name.split("/") or "\\" in name or "\n" in name:
                raise ModuleError(
                    f'the archive of {module.path} has a path outside of its root: "{name[:200]}"'
                )
            inner = name.removeprefix(prefix)
            matches = any(fnmatch.fnmatchcase(inner, each) and _depth(inner, each) for each in patterns)
            part = target / inner.rpartition("/")[2]
            digest = hashlib.sha256()
            with opened.open(member) as stream:
                content = bytearray()
                while chunk := stream.read(_CHUNK):
                    remaining -= len(chunk)
                    if remaining < 0:
                        raise ModuleError(
                            f"the archive of {module.path} has more than {_MAX_UNPACKED_BYTES} bytes unpacked"
                        )
                    digest.update(chunk)
                    if matches:
                        content += chunk
            if matches:
                wanted[inner] = part
                part.write_bytes(content)
            lines.append(f"{digest.hexdigest()}  {name}\n")
    _verify(module, lines)
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(each, pattern) for each in wanted):
            raise ModuleError(f"module {module.path} {module.version} has no {pattern}")


def _depth(name: str, pattern: str) -> bool:
    """Whether both have the same depth: the star of a pattern matches no slash."""
    return name.count("/") == pattern.count("/")


def _verify(module: Module, lines: list[str]) -> None:
    """Compare the hash: SHA-256 of the sorted list of files and their hashes, as sha256sum prints it."""
    lines.sort(key=lambda line: line.partition("  ")[2])
    found = base64.b64encode(hashlib.sha256("".join(lines).encode()).digest()).decode()
    if f"h1:{found}" != module.h1:
        raise ModuleError(
            f"module {module.path} {module.version} has another hash: expected {module.h1}, got h1:{found}"
        )
