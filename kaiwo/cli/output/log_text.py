"""Log lines as text: prefixes where several containers write, no escape sequences on a terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from kaiwo.cli.terminal import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaiwo.client.logs import LogLine

_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])"  # titles, links
    r"[^\x07\x1b\x9c]*+(?:\x07|\x1b\\|\x9c)?+"
    r"|\x1b[ -/]*[0-~]"
)
"""Escape sequences of ECMA-48; what a container coloured is shown without colours. Each is matched in one
pass: a line of a hostile container may be megabytes of beginnings."""

_COLORS = ("cyan", "magenta", "blue", "bright_cyan", "bright_magenta", "bright_blue")
"""Colours of prefixes; green, yellow and red mean a state."""


class LogText:
    """Makes text of lines.

    Attributes:
        prefixed: whether each line names its pod; None until a second container writes.
    """

    def __init__(
        self, *, terminal: bool, color: bool, timestamps: bool, prefixed: bool | None, containers: bool
    ) -> None:
        """Prepare.

        Args:
            terminal: the text is for a terminal, so it is cleaned; else it is what the container wrote.
            color: colour the prefixes.
            timestamps: begin each line with its time.
            prefixed: begin each line with its pod; None as soon as there are several.
            containers: name the container, too.
        """
        self.prefixed = prefixed
        self._terminal = terminal
        self._color = color
        self._timestamps = timestamps
        self._containers = containers
        self._prefixes: dict[tuple[str, str], bytes] = {}

    def render(self, lines: Sequence[LogLine]) -> bytes:
        """The text of lines of one container."""
        prefix = self._prefix(lines[0]) if lines else b""
        if self._terminal:
            made = [prefix + self._stamp(line) + cleaned(line.text) for line in lines]
        elif prefix or self._timestamps:
            made = [prefix + self._stamp(line) + line.text for line in lines]
        else:
            made = [line.text for line in lines]
        made.append(b"")
        return b"\n".join(made)

    def _stamp(self, line: LogLine) -> bytes:
        return f"{line.timestamp} ".encode() if self._timestamps and line.timestamp else b""

    def _prefix(self, line: LogLine) -> bytes:
        key = (line.pod, line.container)
        if key not in self._prefixes:
            name = f"{line.pod}/{line.container}" if self._containers else line.pod
            text = f"[{clean(name)}]"
            if self._color:
                text = click.style(text, fg=_COLORS[len(self._prefixes) % len(_COLORS)])
            self._prefixes[key] = f"{text} ".encode()
            if self.prefixed is None and len(self._prefixes) > 1:
                self.prefixed = True
        return self._prefixes[key] if self.prefixed else b""


def cleaned(text: bytes) -> bytes:
    """A line as it may be written to a terminal; of a progress bar, what it showed last."""
    decoded = text.decode("utf-8", "replace")
    if decoded.isprintable():
        return text
    shown = next((part for part in reversed(decoded.split("\r")) if part.strip()), "")
    return clean(_ESCAPES.sub("", shown), keep="\t").encode()
