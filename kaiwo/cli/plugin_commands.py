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

if TYPE_CHECKING:
    from collections.abc import Iterable

GROUP = "kaiwo.plugins"
_HOOK = "kaiwo_commands"


def quick() -> dict[str, Entry]:
    """Commands of selected plugins, by name; a plugin that cannot be read adds none."""
    found: dict[str, Entry] = {}
    for name, module in sorted((point.name, point.value) for point in entry_points(group=GROUP)):
        if _selected(name) and _mentions_hook(module):
            for command in _declared(module):
                found.setdefault(*command)
    return found


def _selected(name: str) -> bool:
    chosen = _words(os.environ.get("KAIWO_PLUGINS"))
    return (not chosen or name in chosen) and name not in _words(os.environ.get("KAIWO_PLUGINS_DISABLED"))


def _words(text: str | None) -> frozenset[str]:
    return frozenset(word.strip() for word in (text or "").split(",") if word.strip())


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


def thorough(name: str) -> Entry | None:
    """The command of that name, asked of the loaded plugins."""
    try:
        from kaiwo.plugin.loader import load  # noqa: PLC0415  imports every plugin
    except ImportError:
        return None
    return next((Entry(c.load, c.help) for c in load().commands if c.name == name), None)
