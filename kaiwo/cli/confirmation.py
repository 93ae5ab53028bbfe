"""The question before a command changes a cluster, which only a person at a terminal can answer."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from kaiwo.cli.failures import FAILED, USAGE, Failure

if TYPE_CHECKING:
    from collections.abc import Callable


def confirm(question: str, nothing: str, otherwise: str, show: Callable[[], None] | None = None) -> None:
    """Ask, and return if the answer is yes.

    Args:
        question: what is asked.
        nothing: what is true without a yes, for example ``nothing was written``.
        otherwise: how to go on where nobody can answer.
        show: writes what the question is about, just before it.

    Raises:
        Failure: the answer is no, or standard input is not a terminal.
    """
    if not sys.stdin.isatty():
        raise Failure(
            f"{nothing}; standard input is not a terminal, so the question cannot be asked",
            otherwise,
            code=USAGE,
        )
    if show is not None:
        show()
    if not click.confirm(question, err=True):
        raise Failure(nothing, code=FAILED)


def confirm_writing(command: str, count: int, show: Callable[[], None] | None = None) -> None:
    """Ask before a command writes objects.

    Args:
        command: the command, which has ``--dry-run`` and ``--yes``.
        count: of the objects.
        show: as for `confirm`.

    Raises:
        Failure: as for `confirm`.
    """
    what = "this object" if count == 1 else f"these {count} objects"
    otherwise = f"{command} --dry-run shows what would be written, --yes writes it"
    confirm(f"Write {what}?", "nothing was written", otherwise, show)
