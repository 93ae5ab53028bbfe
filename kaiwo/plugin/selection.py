"""Which plugins a process loads: process configuration, fixed for the life of the process.

An explicit list loads those plugins and only those; no list loads everything installed. A list comes from a
flag, the environment or a file, in this order of precedence, each of the three settings on its own.

An entry is a plugin's name, ``batch_job``; with the distribution that it must come from,
``batch_job@kaiwo-batch-job``; or with its version too, ``batch_job@kaiwo-batch-job==0.1.0``. A fourth setting
lists what may be imported at all, see :mod:`kaiwo.plugin.allow_list`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NAMES_VARIABLE = "KAIWO_PLUGINS"
DISABLED_VARIABLE = "KAIWO_PLUGINS_DISABLED"
REQUIRED_VARIABLE = "KAIWO_PLUGINS_REQUIRED"
ALLOWED_VARIABLE = "KAIWO_PLUGINS_ALLOWED"

SETTINGS = (
    ("plugins", NAMES_VARIABLE, "everything installed", "plugins that are loaded, and no others"),
    ("pluginsDisabled", DISABLED_VARIABLE, "", "plugins that are never loaded, even when listed"),
    ("pluginsRequired", REQUIRED_VARIABLE, "", "plugins without which the operator does not start"),
    (
        "pluginsAllowed",
        ALLOWED_VARIABLE,
        "every selected plugin",
        "plugins that may be imported, with distribution, versions and digest",
    ),
)
"""The settings of the selection: key in the settings file, environment variable, default, meaning."""

_SEPARATOR = re.compile(r"[,\s]+")
_OPERATORS = "<>=!~"
_REFERENCE = re.compile(r"([^@=]+)(?:@([A-Za-z0-9][\w.-]*)(?:==([^@=]+))?)?")

_ALLOWED = re.compile(
    r"(?P<name>[^@#<>=!~]+)@(?P<distribution>[A-Za-z0-9][\w.-]*)"
    r"(?P<versions>[<>=!~][^#]*)?(?:#sha256=(?P<sha256>[0-9a-f]{64}))?"
)
_EXAMPLE = "batch_job@kaiwo-batch-job==0.1.0"


class SelectionError(ValueError):
    """The plugin selection cannot be read; the message has its place, the cause and the next step."""


def normalised(distribution: str) -> str:
    """A distribution's name as package indexes compare it: ``Kaiwo_Batch.Job`` is ``kaiwo-batch-job``."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


@dataclass(frozen=True, slots=True)
class PluginReference:
    """One entry of a list of plugins.

    Attributes:
        name: the plugin's name.
        distribution: the distribution that it must come from; empty for any.
        version: the version that the distribution must have; empty for any.
    """

    name: str
    distribution: str = ""
    version: str = ""

    @classmethod
    def parse(cls, text: str) -> PluginReference:
        """Read ``name``, ``name@distribution`` or ``name@distribution==version``.

        Raises:
            SelectionError: it is none of these.
        """
        match = _REFERENCE.fullmatch(text)
        if match is None:
            raise SelectionError(
                f"{text!r} is not a plugin, expected name, name@distribution or name@distribution==version. "
                "Write for example batch_job@kaiwo-batch-job; `kaiwo plugins` lists the installed ones."
            )
        return cls(match[1], match[2] or "", match[3] or "")

    def means(self, name: str, distribution: str) -> bool:
        """Whether the plugin of this distribution is meant, whatever its version."""
        return name == self.name and normalised(self.distribution) in ("", normalised(distribution))

    def __str__(self) -> str:
        """The entry as it is written."""
        distribution = f"@{self.distribution}" if self.distribution else ""
        return f"{self.name}{distribution}{f'=={self.version}' if self.version else ''}"


@dataclass(frozen=True, slots=True)
class AllowedPlugin:
    """One entry of the list.

    Attributes:
        name: the plugin's name.
        distribution: the distribution that it must come from.
        versions: versions that the distribution may have (PEP 440), empty for any.
        sha256: digest of the distribution's files, see `file_digest`; empty for any.
    """

    name: str
    distribution: str
    versions: str = ""
    sha256: str = ""

    @classmethod
    def parse(cls, text: str) -> AllowedPlugin:
        """Read ``name@distribution``, with versions and digest where given.

        Raises:
            SelectionError: it is no such entry.
        """
        from packaging.specifiers import InvalidSpecifier, SpecifierSet

        match = _ALLOWED.fullmatch(text)
        if match is None:
            raise SelectionError(
                f"{text!r} is not an allowed plugin, expected name@distribution, with "
                f"versions and #sha256=DIGEST where wanted. Write for example {_EXAMPLE}; "
                "`kaiwo plugins --allow-list` prints what is installed."
            )
        versions = match["versions"] or ""
        try:
            SpecifierSet(versions)
        except InvalidSpecifier as error:
            raise SelectionError(
                f"{versions!r} in {text!r} is not a range of versions. "
                f"Write for example {_EXAMPLE}, or >=1.2,<2."
            ) from error
        return cls(match["name"], match["distribution"], versions, match["sha256"] or "")

    def names(self, distribution: str) -> bool:
        """Whether it is about this distribution."""
        return normalised(self.distribution) == normalised(distribution)

    def takes(self, version: str) -> bool:
        """Whether the distribution may have this version; a version that cannot be read is in no range."""
        from packaging.specifiers import SpecifierSet
        from packaging.version import InvalidVersion

        if not self.versions:
            return True
        try:
            return SpecifierSet(self.versions).contains(version, prereleases=True)
        except InvalidVersion:
            return False

    def __str__(self) -> str:
        """The entry as it is written."""
        digest = f"#sha256={self.sha256}" if self.sha256 else ""
        return f"{self.name}@{self.distribution}{self.versions}{digest}"


@dataclass(frozen=True, slots=True)
class PluginSelection:
    """What to load. Every entry is written as :class:`PluginReference` describes.

    Attributes:
        names: load these and only these; None loads everything installed, an empty tuple nothing.
        disabled: never load these; wins over ``names``.
        required: a process that cannot load one of these does not start. A required plugin also wins a
            conflict with a plugin that is neither required nor named with its distribution.
        allowed: never import what is not among these, written as :class:`AllowedPlugin` describes;
            None imports whatever is selected.
    """

    names: tuple[str, ...] | None = None
    disabled: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()
    allowed: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls,
        *,
        flag: str | None = None,
        environ: Mapping[str, str] | None = None,
        settings: Mapping[str, Any] | None = None,
        where: str = "settings",
    ) -> PluginSelection:
        """Combine the sources of process configuration.

        Args:
            flag: value of ``--plugins``, names separated by commas or blanks; empty selects nothing.
            environ: environment with ``KAIWO_PLUGINS``, ``KAIWO_PLUGINS_DISABLED``,
                ``KAIWO_PLUGINS_REQUIRED`` and ``KAIWO_PLUGINS_ALLOWED``, written like the flag.
                ``KAIWO_PLUGINS`` that is set and empty selects nothing, ``KAIWO_PLUGINS_ALLOWED`` allows
                nothing.
            settings: a parsed settings file with the lists ``plugins``, ``pluginsDisabled``,
                ``pluginsRequired`` and ``pluginsAllowed``.
            where: what to call ``settings`` in messages.

        Raises:
            SelectionError: a list of the settings is not a list of names, or an entry cannot be read.
        """
        environ = environ or {}
        settings = settings or {}

        def listed(variable: str, key: str) -> tuple[str, ...] | None:
            if variable in environ:
                return _split(environ[variable])
            return _listed(settings.get(key), f"{where}: {key}")

        names = _split(flag) if flag is not None else listed(NAMES_VARIABLE, "plugins")
        selection = cls(
            names=names,
            disabled=frozenset(listed(DISABLED_VARIABLE, "pluginsDisabled") or ()),
            required=frozenset(listed(REQUIRED_VARIABLE, "pluginsRequired") or ()),
            allowed=listed(ALLOWED_VARIABLE, "pluginsAllowed"),
        )
        selection.references()  # an entry that cannot be read is an error here, where it was written
        selection.allowed_plugins()
        return selection

    def references(self) -> tuple[PluginReference, ...]:
        """Every entry of the three lists, sorted.

        Raises:
            SelectionError: an entry cannot be read.
        """
        return _references({*(self.names or ()), *self.disabled, *self.required})

    def allowed_plugins(self) -> tuple[AllowedPlugin, ...] | None:
        """What may be imported; None for whatever is selected.

        Raises:
            SelectionError: an entry cannot be read.
        """
        return None if self.allowed is None else tuple(map(AllowedPlugin.parse, self.allowed))

    def lists(self, name: str) -> bool:
        """Whether the list of plugins has this name; without a list it has every name."""
        return self.names is None or any(entry.name == name for entry in _references(self.names))

    def disables(self, name: str, distribution: str) -> bool:
        """Whether the plugin of this distribution is never loaded."""
        return any(entry.means(name, distribution) for entry in _references(self.disabled))

    def pins(self, name: str) -> tuple[PluginReference, ...]:
        """Entries that say which distribution the plugin of this name must come from."""
        entries = _references({*(self.names or ()), *self.required})
        return tuple(entry for entry in entries if entry.name == name and entry.distribution)

    def prefers(self, name: str, distribution: str) -> bool:
        """Whether the plugin wins a conflict: it is required, or named with its distribution."""
        entries = (*_references(self.required), *self.pins(name))
        return any(entry.means(name, distribution) for entry in entries)


def _split(text: str) -> tuple[str, ...]:
    """The entries of a text; a part that begins like ``<2`` belongs to the range of versions before it."""
    found: list[str] = []
    for part in filter(None, _SEPARATOR.split(text)):
        if found and part[0] in _OPERATORS:
            begun = any(operator in found[-1] for operator in _OPERATORS)
            found[-1] += f",{part}" if begun else part
        else:
            found.append(part)
    return tuple(dict.fromkeys(found))


def _references(entries: Iterable[str]) -> tuple[PluginReference, ...]:
    return tuple(PluginReference.parse(entry) for entry in sorted(entries))


def _listed(value: object, where: str) -> tuple[str, ...] | None:
    if value is None:
        return None
    if isinstance(value, str):
        return _split(value)
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return _split(" ".join(value))
    raise SelectionError(
        f"{where}: {value!r} is not a list of plugin names. Write for example `[batch_job, gpu_amd]`; "
        "`kaiwo plugins` lists the installed ones."
    )
