"""``--watch`` shows what changed, and goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kaiwo.cli.output import watching

if TYPE_CHECKING:
    import pytest


def test_a_pipe_gets_each_change_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is repeated for a reader that keeps everything."""
    monkeypatch.setattr("kaiwo.cli.output.watching.INTERVAL", 0)
    texts = ["a", "a", "b", "b", "a"]
    watching.watch(lambda: click.echo(texts.pop(0)), on_terminal=False, rounds=5)
    assert capsys.readouterr().out == "a\nb\na\n"


def test_a_terminal_is_drawn_anew(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every look starts at the top of an empty screen."""
    monkeypatch.setattr("kaiwo.cli.output.watching.INTERVAL", 0)
    watching.watch(lambda: click.echo("x"), on_terminal=True, rounds=2)
    assert capsys.readouterr().out == "\x1b[H\x1b[Jx\n" * 2
