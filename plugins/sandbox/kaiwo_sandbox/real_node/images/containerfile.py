"""Reading the recipe of an image (Containerfile): stages, instructions, variables, and its ignore file.

It knows the instructions that this repository's recipes use, and refuses all others.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kaiwo_sandbox.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_KNOWN: Final = frozenset(
    {"ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "FROM", "LABEL", "RUN", "USER", "WORKDIR"}
)
_VARIABLE: Final = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
_FROM: Final = re.compile(r"(?P<base>\S+)(?:\s+AS\s+(?P<name>\S+))?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Instruction:
    """One step.

    Attributes:
        line: where it starts in the file.
        name: such as ``RUN``.
        text: what follows the name, with continued lines joined.
    """

    line: int
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class RecipeStage:
    """The instructions from one FROM to the next.

    Attributes:
        base: the image or stage that it starts from, with variables.
        name: what other stages call it; empty if it has no name.
        steps: its instructions after FROM.
    """

    base: str
    name: str
    steps: tuple[Instruction, ...]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A whole file.

    Attributes:
        arguments: build arguments before the first stage, with their defaults.
        stages: its stages; the last one is the image.
    """

    arguments: Mapping[str, str]
    stages: tuple[RecipeStage, ...]


def parse(text: str, *, file: str) -> Recipe:
    """Read a recipe; `file` is its name in errors.

    Raises:
        SandboxError: it has an unknown instruction, or no stage.
    """
    arguments: dict[str, str] = {}
    stages: list[tuple[str, str, list[Instruction]]] = []
    for step in _instructions(text, file):
        if step.name == "FROM":
            match = _FROM.fullmatch(step.text)
            if match is None:
                raise _error(file, step, "expected FROM IMAGE [AS NAME]")
            stages.append((match["base"], match["name"] or "", []))
        elif stages:
            stages[-1][2].append(step)
        elif step.name == "ARG":
            name, default = argument(step)
            arguments[name] = default
        else:
            raise _error(file, step, "expected FROM before it")
    if not stages:
        raise SandboxError(f"{file} has no FROM", hint="a recipe begins with the image it builds on")
    return Recipe(arguments, tuple(RecipeStage(base, name, tuple(steps)) for base, name, steps in stages))


def _instructions(text: str, file: str) -> list[Instruction]:
    found: list[Instruction] = []
    joined, first = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("#") or (not joined and not line.strip()):
            continue
        first = first if joined else number
        joined += line
        if joined.endswith("\\"):
            joined = joined[:-1]
            continue
        name, _, rest = joined.strip().partition(" ")
        step = Instruction(first, name, rest.strip())
        if name not in _KNOWN:
            raise _error(file, step, f"expected one of {', '.join(sorted(_KNOWN))}")
        found.append(step)
        joined = ""
    return found


def _error(file: str, step: Instruction, expected: str) -> SandboxError:
    return SandboxError(
        f"{file}:{step.line}: {step.name} {step.text}: {expected}",
        hint="a container engine may know more than this builder does",
    )


def argument(step: Instruction) -> tuple[str, str]:
    """The name and the default of an ARG."""
    name, _, default = step.text.partition("=")
    return name, "".join(shlex.split(default))


def pairs(step: Instruction, variables: Mapping[str, str]) -> dict[str, str]:
    """What ENV or LABEL sets: ``name=value`` several times, each value perhaps quoted."""
    found = {}
    for word in shlex.split(step.text):
        name, _, value = word.partition("=")
        found[name] = expand(value, variables)
    return found


def command(step: Instruction) -> tuple[str, ...]:
    """The words of ENTRYPOINT or CMD, which are a JSON list.

    Raises:
        ValueError: they are not.
    """
    words = json.loads(step.text)
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError(f"{step.name} {step.text}: expected a JSON list of strings")
    return tuple(words)


def expand(text: str, variables: Mapping[str, str]) -> str:
    """The text with ``$NAME`` and ``${NAME}`` replaced; a variable that is not set is empty."""
    return _VARIABLE.sub(lambda match: variables.get(match[1] or match[2], ""), text)


def ignored(path: str, patterns: Sequence[str]) -> bool:
    """Whether the context leaves out a file, by the lines of ``.dockerignore``; the last match counts."""
    found = False
    for line in patterns:
        pattern = line.strip()
        if not pattern or pattern.startswith("#"):
            continue
        keeps = pattern.startswith("!")
        if re.fullmatch(_regex(pattern.lstrip("!").strip("/")) + "(?:/.*)?", path):
            found = not keeps
    return found


def _regex(pattern: str) -> str:
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(meaning.get(part, re.escape(part)) for part in parts)
