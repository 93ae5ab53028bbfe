"""Events name keys; workers reconcile them one key at a time."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kaiwo.engine.cached_object import Projection
from kaiwo.engine.errors import ChangedBack, EngineError, NotLeading
from kaiwo.engine.logging import SUBJECT
from kaiwo.engine.store import CacheEvent
from kaiwo.engine.time_limits import TimeLimits
from kaiwo.engine.turns import SLICE
from kaiwo.engine.workqueue import LOW, Key, WorkQueue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence

    from kaiwo.engine.errors import WriteCause
    from kaiwo.engine.metrics import Metrics
    from kaiwo.engine.resource import Resource
    from kaiwo.engine.shard import Shard
    from kaiwo.engine.store import Cache

_log = logging.getLogger(__name__)

SPARE_WORKERS = 4
"""Workers beside those that keys of one namespace can occupy, so that another namespace finds one free."""


@dataclass(frozen=True)
class Watch:
    """A kind that a controller reads.

    Attributes:
        resource: the kind.
        keys: the keys that a change concerns. At the start it is called with an ADDED event for each cached
            object. None when no change of the kind needs a reconciliation.
        projection: what must be kept of each object.
        namespaces: the only namespaces of interest, empty for all.
        label_selector: which objects are of interest, None for all.
        delay: seconds between a change and its reconciliation, so that changes which come together are
            reconciled together; infinity for a change that needs none. None reconciles each change at once.
        required: whether the controller does not start before it may list the kind. One that starts without
            must ask `Manager.unreadable`: nothing is known of these kinds.
        optional: whether the controller starts without the kind where its list keeps failing while the others
            can be listed. It must ask `Manager.failing` then: nothing is known of these kinds.
        own_writes: whether a write by the reconciliation of a key is a change that concerns this key. False
            for a reconciler that plans again from each answer until nothing is left to write.
    """

    resource: Resource
    keys: Callable[[CacheEvent], Iterable[Key]] | None = None
    projection: Projection = field(default_factory=Projection)
    namespaces: tuple[str, ...] = ()
    label_selector: str | None = None
    delay: Callable[[CacheEvent], float] | None = None
    required: bool = True
    optional: bool = False
    own_writes: bool = True


class Controller:
    """Reconciles keys.

    Attributes:
        name: in logs and metrics.
        watches: what it reads.
        queue: its keys.
        shard: the namespaces whose keys are reconciled in this process, None for all.
    """

    def __init__(
        self,
        name: str,
        watches: Sequence[Watch],
        reconcile: Callable[[Key], Awaitable[float | None]],
        *,
        workers: int = 8,
        timeout: float = 60.0,
        on_error: Callable[[Key, Exception], None] | None = None,
        initial: Callable[[], Iterable[Key]] | None = None,
        kind: str = "",
    ) -> None:
        """Describe a controller; a manager runs it.

        Args:
            name: in logs and metrics.
            watches: what it reads.
            reconcile: brings the cluster to what one key wants. Returns seconds after which to reconcile
                again without an event, or None. What it raises backs off this key alone.
            workers: keys of one namespace worked on at once; all namespaces together have a few more.
            timeout: seconds after which a reconciliation is cancelled and counts as failed. Only one that
                awaits can be cancelled; one that computes holds up the process.
            on_error: called with each failure, a cancelled reconciliation's TimeoutError included.
            initial: returns the keys to reconcile first at each start, whether anything is cached or not.
            kind: kind of the objects that the keys name, a field of each line that is logged about one of
                them; empty for the name of the controller.
        """
        self.name = name
        self._kind = kind or name
        self.watches = tuple(watches)
        self.queue = WorkQueue()
        self.shard: Shard | None = None
        self._reconcile = reconcile
        self._workers = workers
        self._timeout = timeout
        self._on_error = on_error
        self._initial = initial
        self._running = False
        self._worked_on: dict[asyncio.Task[Any] | None, Key] = {}  # by the worker's task
        self._limits = TimeLimits(timeout)
        self._held: dict[WriteCause, dict[Key, None]] = {}
        self._metrics: Metrics | None = None

    def hold(self, key: Key, cause: WriteCause) -> None:
        """Reconcile a key as soon as a cause for which writes fail has ended, beside its other times."""
        self._held.setdefault(cause, {})[key] = None

    def release(self, ended: Iterable[WriteCause]) -> None:
        """Reconcile the keys that were held for these causes."""
        for cause in ended:
            for key in self._held.pop(cause, ()):
                self.enqueue(key)

    def _let_go(self, key: Key) -> None:
        """Hold a key no longer; if its writes still fail, its reconciliation holds it again.

        Keys of objects that are gone would else be held for as long as a cause lasts.
        """
        for cause, keys in list(self._held.items()):
            keys.pop(key, None)
            if not keys:
                del self._held[cause]

    def enqueue(self, key: Key, after: float = 0.0) -> None:
        """Reconcile a key, now or after some seconds; without effect while the controller does not run."""
        if self._running:
            self.queue.add_after(key, after)

    def handler(self, watch: Watch) -> Callable[[CacheEvent], None]:
        """The function to subscribe for a watch."""

        def handle(event: CacheEvent) -> None:
            namespace = event.latest.namespace
            if self.shard is not None and namespace and not self.shard.serves(namespace):
                return
            keys = self._keys(watch, event) if self._running else ()
            if event.own and not watch.own_writes:
                writing = self._worked_on.get(asyncio.current_task())
                keys = tuple(key for key in keys if key != writing)
            if keys:
                delay = watch.delay(event) if watch.delay is not None else 0.0
                for key in keys if delay < math.inf else ():
                    self.queue.add_after(key, delay)

        return handle

    async def run(
        self, cache: Cache, stop: asyncio.Event, *, metrics: Metrics | None = None, grace: float = 10.0
    ) -> None:
        """Reconcile everything cached and what changes, until `stop` is set.

        What changes has a higher priority than what was there at the start: after a restart with thousands
        of objects a new one need not wait for all of them.

        Then no further key is begun, and those begun get some time to end. Cancelling `run` itself cancels
        them at once.

        Args:
            cache: filled by reflectors.
            stop: when to end.
            metrics: counts reconciliations.
            grace: seconds that begun reconciliations have at the end.
        """
        self.queue = WorkQueue(per_namespace=self._workers)
        self._metrics = metrics
        self._running = True
        self._held.clear()
        if metrics is not None:
            metrics.watch_controller(self.name, self.queue, self._workers)
        for key in self._initial() if self._initial is not None else ():
            self.queue.add(key)
        for key in self._cached(cache):
            self.queue.add(key, LOW)
        workers = [
            asyncio.create_task(self._work(), name=f"{self.name}-{number}")
            for number in range(self._workers + SPARE_WORKERS)
        ]
        try:
            await stop.wait()
            self._close()
            await asyncio.wait(workers, timeout=grace)
        finally:
            self._close()
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    def resume(self, cache: Cache, namespaces: Collection[str]) -> None:
        """Reconcile everything cached of namespaces that this process begins with; nothing before `run`."""
        if not self._running:
            return
        for key in self._initial() if self._initial is not None else ():
            if key.namespace in namespaces:
                self.queue.add(key)
        for key in self._cached(cache):
            if key.namespace in namespaces:
                self.queue.add(key, LOW)

    def _cached(self, cache: Cache) -> Iterator[Key]:
        shard = self.shard
        for watch in self.watches:
            for obj in cache.list(watch.resource) if watch.keys is not None else ():
                if shard is None or not obj.namespace or shard.serves(obj.namespace):
                    yield from self._keys(watch, CacheEvent("ADDED", watch.resource, None, obj))

    def _close(self) -> None:
        self._running = False
        self.queue.shut_down()

    async def _work(self) -> None:
        queue, task = self.queue, asyncio.current_task()
        loop_began = time.monotonic()
        while True:
            key = await queue.get()
            if key is None:
                return
            if self.shard is not None and not self.shard.serves(key.namespace):
                queue.forget(key)
                queue.done(key)
                continue
            self._worked_on[task] = key
            try:
                ended = await self._one(key)
            finally:
                del self._worked_on[task]
                queue.done(key)
                SUBJECT.set(None)
            if ended - loop_began > SLICE:
                await asyncio.sleep(0)
                loop_began = time.monotonic()

    async def _one(self, key: Key) -> float:
        """Reconcile a key; returns the time of its end."""
        SUBJECT.set((self._kind, key.namespace, key.name))
        self._let_go(key)
        started = time.monotonic()
        self._limits.begin()
        try:
            try:
                again = await self._reconcile(key)
            finally:
                hung = self._limits.end()
            again = None if again is None else float(again)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            if hung:
                return self._failed(key, TimeoutError(), started, hung=True)
            # Not this worker is cancelled but something that the reconciliation waited for.
            return self._failed(key, RuntimeError(f"cancelled from inside: {error!r}"), started, hung=False)
        except (Exception, SystemExit) as error:  # noqa: BLE001 -- whatever a key's code raises harms it alone
            return self._failed(key, error, started, hung=False)
        self.queue.forget(key)
        if again is not None:
            self.queue.add_after(key, again if again == again else 0.0)  # noqa: PLR0124 -- NaN: at once
        ended = time.monotonic()
        if self._metrics is not None:
            self._metrics.reconcile(
                self.name, "success" if again is None else "requeue_after", ended - started
            )
        return ended

    def _failed(self, key: Key, error: Exception | SystemExit, started: float, *, hung: bool) -> float:
        ended = time.monotonic()
        if self._metrics is not None:
            self._metrics.reconcile(self.name, "timeout" if hung else "error", ended - started)
        seconds = self._retry(key, error)
        if isinstance(error, EngineError) and error.write_cause is not None:
            self.hold(key, error.write_cause)
        where = f"{self.name}: {key.namespace}/{key.name}" if key.namespace else f"{self.name}: {key.name}"
        if hung:
            _log.error("%s: cancelled after %.0f s; again in %.1f s", where, self._timeout, seconds)
        elif isinstance(error, NotLeading):
            _log.info("%s: %s", where, error)
        elif isinstance(error, ChangedBack):
            _log.debug("%s: %s", where, error)  # the writer has logged it once
        elif isinstance(error, EngineError):
            _log.warning("%s: %s: %s; again in %.1f s", where, type(error).__name__, error, seconds)
        else:
            _log.error("%s: %r; again in %.1f s", where, error, seconds, exc_info=error)
        if self._on_error is not None:
            try:
                self._on_error(key, error if isinstance(error, Exception) else RuntimeError(repr(error)))
            except Exception:  # noqa: BLE001 -- a failing report must not stop the worker
                _log.exception("%s: on_error failed", where)
        return ended

    def _retry(self, key: Key, error: Exception | SystemExit) -> float:
        """Plan the next reconciliation of a key that failed; the seconds until then."""
        if not isinstance(error, ChangedBack):
            return self.queue.retry(key)
        self.queue.add_after(key, error.retry_after)
        return error.retry_after

    def _keys(self, watch: Watch, event: CacheEvent) -> tuple[Key, ...]:
        try:
            return tuple(watch.keys(event)) if watch.keys is not None else ()
        except Exception:  # noqa: BLE001 -- one odd object must not stop the watch
            _log.exception("%s: keys of %s %r failed", self.name, event.type, event.latest)
            return ()
