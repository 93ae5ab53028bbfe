"""The plugin guide is right: what it shows works from top to bottom, and what it lists is complete."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest
from hatchling.builders.wheel import WheelBuilder

from kaiwo import testing
from kaiwo.cli.plugin_scaffold.names import KINDS
from kaiwo.plugin.loader import HOOKS
from kaiwo.plugin.selection import DISABLED_VARIABLE, NAMES_VARIABLE, REQUIRED_VARIABLE

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
SCRIPTS = Path(sys.executable).parent


class Block(NamedTuple):
    """A code block of the guide."""

    file: str
    """The file that the sentence before the block names, empty without one."""
    action: str
    """What the sentence says about the file: Write, Add to, or has."""
    language: str
    text: str


def blocks() -> list[Block]:
    """All code blocks of the guide, in order."""
    pattern = (
        r"(?:(?P<verb>Add to|Write)\s`(?P<written>[\w./]+)`:\n\n|`(?P<there>[\w./]+)`\s(?P<has>has):\n\n)?"
        r"^```(?P<language>\w+)\n(?P<text>.*?)^```"
    )
    return [
        Block(
            file=found["written"] or found["there"] or "",
            action=found["verb"] or found["has"] or "",
            language=found["language"],
            text=found["text"],
        )
        for found in re.finditer(pattern, GUIDE, flags=re.DOTALL | re.MULTILINE)
    ]


class Reader:
    """Somebody who does what the guide says, in an empty directory.

    Attributes:
        directory: where they are.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.site = directory / "site"
        self.projects: list[Path] = []
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("KAIWO_")}
        self.environment["PATH"] = os.pathsep.join([str(SCRIPTS), self.environment["PATH"]])
        self.environment["XDG_CONFIG_HOME"] = str(directory)
        self.environment["MYPYPATH"] = str(ROOT)
        self.environment["MYPY_CACHE_DIR"] = str(directory / "mypy")

    def follow(self, block: Block) -> None:
        """Write the file of a block, compare it with what is there, or run its commands."""
        if block.language == "console":
            self.run(block.text)
            return
        assert block.file, f"the guide does not name the file of:\n{block.text}"
        path = self.directory / block.file
        assert path.exists() == (block.action != "Write"), f"{block.file} is written twice, or does not exist"
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        if block.action == "has":
            found = (textwrap.indent(block.text, " " * depth) in before for depth in (0, 4, 8, 12))
            assert any(found), f"{block.file} does not have, at any indentation:\n{block.text}"
            return
        path.write_text(before + block.text, encoding="utf-8")

    def run(self, text: str) -> None:
        """Run the commands of a console block; output that the guide shows is the output there is."""
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            if setting := re.fullmatch(r"export (\w+)=(\S+)", command):
                self.environment[setting[1]] = setting[2]
            elif folder := re.fullmatch(r"cd (\S+)", command):
                self.directory = (self.directory / folder[1]).resolve()
                assert self.directory.is_dir()
            elif command == "pip install -e .":
                self.install()
            elif not command.startswith("pip install"):  # Kaiwo itself is here already
                self.execute(command, expected)

    def install(self) -> None:
        """What ``pip install -e .`` does, in an environment that cannot be written."""
        (wheel,) = WheelBuilder(str(self.directory)).build(
            directory=str(self.site.parent / "wheels"), versions=["standard"]
        )
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(self.site)
        self.projects.append(self.directory)
        self.environment["PYTHONPATH"] = os.pathsep.join(map(str, [*self.projects, self.site]))

    def execute(self, command: str, expected: str) -> None:
        """Run one command in a shell."""
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
            assert done.stdout.split() == expected.split(), f"$ {command}\n{done.stdout}{done.stderr}"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of somebody who followed the guide to its end."""
    directory = tmp_path_factory.mktemp("guide")
    reader = Reader(directory)
    for block in blocks():
        reader.follow(block)
    return directory


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_guide_works_from_top_to_bottom(directory: Path) -> None:
    """Files, commands and their output; in the end there is a plugin of each kind of the scaffold."""
    sections = re.findall(r"^## \d\. .*$", GUIDE, flags=re.MULTILINE)
    assert len(sections) == 8
    made = re.findall(r"^\$ kaiwo plugin new (\w+) (\S+)", GUIDE, flags=re.MULTILINE)
    assert {kind for kind, _ in made} == set(KINDS)
    code = "".join(path.read_text("utf-8") for path in directory.glob("kaiwo-*/kaiwo_*/*.py"))
    hooks = set(re.findall(r"def (kaiwo_\w+)", code))
    assert hooks == set(HOOKS) - {"kaiwo_controllers", "kaiwo_lifecycle", "kaiwo_namespace_defaults"}


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
