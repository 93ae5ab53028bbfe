"""``python -m release.lock`` writes the locked requirements of images and release tools anew.

A lock names each distribution with its version from ``constraints.txt`` and with the hashes of its wheels for
Linux on amd64 and arm64. It names no package index, so the installing machine's own is used.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from release.projects import ROOT, host, plugins

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from packaging.tags import Tag

PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
MACHINES: Final = ("x86_64", "aarch64")
CONSTRAINTS: Final = ROOT / "constraints.txt"
_OWN: Final = "kaiwo"
_NO_SERVICE: Final = ("sandbox",)
"""Plugins for development, which no image holds."""

_HEADER: Final = """\
# Written by `make lock` from {origin}; do not edit.
# Linux on amd64 and arm64, CPython {first} to {last}, wheels only.
"""


class LockError(Exception):
    """The requirements cannot be locked; the message says what to change."""


@dataclass(frozen=True)
class Lock:
    """A file with locked requirements.

    Attributes:
        file: where it is.
        origin: where its requirements are from, for the reader of the file.
        requirements: what is locked, without the distributions of the repository.
        constrained: every version has to be in ``constraints.txt``.
    """

    file: Path
    origin: str
    requirements: tuple[str, ...]
    constrained: bool = True


def third_party(requirements: Iterable[str]) -> list[str]:
    """Requirements without the distributions of the repository."""
    return [
        each
        for each in requirements
        if (name := Requirement(each).name) != _OWN and not name.startswith(f"{_OWN}-")
    ]


def locks() -> list[Lock]:
    """All locks of the repository."""
    service = [host(), *(plugin for plugin in plugins() if plugin.folder.name not in _NO_SERVICE)]
    operator = {each for project in service for each in third_party(project.metadata["dependencies"])}
    download = set(third_party(host().metadata["dependencies"]))
    for plugin in plugins():
        extras = plugin.metadata.get("optional-dependencies", {})
        if "download" in extras:
            download |= {*third_party(plugin.metadata["dependencies"]), *extras["download"]}
    groups = host().settings["dependency-groups"]
    return [
        Lock(ROOT / "deploy/operator/requirements.txt", "the host and its plugins", tuple(sorted(operator))),
        Lock(
            ROOT / "deploy/downloader/requirements.txt",
            "the host and the download program",
            tuple(sorted(download)),
        ),
        Lock(
            ROOT / "deploy/build-requirements.txt",
            "build-system.requires",
            tuple(host().settings["build-system"]["requires"]),
        ),
        Lock(
            ROOT / "release/requirements.txt",
            "the dependency group release",
            tuple(groups["release"]),
            constrained=False,
        ),
    ]


def fits(tag: Tag, python: str, machine: str) -> bool:
    """Whether a wheel with this tag can be installed with CPython of this version on Linux with glibc."""
    platform = tag.platform == "any" or (
        tag.platform.startswith("manylinux") and tag.platform.endswith(machine)
    )
    if not platform:
        return False
    number = int(python.replace(".", ""))
    interpreter, abi = tag.interpreter, tag.abi
    if interpreter in {"py3", f"py{number}"}:
        return abi == "none"
    if not interpreter.startswith("cp3") or not interpreter[2:].isdecimal():
        return False
    if abi == "abi3":
        return int(interpreter[3:]) <= number % 100
    return interpreter == f"cp{number}" and abi in {interpreter, "none"}


def constrained(text: str) -> dict[str, str]:
    """The versions in ``constraints.txt``, by normalized name."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        requirement = line.partition("#")[0].strip()
        if requirement:
            name, _, version = requirement.partition("==")
            found[canonicalize_name(name)] = version
    return found


def _environments(marker: str) -> list[bool]:
    return [
        Marker(marker).evaluate(
            {
                "python_version": python,
                "python_full_version": f"{python}.0",
                "sys_platform": "linux",
                "platform_system": "Linux",
                "os_name": "posix",
                "platform_machine": machine,
                "implementation_name": "cpython",
                "platform_python_implementation": "CPython",
            }
        )
        for python, machine in product(PYTHONS, MACHINES)
    ]


def _hashes(package: Mapping[str, Any]) -> list[str]:
    """The hashes of the wheels that fit; one fits every environment.

    Raises:
        LockError: the distribution has no wheel for one of them.
    """
    missing = set(product(PYTHONS, MACHINES))
    found = set()
    for wheel in package.get("wheels", ()):
        tags = parse_wheel_filename(wheel["url"].rpartition("/")[2])[3]
        matches = {pair for pair in product(PYTHONS, MACHINES) if any(fits(tag, *pair) for tag in tags)}
        if matches:
            found.add(str(wheel["hashes"]["sha256"]))
        missing -= matches
    if missing:
        wanted = ", ".join(f"CPython {python} on {machine}" for python, machine in sorted(missing))
        raise LockError(
            f"{package['name']}=={package['version']} has no wheel for {wanted}; choose another version"
        )
    return sorted(found)


def _lines(packages: Sequence[Mapping[str, Any]], versions: Mapping[str, str] | None) -> Iterator[str]:
    for package in packages:
        name, version = package["name"], package["version"]
        marker = package.get("marker", "")
        needed = _environments(marker) if marker else [True]
        if not any(needed):
            continue
        if versions is not None and name not in versions:
            raise LockError(f"constraints.txt does not have {name}; add {name}=={version}")
        condition = "" if all(needed) else f" ; {marker}"
        yield " \\\n".join(
            [f"{name}=={version}{condition}", *(f"    --hash=sha256:{each}" for each in _hashes(package))]
        )


def text_of(lock: Lock) -> str:
    """What the file has to contain now.

    Raises:
        LockError: the index has no fitting distributions, or ``constraints.txt`` lacks one.
    """
    with tempfile.TemporaryDirectory() as temporary:
        given, made = Path(temporary, "requirements.in"), Path(temporary, "pylock.toml")
        given.write_text("\n".join(lock.requirements) + "\n", encoding="utf-8")
        command = [
            *(sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal", "--no-header"),
            *("--python-version", PYTHONS[0], "--constraint", str(CONSTRAINTS)),
            *("--format", "pylock.toml", "--output-file", str(made), str(given)),
        ]
        done = subprocess.run(command, cwd=temporary, capture_output=True, text=True, check=False)
        if done.returncode:
            raise LockError(done.stderr.strip())
        packages = tomllib.loads(made.read_text(encoding="utf-8"))["packages"]
    versions = constrained(CONSTRAINTS.read_text(encoding="utf-8")) if lock.constrained else None
    header = _HEADER.format(origin=lock.origin, first=PYTHONS[0], last=PYTHONS[-1])
    return header + "\n".join(_lines(packages, versions)) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Write all locks."""
    if arguments:
        sys.stderr.write("usage: python -m release.lock\n")
        return 2
    try:
        for lock in locks():
            lock.file.write_text(text_of(lock), encoding="utf-8")
            print(f"{lock.file.relative_to(ROOT)}: written")
    except LockError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
