"""Commands that installed plugins add, found without loading the plugins.

`kaiwo --help` must be quick, and loading every plugin costs several times the whole budget. So the list of
commands imports only those plugin modules whose source mentions the hook ``kaiwo_commands``; a hook
implementation is a plain function and is called directly. Calling a command that this quick look does not
know asks the real loader, so a plugin that hides its hook from the look is merely not listed.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from kaiwo.cli.group import Entry
from kaiwo.plugin.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Iterable

PLUGIN_GROUP = "kaiwo.plugins"
_HOOK = "kaiwo_commands"


def quick() -> dict[str, Entry]:
    """Commands of selected plugins, by name; a plugin that cannot be read adds none."""
    selection = Selection.of(environ=os.environ)
    found: dict[str, Entry] = {}
    for point in sorted(entry_points(group=PLUGIN_GROUP), key=lambda point: point.name):
        chosen = selection.names is None or point.name in selection.names
        if chosen and point.name not in selection.disabled and _mentions_hook(point.module):
            for name, entry in _declared(point.module):
                found.setdefault(name, entry)
    return found


def thorough(name: str) -> Entry | None:
    """The command of that name, asked of the loaded plugins."""
    from kaiwo.plugin.loader import load  # noqa: PLC0415  imports every plugin

    plugins = load(Selection.of(environ=os.environ), hooks=[_HOOK])
    return next(
        (Entry(command.load, command.help) for command in plugins.commands if command.name == name), None
    )


def _mentions_hook(module: str) -> bool:
    try:
        spec = importlib.util.find_spec(module)
        return spec is not None and _HOOK.encode() in Path(str(spec.origin)).read_bytes()
    except (ImportError, ValueError, OSError):
        return False


def _declared(module: str) -> Iterable[tuple[str, Entry]]:
    try:
        commands = getattr(importlib.import_module(module), _HOOK)()
        return [(command.name, Entry(command.load, command.help)) for command in commands]
    except Exception:  # noqa: BLE001  a broken plugin must not break the help; `kaiwo plugins` names it
        return []
