"""Two controllers: one writes the status of AIMNamespaceConfigs, the other HTTPRoutes of KaiwoServices.

A namespace is a key of the first, a KaiwoService of the second, so that each event costs as much as one
object.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kaiwo.plugin.kit.api_errors import ApiError, Conflict, NotFound
from kaiwo.plugin.kit.cache import Projection
from kaiwo.plugin.kit.controllers import Controller, Key, NameConflict, Watch
from kaiwo.plugin.kit.kinds import SERVICE
from kaiwo.plugin.kit.names import MANAGER, RECORD
from kaiwo.plugin.kit.workload import KAIWO_SERVICE, Workload, merge_conditions
from kaiwo.plugin.namespace_defaults import precedence
from kaiwo_aim.defaults import read_config
from kaiwo_aim.kinds import HTTP_ROUTE, NAMESPACE_CONFIG
from kaiwo_aim.route import not_accepted, port_of, route, served_by, service_names
from kaiwo_aim.status import OWN, conditions, routes_condition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo.plugin.controllers import ControllerHost
    from kaiwo.plugin.kit.cache import CachedObject, CacheEvent
    from kaiwo.plugin.kit.kinds import Object
    from kaiwo_aim.defaults import Gateway, NamespaceConfig

_DELAY = 0.5  # seconds in which changes of routes are gathered into one status
_INSTALL_CHECK = 5.0  # seconds between two looks for the Gateway API
_RETRY = 30.0  # seconds until a rejected route is written again
_STALE_RETRY = 1.0  # seconds, should the event that ends a conflict never come


def build(host: ControllerHost) -> None:
    """Add the plugin's controllers to the host's manager."""
    routes = RouteController(host)
    configs = NamespaceConfigController(host, routes)
    host.manager.add(configs.controller)
    host.manager.add(routes.controller)


def config_in_use(host: ControllerHost, namespace: str) -> CachedObject | None:
    """The AIMNamespaceConfig that counts in a namespace."""
    present = (
        entry for entry in host.manager.cache.list(NAMESPACE_CONFIG, namespace) if entry.deleted is None
    )
    return min(present, key=lambda entry: precedence(entry.name, entry.created), default=None)


class RouteController:
    """Writes the HTTPRoute of each KaiwoService whose namespace names a Gateway.

    Attributes:
        controller: what the manager runs.
        problems: what is wrong, by namespace and name of the KaiwoService: reason and message.
    """

    def __init__(self, host: ControllerHost) -> None:
        """Follow what routes depend on.

        Args:
            host: the operator around it.
        """
        self._host = host
        self._gateways: dict[str, Gateway | None] = {}
        self._on_change: list[NamespaceConfigController] = []
        self.problems: dict[str, dict[str, tuple[str, str]]] = {}
        places = host.namespaces
        self.controller = Controller(
            "aim-routes",
            [
                Watch(KAIWO_SERVICE, _itself, namespaces=places),
                Watch(NAMESPACE_CONFIG, self._of_config, namespaces=places),
                Watch(SERVICE, self._of_service, namespaces=places),
                Watch(
                    HTTP_ROUTE, _itself, Projection(owned_fields=(RECORD,)), namespaces=places, required=False
                ),
            ],
            self.reconcile,
            workers=2,
            kind=KAIWO_SERVICE.kind,
        )
        host.manager.watch(Watch(NAMESPACE_CONFIG, namespaces=places))  # before anybody subscribes to it
        host.manager.cache.subscribe(NAMESPACE_CONFIG, self._config_changed)

    def report_to(self, configs: NamespaceConfigController) -> None:
        """Say which controller writes problems into a status."""
        self._on_change.append(configs)

    @property
    def installed(self) -> bool:
        """Whether the cluster serves HTTPRoutes, as far as is known."""
        return self._host.manager.cache.synced(HTTP_ROUTE)

    def _gateway(self, namespace: str) -> Gateway | None:
        """The Gateway of a namespace; read once per change."""
        if namespace not in self._gateways:
            used = config_in_use(self._host, namespace)
            if used is None:
                return None
            self._gateways[namespace] = read_config(used.readable()).gateway
        return self._gateways[namespace]

    def _config_changed(self, event: CacheEvent) -> None:
        self._gateways.pop(event.latest.namespace, None)

    def _of_config(self, event: CacheEvent) -> Iterable[Key]:
        """All KaiwoServices of the namespace, unless only the status of the object changed."""
        if event.old and event.new and event.old.generation == event.new.generation:
            return ()
        services = self._host.manager.cache.list(KAIWO_SERVICE, event.latest.namespace)
        return [Key(entry.namespace, entry.name) for entry in services]

    def _of_service(self, event: CacheEvent) -> Iterable[Key]:
        """The KaiwoServices that a Service may belong to, by its name."""
        namespace, name = event.latest.key
        cache = self._host.manager.cache
        names = served_by(name, lambda: [entry.name for entry in cache.list(KAIWO_SERVICE, namespace)])
        return [Key(namespace, workload) for workload in names]

    async def reconcile(self, key: Key) -> float | None:
        """Write, or delete, the route of one KaiwoService."""
        entry = self._host.manager.cache.get(KAIWO_SERVICE, key.namespace, key.name)
        if entry is None or entry.deleted is not None:
            self._set_problem(key, None)  # the garbage collector deletes the route
            return None
        if not self.installed:
            return _INSTALL_CHECK if self._gateway(key.namespace) is not None else None
        try:
            problem = await self._follow(entry)
        except Conflict:
            return _STALE_RETRY
        except NotFound:
            self._set_problem(key, None)
            return _RETRY
        except ApiError as error:
            self._set_problem(key, ("RouteRejected", error.message))
            return _RETRY
        self._set_problem(key, problem)
        return None

    async def _follow(self, entry: CachedObject) -> tuple[str, str] | None:
        """Make the route as it has to be; what is wrong with it."""
        cache, writer = self._host.manager.cache, self._host.manager.writer
        live = cache.get(HTTP_ROUTE, entry.namespace, entry.name)
        gateway = self._gateway(entry.namespace)
        target = self._target(entry) if gateway is not None else None
        if gateway is None or target is None:
            if live is not None and live.deleted is None and _is_ours(live, entry):
                await writer.delete(live)
            return None if gateway is None else ("NoService", "it has no Service with a TCP port")
        if live is not None and not _is_ours(live, entry):
            return _taken(entry.name)
        workload = Workload.from_live(entry.readable(), entry.undecodable)
        answer = await writer.apply(HTTP_ROUTE, route(workload, gateway, *target))
        if isinstance(answer, NameConflict):
            return _taken(entry.name)
        words = not_accepted(answer.live, gateway)
        return ("RouteNotAccepted", words) if words else None

    def _target(self, entry: CachedObject) -> tuple[str, int] | None:
        """Name and port of the Service that serves a KaiwoService."""
        for name in service_names(entry.name):
            service = self._host.manager.cache.get(SERVICE, entry.namespace, name)
            if service is not None and (port := port_of(service.readable())) is not None:
                return name, port
        return None

    def _set_problem(self, key: Key, problem: tuple[str, str] | None) -> None:
        known = self.problems.get(key.namespace, {})
        if known.get(key.name) == problem:
            return
        if problem is None:
            known.pop(key.name, None)
            if not known:
                self.problems.pop(key.namespace, None)
        else:
            self.problems.setdefault(key.namespace, {})[key.name] = problem
        for configs in self._on_change:
            configs.controller.enqueue(Key(key.namespace, ""), _DELAY)


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
        routes.report_to(self)
        self.controller = Controller(
            "aim",
            [Watch(NAMESPACE_CONFIG, _of_namespace, namespaces=host.namespaces)],
            self.reconcile,
            workers=2,
            kind=NAMESPACE_CONFIG.kind,
        )

    async def reconcile(self, key: Key) -> float | None:
        """Write the statuses of one namespace."""
        used = config_in_use(self._host, key.namespace)
        config = read_config(used.readable()) if used is not None else None
        installed = self._routes.installed
        retry = _INSTALL_CHECK if config is not None and config.gateway and not installed else None
        for entry in self._host.manager.cache.list(NAMESPACE_CONFIG, key.namespace):
            if entry.deleted is not None or used is None or config is None:
                continue
            own = config if entry is used else read_config(entry.readable())
            try:
                await self._write(entry, own, in_use="" if entry is used else used.name, installed=installed)
            except (Conflict, NotFound):
                retry = _STALE_RETRY
        return retry

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


def _itself(event: CacheEvent) -> Iterable[Key]:
    return (Key(event.latest.namespace, event.latest.name),)


def _is_ours(live: CachedObject, entry: CachedObject) -> bool:
    """Whether Kaiwo made a route for a KaiwoService; an owner reference alone proves nothing."""
    owner = live.controller
    return owner is not None and owner.uid == entry.uid and MANAGER in live.managers(RECORD)


def _taken(name: str) -> tuple[str, str]:
    return "RouteConflict", f"HTTPRoute {name} exists and is not Kaiwo's; it is not changed"
