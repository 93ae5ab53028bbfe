"""Commands of plugins are listed without loading plugins, and no plugin can break the help."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

OPEN = """\
from kaiwo.plugin.commands import Command
from kaiwo.plugin.hookspecs import hookimpl

KAIWO_API = 1


@hookimpl
def kaiwo_commands():
    return [Command(name="greet", load="tiny_greeter.commands:greet", help="Say hello.")]
"""

HIDDEN = "from tiny_greeter.hooks import *\n\nKAIWO_API = 1\n"

COMMAND = """\
import click
from kaiwo.cli import kit


@click.command()
def greet():
    click.echo(f"hello {kit.settings().namespace}")
"""


def install(site: Path, plugin: str) -> None:
    """A distribution with one plugin, as pip would leave it."""
    package = site / "tiny_greeter"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "plugin.py").write_text(plugin)
    (package / "hooks.py").write_text(OPEN)
    (package / "commands.py").write_text(COMMAND)
    info = site / "tiny_greeter-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-greeter\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[kaiwo.plugins]\ngreeter = tiny_greeter.plugin\n")


def kaiwo(site: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run the command with the distribution on the path."""
    binary = Path(sys.executable).with_name("kaiwo")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("KAIWO_")}
    environment["PYTHONPATH"] = str(site)
    return subprocess.run([binary, *args], env=environment, capture_output=True, text=True, check=False)


def test_a_plugins_command_is_listed_and_works(tmp_path: Path) -> None:
    """It takes the shared options without knowing of them."""
    install(tmp_path, OPEN)
    assert "greet    Say hello." in kaiwo(tmp_path, "--help").stdout
    done = kaiwo(tmp_path, "greet", "-n", "team")
    assert (done.returncode, done.stdout) == (0, "hello team\n")


def test_the_help_runs_no_code_of_a_distribution_that_claims_a_name_of_the_project(tmp_path: Path) -> None:
    """Listing the commands decides as loading does who has a plugin's name."""
    install(tmp_path, OPEN)
    (tmp_path / "tiny_greeter-1.0.dist-info/entry_points.txt").write_text(
        "[kaiwo.plugins]\nbatch_job = tiny_greeter.plugin\n"
    )
    assert "greet" not in kaiwo(tmp_path, "--help").stdout
    assert kaiwo(tmp_path, "greet").returncode == 2


def test_a_command_that_the_source_search_misses_still_works(tmp_path: Path) -> None:
    """The list searches the source for the hook's name; calling a command uses the real loader."""
    install(tmp_path, HIDDEN)
    assert "greet" not in kaiwo(tmp_path, "--help").stdout
    assert kaiwo(tmp_path, "-n", "team", "greet").stdout == "hello team\n"


@pytest.mark.parametrize(
    "source",
    [
        "raise RuntimeError('kaiwo_commands')\n",
        "import no_such_module_anywhere  # kaiwo_commands\n",
        "kaiwo_commands = 5\n",
        "def kaiwo_commands():\n    return [1, None]\n",
        "def kaiwo_commands(:\n",
    ],
)
def test_a_broken_plugin_does_not_break_the_help(tmp_path: Path, source: str) -> None:
    """Whatever is wrong with it, the other commands are listed."""
    install(tmp_path, source)
    done = kaiwo(tmp_path, "--help")
    assert done.returncode == 0
    assert "  submit" in done.stdout
    assert done.stderr == ""


def test_a_plugin_without_commands_is_not_imported_for_the_list(tmp_path: Path) -> None:
    """Only plugins that have commands cost time."""
    marker = tmp_path / "imported"
    install(tmp_path / "site", f"open({str(marker)!r}, 'w').close()\n")
    assert kaiwo(tmp_path / "site", "--help").returncode == 0
    assert not marker.exists()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise RuntimeError('no driver here')\n", "RuntimeError: no driver here"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3"),
        ("def greet(:\n", "SyntaxError"),
        ("import no_such_module_anywhere\n", "No module named 'no_such_module_anywhere'"),
    ],
)
def test_a_command_whose_module_raises_is_named_with_the_next_step(
    tmp_path: Path, source: str, words: str
) -> None:
    """It is the defect of a package, which the user can take away; not one of Kaiwo."""
    install(tmp_path, OPEN)
    (tmp_path / "tiny_greeter/commands.py").write_text(source + "greet = None\n")
    done = kaiwo(tmp_path, "greet")
    assert done.returncode == 1
    assert 'command "greet" cannot be loaded from tiny_greeter.commands:greet: ' in done.stderr
    assert words in done.stderr
    assert "kaiwo plugins shows its package; reinstall or disable it" in done.stderr
    assert "Traceback" not in done.stderr
