"""The manager: what one operator process runs, and its health checks."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from kaiwo.engine.condition_report import ConditionMetrics
from kaiwo.engine.event_recorder import EventRecorder
from kaiwo.engine.failing_writes import describe
from kaiwo.engine.health import Health, HealthMetrics
from kaiwo.engine.kind_reflectors import KindReflectors
from kaiwo.engine.metrics import Metrics
from kaiwo.engine.reader import STALL
from kaiwo.engine.store import Cache
from kaiwo.engine.turns import Turns
from kaiwo.engine.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping

    from kaiwo.engine.client import Client
    from kaiwo.engine.controller import Controller, Watch
    from kaiwo.engine.errors import WriteCause
    from kaiwo.engine.leader_election import LeaderElector
    from kaiwo.engine.lease_thread import LeaseThread
    from kaiwo.engine.resource import Resource
    from kaiwo.engine.shard import Shard

_log = logging.getLogger(__name__)

FAILING_AFTER = 30.0
"""Seconds for which a controller waits for the first list of a kind that it can do without, while that fails
and everything else can be listed."""


class Manager:
    """Everything one operator process runs, on one event loop.

    Reflectors run always, so that a standby process is warm; controllers run while this process leads.

    Attributes:
        client: talks to the API server; it writes only while the lease is valid.
        cache: what is known; read it from reconcilers.
        writer: the way to write.
        event_recorder: takes Kubernetes Events.
        metrics: of the engine, and the registry for others.
        health: checks for /readyz, and for others to add to.
        conditions: the configuration objects whose conditions are shown as metrics.
        leader_elector: None to lead at once (a single process on a developer's machine).
        turns: for what computes long in a reconciliation.
        shard: the namespaces that this process reconciles, None for all; set before `run`.
    """

    def __init__(
        self,
        client: Client,
        *,
        field_manager: str,
        applied_annotation: str,
        component: str,
        instance: str = "",
        leader_elector: LeaderElector | LeaseThread | None = None,
        metrics: Metrics | None = None,
        stall: float = STALL,
        grace: float = 10.0,
    ) -> None:
        """Assemble; nothing is read or written before `run`.

        Args:
            client: for everything.
            field_manager: of all writes.
            applied_annotation: key of the annotation that keeps the hash of what was applied last.
            component: who reports Kubernetes Events.
            instance: which process of it.
            leader_elector: None to lead at once.
            metrics: share those that the client counts in.
            stall: seconds of silence after which a watch counts as dead.
            grace: seconds that begun reconciliations have at the end.
        """
        self.client = client
        self.cache = Cache()
        self.writer = Writer(
            client, self.cache, field_manager=field_manager, applied_annotation=applied_annotation
        )
        self.metrics = metrics or Metrics()
        self.event_recorder = EventRecorder(
            client, component=component, instance=instance, metrics=self.metrics
        )
        self.health = Health()
        self.conditions = ConditionMetrics(self.metrics.prefix, self.cache)
        self._component = component
        self.metrics.registry.register(
            HealthMetrics(self.metrics.prefix, self.health, lambda: client.failing_writes.messages)
        )
        self.metrics.registry.register(self.conditions)
        self.turns = Turns()
        self.shard: Shard | None = None
        self.leader_elector = leader_elector
        self._stall = stall
        self._grace = grace
        self._controllers: list[Controller] = []
        self._reflectors: dict[Resource, KindReflectors] = {}
        self._followed: list[tuple[str, Cache]] = []
        self._followers: list[KindReflectors] = []
        self._unreadable: dict[str, dict[Resource, str]] = {}
        self._failing: dict[Resource, str] = {}
        self._hooks: list[tuple[Resource, Callable[[], Awaitable[None]]]] = []
        self._prepared = asyncio.Event()
        self._leading = False
        self._denied_listeners: list[Callable[[str], None]] = []
        self._served_listeners: list[Callable[[Resource], None]] = []
        client.failing_writes.on_change(self._release)
        self.health.check("writes", self._writes)
        if leader_elector is not None:
            client.may_write = leader_elector.valid
            client.set_user_timeout(leader_elector.slack)
            self.health.check("lease", leader_elector.health)

    @property
    def leading(self) -> bool:
        """Whether controllers run in this process."""
        return self._leading

    @property
    def unreadable(self) -> Mapping[str, Mapping[Resource, str]]:
        """By namespace, the kinds that this process may not list there, each with the API server's words.

        What may not be listed in any namespace, where all are watched, and kinds without namespaces are
        under an empty name.
        """
        return self._unreadable

    @property
    def failing(self) -> Mapping[Resource, str]:
        """The kinds whose first list fails and that controllers do without, each with why.

        Nothing is known of their objects.
        """
        return self._failing

    def on_unreadable_change(self, listener: Callable[[str], None]) -> None:
        """Register a callback for changes of `unreadable` and `failing`; it gets the namespace or ""."""
        self._denied_listeners.append(listener)

    def is_served(self, resource: Resource) -> bool:
        """Whether the API server knows a watched kind, as far as it has answered.

        What the cache has of a served kind is complete: it is served from the first list on.
        """
        reflectors = self._reflectors.get(resource)
        return reflectors is None or reflectors.served

    def on_served_change(self, listener: Callable[[Resource], None]) -> None:
        """Register a callback for changes of `is_served`; it gets the kind."""
        self._served_listeners.append(listener)

    def add(self, controller: Controller) -> None:
        """Add a controller, before `run`.

        Raises:
            ValueError: another controller watches a kind with other namespaces or another selector.
        """
        for watch in controller.watches:
            self.watch(watch)
        self._controllers.append(controller)

    def watch(self, watch: Watch) -> None:
        """Keep a kind in the cache, before `run`, also if no controller reconciles its changes."""
        self.cache.register(
            watch.resource, watch.projection, namespaces=watch.namespaces, label_selector=watch.label_selector
        )

    def follow(self, name: str, cache: Cache) -> None:
        """Keep a cache of somebody's own up to date, before `run`.

        It is for a reader that needs other objects of a kind, or other parts of them, than `cache` keeps.

        Args:
            name: what the cache is for, in health checks and metrics.
            cache: its kinds are registered already.
        """
        self._followed.append((name, cache))

    def before_controllers(self, resource: Resource, hook: Callable[[], Awaitable[None]]) -> None:
        """Call a hook once a watched kind is known, also in a standby process, before any controller starts.

        Args:
            resource: what the hook reads; somebody watches it.
            hook: returns before controllers start.
        """
        self._hooks.append((resource, hook))

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set, then end in order: reconciliations, Events, lease, watches.

        Raises:
            CredentialsError: at the start, when there are no credentials at all.
        """
        await self.client.connection.headers()
        self._prepare()
        tasks = [
            asyncio.create_task(reflectors.run(), name=f"reflectors-{reflectors.store.resource}")
            for reflectors in (*self._reflectors.values(), *self._followers)
        ]
        tasks.append(asyncio.create_task(self.client.failing_writes.run(), name="failing writes"))
        tasks.append(asyncio.create_task(self._run_hooks(), name="hooks"))
        try:
            await self._lead(stop)
        finally:
            if self.leader_elector is not None:
                await self.leader_elector.release()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _prepare(self) -> None:
        for store in self.cache.stores():
            reflectors = KindReflectors(
                self.client, store, metrics=self.metrics, stall=self._stall, on_denied=self._denied,
                on_served=partial(self._served, store.resource),
            )  # fmt: skip
            self._reflectors[store.resource] = reflectors
            self.metrics.watch_store(str(store.resource), store.__len__)
            self.health.check(f"cache {store.resource}", reflectors.state)
        for name, cache in self._followed:
            for store in cache.stores():
                reflectors = KindReflectors(
                    self.client, store, metrics=self.metrics, stall=self._stall, on_denied=lambda _: None
                )
                self._followers.append(reflectors)
                self.metrics.watch_store(f"{store.resource} of {name}", store.__len__)
                self.health.check(f"cache {store.resource} of {name}", reflectors.state)
        for controller in self._controllers:
            for watch in controller.watches:
                if watch.keys is not None:
                    self.cache.subscribe(watch.resource, controller.handler(watch))

    async def _run_hooks(self) -> None:
        for resource, hook in self._hooks:
            await self._reflectors[resource].known(required=True)
            try:
                await hook()
            except Exception:  # noqa: BLE001  one that fails must not keep the controllers from starting
                _log.exception("a hook that runs before controllers failed")
        self._prepared.set()

    async def _lead(self, stop: asyncio.Event) -> None:
        """Run the controllers whenever this process leads."""
        while not stop.is_set():
            if self.leader_elector is not None and not await _unless(stop, self.leader_elector.acquire()):
                return
            self._set_leading(now=True)
            term = [asyncio.create_task(self._control(stop))]
            if self.leader_elector is not None:
                term.append(asyncio.create_task(self.leader_elector.keep()))
            try:
                await asyncio.wait(term, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in term:
                    task.cancel()
                results = await asyncio.gather(*term, return_exceptions=True)
                self._set_leading(now=False)
            for result in results:
                if isinstance(result, Exception):
                    raise result

    async def _control(self, stop: asyncio.Event) -> None:
        """All controllers and the recorder; each controller starts when what it reads is known."""
        async with asyncio.TaskGroup() as group:
            done = asyncio.Event()
            recorder = group.create_task(self.event_recorder.run(done))
            sharding = group.create_task(self.shard.run()) if self.shard is not None else None
            controllers = [group.create_task(self._start(c, stop)) for c in self._controllers]
            await stop.wait()
            if controllers:
                await asyncio.wait(controllers)
            if sharding is not None:
                sharding.cancel()
            done.set()
            await recorder

    async def _start(self, controller: Controller, stop: asyncio.Event) -> None:
        for watch in (watch for watch in controller.watches if not watch.optional):
            known = self._reflectors[watch.resource].known(required=watch.required)
            if not await _unless(stop, known):
                return
        # Whoever has listed the others knows that the API server works.
        optional = {watch.resource for watch in controller.watches if watch.optional}
        if not await _unless(stop, _all(self._known_or_failing(kind) for kind in optional)):
            return
        if not await _unless(stop, self._prepared.wait()):
            return
        _log.info("controller %s starts", controller.name)
        await controller.run(self.cache, stop, metrics=self.metrics, grace=self._grace)

    async def _known_or_failing(self, resource: Resource) -> None:
        """Wait until a kind is known, or its first list fails for so long that nobody waits any more."""
        reflectors = self._reflectors[resource]
        while True:
            try:
                async with asyncio.timeout(FAILING_AFTER):
                    return await reflectors.known(required=False)
            except TimeoutError:
                if reflectors.give_up():
                    return None

    def _release(self, ended: frozenset[WriteCause]) -> None:
        for controller in self._controllers:
            controller.release(ended)

    def _denied(self, namespace: str) -> None:
        found = {kind: it.denied.get(namespace, "") for kind, it in self._reflectors.items()}
        self._unreadable[namespace] = {kind: words for kind, words in found.items() if words}
        self._failing = {kind: it.failing for kind, it in self._reflectors.items() if it.failing}
        for listener in self._denied_listeners:
            listener(namespace)

    def _served(self, resource: Resource) -> None:
        """Report a kind that comes or goes; the kinds of a group come together, one by one."""
        if self.is_served(resource):
            for kind, reflectors in self._reflectors.items():
                if kind.group == resource.group:
                    reflectors.expect()
        for listener in self._served_listeners:
            listener(resource)

    def _writes(self) -> tuple[bool, str]:
        """Whether writes succeed, as far as known."""
        failing = self.client.failing_writes.messages
        return not failing, "; ".join(describe(*item) for item in sorted(failing.items())) or "ok"

    def _set_leading(self, *, now: bool) -> None:
        self._leading = now
        self.metrics.leading(self._component, now=now)
        _log.info("this process leads" if now else "this process does not lead any more")


async def _all(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    async with asyncio.TaskGroup() as group:
        for work in works:
            group.create_task(work)


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, Any]) -> bool:
    """Await something, or `stop`, whichever comes first; whether the work was done."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
            return True
        return False
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)
