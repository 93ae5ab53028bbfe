"""What takes long says so on a terminal, and leaves nothing behind."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from kaiwo.cli.options import GlobalOptions
from kaiwo.cli.output import progress

if TYPE_CHECKING:
    import pytest


def test_a_line_appears_for_what_takes_long_and_goes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It counts the steps, and is erased before the next text."""
    monkeypatch.setattr(progress, "_SECONDS", 0.01)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with (
        click.Context(click.Command("x"), obj=GlobalOptions()),
        progress.progress("checking workloads", 3) as shown,
    ):
        shown.step()
        time.sleep(0.2)
    said = capsys.readouterr().err
    assert "\r\x1b[Kchecking workloads: 1 of 3 (0s)" in said
    assert said.endswith("\r\x1b[K")


def test_a_pipe_and_quiet_get_no_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Scripts read standard error, too."""
    monkeypatch.setattr(progress, "_SECONDS", 0.01)
    for terminal, verbosity in ((False, 0), (True, -1)):
        monkeypatch.setattr("sys.stderr.isatty", lambda found=terminal: found, raising=False)
        with (
            click.Context(click.Command("x"), obj=GlobalOptions(verbosity=verbosity)),
            progress.progress("checking workloads"),
        ):
            time.sleep(0.1)
        assert capsys.readouterr().err == ""


def test_what_is_quick_shows_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Below a second nothing flickers."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with click.Context(click.Command("x"), obj=GlobalOptions()), progress.progress("checking"):
        pass
    assert capsys.readouterr().err == ""


def test_a_terminal_that_cannot_be_overwritten_gets_no_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """That of an editor would show the escape sequences, and keep every line."""
    monkeypatch.setattr(progress, "_SECONDS", 0.01)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "dumb")
    with click.Context(click.Command("x"), obj=GlobalOptions()), progress.progress("checking workloads"):
        time.sleep(0.1)
    assert capsys.readouterr().err == ""
