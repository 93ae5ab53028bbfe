"""What a plugin author's type checker sees of the installed packages."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from kaiwo.testing.wheels import WheelEnvironment, build_wheels, install

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.parent for path in ROOT.glob("examples/*/pyproject.toml"))
PROJECTS = [ROOT, *sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml")), *EXAMPLES]


def packages(project: Path) -> list[Path]:
    """The packages that a project's wheel contains."""
    settings = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
    return [project / name for name in settings["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> WheelEnvironment:
    """An environment with the host from its wheel, without a plugin and without the source tree."""
    # test_wheels.py builds every wheel, but may run in another process. Examples need only this one.
    wheels = build_wheels([ROOT], tmp_path_factory.mktemp("built"))
    return install(wheels, ["kaiwo"], ROOT / "constraints.txt", tmp_path_factory.mktemp("installed"))


def strict_type_check(
    host: WheelEnvironment, package: str, directory: Path
) -> subprocess.CompletedProcess[str]:
    """Run mypy on a package in a directory; it sees only what is installed in the environment."""
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--config-file=",
            f"--cache-dir={host.directory / 'mypy_cache'}",
            f"--python-executable={host.program('python')}",
            f"--package={package}",
        ],
        cwd=directory,
        env=host.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_every_package_is_marked_as_typed(project: Path) -> None:
    """Without ``py.typed`` a type checker takes everything from a package for Any."""
    assert [path for path in packages(project) if not (path / "py.typed").is_file()] == []


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda project: project.name)
def test_a_third_party_can_check_its_plugin_strictly(
    example: Path, host: WheelEnvironment, tmp_path: Path
) -> None:
    """Each example passes ``mypy --strict`` beside an installed Kaiwo, without settings of its own."""
    (package,) = packages(example)
    shutil.copytree(package, tmp_path / package.name)
    done = strict_type_check(host, package.name, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_wrong_type_in_a_plugin_is_found(host: WheelEnvironment, tmp_path: Path) -> None:
    """The types of declarations reach the author: a vendor with a number for a name is an error."""
    package = tmp_path / "kaiwo_gpu_acme"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from kaiwo.plugin.vendors import GpuVendor\nVENDOR = GpuVendor(name=1)\n", encoding="utf-8"
    )
    done = strict_type_check(host, package.name, tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert 'Argument "name" to "GpuVendor" has incompatible type "int"; expected "str"' in done.stdout
