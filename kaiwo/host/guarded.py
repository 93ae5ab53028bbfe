"""The loaded plugins' deciding code under a time limit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from kaiwo.workload.model import Registry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo.host.guard import TimeLimit
    from kaiwo.plugin.registry import Plugins

D = TypeVar("D")


def guarded_registry(plugins: Plugins, limit: TimeLimit) -> Registry:
    """The registry of the loaded plugins, with every callable that deciding uses under the limit."""
    plain = Registry.of(plugins)
    owner = {
        id(declaration): plugin.name for plugin in plugins.loaded for declaration in plugin.declarations()
    }

    def guard(declaration: D, *names: str) -> D:
        plugin = owner.get(id(declaration), getattr(declaration, "name", ""))
        changes: dict[str, Any] = {}
        for name in names:
            function = getattr(declaration, name)
            if function is not None:
                changes[name] = limit.wrap(plugin, f"{name} of plugin {plugin}", function)
        wrapped: D = replace(declaration, **changes)  # type: ignore[type-var]  # declarations are dataclasses
        return wrapped

    def each(declarations: Iterable[D], *names: str) -> tuple[D, ...]:
        return tuple(guard(declaration, *names) for declaration in declarations)

    return replace(
        plain,
        backends=each(
            plain.backends,
            "chosen",
            "check",
            "allocate",
            "render",
            "observe",
            "frozen",
            "tune",
            "merge",
            "select",
        ),
        vendors=each(plain.vendors, "recognise"),
        queue=guard(plain.queue, "assign", "admission", "manages") if plain.queue is not None else None,
        contributions=each(plain.contributions, "contribute"),
        sources=each(plain.sources, "secrets"),
        diagnosis=each(plain.diagnosis, "diagnose"),
    )
