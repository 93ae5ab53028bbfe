"""Discovery of installed plugins by their entry points, without importing any of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from importlib_metadata import EntryPoint

PLUGIN_GROUP = "kaiwo.plugins"
"""Entry points that are plugins: name of the plugin, module to import."""

FIELD_GROUP = "kaiwo.fields"
"""Entry points that only announce a field: ``KaiwoJob.rayJob``, import package. Never imported."""


@dataclass(frozen=True, slots=True, order=True)
class Candidate:
    """An installed plugin that may or may not be loaded.

    Attributes:
        name: name of the entry point; it is the plugin's name everywhere.
        distribution: name of the distribution that brings it, ``unknown`` if its metadata is damaged.
        version: version of the distribution, empty if unknown.
        module: dotted name of the plugin's module.
    """

    name: str
    distribution: str
    version: str
    module: str


@dataclass(frozen=True, slots=True, order=True)
class AnnouncedField:
    """A field that an installed distribution declares.

    Attributes:
        kind: ``KaiwoJob``, ``KaiwoService`` or ``KaiwoConfig``.
        path: dotted path below ``spec``, for example ``rayJob``.
        distribution: name of the distribution.
        package: import package whose plugin declares it.
    """

    kind: str
    path: str
    distribution: str
    package: str


def installed_plugins() -> tuple[Candidate, ...]:
    """Every plugin on ``sys.path``, sorted by name and distribution."""
    return tuple(
        sorted(
            Candidate(
                name=entry.name,
                distribution=name,
                version=version,
                module=entry.value.partition(":")[0].strip(),
            )
            for entry, name, version in _entries(PLUGIN_GROUP)
        )
    )


def announced_fields() -> tuple[AnnouncedField, ...]:
    """Every field announced on ``sys.path``, sorted."""
    fields = []
    for entry, distribution, _ in _entries(FIELD_GROUP):
        kind, dot, path = entry.name.partition(".")
        if dot and path:
            fields.append(AnnouncedField(kind, path, distribution, entry.module))
    return tuple(sorted(fields))


def _entries(group: str) -> Sequence[tuple[EntryPoint, str, str]]:
    import importlib_metadata  # slow to import, and the list of commands needs only Candidate

    found = []
    for entry in importlib_metadata.entry_points(group=group):
        distribution = entry.dist
        name = (distribution.name if distribution else None) or "unknown"
        version = (distribution.version if distribution else None) or ""
        found.append((entry, name, version))
    return found
