"""Another version of Kaiwo: the code of a commit, installed beside this one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

from campaign.violation import NotRunError

if TYPE_CHECKING:
    from collections.abc import Mapping

REPOSITORY: Final = Path(__file__).parents[1]
FROM: Final = REPOSITORY / "tests/cli/install/upgrade/FROM"
"""Has the commit of the last release, or of what counts as one."""

PARTS: Final = ("kaiwo", "plugins", "pyproject.toml", "README.md", "LICENSE")
_MAIN: Final = "import sys; sys.argv[0] = 'kaiwo'; from kaiwo.cli.main import main; main()"


@dataclass(frozen=True)
class Version:
    """One version of Kaiwo, which runs as a program of its own.

    Attributes:
        name: for messages.
        env: environment variables by which Python finds its code.
    """

    name: str
    env: Mapping[str, str] = field(default_factory=dict)

    def kaiwo(self, *args: str, kubeconfig: Path) -> str:
        """Run its command line; what it prints."""
        return self.python(_MAIN, *args, KUBECONFIG=str(kubeconfig))

    def python(self, code: str, *args: str, **env: str) -> str:
        """Run a program with its code; what it prints.

        Raises:
            RuntimeError: the program failed.
        """
        done = subprocess.run(
            [sys.executable, "-c", code, *args],
            env={**os.environ, **self.env, **env}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{args} of {self.name}: {done.stderr}")
        return done.stdout


def git(*args: str) -> bytes:
    """Run git in the repository; what it prints.

    Raises:
        subprocess.CalledProcessError: git failed.
    """
    program = shutil.which("git") or "git"
    return subprocess.run([program, "-C", str(REPOSITORY), *args], capture_output=True, check=True).stdout


def install(commit: str, directory: Path) -> Version:
    """Install the code of a commit.

    The folder comes before this version's on Python's path, so that modules, entry points and versions are
    its own; the libraries are those of this version.

    Args:
        commit: of which; empty for the one in the file `FROM`.
        directory: an empty folder for it.

    Raises:
        NotRunError: this is not a clone, or the commit is not in it.
    """
    if not (REPOSITORY / ".git").exists():
        raise NotRunError("not a clone: there is no earlier version")
    commit = commit or FROM.read_text(encoding="utf-8").strip()
    source, installed = directory / "source", directory / "installed"
    _unpack(commit, source)
    projects = [source, *sorted(path.parent for path in source.glob("plugins/*/pyproject.toml"))]
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"),
            *("--no-index", "--target", str(installed), *map(str, projects)),
        ],
        check=True,
    )
    # Without PYTHONSAFEPATH the working directory, which may be this version's, comes first.
    version = Version(f"commit {commit[:12]}", {"PYTHONPATH": str(installed), "PYTHONSAFEPATH": "1"})
    found = version.python("import kaiwo; print(kaiwo.__path__[0])").strip()
    if found != str(installed / "kaiwo"):
        raise RuntimeError(f"{version.name} runs the code in {found}, not in {installed}")
    return version


def _unpack(commit: str, directory: Path) -> None:
    """Unpack the code of a commit; a shallow clone fetches it from its origin first."""
    try:
        archive = git("archive", commit, *PARTS)
    except subprocess.CalledProcessError:
        try:
            git("fetch", "--quiet", "--depth", "1", "origin", commit)
            archive = git("archive", commit, *PARTS)
        except subprocess.CalledProcessError as error:
            raise NotRunError(
                f"the version to upgrade from is not in this clone, and its origin does not give it: "
                f"{error.stderr.decode().strip()}; run git fetch origin {commit}"
            ) from None
    with tarfile.open(fileobj=BytesIO(archive)) as packed:
        packed.extractall(directory, filter="data")
