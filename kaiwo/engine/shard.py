"""The namespaces that one of several processes reconciles, and how a namespace goes from one to another.

A label of the Namespace names its shard, and every shard has one Lease. The holder of a Lease writes into it
up to which resourceVersion of Namespaces it has stopped to reconcile what is not its own. A process begins
with a namespace only when every other Lease is free or has come that far: no namespace has two writers.
"""

from __future__ import annotations

import asyncio
import logging
import math
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from kaiwo.engine.errors import EngineError
from kaiwo.engine.leader_election import boottime
from kaiwo.engine.resource import LEASE, NAMESPACE, version_number

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kaiwo.engine.reader import Reader
    from kaiwo.engine.resource import Object
    from kaiwo.engine.store import Cache, CacheEvent
    from kaiwo.engine.workqueue import WorkQueue

_log = logging.getLogger(__name__)

MAIN: Final = "main"
"""The shard of namespaces without the label."""

POLL: Final = 1.0
"""Seconds between two looks at the Leases while a namespace waits for another process."""

_DEFAULT_DURATION = 10.0
_SHOWN = 3


def shard_of(labels: Mapping[str, str], label: str) -> str:
    """The one shard of a namespace with these labels."""
    return labels.get(label) or MAIN


class ShardedController(Protocol):
    """What a shard asks of a controller.

    Attributes:
        queue: its keys.
        shard: decides which of them are reconciled here.
    """

    queue: WorkQueue
    shard: Shard | None

    def resume(self, cache: Cache, namespaces: Collection[str]) -> None:
        """Reconcile everything cached of namespaces that this process begins with."""


class OtherLeases:
    """What the Leases of other processes say, by our own clock."""

    def __init__(self, clock: Callable[[], float] = boottime) -> None:
        """Nothing is known yet.

        Args:
            clock: seconds; runs on while the process is frozen.
        """
        self._clock = clock
        self._observed: dict[str, tuple[Object, float]] = {}

    def is_held(self, lease: Object) -> bool:
        """Whether a process may still write under a Lease, as far as we can tell."""
        name, spec = str(lease["metadata"]["name"]), lease.get("spec") or {}
        known = self._observed.get(name)
        if known is None or known[0] != spec:
            known = self._observed[name] = (spec, self._clock())
        if not spec.get("holderIdentity"):
            return False
        stated = spec.get("leaseDurationSeconds")
        length = float(stated) if isinstance(stated, int) and stated > 0 else _DEFAULT_DURATION
        return self._clock() - known[1] < length


class Shard:
    """Which namespaces this process reconciles while it leads its shard.

    Attributes:
        name: of the shard.
        annotations: what the holder of the Lease writes into it; replaced as a whole, so that a thread may
            read it.
        waiting: why namespaces of this shard are not reconciled yet, empty when all are.
    """

    def __init__(
        self,
        client: Reader,
        cache: Cache,
        *,
        name: str,
        label: str,
        annotation: str,
        namespace: str,
        lease: str,
        clock: Callable[[], float] = boottime,
        poll: float = POLL,
    ) -> None:
        """Prepare; Namespaces must be watched.

        Args:
            client: reads Leases and Namespaces.
            cache: has the Namespaces.
            name: of the shard.
            label: of Namespaces; its value is the name of a shard.
            annotation: of Leases; up to which version of Namespaces a process has come.
            namespace: of the Leases.
            lease: name of the Lease of the shard `MAIN`; the others have the name of the shard behind it.
            clock: seconds; runs on while the process is frozen.
            poll: seconds between two looks at the Leases.
        """
        self.name = name
        self._client = client
        self._cache = cache
        self._label = label
        self._annotation = annotation
        self._namespace = namespace
        self._lease = lease
        self._poll = poll
        self._leases = OtherLeases(clock)
        self._controllers: list[ShardedController] = []
        self._serving: set[str] = set()
        self._draining: set[str] = set()
        self._changed = asyncio.Event()
        self.waiting = ""
        self.annotations: Mapping[str, str] = {annotation: ""}
        cache.subscribe(NAMESPACE, self._on_namespace)

    @property
    def lease(self) -> str:
        """Name of the Lease of this shard."""
        return self.lease_of(self.name)

    def lease_of(self, shard: str) -> str:
        """Name of the Lease of a shard."""
        return self._lease if shard == MAIN else f"{self._lease}-{shard}"

    def add(self, controller: ShardedController) -> None:
        """Let a controller reconcile keys of this shard's namespaces only."""
        controller.shard = self
        self._controllers.append(controller)

    def serves(self, namespace: str) -> bool:
        """Whether this process reconciles what is in a namespace now."""
        return namespace in self._serving

    def health(self) -> tuple[bool, str]:
        """Never unready: a namespace that waits does not stop the others."""
        return True, self.waiting or f"shard {self.name}: {len(self._serving)} namespaces"

    async def run(self) -> None:
        """Take and give up namespaces until cancelled; for as long as this process leads."""
        try:
            await self._catch_up()
            while True:
                self._changed.clear()
                pending = self._assign()
                if pending:
                    await self._take(pending)
                busy = bool(pending.keys() - self._serving) or bool(self._draining)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), self._poll if busy else None)
        finally:
            self._serving.clear()
            self._draining.clear()
            self.waiting = ""
            self.annotations = {self._annotation: ""}

    async def unserved(self) -> dict[str, list[str]]:
        """Namespaces by shard, of shards whose Lease no process holds.

        Raises:
            EngineError: the Leases cannot be read.
        """
        leases = [lease async for lease in self._client.list(LEASE, self._namespace)]
        held = {lease["metadata"]["name"] for lease in leases if self._leases.is_held(lease)}
        found: dict[str, list[str]] = {}
        for entry in self._cache.list(NAMESPACE):
            shard = shard_of(entry.labels, self._label)
            if self.lease_of(shard) not in held:
                found.setdefault(shard, []).append(entry.name)
        return found

    def _on_namespace(self, event: CacheEvent) -> None:
        """Give a namespace up with the very event: another one may bring it back before the next step."""
        entry = event.new
        if entry is None or shard_of(entry.labels, self._label) != self.name:
            self._give_up({event.latest.name})
        self._changed.set()

    def _give_up(self, names: set[str]) -> None:
        if ending := self._serving & names:
            self._serving -= ending
            self._draining |= ending
            _log.info("shard %s: gives up %s", self.name, _some(ending))

    async def _catch_up(self) -> None:
        """Wait until the cache is not older than the moment at which this process began to lead.

        A standby process may be behind by a change that another shard has acted on since.
        """
        while True:
            try:
                listed = [obj["metadata"] async for obj in self._client.list(NAMESPACE)]
            except EngineError as error:
                _log.warning("shard %s: Namespaces cannot be listed: %s", self.name, error)
                await asyncio.sleep(self._poll)
                continue
            store = self._cache.store(NAMESPACE)
            assert store is not None  # noqa: S101 -- the constructor subscribed to it
            known = {entry.name: entry.version for entry in store}
            if store.synced and all(
                known.get(item["name"], -1) >= version_number(item["resourceVersion"]) for item in listed
            ):
                return
            await asyncio.sleep(self._poll / 4)

    def _assign(self) -> dict[str, int]:
        """Say how far this process has come; the namespaces to take, each with its version."""
        store = self._cache.store(NAMESPACE)
        assert store is not None  # noqa: S101 -- the constructor subscribed to it
        version = store.version
        own = {
            entry.name: entry.version for entry in store if shard_of(entry.labels, self._label) == self.name
        }
        self._draining = {
            name
            for name in self._draining
            if any(controller.queue.is_busy(name) for controller in self._controllers)
        }
        if not self._draining:
            self.annotations = {self._annotation: str(version)}
        return {name: at for name, at in own.items() if name not in self._serving}

    async def _take(self, pending: dict[str, int]) -> None:
        """Begin with the namespaces that no other process works on any more."""
        try:
            leases = [lease async for lease in self._client.list(LEASE, self._namespace)]
        except EngineError as error:
            self._wait(f"the Leases in namespace {self._namespace} cannot be read: {error.stable_message}")
            return
        limit, by = self._limit(leases)
        # A namespace may have changed while the Leases were read.
        current = self._cache.store(NAMESPACE)
        ready = {
            name
            for name, version in pending.items()
            if version <= limit
            and current is not None
            and (entry := current.get("", name)) is not None
            and entry.version == version
        }
        self._serving |= ready
        if left := pending.keys() - ready:
            self._wait(
                f"{_some(left)}: Lease {self._namespace}/{by} is held by a process that may write there"
            )
        else:
            self.waiting = ""
        if ready:
            _log.info("shard %s: takes %s", self.name, _some(ready))
            for controller in self._controllers:
                controller.resume(self._cache, ready)

    def _limit(self, leases: list[Object]) -> tuple[float, str]:
        """Up to which version all other processes have come, and the Lease of the last one."""
        limit, by = math.inf, ""
        for lease in leases:
            name = str(lease["metadata"]["name"])
            of_shards = name == self._lease or name.startswith(f"{self._lease}-")
            if name == self.lease or not of_shards or not self._leases.is_held(lease):
                continue
            said = (lease["metadata"].get("annotations") or {}).get(self._annotation) or ""
            come = int(said) if said.isdecimal() else -1
            if come < limit:
                limit, by = come, name
        return limit, by

    def _wait(self, why: str) -> None:
        if why != self.waiting:
            _log.info("shard %s waits: %s", self.name, why)
        self.waiting = why


def _some(names: set[str]) -> str:
    shown = ", ".join(sorted(names)[:_SHOWN])
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{'namespace' if len(names) == 1 else 'namespaces'} {shown}{more}"
