"""Which backend runs a workload, and why none does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaiwo.plugin.absent_plugins import serving
from kaiwo.plugin.backend_base import VariantInput
from kaiwo.plugin.facts import Blocked
from kaiwo.workload import plugin_calls
from kaiwo.workload.errors import PluginError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import BaseModel

    from kaiwo.api.workload import Workload
    from kaiwo.engine.resource import Resource
    from kaiwo.plugin.backends import Backend
    from kaiwo.workload.model import Registry

BACKEND = "backend"
"""Key of ``status.allocation`` that names the backend of the running child."""

_WANTED = {
    ("KaiwoJob", False): "job",
    ("KaiwoJob", True): "rayJob",
    ("KaiwoService", False): "deployment",
    ("KaiwoService", True): "rayService",
}
"""The documented fields of a workload that runs plainly or on Ray."""


RETRY_SECONDS = 30.0
"""Seconds until a workload is planned again after a plugin failed: no event says when it would not."""


@dataclass(frozen=True, slots=True)
class BackendChoice:
    """The backend of a workload.

    Attributes:
        backend: the backend, None when none serves the workload.
        blocked: why there is none; with one, why its child is observed and nothing is changed.
        requeue_after: seconds after which to select again without an event, None for never.
        switched: the field by which the workload now requests another backend than the one that made its
            child, empty when it does not. The child stays with its backend.
        keeps_child: a child exists by the last status, and without a backend nothing is decided about it.
    """

    backend: Backend | None = None
    blocked: Blocked | None = None
    requeue_after: float | None = None
    switched: str = ""
    keeps_child: bool = False


def _manages_nothing(kind: Resource) -> bool:  # noqa: ARG001 (the default of a callable that takes one)
    return False


def select_backend(
    workload: Workload,
    registry: Registry,
    settings: Mapping[str, BaseModel] | None = None,
    queue_manages: Callable[[Resource], bool] = _manages_nothing,
) -> BackendChoice:
    """The backend that runs a workload. One whose child exists keeps it, whatever the fields say now.

    Of several that serve it, the one whose embedded block is given comes first, then they come by name. A
    backend that fails to say whether, or in which form, it serves the workload blocks it.

    Args:
        workload: the workload.
        registry: loaded declarations.
        settings: settings by name of the plugin.
        queue_manages: whether the queue system in force queues objects of a kind by itself.
    """
    if workload.error:
        blocked = Blocked(workload.error_reason, workload.error)
        return BackendChoice(_recorded(workload, registry), blocked, keeps_child=_has_run(workload))
    try:
        return _select(workload, registry, settings or {}, queue_manages)
    except PluginError as error:
        return BackendChoice(blocked=Blocked("PluginError", str(error)), requeue_after=RETRY_SECONDS)


def _select(
    workload: Workload,
    registry: Registry,
    settings: Mapping[str, BaseModel],
    queue_manages: Callable[[Resource], bool],
) -> BackendChoice:
    recorded = _recorded_name(workload)
    if not recorded and (unowned := _unowned_block(workload, registry)):
        return BackendChoice(blocked=_not_loaded(workload, registry, None, unowned))
    able = [backend for backend in registry.backends if backend.kind == workload.kind]
    if workload.blocks:
        able.sort(key=lambda backend: not _is_named(backend, workload))
    chosen = next((backend for backend in able if plugin_calls.serves(backend, workload)), None)
    if recorded and (chosen is None or chosen.name != recorded):
        before = _recorded(workload, registry)
        if before is not None:
            same = chosen is not None and recorded in {form.name for form in chosen.variants}
            return BackendChoice(before, switched="" if same else wanted_field(workload))
        if recorded not in {item.name for item in registry.backends}:
            return BackendChoice(blocked=_gone(workload, registry, recorded), keeps_child=_has_run(workload))
    if chosen is None or not chosen.built:
        return BackendChoice(blocked=_not_loaded(workload, registry, chosen, wanted_field(workload)))
    if recorded or not chosen.variants:
        return BackendChoice(chosen)
    inp = VariantInput(settings.get(chosen.plugin), queue_manages)
    return BackendChoice(_variant(chosen, registry, inp))


def _recorded_name(workload: Workload) -> str:
    """Name of the backend that made the child, empty without a child."""
    found = (workload.status.allocation or {}).get(BACKEND) if workload.status.child_uid else None
    return found if isinstance(found, str) else ""


def _recorded(workload: Workload, registry: Registry) -> Backend | None:
    """The loaded backend that made the child, None where there is none."""
    name = _recorded_name(workload)
    return next((item for item in registry.backends if name and item.name == name and item.built), None)


def _has_run(workload: Workload) -> bool:
    """Whether a child exists by the last status, so that it stays as it is."""
    return bool(workload.status.child_uid) and workload.status.status not in ("", "ERROR")


def _gone(workload: Workload, registry: Registry, recorded: str) -> Blocked:
    """Why nothing is decided about a child whose backend is not loaded any more."""
    return Blocked(
        "BackendNotLoaded",
        f"backend {recorded}, which created the running object, is not loaded; "
        f"{_loaded(workload, registry)}. The object is left as it is; load the plugin again to continue",
    )


def _loaded(workload: Workload, registry: Registry) -> str:
    names = ", ".join(sorted(backend.name for backend in registry.built(workload.kind)))
    return f"loaded for this kind: {names or 'none'}"


def _variant(chosen: Backend, registry: Registry, inp: VariantInput) -> Backend:
    name = plugin_calls.select_variant(chosen, inp)
    if name is None:
        return chosen
    for backend in registry.backends:
        if backend.name == name:
            return backend
    raise PluginError(chosen.name, "select a form for", f"it answered {name[:100]}")


def _is_named(backend: Backend, workload: Workload) -> bool:
    """Whether the workload has the backend's embedded block."""
    return backend.block in workload.blocks


def wanted_field(workload: Workload) -> str:
    """The field below ``spec`` whose backend the workload requests."""
    ray = _WANTED[workload.kind, True]
    if workload.spec.ray or ray in workload.blocks:
        return ray
    return _WANTED[workload.kind, False]


def _unowned_block(workload: Workload, registry: Registry) -> str:
    """A block that belongs to no loaded backend, empty when there is none.

    It was given for a backend that another plugin has. Of the documented blocks one may stand beside another,
    and `wanted_field` decides.
    """
    if not workload.blocks:
        return ""
    owned = {
        field.path[0]
        for backend in registry.backends
        if backend.kind == workload.kind
        for field in backend.fields
    }
    return min(workload.blocks.keys() - owned - set(_WANTED.values()), default="")


def _not_loaded(workload: Workload, registry: Registry, declared: Backend | None, wanted: str) -> Blocked:
    what = f"a {workload.kind} with spec.{wanted}"
    if wanted not in workload.blocks:
        what = f"a {workload.kind} with spec.ray: true" if workload.spec.ray else f"a plain {workload.kind}"
        what += f" (spec.{wanted})"
    text = f"no loaded backend runs {what}; {_loaded(workload, registry)}"
    if declared is not None:
        return Blocked("BackendNotLoaded", f"{text}; backend {declared.name} is declared, but not built yet")
    if absent := serving(workload.kind, wanted, registry.absent_fields):
        return Blocked("BackendNotLoaded", f"{text}; {absent}")
    return Blocked("BackendNotLoaded", f"{text}; install and select a plugin that declares spec.{wanted}")


def ignored_blocks(workload: Workload, backend: Backend, registry: Registry) -> list[str]:
    """Warnings about embedded blocks that the chosen backend does not use."""
    if not workload.blocks:
        return []
    own = {field.path[0] for field in backend.fields}
    owners = {
        field.path[0]: other.fields[0].path[0]
        for other in registry.backends
        if other.kind == workload.kind
        for field in other.fields
        if len(field.path) == 1
    }
    known = owners.keys() | {field for kind, field in registry.absent_fields if kind == workload.kind}
    ignored = sorted((workload.blocks.keys() & known) - own)
    main = backend.fields[0].path[0] if backend.fields else backend.name
    why = (
        "spec.ray is true"
        if workload.spec.ray and main not in workload.blocks
        else f"the workload runs as spec.{main}"
    )
    of_ray = "" if workload.spec.ray or main in workload.blocks else _WANTED[workload.kind, True]
    return [
        f"spec.{name} is ignored: "
        + ("the workload does not run on Ray; set ray: true to use it" if owners.get(name) == of_ray else why)
        for name in ignored
    ]
