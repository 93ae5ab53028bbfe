"""``python -m release.build [DIRECTORY]`` builds what a release publishes, by default in ``dist``.

That is a wheel and a source distribution of the host and of each plugin, a bill of materials for each image,
and the checksums of all of them. The same sources give the same bytes; ``SOURCE_DATE_EPOCH`` sets the time in
the archives.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from release import sbom
from release.projects import ROOT, host, plugins, projects

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from release.projects import Project

CHECKSUMS: Final = "SHA256SUMS"


class BuildError(Exception):
    """A distribution cannot be built."""


def build_project(folder: Path, directory: Path, *targets: str) -> None:
    """Build a wheel, a source distribution or both of one folder, without isolation and without the network.

    Raises:
        BuildError: it cannot be built, with the output of the build backend.
    """
    chosen = [argument for target in targets for argument in ("--target", target)]
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(directory), *chosen]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{folder} cannot be built:\n{done.stdout}{done.stderr}")


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def wheel_name(project: Project) -> str:
    """The file name of the wheel of a distribution."""
    return f"{project.name.replace('-', '_')}-{project.version}-py3-none-any.whl"


def bills(directory: Path) -> list[sbom.Bill]:
    """The bills of the images, whose wheels are in the directory."""
    checksums = {project.name: _digest(directory / wheel_name(project)) for project in projects()}

    def bill(image: str, members: Sequence[Project], extras: dict[str, Sequence[str]]) -> sbom.Bill:
        lock = ROOT / "deploy" / image.removeprefix("kaiwo-") / "requirements.txt"
        locked = sbom.locked_versions(lock.read_text(encoding="utf-8"))
        return sbom.Bill(image, members, extras, locked, checksums)

    service = [plugin for plugin in plugins() if plugin.folder.name != "sandbox"]
    download = [each for each in service if "download" in each.metadata.get("optional-dependencies", {})]
    return [
        bill("kaiwo-operator", [host(), *service], {}),
        bill("kaiwo-downloader", [host(), *download], {each.name: ("download",) for each in download}),
    ]


def write_checksums(files: Iterable[Path], target: Path) -> None:
    """Write the checksums of files in the format of ``sha256sum``."""
    target.write_text("".join(f"{_digest(file)}  {file.name}\n" for file in sorted(files)), encoding="utf-8")


def build(directory: Path) -> list[Path]:
    """Build everything into an empty or new directory; the files."""
    directory.mkdir(parents=True, exist_ok=True)
    for project in projects():
        build_project(project.folder, directory, "sdist", "wheel")
    for bill in bills(directory):
        text = json.dumps(sbom.document(bill), indent=2) + "\n"
        (directory / f"{bill.image}.cdx.json").write_text(text, encoding="utf-8")
    files = sorted(file for file in directory.iterdir() if file.suffix in {".whl", ".gz", ".json"})
    write_checksums(files, directory / CHECKSUMS)
    return [*files, directory / CHECKSUMS]


def main(arguments: Sequence[str]) -> int:
    """Build into the directory that the argument names."""
    if len(arguments) > 1:
        sys.stderr.write("usage: python -m release.build [DIRECTORY]\n")
        return 2
    directory = Path(*arguments or ["dist"]).absolute()
    if directory.is_dir() and any(directory.iterdir()):
        sys.stderr.write(f"error: {directory} is not empty; remove it first\n")
        return 1
    try:
        files = build(directory)
    except BuildError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    print("\n".join(str(file) for file in files))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
