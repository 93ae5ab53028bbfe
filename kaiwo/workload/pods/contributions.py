"""What plugins add to pod templates, and what they must leave as it is."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from kaiwo.workload.errors import PluginError
from kaiwo.workload.json_access import lenient_map
from kaiwo.workload.metadata import system_labels

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic import BaseModel

    from kaiwo.engine.resource import Object
    from kaiwo.plugin.rendering import PodContribution, RenderInput, Resolved
    from kaiwo.workload.pods.origins import Origins

_GROUPS = ("containers", "initContainers")
_KEPT = ("image", "command", "args")

_Given: TypeAlias = dict[tuple[str, str], "Object"]
"""What the user gave, by group and name of the container."""


def contributed(inp: RenderInput, template: Object, path: str, origins: Origins) -> Object:
    """The pod template with what plugins add to it.

    Args:
        inp: the render input, with the contributions.
        template: the pod template without them.
        path: where the user writes the template.
        origins: where to note what came from where.

    Raises:
        PluginError: a contribution failed, or changed what it must leave as it is.
    """
    given = _given(template, path, origins) if inp.contributions else {}
    for contribution in inp.contributions:
        try:
            own = replace(inp, settings=_settings(contribution, inp.resolved))
            answer = contribution.contribute(own, copy.deepcopy(template))
        except Exception as error:
            raise PluginError(contribution.name, "add to the pods of", error) from error
        fault = next(_faults(template, answer, given, system_labels(inp.workload)), "")
        if fault:
            raise PluginError(contribution.name, "add to the pods of", fault)
        _note_changes(template, answer, path, contribution.name, origins)
        template = answer
    return template


def _settings(contribution: PodContribution, resolved: Resolved) -> BaseModel | None:
    """The settings with which the child was created; they may be of an older version of the plugin."""
    if contribution.settings is None:
        return None
    return contribution.settings.model_validate(resolved.contributions.get(contribution.plugin, {}))


def _given(template: Object, path: str, origins: Origins) -> _Given:
    """Image, command and arguments of every container; an image that is only a default may be replaced."""
    return {
        (group, str(container.get("name"))): {
            key: container[key]
            for key in _KEPT
            if key in container and origins.origin(f"{path}.spec.{group}[{position}].{key}") != "config"
        }
        for group in _GROUPS
        for position, container in enumerate(template["spec"].get(group) or ())
    }


def _faults(before: Object, after: object, given: _Given, labels: dict[str, str]) -> Iterator[str]:
    """What is wrong with the result of a contribution, the worst first."""
    spec = lenient_map(after).get("spec")
    if not isinstance(spec, dict):
        yield "it returned no pod template"
        return
    for place in _nulls(after, ""):
        yield f"it returned null at {place}"
    for group in _GROUPS:
        containers = spec.get(group, [])
        if isinstance(containers, list) and all(isinstance(item, dict) for item in containers):
            yield from _container_faults(group, before["spec"].get(group) or (), containers, given)
        else:
            yield f"it returned {group} that is not a list of containers"
    kept = lenient_map(lenient_map(lenient_map(after).get("metadata")).get("labels"))
    for key, value in labels.items():
        if kept.get(key) != value:
            yield f"it changed label {key}, by which Kaiwo finds the workload's pods"


def _container_faults(
    group: str, before: Sequence[Object], after: Sequence[Object], given: _Given
) -> Iterator[str]:
    """Containers that are gone, and what was changed of the others."""
    by_name = {str(container.get("name")): container for container in after}
    for container in before:
        name = str(container.get("name"))
        if name not in by_name:
            yield f"it removed container {name} from {group}"
            continue
        for key, value in given.get((group, name), {}).items():
            if by_name[name].get(key) != value:
                yield f"it changed {key} of container {name}"


def _nulls(value: object, path: str) -> Iterator[str]:
    """Where there is no value."""
    if value is None:
        yield path
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _nulls(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _nulls(item, f"{path}[{position}]")


def _note_changes(before: object, after: object, path: str, plugin: str, origins: Origins) -> None:
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in after.items():
            _note_changes(before.get(key), value, f"{path}.{key}", plugin, origins)
    elif isinstance(before, list) and isinstance(after, list):
        for position, value in enumerate(after):
            old = before[position] if position < len(before) else None
            _note_changes(old, value, f"{path}[{position}]", plugin, origins)
    elif before != after:
        origins.note(path, "plugin", plugin)
