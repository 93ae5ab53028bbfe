"""The entrypoint: from a script in a field to a command."""

from __future__ import annotations

import re

from kaiwo.api.shebang import command_of
from kaiwo.api.spec_rules import ENTRYPOINT_LENGTH
from kaiwo.workload.errors import SpecError

ENTRYPOINT = "spec.entrypoint"
"""The field of the entrypoint."""


_LAST_CONTINUATION = re.compile(r"(?<!\\)((?:\\\\)*)\\\r?\n\s*\Z")
"""A backslash before the last line end, itself not quoted by another one."""


def finished_script(text: str) -> str:
    """A script without a backslash at the end of its last line.

    It joins nothing. Without the line end, which is trimmed, a shell passes it to the program as an argument.
    """
    while (joined := _LAST_CONTINUATION.sub(r"\1", text)) != text:
        text = joined
    return text


def entrypoint_text(text: str | None) -> str:
    """The entrypoint without blanks around it; empty when there is none.

    Raises:
        SpecError: it is longer than Linux can pass to a program.
    """
    text = (text or "").strip()
    if ENTRYPOINT_LENGTH.violated(text):
        raise SpecError(ENTRYPOINT, ENTRYPOINT_LENGTH.message)
    return text


def command(text: str | None) -> list[str] | None:
    """The container command for an entrypoint; None when it is empty and the container stays as it is.

    Raises:
        SpecError: the text is too long, or the interpreter takes no script as an argument.
    """
    script = entrypoint_text(text)
    if not script:
        return None
    try:
        return command_of(script)
    except ValueError as error:
        raise SpecError(ENTRYPOINT, str(error)) from None
