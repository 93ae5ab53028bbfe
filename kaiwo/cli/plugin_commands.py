"""Commands that installed plugins add, found without loading the plugins.

`kaiwo --help` must be quick, and loading every plugin costs several times the whole budget. So the list of
commands imports only those plugin modules whose source mentions the hook ``kaiwo_commands``; a hook
implementation is a plain function and is called directly. A command that this search does not find is
looked up with the real loader, so a plugin whose hook is elsewhere is merely not listed.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING

from kaiwo.cli.command_group import CommandEntry
from kaiwo.plugin.claims import decide
from kaiwo.plugin.discovery import PLUGIN_GROUP, Candidate
from kaiwo.plugin.entry_points import installed_entries, mentions
from kaiwo.plugin.selection import PluginSelection

if TYPE_CHECKING:
    from collections.abc import Iterable

_HOOK = "kaiwo_commands"


def listed_commands() -> dict[str, CommandEntry]:
    """Commands of selected plugins, by name, for the help; a plugin that cannot be read adds none."""
    chosen, _ = decide(sorted(_candidates()), PluginSelection.of(environ=os.environ))
    found: dict[str, list[CommandEntry]] = {}
    for candidate in chosen:
        if mentions(candidate.module, _HOOK):
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
    """Every plugin on ``sys.path``."""
    return {
        Candidate(entry.name, entry.distribution, entry.version, entry.value.partition(":")[0].strip())
        for entry in installed_entries(PLUGIN_GROUP)
    }


def _declared(module: str) -> Iterable[tuple[str, CommandEntry]]:
    try:
        commands = getattr(importlib.import_module(module), _HOOK)()
        return [(command.name, CommandEntry(command.load, command.help)) for command in commands]
    except Exception:  # noqa: BLE001  a broken plugin must not break the help; `kaiwo plugins` names it
        return []
