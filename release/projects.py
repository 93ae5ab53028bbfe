"""The distributions that the repository releases: the host and its plugins."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]


@dataclass(frozen=True)
class Project:
    """A folder with a ``pyproject.toml``.

    Attributes:
        folder: the folder.
    """

    folder: Path

    @property
    def file(self) -> Path:
        """Its ``pyproject.toml``."""
        return self.folder / "pyproject.toml"

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The content of its ``pyproject.toml``."""
        return tomllib.loads(self.file.read_text(encoding="utf-8"))

    @property
    def metadata(self) -> dict[str, Any]:
        """The table ``project``."""
        found: dict[str, Any] = self.settings["project"]
        return found

    @property
    def name(self) -> str:
        """The name of the distribution."""
        return str(self.metadata["name"])

    @property
    def version(self) -> str:
        """The version of the distribution."""
        return str(self.metadata["version"])

    @property
    def packages(self) -> list[str]:
        """The folders of the wheel."""
        return [str(each) for each in self.settings["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]]


def host() -> Project:
    """The distribution ``kaiwo``."""
    return Project(ROOT)


def plugins() -> list[Project]:
    """The plugins of the repository, by name of their folder."""
    return [Project(file.parent) for file in sorted(ROOT.glob("plugins/*/pyproject.toml"))]


def projects() -> list[Project]:
    """The host and its plugins."""
    return [host(), *plugins()]
