"""Problems of files that users give, each at its line and column."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

import click

from kaiwo.api.errors import Problem
from kaiwo.cli.failures import USAGE, Failure
from kaiwo.cli.terminal import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

STDIN = "stdin"
"""How positions name standard input."""


@dataclass(frozen=True, slots=True)
class LocatedProblem:
    """A problem with the place where it is written.

    Attributes:
        problem: field path, empty for a whole document or file; message; next step.
        source: file, ``stdin``, or the flag that set the value.
        line: counted from 1; 0 where there is none.
        column: counted from 1.
    """

    problem: Problem
    source: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """One line, in the form that editors jump to."""
        where = f"{self.source}:{self.line}:{self.column}" if self.line else self.source
        text = ": ".join(part for part in (where, self.problem.path, self.problem.message) if part)
        return clean(f"{text}; {self.problem.hint}" if self.problem.hint else text)


def file_problem(
    source: str, message: str, hint: str = "", *, position: tuple[int, int] = (0, 0)
) -> LocatedProblem:
    """A problem of a whole file, or of a place in it that is no field."""
    return LocatedProblem(Problem("", message, hint), source, *position)


class InvalidInput(Failure):
    """Files that cannot be used; every problem is shown, each on its line."""

    def __init__(self, problems: Sequence[LocatedProblem], consequence: str, *, code: int = USAGE) -> None:
        count = len(problems)
        super().__init__(f"{count} problem{'s' if count > 1 else ''}; {consequence}", code=code)
        self.problems = tuple(problems)

    def show(self, file: object = None) -> None:
        """Write all of them to standard error."""
        for problem in self.problems:
            click.echo(str(problem), err=True)
        Failure.show(self, file)


def in_order(problems: Iterable[LocatedProblem], sources: Sequence[str]) -> list[LocatedProblem]:
    """Sorted by the order of ``-f``, then file, line and column; problems of flags come last.

    Args:
        problems: of all sources.
        sources: files, directories and ``stdin``, in the order of ``-f``.
    """

    def rank(found: LocatedProblem) -> tuple[int, str, int, int]:
        for index, source in enumerate(sources):
            if source == found.source or FilePath(source) in FilePath(found.source).parents:
                return index, found.source, found.line, found.column
        return len(sources), "", 0, 0

    return sorted(problems, key=rank)
