"""`kaiwo sandbox`: data on standard output, progress and errors on standard error."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from kaiwo import testing
from kaiwo.cli import kit
from kaiwo_sandbox.commands import sandbox
from kaiwo_sandbox.plugin import kaiwo_commands

if TYPE_CHECKING:
    from pathlib import Path


def run(*arguments: str) -> Result:
    """Call the command as `kaiwo` would."""
    return CliRunner().invoke(sandbox, arguments, obj=kit.GlobalOptions())


def test_the_plugin_declares_the_commands_that_the_host_loads() -> None:
    """`load` names a click group with the promised commands, and the demo."""
    declared = {command.name: command.load for command in kaiwo_commands()}
    assert declared == {"sandbox": "kaiwo_sandbox.commands:sandbox", "demo": "kaiwo_sandbox.demo:demo"}
    assert {"up", "down", "status", "env", "build"} <= set(sandbox.commands)


def test_the_commands_keep_the_contract() -> None:
    """Everything has help, and a mistake ends with a message."""
    for command in kaiwo_commands():
        testing.assert_command_contract(command, fails=[["--surely-not"]])


@pytest.mark.parametrize("module", ["kaiwo_sandbox.plugin", "kaiwo_sandbox.pytest_plugin"])
def test_what_every_start_imports_is_light(module: str) -> None:
    """`kaiwo --help` and the collection of pure tests must not pay for certificates, YAML or click."""
    heavy = ("cryptography", "yaml", "click", "kaiwo_sandbox.sandbox", "http.client", "ssl")
    code = f"import sys, {module}; print([name for name in {heavy!r} if name in sys.modules])"
    before = f"import sys, pytest, pluggy; print([name for name in {heavy!r} if name in sys.modules])"
    found, base = (
        subprocess.run([sys.executable, "-c", each], capture_output=True, text=True, check=True).stdout
        for each in (code, before)
    )
    assert found == base


def test_status_without_sandboxes_says_how_to_start_one(home: Path) -> None:
    """And prints no data."""
    del home
    result = run("status")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "kaiwo sandbox up" in result.stderr


def test_down_of_nothing_is_no_error(home: Path) -> None:
    """It can be repeated, for example after a crash, and leaves no file of its own."""
    result = run("down", "--name", "ghost")
    assert result.exit_code == 0
    assert "nothing to do" in result.stderr
    assert not (home / "state").exists() or not list((home / "state").rglob("*.lock"))


@pytest.mark.parametrize("command", ["env", "reset", "status"])
def test_a_sandbox_that_is_not_up_is_exit_code_3(home: Path, command: str) -> None:
    """The code for what does not exist, with the command that changes it."""
    del home
    result = run(command, "--name", "ghost")
    assert result.exit_code == kit.NOT_FOUND
    assert "kaiwo sandbox up --name ghost" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "text", "hint"),
    [
        (("up", "--name", "../etc"), "lower-case letters", "choose a name"),
        (("down", "--name", "/"), "lower-case letters", "choose a name"),
        (("up", "--with", "kueue,volcano"), 'unknown addon "volcano"', "--with"),
        (("up", "--nodes", "no-such-file"), "amd-nvidia", "use a preset"),
        (("up", "--binaries", "/nonexistent"), "is not a directory", "leave it out"),
        (
            ("build", "--binaries", "/nonexistent", "--generation", "older"),
            "is not a directory",
            "leave it out",
        ),
    ],
)
def test_invalid_input_is_reported_and_starts_nothing(
    home: Path, arguments: tuple[str, ...], text: str, hint: str
) -> None:
    """The message has the problem and the next step, without a traceback."""
    result = run(*arguments)
    assert result.exit_code == kit.FAILED
    assert text in result.stderr
    assert hint in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr
    assert not list((home / "state").rglob("pids"))


def test_an_unwritable_home_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file where the cache should be must not end in a traceback."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    result = run("up", "--name", "x")
    assert result.exit_code == kit.FAILED
    assert "cannot use" in result.stderr


def test_build_lists_where_the_programs_lie(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that users can check which programs a sandbox runs."""
    assets = home / "assets"
    assets.mkdir()
    for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"):
        (assets / name).write_text("#!/bin/sh")
        (assets / name).chmod(0o755)
    monkeypatch.setenv("PATH", "/nonexistent")
    result = run("build", "--with", "", "--binaries", str(assets))
    assert result.exit_code == 0, result.stderr
    assert str(assets / "etcd") in result.stderr


def test_the_help_of_up_shows_annotations_line_by_line(home: Path) -> None:
    """As a table, without the marks that keep its lines apart."""
    del home
    lines = run("up", "--help").stdout.splitlines()
    assert any(line.split()[:2] == ["kaiwo-sandbox/exit-code:", '"3"'] for line in lines)
    assert any(line.split()[:2] == ["kaiwo-sandbox/ray-job-status:", "FAILED"] for line in lines)
    assert not any("\\b" in line or "\b" in line for line in lines)


@pytest.mark.parametrize("command", ["up", "build"])
def test_an_unknown_generation_is_refused_with_those_that_exist(home: Path, command: str) -> None:
    """Before anything is built or started."""
    result = run(command, "--generation", "oldest")
    assert result.exit_code != 0
    assert "newer" in result.stderr
    assert "older" in result.stderr
    assert not (home / "state").exists()
