"""Which plugins a process loads: process configuration, fixed for the life of the process.

An explicit list loads those plugins and only those; no list loads everything installed. A list comes from a
flag, the environment or a file, in this order of precedence, each of the three settings on its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

NAMES_VARIABLE = "KAIWO_PLUGINS"
DISABLED_VARIABLE = "KAIWO_PLUGINS_DISABLED"
REQUIRED_VARIABLE = "KAIWO_PLUGINS_REQUIRED"

_SEPARATOR = re.compile(r"[,\s]+")


class SelectionError(ValueError):
    """The plugin selection cannot be read; the message has its place, the cause and the next step."""


@dataclass(frozen=True, slots=True)
class PluginSelection:
    """What to load.

    Attributes:
        names: load these and only these; None loads everything installed, an empty tuple nothing.
        disabled: never load these; wins over ``names``.
        required: a process that cannot load one of these does not start. A required plugin also wins a
            conflict with a plugin that is not required.
    """

    names: tuple[str, ...] | None = None
    disabled: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()

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
            environ: environment with ``KAIWO_PLUGINS``, ``KAIWO_PLUGINS_DISABLED`` and
                ``KAIWO_PLUGINS_REQUIRED``, written like the flag. ``KAIWO_PLUGINS`` that is set and empty
                selects nothing.
            settings: a parsed settings file with the lists ``plugins``, ``pluginsDisabled`` and
                ``pluginsRequired``.
            where: what to call ``settings`` in messages.

        Raises:
            SelectionError: a list of the settings is not a list of names.
        """
        environ = environ or {}
        settings = settings or {}

        def listed(variable: str, key: str) -> tuple[str, ...] | None:
            if variable in environ:
                return _split(environ[variable])
            return _listed(settings.get(key), f"{where}: {key}")

        names = _split(flag) if flag is not None else listed(NAMES_VARIABLE, "plugins")
        return cls(
            names=names,
            disabled=frozenset(listed(DISABLED_VARIABLE, "pluginsDisabled") or ()),
            required=frozenset(listed(REQUIRED_VARIABLE, "pluginsRequired") or ()),
        )


def _split(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in _SEPARATOR.split(text) if name))


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
