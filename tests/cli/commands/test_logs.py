"""``kaiwo logs``: what its options ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaiwo.client.log_follower import LogOptions

    Cli = Callable[..., Any]
    """Runs ``kaiwo``: arguments, and ``stdin``; gives code, out and err."""


class _Cluster:
    """A cluster that is never asked."""

    def __enter__(self) -> Self:
        """The cluster."""
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close."""


@pytest.mark.parametrize(
    ("words", "since", "tail"),
    [
        ([], None, None),
        (["--since", "2m", "--tail", "5"], 120, 5),
        (["--since", "10ms", "--tail", "0"], 1, 0),
        (["--since", "0", "--tail", "-1"], None, None),
        (["--since=0s"], None, None),
    ],
)
def test_no_limit_is_written_as_for_kubectl(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, words: list[str], since: int | None, tail: int | None
) -> None:
    """``--since=0s`` and ``--tail=-1`` are its defaults, which scripts pass on; 0 was the last second."""
    asked: list[LogOptions] = []
    monkeypatch.setattr("kaiwo.cli.kit.cluster", _Cluster)
    monkeypatch.setattr("kaiwo.cli.commands.logs._write", lambda _, __, wanted, **___: asked.append(wanted))
    assert cli("logs", "train", *words).code == 0
    assert [(one.since_seconds, one.tail) for one in asked] == [(since, tail)]
