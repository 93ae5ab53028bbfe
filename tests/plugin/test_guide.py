"""The plugin guide is right: what it shows works from top to bottom, and what it lists is complete."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from kaiwo import testing
from kaiwo.plugin.loader import HOOKS
from kaiwo.plugin.selection import DISABLED_VARIABLE, NAMES_VARIABLE, REQUIRED_VARIABLE

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
SCRIPTS = Path(sys.executable).parent


class Block(NamedTuple):
    """A code block of the guide."""

    file: str
    """The file that the sentence before the block ends with, empty without one."""
    appended: bool
    """Whether that sentence says to add the block to the file."""
    language: str
    text: str


def blocks() -> list[Block]:
    """All code blocks of the guide, in order."""
    pattern = r"(?:(Add to|Write)\s`([\w./]+)`:\n\n)?^```(\w+)\n(.*?)^```"
    found = re.findall(pattern, GUIDE, flags=re.DOTALL | re.MULTILINE)
    return [Block(file, verb == "Add to", language, text) for verb, file, language, text in found]


class Reader:
    """Somebody who does what the guide says, in an empty directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        site = directory / "site"
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("KAIWO_")}
        self.environment["PATH"] = os.pathsep.join([str(SCRIPTS), self.environment["PATH"]])
        self.environment["PYTHONPATH"] = os.pathsep.join([str(directory), str(site)])
        self.environment["XDG_CONFIG_HOME"] = str(directory)
        # Kaiwo and its dependencies are here already; an editable install needs a writable environment.
        self.install = f"pip install --quiet --no-deps --no-build-isolation --target {site} ."

    def follow(self, block: Block) -> None:
        """Write the file of a block, or run its commands."""
        if block.language == "console":
            self.run(block.text)
            return
        assert block.file, f"the guide does not name the file of:\n{block.text}"
        path = self.directory / block.file
        assert path.exists() == block.appended, f"{block.file} is written twice, or added to before it exists"
        if block.file.startswith("kaiwo_acme/"):
            path.parent.mkdir(exist_ok=True)
            (path.parent / "__init__.py").touch()
        path.parent.mkdir(exist_ok=True)
        before = path.read_text(encoding="utf-8") if block.appended else ""
        path.write_text(before + block.text, encoding="utf-8")

    def run(self, text: str) -> None:
        """Run the commands of a console block; output that the guide shows is the output there is."""
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            if setting := re.fullmatch(r"export (\w+)=(\S+)", command):
                self.environment[setting[1]] = setting[2]
            if command.startswith("pip install"):
                command = self.install
            done = subprocess.run(
                ["/bin/bash", "-o", "pipefail", "-c", command],
                cwd=self.directory,
                env=self.environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
            if expected:
                # The width of a column depends on what else is installed.
                assert done.stdout.split() == expected.split(), f"$ {command}\n{done.stderr}"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of somebody who followed the guide to its end."""
    directory = tmp_path_factory.mktemp("guide")
    reader = Reader(directory)
    for block in blocks():
        reader.follow(block)
    return directory


@pytest.mark.slow
def test_every_stage_of_the_guide_works_as_written(project: Path) -> None:
    """Files, commands and their output; in the end the plugin implements what the eight stages are about."""
    stages = re.findall(r"^## \d\. .*$", GUIDE, flags=re.MULTILINE)
    assert len(stages) == 8
    plugin = (project / "kaiwo_acme" / "plugin.py").read_text(encoding="utf-8")
    hooks = set(re.findall(r"import (kaiwo_\w+)", plugin))
    assert hooks == set(HOOKS) - {"kaiwo_controllers", "kaiwo_lifecycle"}


@pytest.mark.slow
def test_the_code_of_the_guide_is_type_correct(project: Path) -> None:
    """Somebody who checks types strictly can start from it."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "kaiwo_acme", "tests"],
        cwd=project,
        env={**os.environ, "MYPYPATH": f"{ROOT}{os.pathsep}{project}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_guide_lists_every_hook_and_every_part_of_the_kit() -> None:
    """Nothing an author could use is missing from the tables."""
    assert set(re.findall(r"^\| `(kaiwo_\w+)` ", GUIDE, flags=re.MULTILINE)) == set(HOOKS)
    assert all(f"`{name}(" in GUIDE for name in testing.__all__)
    assert all(f"`{name}`" in GUIDE for name in (NAMES_VARIABLE, DISABLED_VARIABLE, REQUIRED_VARIABLE))


def test_the_guide_names_every_example() -> None:
    """Each complete plugin of a third party is linked."""
    linked = set(re.findall(r"\]\(\.\./(examples/\w+)/README\.md\)", GUIDE))
    assert linked == {f"examples/{path.parent.name}" for path in ROOT.glob("examples/*/pyproject.toml")}


@pytest.mark.parametrize("module", re.findall(r"\| `(kaiwo\.plugin\.\w+)` \|", GUIDE))
def test_the_modules_that_the_guide_names_exist(module: str) -> None:
    """The types that the table points at are there."""
    assert __import__(module, fromlist=["*"]).__doc__
