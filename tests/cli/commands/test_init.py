"""``kaiwo init`` shows what it is about to write before it asks, whatever ``-o`` says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Self

import pytest

from kaiwo.client.queue_setup import SetupObject, SetupReport

if TYPE_CHECKING:
    from collections.abc import Callable

    Cli = Callable[..., Any]
    """Runs ``kaiwo``: arguments, and ``stdin``; gives code, out and err."""

SHOWN = "KaiwoConfig kaiwo: create\n  +defaultClusterQueueName: kaiwo\n"


class Setup:
    """A set-up of one object, and the cluster that lacks it.

    Attributes:
        applied: whether it was written.
    """

    writes = ("KaiwoConfig",)
    applied = False

    def __enter__(self) -> Self:
        """The cluster."""
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close."""

    def run(self, use: Callable[[Any], Any]) -> Any:
        """Read or write."""
        return use(self)

    def report(self, *, applied: bool = False) -> SetupReport:
        """What would be written."""
        diff = ("+defaultClusterQueueName: kaiwo",)
        return SetupReport((SetupObject("KaiwoConfig", "kaiwo", "create", "init", diff),), (), applied)

    def apply(self) -> None:
        """Write it."""
        self.applied = True


@pytest.fixture
def setup(monkeypatch: pytest.MonkeyPatch) -> Setup:
    """A cluster without configuration."""
    made = Setup()
    monkeypatch.setattr("kaiwo.cli.kit.cluster", lambda: made)
    monkeypatch.setattr("kaiwo.client.queue_setup.read_setup", lambda *_: made)
    monkeypatch.setattr("kaiwo.client.queue_setup.apply_setup", lambda *_: made.apply())
    return made


@pytest.mark.parametrize("words", [[], ["-o", "table"], ["-o", "wide"], ["-o", "name"]])
def test_the_differences_are_shown_unless_they_are_data(cli: Cli, setup: Setup, words: list[str]) -> None:
    """With -o wide and -o name nothing was written, and the question came all the same."""
    assert cli("init", "--dry-run", *words).out == SHOWN
    assert not setup.applied


def test_the_question_is_about_what_is_shown(cli: Cli, setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of JSON the differences are on standard error, before the question."""
    asked: list[int] = []

    def confirm(_: str, count: int, show: Callable[[], None]) -> None:
        asked.append(count)
        show()

    monkeypatch.setattr("kaiwo.cli.commands.init.confirm_writing", confirm)
    result = cli("init", "-o", "json")
    assert asked == [1]
    assert result.err.startswith(SHOWN)
    assert json.loads(result.out)["applied"]
    assert setup.applied
