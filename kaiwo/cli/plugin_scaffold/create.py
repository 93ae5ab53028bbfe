"""Makes a new plugin: checks the name against what is installed, and writes the files."""

from __future__ import annotations

import importlib.util
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING

from kaiwo.cli.plugin_scaffold.names import PluginNames, ScaffoldError
from kaiwo.cli.plugin_scaffold.templates import render
from kaiwo.plugin.claims import FIRST_PARTY
from kaiwo.plugin.conflicts import HOST_COMMANDS
from kaiwo.plugin.discovery import installed_plugins
from kaiwo.plugin.hookspecs import API_MAJOR, API_MINOR
from kaiwo.plugin.selection import normalised

if TYPE_CHECKING:
    from pathlib import Path

    from kaiwo.plugin.registry import Plugins


def new_plugin(kind: str, name: str) -> tuple[PluginNames, dict[str, str]]:
    """The names of a new plugin and its files, by path below its folder; nothing is written.

    Raises:
        ScaffoldError: the name is invalid.
    """
    names = PluginNames.of(name)
    return names, render(kind, asdict(names) | _versions())


def _versions() -> dict[str, str]:
    """The versions that a new plugin is written for."""
    major, minor, *_ = version("kaiwo").split(".")
    return {
        "api": f"{API_MAJOR}.{API_MINOR}",
        "kaiwo_version": version("kaiwo"),
        "kaiwo_range": f">={major}.{minor},<{int(major) + 1}",
    }


def check_name(kind: str, names: PluginNames, loaded: Plugins) -> None:
    """Check that nothing installed has a name that the new plugin would have.

    Args:
        kind: what the plugin is for.
        names: the new plugin's.
        loaded: the plugins that are loaded.

    Raises:
        ScaffoldError: who has the name.
    """
    for plugin in installed_plugins():
        if names.plugin == plugin.name or names.distribution == normalised(plugin.distribution):
            raise _taken(f"name {names.dashed}", f"plugin {plugin.name} of {plugin.distribution}")
    if names.plugin in FIRST_PARTY:
        raise _taken(f"name {names.dashed}", f"{names.distribution}, a distribution of Kaiwo")
    if importlib.util.find_spec(names.package) is not None:
        raise _taken(f"package {names.package}", "an installed distribution")
    if kind == "command" and names.dashed in HOST_COMMANDS:
        raise _taken(f"command {names.dashed}", "kaiwo itself")
    for what, declared in _declared(kind, names, loaded).items():
        raise _taken(what, f"plugin {declared}")


def _declared(kind: str, names: PluginNames, loaded: Plugins) -> dict[str, str]:
    """What loaded plugins declare of that which the new one will declare, with the plugin's name."""
    found = {}
    for plugin in loaded.loaded:
        declared: dict[str, list[tuple[str, str]]] = {
            "vendor": [("GPU vendor", vendor.name) for vendor in plugin.vendors],
            "source": [("download source", source.path[-1]) for source in plugin.sources],
            "backend": [("backend", backend.name) for backend in plugin.backends],
            "rule": [("diagnosis rule", rule.name) for rule in plugin.diagnosis_rules],
            "command": [("command", command.name) for command in plugin.commands],
        }
        own = (names.plugin, names.dashed, names.camel)
        for what, name in declared.get(kind, ()):
            if name in own:
                found[f"{what} {name}"] = f"{plugin.name} of {plugin.distribution}"
    return found


def _taken(what: str, owner: str) -> ScaffoldError:
    return ScaffoldError(f"{what} is taken by {owner}", "choose another name")


def write(folder: Path, files: dict[str, str]) -> None:
    """Write the files of a new plugin into a folder that is empty or does not exist.

    Raises:
        ScaffoldError: the folder is not empty, or is a file.
        OSError: it cannot be written.
    """
    check_folder(folder)
    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def check_folder(folder: Path) -> None:
    """Check that a folder is empty or does not exist.

    Raises:
        ScaffoldError: it is neither.
    """
    if folder.exists() and not folder.is_dir():
        raise ScaffoldError(f"{folder} is not a directory", "name another one with --directory")
    if folder.is_dir() and any(folder.iterdir()):
        raise ScaffoldError(f"directory {folder} is not empty", "name another one with --directory")
