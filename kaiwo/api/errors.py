"""What is wrong with an object, in a form that every surface shows the same way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, or that deserves a warning.

    Attributes:
        path: where, in JSON names from the root of the object: ``spec.env[2].name``; empty for the whole
            object.
        message: what and why, with the value: ``-1 is less than 0``.
        hint: the next step, empty when the message already says it.
    """

    path: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        """``path: message (hint)`` on one line."""
        text = f"{self.path}: {self.message}" if self.path else self.message
        return f"{text} ({self.hint})" if self.hint else text


def render(problems: Iterable[Problem]) -> str:
    """All problems on one line, separated by semicolons, in the given order."""
    return "; ".join(str(problem) for problem in problems)


class InvalidObject(ValueError):
    """An object that cannot be used as it stands.

    Attributes:
        problems: everything that is wrong with it, at least one.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__(render(self.problems))


class InvalidWorkload(InvalidObject):
    """A KaiwoJob or KaiwoService that cannot be read."""


class InvalidConfig(InvalidObject):
    """A KaiwoConfig whose values cannot be used."""


def shorten(value: object, limit: int = 60) -> str:
    """A value as it may be shown in a message: quoted if text, cut in the middle of nowhere, never long."""
    if isinstance(value, str):
        text = f'"{value}"'
    elif value is None or isinstance(value, bool):
        text = {None: "null", True: "true", False: "false"}[value]
    else:
        text = str(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def join_path(parts: Iterable[str | int]) -> str:
    """``("spec", "env", 2, "name")`` as ``spec.env[2].name``; keys with dots or slashes as ``["a.b/c"]``."""
    path = ""
    for part in parts:
        if isinstance(part, int):
            path += f"[{part}]"
        elif not part or any(char in part for char in "./[] "):
            path += f'["{part}"]'
        else:
            path += f".{part}" if path else part
    return path
