"""Which back end runs a workload, and why none does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaiwo.plugin.facts import Refusal
from kaiwo.workload.errors import PluginFailure

if TYPE_CHECKING:
    from kaiwo.api.workload import Workload
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


def choose(workload: Workload, registry: Registry) -> Choice:
    """The back end that runs a workload. One whose child exists keeps it, whatever the fields say now.

    Raises:
        PluginFailure: a back end failed to say whether it serves the workload.
    """
    chosen = None
    for backend in registry.backends:
        if backend.kind == workload.kind and _is_chosen(backend, workload):
            chosen = backend
            break
    recorded = (workload.status.allocation or {}).get(BACKEND) if workload.status.child_uid else None
    if recorded and (chosen is None or chosen.name != recorded):
        before = next((item for item in registry.backends if item.name == recorded and item.built), None)
        if before is not None:
            return Choice(before, switched=wanted_field(workload))
    if chosen is None or not chosen.built:
        return Choice(refusal=_not_loaded(workload, registry, chosen))
    return Choice(chosen)


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
    loaded = ", ".join(
        sorted(
            backend.name for backend in registry.backends if backend.kind == workload.kind and backend.built
        )
    )
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
