"""The controller that writes the HTTPRoutes of KaiwoServices; each service is a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaiwo.plugin.kit.api_errors import ApiError, Conflict, NotFound
from kaiwo.plugin.kit.cache import Projection
from kaiwo.plugin.kit.controllers import Controller, Key, NameConflict, Watch
from kaiwo.plugin.kit.kinds import SERVICE
from kaiwo.plugin.kit.names import MANAGER, RECORD
from kaiwo.plugin.kit.workload import KAIWO_SERVICE, Workload
from kaiwo_aim.defaults import read_config
from kaiwo_aim.in_use import config_in_use
from kaiwo_aim.kinds import HTTP_ROUTE, NAMESPACE_CONFIG
from kaiwo_aim.route import not_accepted, port_of, route, served_by, service_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kaiwo.plugin.controllers import ControllerHost
    from kaiwo.plugin.kit.cache import CachedObject, CacheEvent
    from kaiwo_aim.defaults import Gateway

INSTALL_CHECK: Final = 5.0
"""Seconds between two looks for the Gateway API."""

STALE_RETRY: Final = 1.0
"""Seconds, should the event that ends a conflict never come."""

_RETRY = 30.0  # seconds until a rejected route is written again


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
        self._on_change: list[Callable[[str], None]] = []
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

    def report_to(self, listener: Callable[[str], None]) -> None:
        """Say who is called with a namespace whenever problems in it changed."""
        self._on_change.append(listener)

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
            return INSTALL_CHECK if self._gateway(key.namespace) is not None else None
        try:
            problem = await self._follow(entry)
        except Conflict:
            return STALE_RETRY
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
        for listener in self._on_change:
            listener(key.namespace)


def _itself(event: CacheEvent) -> Iterable[Key]:
    return (Key(event.latest.namespace, event.latest.name),)


def _is_ours(live: CachedObject, entry: CachedObject) -> bool:
    """Whether Kaiwo made a route for a KaiwoService; an owner reference alone proves nothing."""
    owner = live.controller
    return owner is not None and owner.uid == entry.uid and MANAGER in live.managers(RECORD)


def _taken(name: str) -> tuple[str, str]:
    return "RouteConflict", f"HTTPRoute {name} exists and is not Kaiwo's; it is not changed"
