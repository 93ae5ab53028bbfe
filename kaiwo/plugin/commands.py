"""Commands that a plugin adds to the ``kaiwo`` command line."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """One click command or group, imported only when it is called or its help is shown.

    Attributes:
        name: the word after ``kaiwo``.
        load: ``module:attribute`` of the click command.
        help: one line for ``kaiwo --help``, shown without importing the command.
    """

    name: str
    load: str
    help: str
