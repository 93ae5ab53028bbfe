"""``--watch`` shows what changed, does not flicker, and outlives an API server that is away for a moment."""

from __future__ import annotations

import os
import sys

import click
import pytest

from kaiwo.cli import failures
from kaiwo.cli.options import GlobalOptions
from kaiwo.cli.output import watching
from kaiwo.engine.errors import ConnectionBroken, Forbidden


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)


def test_a_pipe_gets_each_change_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is repeated for a reader that keeps everything."""
    texts = iter("aabba")
    watching.watch(lambda: next(texts), click.echo, lambda _: True, on_terminal=False, rounds=5)
    assert capsys.readouterr().out == "a\nb\na\n"


def test_a_terminal_is_overwritten_in_place(capsys: pytest.CaptureFixture[str]) -> None:
    """The screen is never empty in between: lines are overwritten, and only the rest below is erased."""
    texts = iter(["one\ntwo", "one"])
    watching.watch(lambda: next(texts), click.echo, lambda _: True, on_terminal=True, rounds=2)
    assert capsys.readouterr().out == "\x1b[Hone\x1b[K\ntwo\x1b[K\n\x1b[J\x1b[Hone\x1b[K\n\x1b[J"


def test_nothing_is_read_while_nothing_changes(capsys: pytest.CaptureFixture[str]) -> None:
    """Ages are drawn anew from what was read before."""
    reads: list[int] = []
    answers = iter([False, False, True, False])
    watching.watch(
        lambda: reads.append(1),
        lambda _: click.echo("x"),
        lambda _: next(answers),
        on_terminal=True,
        rounds=5,
    )
    assert len(reads) == 2
    assert capsys.readouterr().out.count("x") == 5


def test_a_pipe_gets_nothing_while_nothing_changes(capsys: pytest.CaptureFixture[str]) -> None:
    """An age that grows is no change: a file would get the whole table every other second."""
    answers = iter([False, False, True])
    ages = iter(["train 5s", "train 9s"])
    watching.watch(
        lambda: None, lambda _: click.echo(next(ages)), lambda _: next(answers), on_terminal=False, rounds=2
    )
    assert capsys.readouterr().out == "train 5s\ntrain 9s\n"
    assert list(answers) == []


def test_a_watch_ends_with_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """``kaiwo status train -w | grep -m 1 RUNNING`` ends, also if nothing changes any more."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)

        def unchanged(_: float) -> bool:
            if asked:
                os.close(asked.pop())
            return False

        asked = [reader]
        with pytest.raises(BrokenPipeError):
            watching.watch(lambda: None, lambda _: None, unchanged, on_terminal=False)


def test_an_answer_that_fails_for_a_moment_ends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """A warning says that it is tried again, but not with -q; what cannot heal by itself is an error."""
    answers: list[str | Exception] = [ConnectionBroken("refused"), "a"]

    def read() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with click.Context(click.Command("list"), obj=GlobalOptions()):
        watching.watch(read, click.echo, lambda _: True, on_terminal=False, rounds=1)
    captured = capsys.readouterr()
    assert captured.out == "a\n"
    assert captured.err == "warning: no answer from the API server: refused; trying again\n"
    answers += [ConnectionBroken("refused"), "b"]
    with click.Context(click.Command("list"), obj=GlobalOptions(verbosity=-1)):
        watching.watch(read, click.echo, lambda _: True, on_terminal=False, rounds=1)
    assert capsys.readouterr() == ("b\n", "")
    answers.append(Forbidden(403, "Forbidden", "no rights"))
    with pytest.raises(Forbidden):
        watching.watch(read, click.echo, lambda _: True, on_terminal=False, rounds=1)


def test_ctrl_c_is_how_a_watch_ends(capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody has made a mistake: the exit code says that it was interrupted, and no error does."""

    @click.command()
    def command() -> None:
        def interrupted(_: float) -> bool:
            raise KeyboardInterrupt

        watching.watch(lambda: "a", click.echo, interrupted, on_terminal=False)

    assert failures.run(command, [], "kaiwo") == failures.INTERRUPTED
    assert capsys.readouterr() == ("a\n", "")


def test_a_terminal_that_cannot_be_overwritten_gets_each_change_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """That of an editor (TERM=dumb) keeps everything, as a pipe does."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "dumb")
    texts = iter("aab")
    watching.watch(lambda: next(texts), click.echo, lambda _: True, rounds=3)
    assert capsys.readouterr().out == "a\nb\n"
