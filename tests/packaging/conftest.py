"""What the tests of packages share: the release tools, and what a release publishes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from release import tools

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def release_tools() -> Path:
    """The programs of the release tools, from the package index, checked by their hashes."""
    return tools.environment() / "bin"


def _copy_of_the_repository(target: Path, *, age: int, junk: bool) -> Path:
    """The tracked files in another place, with other times, and with what tools leave behind.

    Args:
        target: a folder that does not exist.
        age: modification time of all files, in seconds since 1970.
        junk: add caches, bytecode and results of earlier builds.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        source = ROOT / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target / name)
            (target / name).chmod(0o664 if junk else 0o644)
            os.utime(target / name, (age, age))
    if junk:
        for folder in ("kaiwo/api", "plugins/kueue/kaiwo_kueue"):
            for name in ("__pycache__/x.cpython-311.pyc", ".mypy_cache/x.json", ".pytest_cache/x", "x.pyc"):
                (target / folder / name).parent.mkdir(parents=True, exist_ok=True)
                (target / folder / name).write_text("junk")
    return target


def _build_release(directory: Path, *, age: int, junk: bool = False) -> Path:
    """What ``make dist`` writes in a copy of the working tree."""
    repository = _copy_of_the_repository(directory / "source", age=age, junk=junk)
    environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    command = [sys.executable, "-m", "release.build", str(directory / "dist")]
    done = subprocess.run(
        command, cwd=repository, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return directory / "dist"


@pytest.fixture
def published_again(tmp_path: Path) -> Path:
    """The same, built in another place from files with other times and modes and among caches."""
    return _build_release(tmp_path / "elsewhere", age=1_700_000_000, junk=True)


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what a release publishes, built from a copy of the working tree."""
    return _build_release(tmp_path_factory.mktemp("published"), age=1_000_000_000)
