"""The parts of the chain that installed plugins declare, found without loading the plugins."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaiwo.plugin.allow_list import allows_distribution
from kaiwo.plugin.diagnosis import ChainPart
from kaiwo.plugin.entry_points import installed_entries, mentions
from kaiwo.plugin.selection import PluginSelection
from kaiwo.plugin.targets import imported
from kaiwo.workload.json_access import lenient_map

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaiwo.engine.resource import Object, Resource
    from kaiwo.plugin.diagnosis import QueueExplainer

GROUP = "kaiwo.chains"
_PLUGINS = "kaiwo.plugins"
_RULES_HOOK = "kaiwo_diagnosis_rules"


@dataclass(frozen=True, slots=True)
class ChainParts:
    """What all plugins declare.

    Attributes:
        children: kinds between a workload and its pods, by name of the backend.
        queue: how the queue system explains where a child is, None without one.
    """

    children: Mapping[str, tuple[Resource, ...]]
    queue: QueueExplainer | None = None

    def children_of(self, workload: Object) -> tuple[Resource, ...]:
        """The kinds of a workload whose child exists, the child first; none without a child."""
        allocation = lenient_map(lenient_map(workload.get("status")).get("allocation"))
        backend = allocation.get("backend")
        return self.children.get(backend, ()) if isinstance(backend, str) else ()


def installed_parts() -> ChainParts:
    """The parts of the installed plugins; one that cannot be imported, or must not be, has none.

    Raises:
        SelectionError: the list of allowed plugins cannot be read.
    """
    children: dict[str, tuple[Resource, ...]] = {}
    queue: QueueExplainer | None = None
    allowed = PluginSelection.of(environ=os.environ).allowed_plugins()
    for entry in sorted(installed_entries(GROUP)):
        if allowed is not None and not allows_distribution(entry.distribution, entry.version, allowed):
            continue
        try:
            part = imported(entry.value)
        except Exception:  # noqa: BLE001, S112 (a plugin that is broken explains nothing)
            continue
        if isinstance(part, ChainPart):
            children |= part.children
            queue = queue or part.queue
    return ChainParts(children, queue)


def has_rules() -> bool:
    """Whether an installed plugin may have diagnosis rules; it is not imported to find out."""
    modules = (entry.value.partition(":")[0] for entry in installed_entries(_PLUGINS))
    return any(mentions(module, _RULES_HOOK) for module in modules)
