"""Which back end runs a workload, and why none does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaiwo.plugin.backends import Selection
from kaiwo.plugin.facts import Refusal
from kaiwo.workload.errors import PluginFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import BaseModel

    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Resource
    from kaiwo.plugin.backends import BackEnd
    from kaiwo.workload.model import Registry

BACKEND = "backend"
"""Key of ``status.allocation`` that names the back end of the running child."""

_WANTED = {
    ("KaiwoJob", False): "job",
    ("KaiwoJob", True): "rayJob",
    ("KaiwoService", False): "deployment",
    ("KaiwoService", True): "rayService",
}
"""The documented fields of a workload that runs plainly or on Ray."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The back end in charge.

    Attributes:
        backend: the back end, None when none serves the workload.
        refusal: why there is none.
        switched: the workload now asks for another back end than the one its child was made by; the child
            stays with that one.
    """

    backend: BackEnd | None = None
    refusal: Refusal | None = None
    switched: str = ""


def _manages_nothing(kind: Resource) -> bool:  # noqa: ARG001 (the default of a callable that takes one)
    return False


def choose(
    workload: Workload,
    registry: Registry,
    settings: Mapping[str, BaseModel] | None = None,
    queue_manages: Callable[[Resource], bool] = _manages_nothing,
) -> Choice:
    """The back end that runs a workload. One whose child exists keeps it, whatever the fields say now.

    Of several that serve it, the one whose embedded block is given comes first, then they come by name.

    Args:
        workload: the workload.
        registry: loaded declarations.
        settings: plugin settings by name of back end.
        queue_manages: whether the queue system in force queues objects of a kind by itself.

    Raises:
        PluginFailure: a back end failed to say whether it serves the workload, or in which form.
    """
    able = [backend for backend in registry.backends if backend.kind == workload.kind]
    able.sort(key=lambda backend: not _is_named(backend, workload))
    chosen = next((backend for backend in able if _is_chosen(backend, workload)), None)
    recorded = (workload.status.allocation or {}).get(BACKEND) if workload.status.child_uid else None
    if recorded and (chosen is None or chosen.name != recorded):
        before = next((item for item in registry.backends if item.name == recorded and item.built), None)
        if before is not None:
            same = chosen is not None and recorded in {form.name for form in chosen.variants}
            return Choice(before, switched="" if same else wanted_field(workload))
    if chosen is None or not chosen.built:
        return Choice(refusal=_not_loaded(workload, registry, chosen))
    if recorded or chosen.select is None:
        return Choice(chosen)
    selection = Selection((settings or {}).get(chosen.name), queue_manages)
    return Choice(_form(chosen, registry, selection))


def _form(chosen: BackEnd, registry: Registry, selection: Selection) -> BackEnd:
    try:
        name = chosen.select(selection) if chosen.select else chosen.name
    except Exception as error:
        raise PluginFailure(chosen.name, "select a form for", error) from error
    for form in registry.backends:
        if form.name == name:
            return form
    raise PluginFailure(chosen.name, "select a form for", f"it answered {str(name)[:100]}")


def _is_named(backend: BackEnd, workload: Workload) -> bool:
    """Whether the workload has the back end's embedded block."""
    return bool(backend.fields) and backend.fields[0].path[0] in workload.blocks


def _is_chosen(backend: BackEnd, workload: Workload) -> bool:
    try:
        return bool(backend.chosen(workload))
    except Exception as error:
        raise PluginFailure(backend.name, "choose", error) from error


def wanted_field(workload: Workload) -> str:
    """The field below ``spec`` whose back end the workload asks for."""
    ray = _WANTED[workload.kind, True]
    if workload.spec.ray or ray in workload.blocks:
        return ray
    return _WANTED[workload.kind, False]


def _not_loaded(workload: Workload, registry: Registry, declared: BackEnd | None) -> Refusal:
    wanted = wanted_field(workload)
    what = f"a {workload.kind} with spec.{wanted}"
    if wanted not in workload.blocks:
        what = f"a {workload.kind} with spec.ray: true" if workload.spec.ray else f"a plain {workload.kind}"
        what += f" (spec.{wanted})"
    loaded = ", ".join(sorted(backend.name for backend in registry.built(workload.kind)))
    text = f"no loaded back end runs {what}; loaded for this kind: {loaded or 'none'}"
    if declared is not None:
        return Refusal("BackendNotLoaded", f"{text}; back end {declared.name} is declared, but not built yet")
    if broken := registry.broken.get((workload.kind, wanted)):
        return Refusal("BackendNotLoaded", f"{text}; {broken}")
    distribution = registry.unselected.get((workload.kind, wanted))
    if distribution:
        return Refusal(
            "BackendNotLoaded",
            f"{text}; {distribution} is installed and declares spec.{wanted}: select it as a plugin",
        )
    return Refusal("BackendNotLoaded", f"{text}; install and select a plugin that declares spec.{wanted}")


def ignored_blocks(workload: Workload, backend: BackEnd, registry: Registry) -> list[str]:
    """Warnings about embedded blocks that the chosen back end does not use."""
    own = {field.path[0] for field in backend.fields}
    others = {
        field.path[0]
        for other in registry.backends
        if other.kind == workload.kind
        for field in other.fields
        if len(field.path) == 1
    }
    known = others | {field for kind, field in registry.unselected if kind == workload.kind}
    ignored = sorted((workload.blocks.keys() & known) - own)
    main = backend.fields[0].path[0] if backend.fields else backend.name
    why = (
        "spec.ray is true"
        if workload.spec.ray and main not in workload.blocks
        else f"the workload runs as spec.{main}"
    )
    return [f"spec.{name} is ignored: {why}" for name in ignored]
