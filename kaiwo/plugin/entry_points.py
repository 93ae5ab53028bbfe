"""Entry points of installed distributions, read by hand for commands that must be quick.

Importing importlib.metadata costs as much as a whole ``kaiwo --help``, so the files are read directly. The
loader uses importlib.metadata, which also knows distributions that are no files.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kaiwo.plugin.selection import normalised
from kaiwo.plugin.targets import find_module

if TYPE_CHECKING:
    from collections.abc import Iterator


class InstalledEntry(NamedTuple):
    """One entry point.

    Attributes:
        distribution: name of the distribution that has it.
        version: version of the distribution.
        name: its name.
        value: what it names: a module, or ``module:attribute``.
    """

    distribution: str
    version: str
    name: str
    value: str


def installed_entries(group: str) -> set[InstalledEntry]:
    """The entry points of a group on ``sys.path``; of a distribution that is there twice, the first."""
    found: dict[str, set[InstalledEntry]] = {}
    for directory in dict.fromkeys(sys.path):
        for pattern in ("*.dist-info/entry_points.txt", "*.egg-info/entry_points.txt"):
            for path in Path(directory or ".").glob(pattern):
                distribution, _, version = path.parent.stem.partition("-")
                if normalised(distribution) in found:
                    continue
                with suppress(OSError, UnicodeDecodeError):
                    found[normalised(distribution)] = {
                        InstalledEntry(distribution, version, name, value)
                        for name, value in _section(path.read_text(encoding="utf-8"), group)
                    }
    return set().union(*found.values())


def mentions(module: str, word: str) -> bool:
    """Whether the source of a module has a word in it; nothing is imported."""
    try:
        spec = find_module(module)
        return spec is not None and word.encode() in Path(str(spec.origin)).read_bytes()
    except (ImportError, ValueError, OSError):
        return False


def _section(text: str, group: str) -> Iterator[tuple[str, str]]:
    """Names and values in one section of an ``entry_points.txt``."""
    inside = False
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            inside = line == f"[{group}]"
        elif inside and "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            yield name.strip(), value.strip()
