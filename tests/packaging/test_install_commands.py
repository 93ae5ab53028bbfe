"""The commands of the installation guide, word by word, in an empty home directory."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kaiwo_sandbox.paths import cache_dir
from release.projects import host, plugins

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "install.md").read_text("utf-8")


def command(first_words: str) -> str:
    """The one command of the guide that starts with these words."""
    (found,) = [line[2:] for line in PAGE.splitlines() if line.startswith(f"$ {first_words}")]
    return found


class Home:
    """A home directory in which nothing is installed.

    Attributes:
        directory: where it is; commands run there.
        environment: the environment of commands: the release tools and an environment of this Python.
    """

    def __init__(self, directory: Path, published: Path, tools: Path) -> None:
        self.directory = directory
        shutil.copytree(published, directory / "dist")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory / "venv")], check=True)
        bin_directories = [directory / "venv" / "bin", directory / ".local" / "bin", directory / "programs"]
        hidden = ("KAIWO", "KUBE", "PYTHON", "XDG", "VIRTUAL")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        self.environment = kept | {
            "HOME": str(directory),
            "PATH": ":".join([*map(str, bin_directories), "/usr/local/bin", "/usr/bin", "/bin"]),
            # The guide leaves the versions of other distributions to the installer; this test does not.
            "PIP_CONSTRAINT": str(ROOT / "constraints.txt"),
            "UV_CONSTRAINT": str(ROOT / "constraints.txt"),
            "UV_CACHE_DIR": str(cache_dir() / "uv"),
            "UV_PYTHON": sys.executable,
            "PIPX_DEFAULT_PYTHON": sys.executable,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }
        (directory / "programs").mkdir()
        for name in ("uv", "pipx"):
            (directory / "programs" / name).symlink_to(tools / name)

    def run(self, line: str) -> str:
        """Run one line of the guide; its standard output."""
        done = subprocess.run(
            ["/bin/bash", "-c", line],
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture
def home(tmp_path: Path, published: Path, release_tools: Path) -> Home:
    """An empty home directory with ``dist``."""
    return Home(tmp_path, published, release_tools)


@pytest.mark.parametrize("first_words", ["uv tool install", "pipx install", "python -m pip install"])
def test_one_line_installs_the_command_with_all_plugins(first_words: str, home: Home) -> None:
    """Then ``kaiwo`` and ``kubectl-kaiwo`` run, and every plugin of an operator is loaded."""
    if first_words.startswith("python"):
        home.run(f"{sys.executable} -m pip --python venv/bin/python install --quiet pip")
    home.run(command(first_words))
    version = json.loads(home.run("kaiwo version --client -o json"))
    assert version["kaiwo"] == host().version
    states = {each["distribution"]: each["state"] for each in json.loads(home.run("kaiwo plugins -o json"))}
    assert states == {each.name: "loaded" for each in plugins() if each.folder.name != "sandbox"}
    assert home.run("kubectl-kaiwo --help").startswith("Usage: ")


def test_extras_install_the_chosen_plugins_only(home: Home) -> None:
    """``kaiwo[batch-job,kueue,gpu-amd]`` of the guide's table brings these three."""
    extras = "kaiwo[batch-job,kueue,gpu-amd]"
    assert f"`{extras}`" in PAGE
    home.run(f"uv pip install --quiet --python venv/bin/python --find-links dist '{extras}'")
    found = {each["distribution"] for each in json.loads(home.run("kaiwo plugins -o json"))}
    assert found == {"kaiwo-batch-job", "kaiwo-kueue", "kaiwo-gpu-amd"}


def test_the_guide_lists_every_extra() -> None:
    """And none that does not exist."""
    table = PAGE[PAGE.index("| extra | installs |") :].partition("\n\n")[0]
    listed = {
        word for row in table.splitlines()[2:] for word in row.split("|")[1].strip().strip("`").split("`, `")
    }
    assert listed == set(host().metadata["optional-dependencies"])
