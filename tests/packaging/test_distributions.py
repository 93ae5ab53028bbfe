"""The files that a release publishes: wheels, source distributions, bills of materials, checksums."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import tarfile
import zipfile
from email.parser import Parser
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import pytest

from release.build import build_project, wheel_name
from release.projects import ROOT, Project, host, plugins, projects

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

EVERY = pytest.mark.parametrize("project", projects(), ids=lambda project: project.name)


def files_in(wheel: Path) -> list[str]:
    """The names of the files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def sdist_name(project: Project) -> str:
    """The file name of the source distribution."""
    return f"{project.name.replace('-', '_')}-{project.version}.tar.gz"


def test_a_release_has_all_files_and_their_checksums(published: Path) -> None:
    """A wheel and a source distribution of each project, and a bill of materials of each image."""
    names = {make(project) for project in projects() for make in (wheel_name, sdist_name)}
    names |= {"kaiwo-operator.cdx.json", "kaiwo-downloader.cdx.json"}
    assert {file.name for file in published.iterdir()} == names | {"SHA256SUMS"}
    sums = dict(reversed(line.split("  ")) for line in (published / "SHA256SUMS").read_text().splitlines())
    assert sums == {name: hashlib.sha256((published / name).read_bytes()).hexdigest() for name in names}


def test_the_same_sources_give_the_same_bytes(published: Path, published_again: Path) -> None:
    """Neither place, times, modes nor what tools left in the working tree is in what is published."""
    assert (published_again / "SHA256SUMS").read_text() == (published / "SHA256SUMS").read_text()


@EVERY
def test_a_source_distribution_builds_the_same_wheel(
    project: Project, published: Path, tmp_path: Path
) -> None:
    """Whoever builds from the source distribution gets the published wheel to the byte."""
    with tarfile.open(published / sdist_name(project)) as archive:
        archive.extractall(tmp_path, filter="data")
    build_project(tmp_path / sdist_name(project).removesuffix(".tar.gz"), tmp_path, "wheel")
    assert (tmp_path / wheel_name(project)).read_bytes() == (published / wheel_name(project)).read_bytes()


@EVERY
def test_a_wheel_holds_its_packages_and_nothing_else(project: Project, published: Path) -> None:
    """No test, cache or tool setting, and every tracked file of the package."""
    wheel = published / wheel_name(project)
    information = wheel.name.removesuffix("-py3-none-any.whl") + ".dist-info"
    found = [name for name in files_in(wheel) if not name.startswith(f"{information}/")]
    assert {PurePosixPath(name).parts[0] for name in found} == set(project.packages)
    unwanted = re.compile(r"(^|/)(tests?|conftest\.py|__pycache__|\..*)(/|$)|\.pyc$")
    assert [name for name in found if unwanted.search(name)] == []
    expected = {
        str(file.relative_to(project.folder))
        for package in project.packages
        for file in (project.folder / package).rglob("*")
        if file.is_file() and not unwanted.search(str(file.relative_to(project.folder)))
    }
    assert set(found) == expected
    assert {f"{package}/py.typed" for package in project.packages} <= set(found)


@EVERY
def test_a_wheel_has_the_metadata_that_a_package_index_shows(project: Project, published: Path) -> None:
    """Summary, licence with its text, Python versions, links and a long description."""
    wheel = published / wheel_name(project)
    information = wheel.name.removesuffix("-py3-none-any.whl") + ".dist-info"
    with zipfile.ZipFile(wheel) as archive:
        metadata = Parser().parsestr(archive.read(f"{information}/METADATA").decode())
        licence = archive.read(f"{information}/licenses/LICENSE").decode()
    assert licence == (ROOT / "LICENSE").read_text("utf-8")
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert len(str(metadata.get_payload())) > 200
    assert metadata["Summary"]
    assert metadata["Keywords"]
    classifiers = metadata.get_all("Classifier") or []
    versions = {each.rpartition(" :: ")[2] for each in classifiers if "Python :: 3." in each}
    assert versions == {"3.11", "3.12", "3.13", "3.14"}
    urls = dict(each.split(", ") for each in metadata.get_all("Project-URL") or [])
    assert set(urls) == {"Source", "Changelog", "Issues"}


def test_a_registry_accepts_the_distributions(published: Path, release_tools: Path) -> None:
    """``twine check --strict`` finds nothing to object to."""
    files = sorted(str(file) for file in published.iterdir() if file.suffix in {".whl", ".gz"})
    command = [str(release_tools / "twine"), "check", "--strict", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("PASSED") == len(files)


@pytest.mark.parametrize("image", ["kaiwo-operator", "kaiwo-downloader"])
def test_a_bill_of_materials_lists_what_the_image_gets(image: str, published: Path) -> None:
    """Every locked distribution with its version, and the wheels with their checksums."""
    bill: dict[str, Any] = json.loads((published / f"{image}.cdx.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    lock = (ROOT / "deploy" / image.removeprefix("kaiwo-") / "requirements.txt").read_text()
    locked = set(re.findall(r"^(\S+)==(\S+)", lock, re.MULTILINE))
    storage = [plugin for plugin in plugins() if plugin.folder.name.startswith("storage")]
    service = [plugin for plugin in plugins() if plugin.folder.name != "sandbox"]
    own = [host(), *(service if image == "kaiwo-operator" else storage)]
    listed = {(each["name"], each["version"]) for each in bill["components"]}
    assert listed == locked | {(each.name, each.version) for each in own}
    sums = dict(reversed(line.split("  ")) for line in (published / "SHA256SUMS").read_text().splitlines())
    checksums = {
        each["name"]: each["hashes"][0]["content"] for each in bill["components"] if "hashes" in each
    }
    assert checksums == {project.name: sums[wheel_name(project)] for project in own}
    references = {each["bom-ref"] for each in bill["components"]}
    (first, *others) = bill["dependencies"]
    assert first["ref"] == bill["metadata"]["component"]["bom-ref"]
    assert {each for line in (first, *others) for each in line["dependsOn"]} <= references
    assert {each["ref"] for each in others} == {
        each["bom-ref"] for each in bill["components"] if "hashes" in each
    }


def test_bills_of_materials_are_valid(published: Path, release_tools: Path) -> None:
    """They conform to the schema of CycloneDX 1.6."""
    program = (
        "import sys\n"
        "from cyclonedx.schema import SchemaVersion\n"
        "from cyclonedx.validation.json import JsonStrictValidator\n"
        "for file in sys.argv[1:]:\n"
        "    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(file).read())\n"
        "    assert error is None, error\n"
    )
    files = [str(file) for file in published.glob("*.cdx.json")]
    assert len(files) == 2
    command = [str(release_tools / "python"), "-c", program, *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
