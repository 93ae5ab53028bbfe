"""Writes that fail for a cause outside of the object, and when that cause has ended.

A missing right, a webhook that does not answer and an API server that is away stop all writes of a kind. To
send them all again until one succeeds would be many requests for one answer. Instead one of the failed
requests is sent again as a dry run every few seconds, for each cause. When it succeeds, whoever waits for the
cause writes again.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import msgspec

from kaiwo.engine.errors import ApiError, ConnectionBroken, EngineError, WriteCause

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from kaiwo.engine.transport import HttpRequest

_log = logging.getLogger(__name__)

INTERVAL = 4.0
"""Seconds between two dry runs for one cause."""

LONGEST_INTERVAL = 60.0
"""Seconds between two dry runs at most, where a dry run succeeds and the write still fails: webhooks may tell
the two apart."""

SPACING = 0.05
"""Seconds between the dry runs for two causes: many causes must not become as many requests at once."""

MOST_BYTES = 16 * 1024 * 1024
"""Bytes of the dry runs that are kept; there may be one of a megabyte for each namespace. A further cause
counts as ended when its dry run would be due, so that a write itself tries it."""

LONGEST_SLEEP = 1.0
"""Seconds after which new causes are taken into account at the latest."""

_RECENT = 30.0  # seconds in which a cause that comes back, without a write in between, has never ended
_UNAUTHENTICATED, _FORBIDDEN, _TOO_MANY, _SERVER_ERROR = 401, 403, 429, 500
_MISSING_RIGHT = re.compile(r"\bcannot \w+ resource\b")
"""How the API server's authorizer answers; what an admission plugin forbids has other words."""

_WEBHOOK = re.compile(r'failed calling webhook \\?"([^"\\]+)|(conversion webhook for [^,]+, Kind=\w+) failed')
_NAMESPACE = re.compile(r"/namespaces/([^/?]+)/")


@dataclass(frozen=True, slots=True)
class _Failure:
    """A failing write.

    Attributes:
        request: the dry run that shows whether the cause has ended.
        message: the last answer.
        due: monotonic time of the next dry run.
        interval: seconds between dry runs.
        sent: whether the dry run is sent; else the request has no body, and the cause ends when it is due.
    """

    request: HttpRequest
    message: str
    due: float
    interval: float
    sent: bool


class FailingWrites:
    """The causes for which writes fail now.

    For one event loop.
    """

    def __init__(
        self, send: Callable[[HttpRequest], Awaitable[bytes]], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start without any.

        Args:
            send: sends a request, and raises what it was rejected with.
            clock: monotonic seconds.
        """
        self._send = send
        self._clock = clock
        self._failures: dict[WriteCause, _Failure] = {}
        self._ended: dict[WriteCause, tuple[float, _Failure]] = {}
        self._listeners: list[Callable[[frozenset[WriteCause]], None]] = []
        self._arrived = asyncio.Event()

    def __contains__(self, cause: WriteCause) -> bool:
        """Whether writes fail for this cause now."""
        return cause in self._failures

    @property
    def messages(self) -> Mapping[WriteCause, str]:
        """The causes, each with the last answer in the API server's words."""
        return {cause: failure.message for cause, failure in self._failures.items()}

    def on_change(self, listener: Callable[[frozenset[WriteCause]], None]) -> None:
        """Register a callback: it is called with the causes that have ended, or with none for a new one."""
        self._listeners.append(listener)

    def on_write(self, request: HttpRequest, error: EngineError | None) -> None:
        """Take note of the end of a mutating request; an error is marked with its cause.

        Args:
            request: what was sent.
            error: how it failed, None when it succeeded.
        """
        if error is not None:
            cause = _cause(request, error)
            if cause is not None:
                error.write_cause = cause
                self._record(cause, request, error)
            return
        if self._ended:  # a cause that this write met before has really ended
            now = self._clock()
            self._ended = {
                cause: (at, it)
                for cause, (at, it) in self._ended.items()
                if now - at < _RECENT and not _proves(request, cause, it.request)
            }
        if self._failures:
            self._end([cause for cause, it in self._failures.items() if _proves(request, cause, it.request)])

    def _record(self, cause: WriteCause, request: HttpRequest, error: EngineError) -> None:
        now = self._clock()
        known = self._failures.get(cause)
        if known is not None:
            self._failures[cause] = replace(known, message=error.stable_message)
            return
        interval = INTERVAL
        ended = self._ended.pop(cause, None)
        if ended is not None and now - ended[0] < _RECENT:
            # A dry run that succeeds where the write fails must not cause a write every few seconds.
            interval = min(2 * ended[1].interval, LONGEST_INTERVAL)
        dry_run = _dry_run(request)
        kept = sum(len(failure.request.body or b"") for failure in self._failures.values())
        sent = kept + len(dry_run.body or b"") <= MOST_BYTES
        if not sent:
            dry_run = msgspec.structs.replace(dry_run, body=None)
        self._failures[cause] = _Failure(dry_run, error.stable_message, now + interval, interval, sent)
        _log.error("writes fail: %s", describe(cause, error.stable_message))
        self._arrived.set()
        self._publish(frozenset())

    async def run(self) -> None:
        """Send dry runs until cancelled."""
        while True:
            while not self._failures:  # a cause may have ended before this task ran
                self._arrived.clear()
                await self._arrived.wait()
            soonest = min(failure.due for failure in self._failures.values())
            await asyncio.sleep(max(SPACING, min(soonest - self._clock(), LONGEST_SLEEP)))
            due = [cause for cause, failure in self._failures.items() if failure.due <= self._clock()]
            untried = [cause for cause in due if not self._failures[cause].sent]
            ended = await self._try(due)
            if ended:
                # Rights often return together: whoever writes again must not meet the next missing one.
                ended += await self._try([cause for cause in self._failures if cause not in ended])
            ended += untried
            now = self._clock()
            self._ended = {cause: known for cause, known in self._ended.items() if now - known[0] < _RECENT}
            self._ended |= {cause: (now, self._failures[cause]) for cause in ended if cause in self._failures}
            self._end(ended)

    async def _try(self, causes: list[WriteCause]) -> list[WriteCause]:
        """Send a dry run for each cause; those that have ended."""
        ended = []
        for cause in causes:
            failure = self._failures.get(cause)
            if failure is None or not failure.sent:
                continue
            try:
                await self._send(failure.request)
            except EngineError as error:
                if isinstance(error, ApiError) and _cause(failure.request, error) != cause:
                    ended.append(cause)
                else:
                    due = self._clock() + failure.interval
                    self._failures[cause] = replace(failure, message=error.stable_message, due=due)
            else:
                ended.append(cause)
            await asyncio.sleep(SPACING)
        return ended

    def _end(self, causes: list[WriteCause]) -> None:
        ended = frozenset(cause for cause in causes if self._failures.pop(cause, None) is not None)
        if ended:
            for cause in sorted(ended):
                _log.info("writes succeed again: %s", describe(cause))
            self._publish(ended)

    def _publish(self, ended: frozenset[WriteCause]) -> None:
        for listener in self._listeners:
            listener(ended)


def describe(cause: WriteCause, message: str = "") -> str:
    """One line about a cause, with the answer if there is one."""
    where = f" ({cause.scope})" if cause.scope else ""
    what = f"{cause.verb} {cause.resource}" if cause.resource else "all"
    return f"{what}{where}: {cause.kind}" + (f": {message}" if message else "")


def _cause(request: HttpRequest, error: EngineError) -> WriteCause | None:
    """The cause of a failed write; None where it is in the object itself."""
    if request.resource == "events" or request.urgent:
        return None
    if isinstance(error, ConnectionBroken):
        return WriteCause("Unreachable")
    if not isinstance(error, ApiError):
        return None
    where = _NAMESPACE.search(request.path)
    namespace = where[1] if where is not None else ""
    kind: Literal["Forbidden", "ServerError"]
    if error.status == _UNAUTHENTICATED or (
        error.status == _FORBIDDEN and _MISSING_RIGHT.search(error.message)
    ):
        kind = "Forbidden"
    elif error.status == _TOO_MANY or error.status >= _SERVER_ERROR:
        webhook = _WEBHOOK.search(error.message)
        if webhook is not None:
            return WriteCause("Webhook", request.verb, _target(request), webhook[1] or webhook[2])
        kind = "ServerError"
    else:
        return None
    return WriteCause(kind, request.verb, _target(request), namespace)


def _target(request: HttpRequest) -> str:
    status = "/status" if request.path.partition("?")[0].endswith("/status") else ""
    return f"{request.resource}{status}"


def _proves(request: HttpRequest, cause: WriteCause, failed: HttpRequest) -> bool:
    """Whether the success of a write shows that a cause has ended."""
    if cause.kind == "Unreachable":
        return True
    if (request.verb, _target(request)) != (cause.verb, cause.resource):
        return False
    return _collection(request.path) == _collection(failed.path)


def _collection(path: str) -> str:
    found = _NAMESPACE.search(path)
    return found[1] if found is not None else ""


def _dry_run(request: HttpRequest) -> HttpRequest:
    """The same request, which changes nothing and may be sent by anybody at any time."""
    path, body = request.path, request.body
    if request.method == "DELETE":  # its options are read from the body alone
        options = msgspec.json.decode(body) if body else {}
        body = msgspec.json.encode({**options, "dryRun": ["All"]})
    else:
        path += "&dryRun=All" if "?" in path else "?dryRun=All"
    return msgspec.structs.replace(request, path=path, body=body, mutating=False, repeatable=False)
