"""Kubernetes Events, sent in the background.

Events are for people and may be lost. They wait in a bounded queue, leave together a few at a time, the same
event again raises a count instead of making a new object, and a rate limit keeps a storm from the API server.
Namespaces take turns.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter, OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal
from uuid import uuid4

from kaiwo.engine.cached_object import CachedObject
from kaiwo.engine.errors import AlreadyExists, ApiError, EngineError, Forbidden, NotFound, NotLeading
from kaiwo.engine.logging import about
from kaiwo.engine.resource import EVENT
from kaiwo.engine.workqueue import moment_from

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaiwo.engine.client import Client
    from kaiwo.engine.metrics import Metrics
    from kaiwo.engine.resource import Object

_log = logging.getLogger(__name__)

EventType = Literal["Normal", "Warning"]

MESSAGE_LIMIT = 1024
"""Characters of a message; the API server rejects Events with longer ones."""

MERGE_WINDOW = 600.0
"""Seconds in which the same event again is a repetition, as in client-go's correlator."""

RATE = 50.0
"""Events per second at most: about a tenth of what a small API server takes in."""

GATHER = 0.5
"""Seconds at least for which events wait for others: several in a row cost less than as many one by one. They
are sent at a moment at which delayed keys are due, too (`kaiwo.engine.workqueue.MOMENT`)."""

_CONCURRENCY = 4  # requests at a time: Events must not keep other requests from their slots
_REMEMBERED = 4096
_FLUSH_TIMEOUT = 5.0  # seconds to send what is left when stopping


@dataclass(slots=True)
class _Sent:
    name: str
    count: int
    at: float


_Identity = tuple[str, str, str, str]


class EventRecorder:
    """Takes events without waiting and sends them in the background."""

    def __init__(
        self,
        client: Client,
        *,
        component: str,
        instance: str,
        capacity: int = 1000,
        rate: float = RATE,
        metrics: Metrics | None = None,
    ) -> None:
        """Prepare; nothing is sent before `run`.

        Args:
            client: writes.
            component: what reports, for example the operator's name.
            instance: which process of it.
            capacity: events that may wait; of more, the last ones of the namespace with most are dropped.
            rate: events sent per second.
            metrics: counts events.
        """
        self._client = client
        self._component = component
        self._instance = instance
        self._capacity = capacity
        self._waiting: OrderedDict[_Identity, Object] = OrderedDict()
        self._arrived = asyncio.Event()
        self._idle = asyncio.Event()
        self._sent: OrderedDict[_Identity, _Sent] = OrderedDict()
        self._rate = rate
        self._metrics = metrics

    def event(self, about: CachedObject | Object, type_: EventType, reason: str, message: str) -> None:
        """Queue an event; returns at once and never raises.

        Args:
            about: the object it is about.
            type_: Normal or Warning.
            reason: one CamelCase word.
            message: one sentence; cut to what the API server takes.
        """
        reference = _reference(about)
        text = message if len(message) <= MESSAGE_LIMIT else message[: MESSAGE_LIMIT - 1] + "…"
        identity = (str(reference.get("uid") or reference.get("name")), type_, reason, text)
        waiting = self._waiting.get(identity)
        if waiting is not None:
            waiting["count"] += 1
            waiting["lastTimestamp"] = _now()
            self._count("merged")
            return
        obj = self._object(reference, type_, reason, text)
        if len(self._waiting) >= self._capacity:
            self._count("dropped")
            if not self._make_room(obj):
                return
        self._waiting[identity] = obj
        self._idle.clear()
        self._arrived.set()

    def _make_room(self, obj: Object) -> bool:
        """Drop the last event of the namespace with most of them; False where that is the one of an event."""
        crowds = Counter(map(_namespace, self._waiting.values()))
        largest, count = crowds.most_common(1)[0]
        if count <= crowds[_namespace(obj)]:
            return False
        last = next(key for key in reversed(self._waiting) if _namespace(self._waiting[key]) == largest)
        del self._waiting[last]
        return True

    async def run(self, stop: asyncio.Event) -> None:
        """Send events until `stop` is set, then what is left as far as a few seconds suffice.

        When cancelled, as on a lost lease, what was not sent waits for the next run.
        """
        sender = asyncio.create_task(self._send_all())
        try:
            await stop.wait()
            async with asyncio.timeout(_FLUSH_TIMEOUT):
                await self._idle.wait()
        except TimeoutError:
            _log.info("%d events were not sent", len(self._waiting))
        finally:
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)

    async def _send_all(self) -> None:
        while True:
            if not self._waiting:
                self._arrived.clear()
                self._idle.set()
                await self._arrived.wait()
            now = asyncio.get_running_loop().time()
            await asyncio.sleep(moment_from(now + GATHER) - now)
            batch = self._next_batch(math.ceil(self._rate * GATHER))
            try:
                await self._send_batch(batch)
            finally:
                self._put_back(batch)

    def _next_batch(self, most: int) -> dict[_Identity, Object]:
        """Take events to send: of each namespace in turn the first one."""
        chosen: Iterable[_Identity] = self._waiting
        if len(self._waiting) > most:
            before: Counter[str] = Counter()
            ranks: dict[_Identity, int] = {}
            for identity, obj in self._waiting.items():
                namespace = _namespace(obj)
                ranks[identity] = before[namespace]
                before[namespace] += 1
            chosen = sorted(ranks, key=ranks.__getitem__)[:most]
        return {identity: self._waiting.pop(identity) for identity in list(chosen)}

    async def _send_batch(self, batch: dict[_Identity, Object]) -> None:
        """Send events and take each out of the batch when it is sent or dropped.

        Those about one object are sent one after the other. Their times are whole seconds, so only the order
        in which they are stored says which came first.
        """
        slots = asyncio.Semaphore(_CONCURRENCY)
        subjects: dict[str, list[_Identity]] = {}
        for identity in batch:
            subjects.setdefault(identity[0], []).append(identity)

        async def send(identities: list[_Identity]) -> None:
            for identity in identities:
                async with slots:
                    if await self._sent_or_dropped(identity, batch[identity]):
                        del batch[identity]

        await asyncio.gather(*map(send, subjects.values()))

    def _put_back(self, batch: dict[_Identity, Object]) -> None:
        """Let events that were not sent wait again, before those that came meanwhile."""
        for identity, obj in reversed(batch.items()):
            later = self._waiting.get(identity)
            if later is not None:
                obj["count"] += later["count"]
                obj["lastTimestamp"] = later["lastTimestamp"]
            self._waiting[identity] = obj
            self._waiting.move_to_end(identity, last=False)

    async def _sent_or_dropped(self, identity: _Identity, obj: Object) -> bool:
        """Send one event; False when this process does not lead, which may be for a moment only."""
        try:
            await self._send(identity, obj)
        except NotLeading:
            return False
        except EngineError as error:
            self._count("dropped")
            level = logging.WARNING if isinstance(error, Forbidden) else logging.DEBUG
            _log.log(level, "event %s not sent: %s", obj["reason"], error, extra=_subject(obj))
        except Exception:  # noqa: BLE001 -- an odd event must not end all others
            self._count("dropped")
            _log.exception("event %s not sent", obj.get("reason"), extra=_subject(obj))
        return True

    async def _send(self, identity: _Identity, obj: Object) -> None:
        now = time.monotonic()
        known = self._sent.get(identity)
        namespace = obj["metadata"]["namespace"]
        if known is not None and now - known.at < MERGE_WINDOW:
            count = known.count + obj["count"]
            patch = {"count": count, "lastTimestamp": obj["lastTimestamp"]}
            try:
                await self._client.merge_patch(EVENT, namespace, known.name, patch)
            except NotFound:
                del self._sent[identity]  # expired or deleted: make it again
            else:
                known.count, known.at = count, now
                self._count("merged")
                return
        try:
            await self._client.create_event(obj)
        except AlreadyExists:
            pass  # sent before, and cancelled before the answer
        except ApiError as error:
            if isinstance(error, Forbidden) and "being terminated" in error.message:
                self._count("dropped")  # the namespace is being deleted
                return
            raise
        self._count("sent")
        self._sent[identity] = _Sent(obj["metadata"]["name"], obj["count"], now)
        self._sent.move_to_end(identity)
        while len(self._sent) > _REMEMBERED:
            self._sent.popitem(last=False)

    def _object(self, reference: Object, type_: EventType, reason: str, message: str) -> Object:
        now = _now()
        return {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            # Events of cluster-scoped objects live in the namespace "default".
            "metadata": {
                "name": f"{str(reference['name'])[:200]}.{uuid4().hex[:16]}",
                "namespace": reference.get("namespace") or "default",
            },
            "involvedObject": reference,
            "type": type_,
            "reason": reason,
            "message": message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
        }

    def _count(self, result: Literal["sent", "merged", "dropped"]) -> None:
        if self._metrics is not None:
            self._metrics.event(result)


def _namespace(event: Object) -> str:
    """Where an event is."""
    return str(event["metadata"]["namespace"])


def _reference(about: CachedObject | Object) -> Object:
    """An ObjectReference; empty fields are left out."""
    if isinstance(about, CachedObject):
        found: Object = {
            "apiVersion": about.resource.api_version,
            "kind": about.resource.kind,
            "namespace": about.namespace,
            "name": about.name,
            "uid": about.uid,
            "resourceVersion": about.resource_version,
        }
    else:
        metadata = about.get("metadata") or {}
        found = {
            "apiVersion": about.get("apiVersion"),
            "kind": about.get("kind"),
            "namespace": metadata.get("namespace"),
            "name": metadata.get("name"),
            "uid": metadata.get("uid"),
            "resourceVersion": metadata.get("resourceVersion"),
        }
    return {"name": "unknown", **{field: value for field, value in found.items() if value}}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _subject(event: Object) -> dict[str, dict[str, str]]:
    """The object that an event is about, for the log."""
    about_what = event.get("involvedObject") or {}
    return about(*(str(about_what.get(key) or "") for key in ("kind", "namespace", "name")))
