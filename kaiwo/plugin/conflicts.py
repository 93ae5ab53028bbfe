"""What only one plugin may declare, and the refusal of the second one that does.

Two plugins with the same name, field or kind would mean that which one acts depends on luck; so the second is
refused, in words that name both distributions and what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.plugin.checks import RefusedPlugin

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
"""Words that the command line keeps for itself."""


class DeclaredNames:
    """Who declared what so far."""

    def __init__(self) -> None:
        host = ("", HOST)
        self._names = {f"kind {kind}": host for kind in HOST_KINDS}
        self._names |= {f"command {command}": host for command in HOST_COMMANDS}
        self._paths: dict[tuple[str, ...], tuple[str, str]] = {}
        self._keys: dict[str, tuple[str, str]] = {}

    def add(self, plugin: LoadedPlugin) -> None:
        """Take the plugin's declarations, all or none.

        Raises:
            RefusedPlugin: another plugin, or the plugin itself, already declared one of them.
        """
        who = (plugin.name, plugin.distribution)
        names = dict(self._names)
        for name in _names(plugin):
            if name in names:
                raise RefusedPlugin(_refusal(name, who, names[name]))
            names[name] = who
        paths = dict(self._paths)
        for path in _paths(plugin):
            for other, owner in paths.items():
                shorter = min(len(path), len(other))
                if path[:shorter] == other[:shorter]:
                    raise RefusedPlugin(_refusal(f"field {'.'.join(path)}", who, owner))
            paths[path] = who
        keys = dict(self._keys)
        for key in (key for vendor in plugin.vendors for key in vendor.resource_keys):
            for taken, owner in keys.items():
                if _overlap(key, taken):
                    raise RefusedPlugin(_refusal(f"resource key {key}", who, owner))
            keys[key] = who
        self._names = names
        self._paths = paths
        self._keys = keys


def _names(plugin: LoadedPlugin) -> Iterator[str]:
    """What nobody else may declare, in the words of a message."""
    yield from (f"backend {backend.name}" for backend in plugin.backends)
    yield from (f"download source {source.name}" for source in plugin.sources)
    yield from (f"GPU vendor {vendor.name}" for vendor in plugin.vendors)
    yield from ("a queue system, of which one can be in force" for _ in plugin.queue_systems)
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


def _refusal(what: str, who: tuple[str, str], owner: tuple[str, str]) -> str:
    if owner == who:
        return f"declares {what} twice"
    plugin, distribution = owner
    if not plugin:
        return f"declares {what}, as does {distribution} itself; {who[1]} must choose another"
    return (
        f"declares {what}, as does plugin {plugin} of {distribution}; "
        f"disable or uninstall one of {who[1]} and {distribution}"
    )
