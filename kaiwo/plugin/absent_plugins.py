"""Plugins that are installed and not loaded, and the messages that name the one which would serve a field."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from kaiwo.plugin.discovery import announced_fields
from kaiwo.plugin.selection import DISABLED_VARIABLE, normalised

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kaiwo.api.plugin_fields import Field
    from kaiwo.plugin.plugin_state import PluginState, State

_INDEX = re.compile(r"\[[^\]]*\]")
_MOST = 3
"""Plugins that a message names."""


@dataclass(frozen=True, slots=True, order=True)
class AbsentPlugin:
    """An installed plugin that is not loaded.

    Attributes:
        name: the plugin's name.
        distribution: the distribution that it comes from.
        state: why it is not loaded.
        message: the same in a sentence.
    """

    name: str
    distribution: str
    state: State
    message: str

    def advice(self, serves: str = "") -> str:
        """Which plugin it is, why it is not loaded and what to do.

        Args:
            serves: what it would do, for example ``serves it``; empty where the message before says it.
        """
        plugin = f"plugin {self.name} of {self.distribution}{f' {serves}' if serves else ''}"
        joined = f"{plugin} and is" if serves else f"{plugin} is"
        match self.state:
            case "not-selected":
                return f"{joined} installed, but not selected; select {self.name}"
            case "disabled":
                return f"{joined} disabled; remove {self.name} from {DISABLED_VARIABLE}"
            case "not-allowed":
                return f"{joined} not allowed: {self.message}"
            case _:
                return f"{joined} broken: {self.message}"


AbsentFields: TypeAlias = "Mapping[tuple[str, str], AbsentPlugin]"
"""Announced fields that no loaded plugin declares: ``("KaiwoJob", "rayJob")`` to the plugin that does."""


def serving(kind: str, path: str, absent: AbsentFields) -> str:
    """Which installed plugins would serve a field that no loaded plugin serves; empty for none.

    Args:
        kind: of the object.
        path: of the field, with or without ``spec.``; it may be around or within announced fields.
        absent: what the plugins that are not loaded announce.
    """
    wanted = (*_INDEX.sub("", path).removeprefix("spec.").split("."),)
    found: dict[AbsentPlugin, str] = {}
    for (of, field), plugin in sorted(absent.items()):
        announced = (*field.split("."),)
        if of != kind or announced[: len(wanted)] != wanted[: len(announced)]:
            continue
        found.setdefault(plugin, "serves it" if len(announced) <= len(wanted) else "serves fields in it")
    named = [plugin.advice(serves) for plugin, serves in list(found.items())[:_MOST]]
    return "; ".join(named)


def absent_plugins(states: Iterable[PluginState]) -> dict[str, AbsentPlugin]:
    """The installed plugins that are not loaded, by name; of a name that is loaded, none."""
    states = list(states)
    loaded = {state.name for state in states if state.state == "loaded"}
    found: dict[str, AbsentPlugin] = {}
    for state in states:
        if state.name not in loaded and state.module:
            found.setdefault(state.name, _absent(state))
    return found


def absent_fields(declared: Iterable[Field], states: Sequence[PluginState]) -> AbsentFields:
    """Announced fields that are not among the declared ones of loaded plugins."""
    there = {(field.kind, ".".join(field.path)) for field in declared}
    found: dict[tuple[str, str], AbsentPlugin] = {}
    for field in announced_fields():
        key = (field.kind, field.path)
        if key in there:
            continue
        owners = [
            state
            for state in states
            if normalised(state.distribution) == normalised(field.distribution)
            and state.module.partition(".")[0] == field.package.partition(".")[0]
            and state.state != "loaded"
        ]
        if owners:
            found.setdefault(key, _absent(owners[0]))
    return found


def _absent(state: PluginState) -> AbsentPlugin:
    return AbsentPlugin(state.name, state.distribution, state.state, state.message)
