"""The entrypoint: from a script in a field to a command, or to Ray's entrypoint."""

from __future__ import annotations

import re

from kaiwo.api.shebang import command_of
from kaiwo.api.spec_rules import ENTRYPOINT_LENGTH
from kaiwo.workload.errors import SpecError

_CONTINUATION = re.compile(r"\\[ \t]*\r?\n")
_PATH = "spec.entrypoint"


def trimmed(text: str | None) -> str:
    """The entrypoint without blanks around it; empty when there is none.

    Raises:
        SpecError: it is longer than Linux can pass to a program.
    """
    text = (text or "").strip()
    if ENTRYPOINT_LENGTH.violated(text):
        raise SpecError(_PATH, ENTRYPOINT_LENGTH.message)
    return text


def command(text: str | None) -> list[str] | None:
    """The container command for an entrypoint; None when it is empty and the container stays as it is.

    Raises:
        SpecError: the text is too long, or the interpreter takes no script as an argument.
    """
    script = trimmed(text)
    if not script:
        return None
    try:
        return command_of(script)
    except ValueError as error:
        raise SpecError(_PATH, str(error)) from None


def ray_entrypoint(text: str | None) -> tuple[str, tuple[str, ...]]:
    """The entrypoint of a RayJob and warnings about it; empty when there is none.

    A backslash before a line end joins the lines; other line ends stay.

    Raises:
        SpecError: the text is too long.
    """
    line = _CONTINUATION.sub(" ", trimmed(text))
    if not line or any(_is_python(token.strip("\"'`;&|()")) for token in line.split()):
        return line, ()
    return line, (f"{_PATH}: names no Python script; Ray runs it as a shell command on the head",)


def _is_python(token: str) -> bool:
    return token.endswith(".py") or token.rpartition("/")[2].startswith("python")
