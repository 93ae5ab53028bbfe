"""The result of loading: the declarations of every loaded plugin and the state of every installed one."""

from __future__ import annotations

import types
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

from kaiwo.api.plugin_fields import Field
from kaiwo.api.spec_rules import MAX_DOWNLOAD_ITEMS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import BaseModel

    from kaiwo.api.crds import CrdKind as Definition
    from kaiwo.api.validate import Validator
    from kaiwo.engine.resource import Object
    from kaiwo.plugin.absent_plugins import AbsentFields
    from kaiwo.plugin.backends import Backend
    from kaiwo.plugin.commands import Command
    from kaiwo.plugin.controllers import ExtraController
    from kaiwo.plugin.diagnosis import DiagnosisRule
    from kaiwo.plugin.lifecycle import Lifecycle, TransitionListener
    from kaiwo.plugin.namespace_defaults import NamespaceDefaults
    from kaiwo.plugin.plugin_state import PluginState
    from kaiwo.plugin.queues import QueueSystem
    from kaiwo.plugin.rbac import PolicyRule
    from kaiwo.plugin.rendering import PodContribution
    from kaiwo.plugin.sources import DownloadSource
    from kaiwo.plugin.vendors import GpuVendor


@dataclass(frozen=True, slots=True)
class LoadedPlugin:
    """One plugin and everything it declared, in its own order.

    Attributes:
        name: the plugin's name.
        distribution: the distribution it comes from.
        version: version of the distribution.
        module: dotted name of its module.
        backends: workload backends.
        sources: download sources.
        vendors: GPU vendors.
        queue_systems: queue systems.
        controllers: controllers of its own.
        contributions: contributions to pods.
        namespace_defaults: kinds of defaults for namespaces.
        diagnosis_rules: diagnosis rules.
        commands: commands of the command line.
        lifecycles: what to run at start and stop.
        listeners: transition listeners.
    """

    name: str
    distribution: str
    version: str
    module: str
    backends: tuple[Backend, ...] = ()
    sources: tuple[DownloadSource, ...] = ()
    vendors: tuple[GpuVendor, ...] = ()
    queue_systems: tuple[QueueSystem, ...] = ()
    controllers: tuple[ExtraController, ...] = ()
    contributions: tuple[PodContribution, ...] = ()
    namespace_defaults: tuple[NamespaceDefaults, ...] = ()
    diagnosis_rules: tuple[DiagnosisRule, ...] = ()
    commands: tuple[Command, ...] = ()
    lifecycles: tuple[Lifecycle, ...] = ()
    listeners: tuple[TransitionListener, ...] = ()

    def declarations(self) -> tuple[object, ...]:
        """Everything the plugin declared, hook by hook."""
        return (
            *self.backends,
            *self.sources,
            *self.vendors,
            *self.queue_systems,
            *self.controllers,
            *self.contributions,
            *self.namespace_defaults,
            *self.diagnosis_rules,
            *self.commands,
            *self.lifecycles,
            *self.listeners,
        )

    def fields(self) -> tuple[Field, ...]:
        """The fields it adds to the workload kinds; a download source adds its list to both."""
        from annotated_types import MaxLen

        fields = [field for backend in self.backends for field in backend.fields]
        for source in self.sources:
            items: Any = Annotated[types.GenericAlias(list, (source.item,)), MaxLen(MAX_DOWNLOAD_ITEMS)]
            path = ("storage", *source.path)
            fields.append(Field("KaiwoJob", path, items, source.description, source.warn))
            fields.append(Field("KaiwoService", path, items, source.description, source.warn))
        return tuple(fields)

    def settings_model(self) -> type[BaseModel] | None:
        """The model of ``spec.plugins.<name>`` in KaiwoConfig; None when it has no settings."""
        models = [getattr(declaration, "settings", None) for declaration in self.declarations()]
        return next((model for model in models if model is not None), None)

    def rules(self) -> tuple[PolicyRule, ...]:
        """What it needs of the cluster."""
        return tuple(
            chain.from_iterable(getattr(declaration, "rules", ()) for declaration in self.declarations())
        )


@dataclass(frozen=True, slots=True)
class Plugins:
    """All loaded plugins and the state of every installed or named one.

    Attributes:
        loaded: loaded plugins, sorted by name.
        states: states of all, sorted by name and distribution.
        absent_fields: fields of installed plugins that are not loaded: ``("KaiwoJob", "rayJob")`` to the
            plugin.
    """

    loaded: tuple[LoadedPlugin, ...] = ()
    states: tuple[PluginState, ...] = ()
    absent_fields: AbsentFields = field(default_factory=dict)

    @property
    def backends(self) -> tuple[Backend, ...]:
        """Workload backends of all loaded plugins."""
        return tuple(backend for plugin in self.loaded for backend in plugin.backends)

    @property
    def sources(self) -> tuple[DownloadSource, ...]:
        """Download sources of all loaded plugins."""
        return tuple(source for plugin in self.loaded for source in plugin.sources)

    @property
    def vendors(self) -> tuple[GpuVendor, ...]:
        """GPU vendors of all loaded plugins."""
        return tuple(vendor for plugin in self.loaded for vendor in plugin.vendors)

    @property
    def queue_system(self) -> QueueSystem | None:
        """The loaded queue system; two never load together."""
        return next((queue for plugin in self.loaded for queue in plugin.queue_systems), None)

    @property
    def queue_plugin(self) -> str:
        """Name of the plugin with the loaded queue system, empty without one."""
        return next((plugin.name for plugin in self.loaded if plugin.queue_systems), "")

    @property
    def controllers(self) -> tuple[ExtraController, ...]:
        """Controllers of all loaded plugins."""
        return tuple(controller for plugin in self.loaded for controller in plugin.controllers)

    @property
    def labels_nodes(self) -> bool:
        """Whether a loaded plugin labels nodes with their pool and GPU model."""
        return any(controller.labels_nodes for controller in self.controllers)

    @property
    def contributions(self) -> tuple[PodContribution, ...]:
        """Pod contributions of all loaded plugins, in the order in which they are applied."""
        return tuple(contribution for plugin in self.loaded for contribution in plugin.contributions)

    @property
    def namespace_defaults(self) -> tuple[NamespaceDefaults, ...]:
        """Kinds of defaults for namespaces of all loaded plugins, in the order in which they count."""
        return tuple(defaults for plugin in self.loaded for defaults in plugin.namespace_defaults)

    @property
    def diagnosis_rules(self) -> tuple[DiagnosisRule, ...]:
        """Diagnosis rules of all loaded plugins, in the order in which they are called."""
        return tuple(rule for plugin in self.loaded for rule in plugin.diagnosis_rules)

    @property
    def commands(self) -> tuple[Command, ...]:
        """Commands of all loaded plugins."""
        return tuple(command for plugin in self.loaded for command in plugin.commands)

    @property
    def lifecycles(self) -> tuple[Lifecycle, ...]:
        """What all loaded plugins run at start and stop."""
        return tuple(lifecycle for plugin in self.loaded for lifecycle in plugin.lifecycles)

    @property
    def listeners(self) -> tuple[TransitionListener, ...]:
        """Transition listeners of all loaded plugins."""
        return tuple(listener for plugin in self.loaded for listener in plugin.listeners)

    def fields(self) -> tuple[Field, ...]:
        """Fields that loaded plugins add to the workload kinds."""
        return tuple(field for plugin in self.loaded for field in plugin.fields())

    def kinds(self) -> list[Definition]:
        """Kinds of loaded plugins' own, for rendering their CustomResourceDefinitions."""
        from kaiwo.api.crds import CrdKind as Definition

        return [
            Definition(
                resource=kind.resource,
                spec=kind.spec,
                status=kind.status,
                description=kind.description,
                short_names=kind.short_names,
                columns=kind.printer_columns,
            )
            for controller in self.controllers
            for kind in controller.kinds
        ]

    def crds(self, previous: Sequence[Object] | None = None) -> list[Object]:
        """The CustomResourceDefinitions of the host's kinds and of plugins' own, with all plugins' fields.

        Args:
            previous: definitions whose fields are kept, see `kaiwo.api.crds.render_crds`.
        """
        from kaiwo.api.crds import render_crds

        return render_crds(self.fields(), self.settings_models(), previous, self.kinds())

    def validator(self) -> Validator:
        """Validates objects against the fields of loaded plugins, and names the plugins of other fields."""
        from kaiwo.api.validate import Validator
        from kaiwo.plugin.absent_plugins import serving

        return Validator(
            self.fields(),
            self.settings_models(),
            lambda kind, path: serving(kind, path, self.absent_fields),
        )

    def settings_models(self) -> dict[str, type[BaseModel]]:
        """Plugin name to the model of its section ``spec.plugins.<name>`` in KaiwoConfig."""
        models = {plugin.name: plugin.settings_model() for plugin in self.loaded}
        return {name: model for name, model in models.items() if model is not None}

    def rules(self) -> tuple[PolicyRule, ...]:
        """What loaded plugins need of the cluster, each rule once."""
        return tuple(dict.fromkeys(rule for plugin in self.loaded for rule in plugin.rules()))
