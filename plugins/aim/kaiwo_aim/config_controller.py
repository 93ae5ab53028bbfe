"""The controller that writes the status of AIMNamespaceConfigs; a namespace is a key."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kaiwo.plugin.kit.api_errors import ChangedBack, Conflict, NotFound
from kaiwo.plugin.kit.controllers import Controller, Key, Watch
from kaiwo.plugin.kit.workload import merge_conditions
from kaiwo_aim.defaults import read_config
from kaiwo_aim.in_use import config_in_use
from kaiwo_aim.kinds import NAMESPACE_CONFIG
from kaiwo_aim.route_controller import INSTALL_CHECK, STALE_RETRY
from kaiwo_aim.status import OWN, conditions, routes_condition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo.plugin.controllers import ControllerHost
    from kaiwo.plugin.kit.cache import CachedObject, CacheEvent
    from kaiwo.plugin.kit.kinds import Object
    from kaiwo_aim.defaults import NamespaceConfig
    from kaiwo_aim.route_controller import RouteController

_DELAY = 0.5  # seconds in which changes of routes are gathered into one status


class NamespaceConfigController:
    """Writes the status of AIMNamespaceConfigs.

    Attributes:
        controller: what the manager runs.
    """

    def __init__(self, host: ControllerHost, routes: RouteController) -> None:
        """Follow the objects.

        Args:
            host: the operator around it.
            routes: knows what is wrong with routes.
        """
        self._host = host
        self._routes = routes
        routes.report_to(self._routes_changed)
        self.controller = Controller(
            "aim",
            [Watch(NAMESPACE_CONFIG, _of_namespace, namespaces=host.namespaces)],
            self.reconcile,
            workers=2,
            kind=NAMESPACE_CONFIG.kind,
        )

    def _routes_changed(self, namespace: str) -> None:
        self.controller.enqueue(Key(namespace, ""), _DELAY)

    async def reconcile(self, key: Key) -> float | None:
        """Write the statuses of one namespace."""
        used = config_in_use(self._host, key.namespace)
        config = read_config(used.readable()) if used is not None else None
        installed = self._routes.installed
        waits = [INSTALL_CHECK] if config is not None and config.gateway and not installed else []
        for entry in self._host.manager.cache.list(NAMESPACE_CONFIG, key.namespace):
            if entry.deleted is not None or used is None or config is None:
                continue
            own = config if entry is used else read_config(entry.readable())
            try:
                await self._write(entry, own, in_use="" if entry is used else used.name, installed=installed)
            except (Conflict, NotFound):
                waits.append(STALE_RETRY)
            except ChangedBack as error:
                waits.append(error.retry_after)
        return min(waits, default=None)

    async def _write(
        self, entry: CachedObject, config: NamespaceConfig, *, in_use: str, installed: bool
    ) -> None:
        routes = None
        if config.gateway is not None and not in_use:
            problems = self._routes.problems.get(entry.namespace, {})
            routes = routes_condition(problems, entry.generation, installed=installed)
        found = conditions(config, entry.generation, in_use=in_use, routes=routes)
        before = _conditions_of(entry)
        dropped = set(OWN) - {condition.type for condition in found}
        status: Object = {
            "observedGeneration": entry.generation,
            "conditions": merge_conditions(before, found, datetime.now(UTC), dropped),
        }
        await self._host.manager.writer.patch_status(entry, status, own_conditions=OWN)


def _conditions_of(entry: CachedObject) -> list[Object]:
    found = entry.readable_part("status", "conditions")
    return (
        [item for item in found if isinstance(item, dict) and item.get("type")]
        if isinstance(found, list)
        else []
    )


def _of_namespace(event: CacheEvent) -> Iterable[Key]:
    return (Key(event.latest.namespace, ""),)
