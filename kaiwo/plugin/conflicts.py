"""Names, fields and kinds that only one plugin may declare; a second plugin that declares one is not loaded.

Otherwise the order of installation would decide which of the two acts. The message names both distributions
and what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.checks import InvalidPlugin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaiwo.plugin.registry import LoadedPlugin

HOST = "kaiwo"
"""The host's distribution, as messages name it."""

HOST_KINDS = (
    "kaiwojobs.kaiwo.silogen.ai",
    "kaiwoservices.kaiwo.silogen.ai",
    "kaiwoconfigs.config.kaiwo.silogen.ai",
)
HOST_COMMANDS = (
    "cancel",
    "completion",
    "delete",
    "describe",
    "doctor",
    "exec",
    "init",
    "install",
    "list",
    "logs",
    "manage",
    "manifests",
    "monitor",
    "nodes",
    "operator",
    "plan",
    "plugins",
    "port-forward",
    "report",
    "run",
    "status",
    "submit",
    "ui",
    "uninstall",
    "version",
    "why",
)
"""Commands that are reserved for the host."""


class DeclaredNames:
    """What was declared so far, and by which plugin."""

    def __init__(self) -> None:
        host = ("", HOST)
        self._names = {f"kind {kind}": host for kind in HOST_KINDS}
        self._names |= {f"command {command}": host for command in HOST_COMMANDS}
        self._paths: dict[tuple[str, ...], tuple[str, str]] = {}
        self._keys: dict[str, tuple[str, str]] = {}

    def add(self, plugin: LoadedPlugin) -> None:
        """Add the plugin's declarations, all or none.

        Raises:
            InvalidPlugin: another plugin, or the plugin itself, already declared one of them.
        """
        who = (plugin.name, plugin.distribution)
        names = dict(self._names)
        for name in _names(plugin):
            if name in names:
                raise InvalidPlugin(_conflict(name, who, names[name]))
            names[name] = who
        paths = dict(self._paths)
        for path in _paths(plugin):
            for other, owner in paths.items():
                shorter = min(len(path), len(other))
                if path[:shorter] == other[:shorter]:
                    raise InvalidPlugin(_conflict(f"field {'.'.join(path)}", who, owner))
            paths[path] = who
        keys = dict(self._keys)
        for key in (key for vendor in plugin.vendors for key in vendor.resource_keys):
            for taken, owner in keys.items():
                if _overlap(key, taken):
                    raise InvalidPlugin(_conflict(f"resource key {key}", who, owner))
            keys[key] = who
        self._names = names
        self._paths = paths
        self._keys = keys


def _names(plugin: LoadedPlugin) -> Iterator[str]:
    """What no other plugin may declare, as messages name it."""
    yield from (f"backend {backend.name}" for backend in plugin.backends)
    yield from (f"download source {source.name}" for source in plugin.sources)
    yield from (f"GPU vendor {vendor.name}" for vendor in plugin.vendors)
    yield from ("queue system" for _ in plugin.queue_systems)
    yield from (f"controller {controller.name}" for controller in plugin.controllers)
    yield from (f"kind {kind.resource}" for controller in plugin.controllers for kind in controller.kinds)
    yield from (f"pod contribution {contribution.name}" for contribution in plugin.contributions)
    yield from (f"diagnosis rule {rule.name}" for rule in plugin.diagnosis_rules)
    yield from (f"command {command.name}" for command in plugin.commands)


def _paths(plugin: LoadedPlugin) -> Iterator[tuple[str, ...]]:
    for field in plugin.fields():
        yield (field.kind, *field.path)


def _overlap(key: str, other: str) -> bool:
    """Whether two resource keys, of which each may end in ``*``, can mean the same resource."""
    if key.endswith("*") and other.endswith("*"):
        return key.startswith(other[:-1]) or other.startswith(key[:-1])
    if key.endswith("*"):
        return other.startswith(key[:-1])
    return key.startswith(other[:-1]) if other.endswith("*") else key == other


def _conflict(what: str, who: tuple[str, str], owner: tuple[str, str]) -> str:
    if owner == who:
        return f"{what} is declared twice"
    plugin, distribution = owner
    if not plugin:
        return f"{what} belongs to {distribution} itself; {who[1]} must use another name"
    return (
        f"{what} is already declared by plugin {plugin} of {distribution}; "
        f"disable or uninstall {who[1]} or {distribution}"
    )
