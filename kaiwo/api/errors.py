"""What is wrong with an object, in a form that every surface shows the same way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, or that deserves a warning.

    Attributes:
        path: where, in JSON names from the root of the object: ``spec.env[2].name``; empty for the whole
            object.
        message: what and why, with the value: ``-1 is less than 0``.
        hint: the next step, empty when the message already has it.
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
    """A KaiwoJob or KaiwoService that cannot be read.

    Attributes:
        reason: the reason in its status.
    """

    reason: ClassVar[str] = "InvalidSpec"


class WorkloadTooLarge(InvalidWorkload):
    """A KaiwoJob or KaiwoService that is too large to be read."""

    reason = "SpecTooLarge"


class InvalidConfig(InvalidObject):
    """A KaiwoConfig whose values cannot be used."""


UNKNOWN_FIELD = "unknown field"
"""Message about a field that no kind and no loaded plugin declares."""


def describe(value: object) -> str:
    """A value with its type: ``the string "4"``, ``the boolean true``, ``the number 5``, ``a list``."""
    match value:
        case None:
            return "nothing"
        case bool():
            return f"the boolean {shorten(value)}"
        case int() | float():
            return f"the number {shorten(value)}"
        case str():
            return f"the string {shorten(value)}"
    return describe_type(value)


def describe_type(value: object) -> str:
    """The type of a value alone, where the value itself may be a secret."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case dict():
            return "a mapping"
    return "a list"


def not_a_string(path: str, value: object, written: str = "") -> Problem:
    """The problem of a value that has to be a string.

    Args:
        path: where it is.
        value: what is there instead.
        written: how the value is spelt in the file, for example ``no`` for False.
    """
    if isinstance(value, dict | list):
        return Problem(path, f"expected a string, got {describe(value)}", "write it as one string")
    got = f"{describe(value).rpartition(' ')[0]} {written}" if written else describe(value)
    return Problem(path, f"expected a string, got {got}", f'quote it: "{written or shorten(value)}"')


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
