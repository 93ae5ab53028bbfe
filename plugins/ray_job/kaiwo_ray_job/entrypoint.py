"""The entrypoint of a RayJob."""

from __future__ import annotations

import re

from kaiwo.plugin.kit.render import ENTRYPOINT, entrypoint_text

_CONTINUATION = re.compile(r"\\[ \t]*\r?\n")


def ray_entrypoint(text: str | None) -> tuple[str, tuple[str, ...]]:
    """The entrypoint of a RayJob and warnings about it; empty when there is none.

    A backslash before a line end joins the lines, and is dropped from the last one; other line ends stay.

    Raises:
        SpecError: the text is too long.
    """
    line = entrypoint_text(_CONTINUATION.sub(" ", text or ""))
    if not line or any(_is_python(token.strip("\"'`;&|()")) for token in line.split()):
        return line, ()
    return line, (f"{ENTRYPOINT}: names no Python script; Ray runs it as a shell command on the head",)


def _is_python(token: str) -> bool:
    return token.endswith(".py") or token.rpartition("/")[2].startswith("python")
