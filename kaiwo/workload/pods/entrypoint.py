"""The entrypoint: from a script in a field to a command."""

from __future__ import annotations

from kaiwo.api.shebang import command_of
from kaiwo.api.spec_rules import ENTRYPOINT_LENGTH
from kaiwo.workload.errors import SpecError

ENTRYPOINT = "spec.entrypoint"
"""The field of the entrypoint."""


def finished_script(text: str) -> str:
    """A script without a backslash at the end of its last line.

    It joins nothing. Without the line end, which is trimmed, a shell passes it to the program as an argument.
    """
    end = len(text)
    while True:
        last = end
        while last and text[last - 1].isspace():
            last -= 1
        begin = last
        while begin and text[begin - 1] == "\\":
            begin -= 1
        # Of an even number each one quotes another.
        if not text.startswith(("\n", "\r\n"), last, end) or (last - begin) % 2 == 0:
            return text[:end]
        end = last - 1


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
