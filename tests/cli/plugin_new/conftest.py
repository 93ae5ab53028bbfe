"""An outsider's machine: Kaiwo from wheels, and a new plugin of each kind."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hatchling.builders.wheel import WheelBuilder

from kaiwo.cli.plugin_scaffold.names import KINDS, PluginNames
from kaiwo.testing.wheels import WheelEnvironment

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[3]

FIRST_PARTY = (
    "batch_job,deployment,gpu_amd,gpu_nvidia,ray_job,ray_service,storage_s3_gcs_azure_git_hf,sandbox"
)
"""Kaiwo's own plugins but those that need Kueue."""

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where it is built


def built(projects: Sequence[Path], directory: Path) -> list[str]:
    """Wheels of projects, built in this process."""
    return [
        str(wheel)
        for project in projects
        for wheel in WheelBuilder(str(project)).build(directory=str(directory), versions=["standard"])
    ]


@dataclass(frozen=True)
class Outsider(WheelEnvironment):
    """An environment with the wheels of the host and of its plugins, in which new plugins are made.

    Attributes:
        plugins: names of the new plugins, by kind.
    """

    plugins: dict[str, PluginNames] = field(default_factory=dict)

    def folder(self, kind: str) -> Path:
        """The folder of a new plugin."""
        return self.directory / self.plugins[kind].distribution

    def selected(self, *kinds: str) -> dict[str, str]:
        """Variables that select Kaiwo's own plugins and these new ones."""
        return {"KAIWO_PLUGINS": ",".join([FIRST_PARTY, *(self.plugins[kind].plugin for kind in kinds)])}

    def run_in(self, folder: Path, *words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run an installed program in a folder, with more variables."""
        program, *arguments = words
        return subprocess.run(
            [self.program(str(program)), *arguments],
            cwd=folder,
            env={**self.environment, "PYTHONDONTWRITEBYTECODE": "", **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=170,
        )

    def kaiwo(self, *words: str, **variables: str) -> str:
        """The output of ``kaiwo``, which must succeed."""
        done = self.run_in(self.directory, "kaiwo", *words, **variables)
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def pip(self, *words: str) -> None:
        """Change what is installed; nothing comes from an index."""
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
        command = [*pip, "--python", self.program("python"), *words]
        subprocess.run(command, check=True, capture_output=True, timeout=170)

    def listed(self, **variables: str) -> dict[str, dict[str, Any]]:
        """What ``kaiwo plugins`` says, by plugin."""
        rows = json.loads(self.kaiwo("plugins", "-o", "json", **variables))
        return {row["name"]: row for row in rows}

    def crds(self, **variables: str) -> dict[str, dict[str, Any]]:
        """What ``kaiwo manifests crds`` prints, by kind."""
        found = yaml.load_all(self.kaiwo("manifests", "crds", **variables), _Loader)
        return {crd["spec"]["names"]["kind"]: crd for crd in found}


@pytest.fixture(scope="module")
def outsider(tmp_path_factory: pytest.TempPathFactory) -> Outsider:
    """Kaiwo from wheels, and a new plugin of each kind, written by the installed ``kaiwo plugin new``.

    What Kaiwo needs besides is linked from the environment of the tests, so nothing is fetched.
    """
    directory = tmp_path_factory.mktemp("outsider")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "venv"], cwd=directory, check=True)
    found = Outsider(directory)
    site = Path(next((directory / "venv").glob("lib/python*/site-packages")))
    (directory / "shared").mkdir()
    for path in Path(pytest.__file__).parents[1].iterdir():
        if "kaiwo" not in path.name and path.suffix != ".pth":
            (directory / "shared" / path.name).symlink_to(path)
    (site / "shared.pth").write_text(f"{directory / 'shared'}\n", encoding="utf-8")
    projects = [ROOT, *sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))]
    wheels = built(projects, directory / "wheels")
    found.pip("install", "--no-deps", "--no-index", "--no-compile", *wheels)
    for kind in KINDS:
        found.plugins[kind] = PluginNames.of(f"acme-{kind}")
        found.kaiwo("plugin", "new", kind, f"acme-{kind}")
    return found


@pytest.fixture(scope="module")
def installed(outsider: Outsider) -> Outsider:
    """The new plugins from wheels beside those of the host."""
    wheels = built([outsider.folder(kind) for kind in KINDS], outsider.directory / "new")
    outsider.pip("install", "--no-deps", "--no-index", "--no-compile", *wheels)
    return outsider
