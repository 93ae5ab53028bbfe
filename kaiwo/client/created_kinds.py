"""The kinds of objects that may exist for a workload."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaiwo.engine.resource import Object, Resource
    from kaiwo.plugin.backends import Backend
    from kaiwo.plugin.registry import Plugins


def created_kinds(workload: Object, plugins: Plugins) -> list[Resource]:
    """The kinds of objects that may be there for a workload: those of its backend, and of its storage.

    Other kinds are not read: a user without the right to would see a note about them on every page.
    """
    from kaiwo.workload.model import AUXILIARIES

    made = [
        resource
        for backend in possible_backends(workload, plugins)
        for resource in (backend.child, *backend.requires, *backend.secondary)
    ]
    return list(dict.fromkeys([*made, *AUXILIARIES]))


def possible_backends(workload: Object, plugins: Plugins) -> list[Backend]:
    """The backend of a workload; where that cannot be said, all that serve its kind."""
    from kaiwo.api.errors import InvalidWorkload
    from kaiwo.api.workload import Workload
    from kaiwo.workload.backend_selection import select_backend
    from kaiwo.workload.errors import PluginError
    from kaiwo.workload.model import Registry

    with suppress(InvalidWorkload, PluginError):
        chosen = select_backend(Workload.from_live(workload), Registry.of(plugins)).backend
        if chosen is not None:
            return [chosen]
    return [backend for backend in plugins.backends if backend.kind == workload.get("kind")]
