"""What ``kaiwo plugins`` tells of each plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaiwo.client.chain_parts import GROUP
from kaiwo.client.plugin_records import PluginOverview, PluginTarget
from kaiwo.plugin.entry_points import installed_entries
from kaiwo.plugin.selection import normalised
from kaiwo.plugin.targets import find_module, missing

if TYPE_CHECKING:
    from kaiwo.plugin.plugin_state import PluginState
    from kaiwo.plugin.registry import LoadedPlugin, Plugins


def plugin_overviews(plugins: Plugins) -> list[PluginOverview]:
    """Every plugin that is installed or named, in the order of their names."""
    loaded = {(plugin.name, plugin.distribution): plugin for plugin in plugins.loaded}
    return [_overview(state, loaded.get((state.name, state.distribution))) for state in plugins.states]


def _overview(state: PluginState, plugin: LoadedPlugin | None) -> PluginOverview:
    return PluginOverview(
        name=state.name,
        state=state.state,
        reason=state.reason,
        message=state.message,
        distribution=state.distribution,
        version=state.version,
        module=state.module,
        path=_path(state.module),
        declares=_declares(plugin) if plugin else {},
        not_yet_built=_not_yet_built(plugin) if plugin else [],
        missing_targets=[*_missing_declared(state), *_missing_chains(state.distribution)],
    )


def _path(module: str) -> str:
    """The file that is imported for a module; a module that is already imported is not looked up again."""
    spec = find_module(module) if module else None
    return (spec.origin or "") if spec else ""


def _missing_declared(state: PluginState) -> list[PluginTarget]:
    return [
        PluginTarget(
            declaration=item.declaration, attribute=item.attribute, target=item.target, problem=item.problem
        )
        for item in state.targets
    ]


def _missing_chains(distribution: str) -> list[PluginTarget]:
    """What a distribution announces for ``kaiwo why`` and does not have."""
    return [
        PluginTarget(
            declaration=f"entry point {entry.name} of {GROUP}",
            attribute="",
            target=entry.value,
            problem=problem,
        )
        for entry in sorted(installed_entries(GROUP))
        if normalised(entry.distribution) == normalised(distribution) and (problem := missing(entry.value))
    ]


def _declares(plugin: LoadedPlugin) -> dict[str, list[str]]:
    """What a plugin declares, by kind of declaration; only what there is."""
    declared = {
        "backends": [backend.name for backend in plugin.backends],
        "fields": [f"{field.kind}.{'.'.join(field.path)}" for field in plugin.fields()],
        "downloadSources": [source.name for source in plugin.sources],
        "gpuVendors": [vendor.name for vendor in plugin.vendors],
        "resourceKeys": [key for vendor in plugin.vendors for key in vendor.resource_keys],
        "queueSystems": [queue.name for queue in plugin.queue_systems],
        "controllers": [controller.name for controller in plugin.controllers],
        "kinds": [str(kind.resource) for controller in plugin.controllers for kind in controller.kinds],
        "podContributions": [contribution.name for contribution in plugin.contributions],
        "namespaceDefaults": [defaults.name for defaults in plugin.namespace_defaults],
        "diagnosisRules": [rule.name for rule in plugin.diagnosis_rules],
        "commands": [command.name for command in plugin.commands],
        "lifecycles": [lifecycle.name for lifecycle in plugin.lifecycles],
        "transitionListeners": [listener.name for listener in plugin.listeners],
    }
    return {what: names for what, names in declared.items() if names}


def _not_yet_built(plugin: LoadedPlugin) -> list[str]:
    return [
        *(backend.name for backend in plugin.backends if not backend.built),
        *(source.name for source in plugin.sources if source.downloader is None),
    ]
