"""Keeps one store, or one namespace of it, equal to the API server: list in pages, then watch, for ever.

After any failure it lists again and compares, so that a delete that was not reported is found. Nothing that
an API server or the network does ends a reflector. An object that cannot be decoded is reported; all others
are read.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Literal

from kaiwo.engine.backoff import Backoff
from kaiwo.engine.errors import (
    ApiError,
    ConnectionBroken,
    EngineError,
    Forbidden,
    Gone,
    NotFound,
    ServerUnavailable,
)
from kaiwo.engine.logging import about
from kaiwo.engine.reader import STALL
from kaiwo.engine.wire import decode_object

if TYPE_CHECKING:
    from collections.abc import Callable

    import msgspec

    from kaiwo.engine.cached_object import CachedObject
    from kaiwo.engine.metrics import Metrics
    from kaiwo.engine.reader import Reader
    from kaiwo.engine.store import Store

_log = logging.getLogger(__name__)

RETRY = (0.2, 30.0)
"""First and longest pause in seconds after a failure; client-go uses 0.8 and 30."""

UNSERVED_RETRY = (2.0, 30.0)
"""First and longest pause in seconds while the API server does not know the kind."""

HEALTHY_AFTER = 10.0
"""A watch that lived this many seconds has proved that things work again."""


SOON = 4.0
"""Longest pause in seconds where a try costs the API server next to nothing: it is away or starts, or it only
checks a right. Whoever waits for its return or for the right continues within 5 s."""

DENIED_AFTER = 5.0
"""Seconds without the right to list a kind after which that is reported. An API server that starts denies
everything for a moment."""

OUTDATED_AFTER = 30.0
"""Seconds without a list or a watch after which a store is no longer taken as synced."""


_SEE_ALSO = "see the log of the API server, and what converts objects of the kind"

DENIED_RETRY = 30.0
"""Longest pause in seconds where one namespace of several may not be listed: each kind is tried in each."""


class Reflector:
    """Feeds one store, or one namespace of it.

    Attributes:
        store: what is fed.
        namespace: the namespace that is read, None for all.
        name: the kind, with the namespace.
        settled: set once the first list is in, or the kind turned out not to be served.
        answered: set once it is settled, this process may not list the kind, or nobody waits for it any more.
        denied: the API server's words where this process may not list the kind, else empty.
        failing: why the first list fails, where nobody waits for it any more, else empty.
        served: False while the API server does not know the kind.
        problem: why the store may be behind, empty when it is not.
    """

    def __init__(
        self,
        client: Reader,
        store: Store,
        namespace: str | None = None,
        *,
        metrics: Metrics | None = None,
        stall: float = STALL,
        on_denied: Callable[[], None] = lambda: None,
        on_served: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare; nothing is read yet.

        Args:
            client: reads.
            store: is fed.
            namespace: one of those of the store; None where it has all.
            metrics: counts restarts.
            stall: seconds of silence after which a watch counts as dead.
            on_denied: called whenever `denied` has changed.
            on_served: called whenever `served` has changed; the objects are in the store then.
        """
        self.store = store
        self.namespace = namespace
        self.name = f"{store.resource} in namespace {namespace}" if namespace else str(store.resource)
        self.settled = asyncio.Event()
        self.answered = asyncio.Event()
        self.denied = ""
        self.failing = ""
        self.served = True
        self.problem = "not listed yet"
        self._client = client
        self._metrics = metrics
        self._stall = stall
        self._on_denied = on_denied
        self._on_served = on_served
        self._denied_since: float | None = None
        self._failing_since: float | None = None
        self._refused = False  # whether the last answer was an error of the API server's own
        self._retry = Backoff(*RETRY)
        self._unserved = Backoff(*UNSERVED_RETRY)
        self._expected = asyncio.Event()

    def synced(self) -> bool:
        """Whether the store is known to be up to date, or the kind is not served.

        A short interruption counts as synced: it comes with each restart of an API server.
        """
        if self._failing_since is None:
            return self.settled.is_set()
        return self.settled.is_set() and time.monotonic() - self._failing_since < OUTDATED_AFTER

    def give_up(self) -> bool:
        """Let others go on without the first list, which is tried again as before.

        Returns:
            Whether they need not wait: it is known whether the kind can be listed, or the API server answers
            with errors. One that does not answer may be away altogether, and everybody waits for it.
        """
        if self.answered.is_set():
            return True
        if not self._refused:
            return False
        self.failing = self.problem
        self.store.unreadable.add(self.namespace or "")
        _log.error(
            "%s cannot be listed: %s. Only what needs it waits; %s", self.name, self.problem, _SEE_ALSO
        )
        self.answered.set()
        self._on_denied()
        return True

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            started, listed = time.monotonic(), False
            try:
                version = await self._list()
                started, listed = time.monotonic(), True
                while True:
                    version = await self._watch(version)
                    self._count("closed")
                    if self._outdated() and await self._client.find_version(self.store.resource):
                        version = await self._list()
            except NotFound:
                await self._not_served()
            except Gone as error:
                await self._failed("gone", error, started)
            except ConnectionBroken as error:
                await self._failed("lost", error, started)
            except EngineError as error:
                await self._failed("error", error, started, listed=listed)
            except Exception as error:  # noqa: BLE001 -- a defect here must not end the reading of a kind
                _log.exception("reading %s failed unexpectedly", self.name)
                await self._failed("error", error, started)

    async def _list(self) -> str:
        """Take a whole list; returns its version."""
        objects: list[CachedObject] = []
        version = ""
        store = self.store
        pages = self._client.pages(store.resource, self.namespace, label_selector=store.selector.text or None)
        async for page in pages:
            version = page.resource_version
            for raw in page.items:
                obj = self._decode(raw)
                if obj is None:
                    continue
                known = store.get(obj.namespace, obj.name)
                # An unchanged object is kept once: a second list must not double the memory.
                same = known is not None and (known.uid, known.version) == (obj.uid, obj.version)
                objects.append(known if same and known is not None else obj)
        store.replace(objects, version, self.namespace)
        self.problem = ""
        self._failing_since = None
        self._unserved.reset()
        self.settled.set()
        self._allowed()
        if not self.served:
            _log.info("%s is served now", store.resource)
            self.served = True
            self._on_served()
        return version

    def _outdated(self) -> bool:
        """Whether an older version of the kind is read, for want of a newer one."""
        resource = self.store.resource
        return bool(resource.fallbacks) and self._client.in_use(resource).version != resource.version

    async def _watch(self, version: str) -> str:
        """Take changes until the API server closes the watch; returns the version to go on from."""
        store = self.store
        changes = self._client.watch(
            store.resource,
            self.namespace,
            resource_version=version,
            label_selector=store.selector.text or None,
            stall=self._stall,
        )
        started = time.monotonic()
        async with aclosing(changes):
            async for type_, raw in changes:
                if type_ == "BOOKMARK":
                    version = self._bookmark(raw) or version
                    store.progress(version, self.namespace)
                    continue
                obj = self._decode(raw)
                if obj is not None:
                    store.observe(type_, obj)
                    version = obj.resource_version
        if time.monotonic() - started < 1.0:
            # A proxy that closes each watch at once must not cause requests without a pause.
            await asyncio.sleep(self._retry.next())
        else:
            self._retry.reset()
        return version

    def _decode(self, raw: msgspec.Raw) -> CachedObject | None:
        try:
            obj = self.store.decode(raw)
        except ValueError as error:
            _log.warning("%s passed over: %s", self.store.resource.kind, error)
            self._count_undecodable()
            return None
        if obj.undecodable:
            known = self.store.get(obj.namespace, obj.name)
            if known is None or known.uid != obj.uid or not known.undecodable:
                name = f"{obj.namespace}/{obj.name}" if obj.namespace else obj.name
                _log.warning(
                    "%s %s passed over: %s", obj.resource.kind, name, obj.undecodable,
                    extra=about(obj.resource.kind, obj.namespace, obj.name),
                )  # fmt: skip
                self._count_undecodable()
        return obj

    def _bookmark(self, raw: msgspec.Raw) -> str:
        metadata = decode_object(raw, f"watch {self.store.resource}").get("metadata")
        return str(metadata.get("resourceVersion") or "") if isinstance(metadata, dict) else ""

    async def _not_served(self) -> None:
        """The kind is unknown: a CRD not installed, or an API server that is still starting.

        What is cached stays: if the kind comes back, the next list shows what is gone.
        """
        was_served, self.served = self.served, False
        self.problem = "not served by the API server"
        self._failing_since = None
        self.settled.set()
        self._allowed()
        if was_served:
            _log.warning(
                "%s (%s) is not served by the API server; waiting until it is",
                self.store.resource,
                self.store.resource.api_version,
            )
            self._on_served()
        self._expected.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._unserved.next()):
                await self._expected.wait()

    def expect(self) -> None:
        """Ask at once whether the kind is served, if it was not: another kind of its group is now."""
        if not self.served:
            self._unserved.reset()
            self._expected.set()

    def _allowed(self) -> None:
        """Take note of an answer that shows the right to list."""
        self.answered.set()
        self._denied_since = None
        if self.denied or self.failing:
            self.denied = self.failing = ""
            self.store.unreadable.discard(self.namespace or "")
            _log.info("%s can be listed now", self.name)
            self._on_denied()

    def _deny(self, error: Forbidden) -> None:
        """Take note of a missing right, and report it once it has been missing for a while."""
        now = time.monotonic()
        if self._denied_since is None:
            self._denied_since = now
        if now - self._denied_since >= DENIED_AFTER and not self.denied:
            self.denied = str(error)
            self.store.unreadable.add(self.namespace or "")
            _log.error("%s cannot be listed: %s", self.name, error)
            self.answered.set()
            self._on_denied()

    async def _failed(
        self,
        reason: Literal["gone", "lost", "error"],
        error: Exception,
        started: float,
        *,
        listed: bool = False,
    ) -> None:
        self._count(reason)
        if time.monotonic() - started >= HEALTHY_AFTER:
            self._retry.reset()
        retry_after = error.retry_after if isinstance(error, ApiError) and error.retry_after else 0.0
        pause = self._retry.next()
        lists_wholly = listed and isinstance(error, Forbidden)  # each time, for want of the right to watch
        if not lists_wholly and isinstance(error, Forbidden | ConnectionBroken | ServerUnavailable):
            one_of_several = bool(self.denied) and len(self.store.namespaces) > 1
            pause = min(pause, DENIED_RETRY if one_of_several else SOON)
        pause = max(pause, min(retry_after, RETRY[1]))
        self.problem = f"{type(error).__name__}: {error}"
        self._refused = isinstance(error, ServerUnavailable)
        if isinstance(error, Forbidden):
            self._deny(error)
        if self._failing_since is None:
            self._failing_since = time.monotonic()
        level = logging.INFO if reason == "gone" else logging.WARNING
        if self.denied and isinstance(error, Forbidden):
            level = logging.DEBUG  # it is reported once, and in /readyz
        _log.log(level, "%s: %s; listing again in %.1f s", self.name, error, pause)
        await asyncio.sleep(pause)

    def _count(self, reason: Literal["closed", "gone", "lost", "error"]) -> None:
        if self._metrics is not None:
            self._metrics.watch_restart(str(self.store.resource), reason)

    def _count_undecodable(self) -> None:
        if self._metrics is not None:
            self._metrics.undecodable(str(self.store.resource))
