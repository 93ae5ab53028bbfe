"""Builds wheels of projects and installs them into empty environments, as users do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_LEFT_OUT: Final = (".*", "__pycache__", "tests", "plugins", "examples", "bench", "docs")
"""No part of a distribution; other projects of the same checkout among them."""

_PIP_SECONDS: Final = 500
_RUN_SECONDS: Final = 120
_HIDDEN: Final = ("KAIWO", "KUBE", "PYTHON")


@dataclass(frozen=True, slots=True)
class WheelEnvironment:
    """A Python environment with installed wheels.

    Attributes:
        directory: working directory of programs; the environment is in ``venv`` below it.
    """

    directory: Path

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables without the working tree and without a cluster."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_HIDDEN)}
        return kept | {"HOME": str(self.directory)}

    def program(self, name: str) -> str:
        """Path of an installed program."""
        return str(self.directory / "venv" / "bin" / name)

    def run(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run an installed program to its end, and keep its output.

        Raises:
            subprocess.TimeoutExpired: it does not end within two minutes.
        """
        return subprocess.run(
            [self.program(name), *arguments],
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_RUN_SECONDS,
        )


def build_wheels(projects: Sequence[Path], directory: Path) -> Path:
    """Build a wheel of each project, without isolation and without the network.

    Args:
        projects: folders with a ``pyproject.toml``.
        directory: an empty folder to work in.

    Returns:
        The folder with the wheels.

    Raises:
        AssertionError: one cannot be built, with the output of pip.
    """
    copies = []
    for number, project in enumerate(projects):
        # A build from a copy leaves nothing behind in the working tree.
        copy = directory / "sources" / f"{number}-{project.name}"
        shutil.copytree(project, copy, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        copies.append(str(copy))
    wheels = directory / "wheels"
    wheels.mkdir()
    flags = ["--no-build-isolation", "--no-deps", "--no-index"]
    _pip("wheel", *flags, "--wheel-dir", str(wheels), *copies, cwd=directory)
    return wheels


def install(
    wheels: Path, requirements: Sequence[str], constraints: Path, directory: Path
) -> WheelEnvironment:
    """Install into an empty environment.

    Args:
        wheels: where the projects' own wheels are.
        requirements: what to install.
        constraints: versions of everything else.
        directory: the folder that gets the environment.

    Raises:
        AssertionError: something cannot be installed, with the output of pip.
    """
    made = [sys.executable, "-m", "venv", "--without-pip", "venv"]
    subprocess.run(made, cwd=directory, check=True)
    found = WheelEnvironment(directory)
    flags = ["--no-compile", "--find-links", str(wheels), "--constraint", str(constraints)]
    _pip("--python", found.program("python"), "install", *flags, *requirements, cwd=directory)
    return found


def _pip(*arguments: str, cwd: Path) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=_PIP_SECONDS)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
