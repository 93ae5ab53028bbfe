"""The entrypoint: from a script in a field to a command."""

from __future__ import annotations

from kaiwo.api.shebang import command_of
from kaiwo.api.spec_rules import ENTRYPOINT_LENGTH
from kaiwo.workload.errors import SpecError

ENTRYPOINT = "spec.entrypoint"
"""The field of the entrypoint."""


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
