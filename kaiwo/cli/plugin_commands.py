"""Commands that installed plugins add, found without loading the plugins.

`kaiwo --help` must be quick, and loading every plugin costs several times the whole budget. So the list of
commands imports only those plugin modules whose source mentions the hook ``kaiwo_commands``; a hook
implementation is a plain function and is called directly. A command that this search does not find is
looked up with the real loader, so a plugin whose hook is elsewhere is merely not listed.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kaiwo.cli.command_group import CommandEntry
from kaiwo.plugin.claims import decide
from kaiwo.plugin.discovery import Candidate
from kaiwo.plugin.selection import PluginSelection, normalised

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PLUGIN_GROUP = "kaiwo.plugins"
_HOOK = "kaiwo_commands"


def listed_commands() -> dict[str, CommandEntry]:
    """Commands of selected plugins, by name, for the help; a plugin that cannot be read adds none."""
    chosen, _ = decide(sorted(_candidates()), PluginSelection.of(environ=os.environ))
    found: dict[str, list[CommandEntry]] = {}
    for candidate in chosen:
        if _mentions_hook(candidate.module):
            for name, entry in _declared(candidate.module):
                found.setdefault(name, []).append(entry)
    # Which of two plugins has a command is for the real loader to say.
    return {name: entries[0] for name, entries in found.items() if len(entries) == 1}


def find_command(name: str) -> CommandEntry | None:
    """The command of that name, from the plugins that load; None if there is none."""
    from kaiwo.plugin.loader import load

    plugins = load(PluginSelection.of(environ=os.environ), hooks=[_HOOK])
    return next(
        (CommandEntry(command.load, command.help) for command in plugins.commands if command.name == name),
        None,
    )


def _candidates() -> set[Candidate]:
    """Every plugin on ``sys.path``; of a distribution that is there twice, the first counts.

    Read by hand: importing importlib.metadata costs as much as everything else together, a third of the
    time that the help may take.
    """
    found: dict[str, set[Candidate]] = {}
    for directory in dict.fromkeys(sys.path):
        for pattern in ("*.dist-info/entry_points.txt", "*.egg-info/entry_points.txt"):
            for path in Path(directory or ".").glob(pattern):
                distribution, _, version = path.parent.stem.partition("-")
                if normalised(distribution) in found:
                    continue
                with suppress(OSError, UnicodeDecodeError):
                    found[normalised(distribution)] = {
                        Candidate(name, distribution, version, module)
                        for name, module in _section(path.read_text(encoding="utf-8"))
                    }
    return set().union(*found.values())


def _section(text: str) -> Iterator[tuple[str, str]]:
    """The plugins in the text of an ``entry_points.txt``."""
    inside = False
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            inside = line == f"[{PLUGIN_GROUP}]"
        elif inside and "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            yield name.strip(), value.partition(":")[0].strip()


def _mentions_hook(module: str) -> bool:
    try:
        spec = importlib.util.find_spec(module)
        return spec is not None and _HOOK.encode() in Path(str(spec.origin)).read_bytes()
    except (ImportError, ValueError, OSError):
        return False


def _declared(module: str) -> Iterable[tuple[str, CommandEntry]]:
    try:
        commands = getattr(importlib.import_module(module), _HOOK)()
        return [(command.name, CommandEntry(command.load, command.help)) for command in commands]
    except Exception:  # noqa: BLE001  a broken plugin must not break the help; `kaiwo plugins` names it
        return []
