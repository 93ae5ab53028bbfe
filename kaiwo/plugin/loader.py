"""Loading plugins: find, select, import, call their hooks, check the declarations, and list the states.

A plugin that cannot be loaded is listed as broken and everything else works, unless process configuration
requires it.
"""

from __future__ import annotations

import importlib
import threading
import traceback
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pluggy

from kaiwo.api.suggestion import did_you_mean
from kaiwo.plugin import hookspecs
from kaiwo.plugin.absent_plugins import absent_fields
from kaiwo.plugin.api_version import check_api_version
from kaiwo.plugin.backends import Backend
from kaiwo.plugin.checks import InvalidPlugin, MissingTarget, MissingTargets, checked_declarations, require
from kaiwo.plugin.claims import decide
from kaiwo.plugin.commands import Command
from kaiwo.plugin.conflicts import conflicts
from kaiwo.plugin.contributed import check_contributed
from kaiwo.plugin.controllers import ExtraController
from kaiwo.plugin.declaration import Declaration
from kaiwo.plugin.diagnosis import DiagnosisRule
from kaiwo.plugin.discovery import Candidate, installed_plugins
from kaiwo.plugin.lifecycle import Lifecycle, TransitionListener
from kaiwo.plugin.namespace_defaults import NamespaceDefaults
from kaiwo.plugin.plugin_state import PluginState
from kaiwo.plugin.queues import QueueSystem
from kaiwo.plugin.registry import LoadedPlugin, Plugins
from kaiwo.plugin.rendering import PodContribution
from kaiwo.plugin.selection import PluginReference, PluginSelection
from kaiwo.plugin.sources import DownloadSource
from kaiwo.plugin.vendors import GpuVendor

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from types import ModuleType

    from kaiwo.plugin.plugin_state import State

HOOKS: Mapping[str, tuple[str, type]] = {
    "kaiwo_backends": ("backends", Backend),
    "kaiwo_download_sources": ("sources", DownloadSource),
    "kaiwo_gpu_vendors": ("vendors", GpuVendor),
    "kaiwo_queue_systems": ("queue_systems", QueueSystem),
    "kaiwo_controllers": ("controllers", ExtraController),
    "kaiwo_pod_contributions": ("contributions", PodContribution),
    "kaiwo_namespace_defaults": ("namespace_defaults", NamespaceDefaults),
    "kaiwo_diagnosis_rules": ("diagnosis_rules", DiagnosisRule),
    "kaiwo_commands": ("commands", Command),
    "kaiwo_lifecycle": ("lifecycles", Lifecycle),
    "kaiwo_transitions": ("listeners", TransitionListener),
}
"""Every hook: the attribute of :class:`LoadedPlugin` it fills, and what it returns a list of."""

DEADLINE = 10.0
"""Seconds a plugin may take to load before it counts as hanging; a good one takes milliseconds."""

_MESSAGE_LENGTH = 500


class RequiredPluginError(RuntimeError):
    """A plugin that process configuration requires is not loaded, so the process must not start.

    Attributes:
        states: the states of the required plugins that are not loaded.
        plugins: what was loaded nevertheless, for a listing.
    """

    def __init__(self, states: Sequence[PluginState], plugins: Plugins) -> None:
        self.states = tuple(states)
        self.plugins = plugins
        reasons = "; ".join(f"{state.name} is {state.state}: {state.message}" for state in states)
        super().__init__(
            f"required plugins are not loaded: {reasons}. "
            "Repair them, or remove them from the required plugins (see `kaiwo plugins`)."
        )


def load(
    selection: PluginSelection | None = None,
    *,
    hooks: Collection[str] | None = None,
    deadline: float = DEADLINE,
) -> Plugins:
    """Load the selected ones of the installed plugins.

    Args:
        selection: what to load; None for everything installed.
        hooks: call only these hooks, for example ``{"kaiwo_commands"}`` for a fast help text; None for all.
        deadline: seconds that one plugin may take.

    Raises:
        RequiredPluginError: a required plugin is not loaded.
    """
    selection = selection or PluginSelection()
    candidates = installed_plugins()
    chosen, left_out = decide(candidates, selection)
    states = [*_unknown(selection, candidates), *(_state(*item) for item in left_out)]
    loaded, results = _load_all(chosen, selection, lambda candidate: _within(deadline, candidate, hooks))
    states += results
    states.sort(key=lambda state: (state.name, state.distribution))
    fields = (
        absent_fields([field for plugin in loaded for field in plugin.fields()], states)
        if hooks is None
        else {}
    )
    plugins = Plugins(loaded=loaded, states=tuple(states), absent_fields=fields)
    missing = _missing(selection, states)
    if missing:
        raise RequiredPluginError(missing, plugins)
    return plugins


def unload(plugins: Plugins, name: str, invalid: InvalidPlugin, selection: PluginSelection) -> Plugins:
    """The plugins without one that turned out to be broken after it was loaded.

    Args:
        plugins: with it.
        name: of it.
        invalid: message and reason of its state.
        selection: what was to be loaded.

    Raises:
        RequiredPluginError: it is required.
    """
    loaded = tuple(plugin for plugin in plugins.loaded if plugin.name != name)
    states = tuple(
        replace(state, state="broken", message=_short(str(invalid)), reason=invalid.reason)
        if (state.name, state.state) == (name, "loaded")
        else state
        for state in plugins.states
    )
    fields = absent_fields([field for plugin in loaded for field in plugin.fields()], states)
    rest = Plugins(loaded=loaded, states=states, absent_fields=fields)
    if missing := _missing(selection, states):
        raise RequiredPluginError(missing, rest)
    return rest


def load_modules(modules: Sequence[tuple[Candidate, ModuleType]]) -> Plugins:
    """Load modules that are given instead of installed, by the same rules, without discovery."""
    by_candidate = dict(modules)
    chosen, left_out = decide([candidate for candidate, _ in modules], PluginSelection())
    loaded, states = _load_all(
        chosen, PluginSelection(), lambda candidate: _read(candidate, by_candidate[candidate], None)
    )
    return Plugins(loaded=loaded, states=(*states, *(_state(*item) for item in left_out)))


def _load_all(
    chosen: Sequence[Candidate], selection: PluginSelection, read: Callable[[Candidate], LoadedPlugin]
) -> tuple[tuple[LoadedPlugin, ...], list[PluginState]]:
    readable: list[LoadedPlugin] = []
    invalid: dict[str, InvalidPlugin] = {}
    for candidate in chosen:
        try:
            readable.append(read(candidate))
        except InvalidPlugin as error:
            invalid[candidate.name] = error
    found = conflicts(
        [plugin for plugin in readable if selection.prefers(plugin.name, plugin.distribution)],
        [plugin for plugin in readable if not selection.prefers(plugin.name, plugin.distribution)],
    )
    invalid |= {name: InvalidPlugin(message, "Conflict") for name, message in found.items()}
    states = [
        _broken(candidate, invalid[candidate.name])
        if candidate.name in invalid
        else _state(candidate, "loaded")
        for candidate in chosen
    ]
    loaded = [plugin for plugin in readable if plugin.name not in invalid]
    return tuple(sorted(loaded, key=lambda plugin: plugin.name)), states


def _within(seconds: float, candidate: Candidate, hooks: Collection[str] | None) -> LoadedPlugin:
    """Import the plugin and call its hooks in a thread of its own, which is abandoned if it hangs."""
    plugins: list[LoadedPlugin] = []
    failures: list[InvalidPlugin] = []

    def work() -> None:
        try:
            plugins.append(_read(candidate, importlib.import_module(candidate.module), hooks))
        except BaseException as error:  # noqa: BLE001 - even sys.exit() in a plugin must not end the operator
            invalid = error if isinstance(error, InvalidPlugin) else None
            failures.append(invalid or InvalidPlugin(_last_line(error), "LoadFailed"))

    thread = threading.Thread(target=work, name=f"load-plugin-{candidate.name}", daemon=True)
    thread.start()
    thread.join(seconds)
    if plugins:
        return plugins[0]
    if failures:
        raise failures[0]
    raise InvalidPlugin(f"did not load within {seconds:g} s", "LoadTimeout")


def _read(candidate: Candidate, module: ModuleType, hooks: Collection[str] | None) -> LoadedPlugin:
    """Call the hooks of one imported plugin and check what they return."""
    check_api_version(module)
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(module, name=candidate.name)
    callers = {caller.name: caller for caller in manager.get_hookcallers(module) or ()}
    for name in callers:
        hint = did_you_mean(name, HOOKS)
        require(name in HOOKS, f"unknown hook {name}{f'; {hint}' if hint else ''}")
    found: dict[str, Any] = {}
    missing: list[MissingTarget] = []
    for hook, (attribute, declaration_type) in HOOKS.items():
        if hook not in callers or (hooks is not None and hook not in hooks):
            continue
        implementation = callers[hook].get_hookimpls()[0]
        require(
            not (implementation.wrapper or implementation.hookwrapper),
            f"{hook} is a hook wrapper, expected a function that returns a list",
        )
        try:
            checked = checked_declarations(hook, declaration_type, implementation.function())
        except MissingTargets as error:
            missing += error.targets
        else:
            found[attribute] = tuple(_owned(declaration, candidate.name) for declaration in checked)
    if missing:
        raise MissingTargets(missing)
    plugin = LoadedPlugin(
        candidate.name, candidate.distribution, candidate.version, candidate.module, **found
    )
    models = {getattr(declaration, "settings", None) for declaration in plugin.declarations()} - {None}
    require(
        len(models) <= 1, "declares more than one settings model; a plugin has one section in KaiwoConfig"
    )
    check_contributed(plugin)
    return plugin


def _owned(declaration: Any, plugin: str) -> Any:
    """The declaration with the name of its plugin."""
    if isinstance(declaration, Backend):
        variants = tuple(replace(variant, plugin=plugin) for variant in declaration.variants)
        return replace(declaration, plugin=plugin, variants=variants)
    return replace(declaration, plugin=plugin) if isinstance(declaration, Declaration) else declaration


def _unknown(selection: PluginSelection, candidates: Sequence[Candidate]) -> list[PluginState]:
    """What configuration names and nothing installed has."""
    installed = sorted({candidate.name for candidate in candidates})
    states = []
    for entry in selection.references():
        if any(entry.means(candidate.name, candidate.distribution) for candidate in candidates):
            continue
        others = [candidate.distribution for candidate in candidates if candidate.name == entry.name]
        advice = (
            f"{entry.name} is installed from {' and '.join(others)}"
            if others
            else did_you_mean(entry.name, installed) or f"installed plugins: {', '.join(installed) or 'none'}"
        )
        states.append(
            PluginState(
                entry.name,
                distribution=entry.distribution,
                version="",
                state="disabled" if str(entry) in selection.disabled else "broken",
                message=f"not installed; {advice}",
                reason="NotInstalled",
            )
        )
    return list(dict.fromkeys(states))


def _missing(selection: PluginSelection, states: Sequence[PluginState]) -> list[PluginState]:
    """States of the required plugins of which none is loaded."""
    missing: list[PluginState] = []
    for entry in map(PluginReference.parse, sorted(selection.required)):
        own = [state for state in states if entry.means(state.name, state.distribution)]
        if not any(state.state == "loaded" for state in own):
            missing += own
    return list(dict.fromkeys(missing))


def _state(candidate: Candidate, state: State, message: str = "", reason: str = "") -> PluginState:
    return PluginState(
        candidate.name,
        candidate.distribution,
        candidate.version,
        state,
        _short(message),
        reason,
        candidate.module,
    )


def _broken(candidate: Candidate, invalid: InvalidPlugin) -> PluginState:
    return replace(_state(candidate, "broken", str(invalid), invalid.reason), targets=invalid.targets)


def _short(message: str) -> str:
    return message if len(message) <= _MESSAGE_LENGTH else f"{message[: _MESSAGE_LENGTH - 1]}…"


def _last_line(error: BaseException) -> str:
    """The last line of the traceback; a message of several lines becomes one."""
    lines = traceback.format_exception_only(error)
    return " ".join(lines[-1].split())
