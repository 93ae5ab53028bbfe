"""Names, fields and kinds that only one plugin may declare.

Of two plugins that declare the same, neither is loaded unless configuration prefers one. Otherwise the order
of names would decide which of the two acts. The message names both distributions and what to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from kaiwo.plugin.selection import NAMES_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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
    "plugin",
    "plugins",
    "port-forward",
    "queue",
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


@dataclass(frozen=True, slots=True)
class _Declared:
    """What one plugin declares and no other may.

    Attributes:
        plugin: the plugin's name.
        distribution: the distribution it comes from.
        names: names, as messages write them.
        paths: fields, with their kind first.
        keys: resource keys.
    """

    plugin: str
    distribution: str
    names: tuple[str, ...]
    paths: tuple[tuple[str, ...], ...]
    keys: tuple[str, ...]

    @classmethod
    def of(cls, plugin: LoadedPlugin) -> _Declared:
        keys = (key for vendor in plugin.vendors for key in vendor.resource_keys)
        return cls(
            plugin.name, plugin.distribution, tuple(_names(plugin)), tuple(_paths(plugin)), tuple(keys)
        )

    def same_as(self, other: _Declared) -> str:
        """The first of its declarations that the other plugin has too; empty for none."""
        names = ((name, name in other.names) for name in self.names)
        fields = ((f"field {'.'.join(path)}", _meets(path, other.paths)) for path in self.paths)
        keys = ((f"resource key {key}", any(_overlap(key, k) for k in other.keys)) for key in self.keys)
        return next((what for what, shared in (*names, *fields, *keys) if shared), "")

    def fault(self) -> str:
        """Why the plugin cannot be loaded whatever others declare; empty for none."""
        hosts = {f"kind {kind}" for kind in HOST_KINDS} | {f"command {command}" for command in HOST_COMMANDS}
        for name in self.names:
            if name in hosts:
                return f"{name} belongs to {HOST} itself; {self.distribution} must use another name"
        twice = (
            *(name for number, name in enumerate(self.names) if name in self.names[:number]),
            *(
                f"field {'.'.join(path)}"
                for number, path in enumerate(self.paths)
                if _meets(path, self.paths[:number])
            ),
            *(
                f"resource key {key}"
                for number, key in enumerate(self.keys)
                if any(_overlap(key, other) for other in self.keys[:number])
            ),
        )
        return f"{twice[0]} is declared twice" if twice else ""


def conflicts(preferred: Sequence[LoadedPlugin], others: Sequence[LoadedPlugin]) -> dict[str, str]:
    """Why plugins cannot be loaded, by plugin name.

    Args:
        preferred: plugins that configuration requires or names with their distribution.
        others: the others; one that declares the same as a preferred plugin is the only one refused.
    """
    refused: dict[str, str] = {}
    standing: list[_Declared] = []
    for group in (preferred, others):
        declared = [_Declared.of(plugin) for plugin in group]
        refused |= {one.plugin: fault for one in declared if (fault := one.fault())}
        declared = [one for one in declared if one.plugin not in refused]
        refused |= _taken(declared, standing)
        declared = [one for one in declared if one.plugin not in refused]
        refused |= _mutual(declared)
        standing += [one for one in declared if one.plugin not in refused]
    return refused


def _taken(declared: Sequence[_Declared], standing: Sequence[_Declared]) -> dict[str, str]:
    """Plugins that declare the same as one that configuration prefers."""
    return {
        one.plugin: f"{what} is declared by plugin {owner.plugin} of {owner.distribution}, which "
        f"configuration prefers; disable or uninstall {one.distribution}"
        for one in declared
        for owner in standing
        if (what := one.same_as(owner))
    }


def _mutual(declared: Sequence[_Declared]) -> dict[str, str]:
    """Plugins that declare the same as each other."""
    refused: dict[str, str] = {}
    for one, other in combinations(declared, 2):
        for own, its in ((one, other), (other, one)):
            if what := own.same_as(its):
                refused.setdefault(own.plugin, _conflict(what, own, its))
    return refused


def _names(plugin: LoadedPlugin) -> Iterator[str]:
    """What no other plugin may declare, as messages name it."""
    yield from (f"backend {backend.name}" for backend in plugin.backends)
    yield from (f"download source {source.name}" for source in plugin.sources)
    yield from (f"GPU vendor {vendor.name}" for vendor in plugin.vendors)
    yield from ("queue system" for _ in plugin.queue_systems)
    yield from (f"controller {controller.name}" for controller in plugin.controllers)
    yield from (f"kind {kind.resource}" for controller in plugin.controllers for kind in controller.kinds)
    yield from (f"pod contribution {contribution.name}" for contribution in plugin.contributions)
    yield from (f"namespace defaults {defaults.name}" for defaults in plugin.namespace_defaults)
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


def _meets(path: tuple[str, ...], others: Iterable[tuple[str, ...]]) -> bool:
    """Whether a field is one of the others, within one of them, or around one."""
    return any(path[: len(other)] == other[: len(path)] for other in others)


def _conflict(what: str, own: _Declared, other: _Declared) -> str:
    return (
        f"{what} is also declared by plugin {other.plugin} of {other.distribution}; "
        f"disable or uninstall {own.distribution} or {other.distribution}, "
        f"or write {own.plugin}@{own.distribution} in {NAMES_VARIABLE}"
    )
