"""Requests over aiohttp: time limits, fresh credentials, retries, the check before a write, and counting."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import re
import time
from contextlib import aclosing
from typing import TYPE_CHECKING

import aiohttp
import msgspec
from yarl import URL

from kaiwo.engine.connections import (
    MAY_WRITE,
    SWITCHING,
    CheckedRequest,
    Connector,
    UpgradeResponse,
    abort,
    close,
    make_socket,
)
from kaiwo.engine.errors import (
    ApiError,
    ConnectionBroken,
    EngineError,
    Forbidden,
    NotLeading,
    ServerUnavailable,
    TooManyRequests,
    from_response,
)
from kaiwo.engine.proxy import without_user
from kaiwo.engine.time_limits import TimeLimits

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from multidict import CIMultiDict, CIMultiDictProxy

    from kaiwo.engine.credentials import Connection
    from kaiwo.engine.metrics import Metrics

ATTEMPTS = 4
"""Tries of a safe request; one more after a 401. Further ones are left to the caller's own back-off."""

_MOST_FAILING = 10_000
"""Writes that are remembered as failing."""

FIRST_PAUSE = 0.1
"""Seconds before the second try; doubles with each further one."""

LONGEST_PAUSE = 15.0
"""Seconds at most that are waited for a Retry-After; a longer one goes to the caller."""

JSON = "application/json"
LONGEST_MESSAGE = 16 << 20
"""Bytes of the longest WebSocket message that is taken; kubelets send 32 KiB at most."""

_CLOSING = 1.0
"""Seconds for which the other side's answer to a WebSocket's end is awaited."""

_UNAUTHORIZED = 401
_SUCCESS = 300
_TLS_CONTEXT = re.compile(r" ssl:(<[^>]*>|\w+)")
_FREE = contextlib.nullcontext()


class HttpRequest(msgspec.Struct, frozen=True, gc=False):
    """One request to be sent, perhaps several times.

    Attributes:
        verb: what it does, for metrics: get, list, create, apply, patch, replace, delete.
        resource: ``plural.group``, for metrics.
        method: HTTP method.
        path: URL path with query, percent-encoded.
        body: JSON, or None.
        content_type: of the body.
        mutating: whether it is sent only while this process may write.
        repeatable: whether sending it twice does no harm. Others are repeated only when the API server
            surely has not carried them out.
        urgent: waits for no slot and is sent also while this process may not write: the lease must be renewed
            while everything else is stuck, and acquired while it is not held.
        accept: the type of the answer.
    """

    verb: str
    resource: str
    method: str
    path: str
    body: bytes | None = None
    content_type: str = JSON
    mutating: bool = False
    repeatable: bool = True
    urgent: bool = False
    accept: str = JSON


class Transport:
    """Sends requests to one API server.

    Attributes:
        may_write: called right before each mutating request is sent; False holds it back. None: always.
        user_timeout: seconds after which the kernel drops what was sent and not acknowledged; assign it
            before the first request. None: as it is set on the machine.
        on_write: called with the end of each mutating request: how it failed, None when it succeeded.
        date: the header ``Date`` of the last answer: the API server's clock; empty before the first one.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        user_agent: str,
        timeout: float,
        concurrency: int,
        metrics: Metrics | None,
    ) -> None:
        self.may_write: Callable[[], bool] | None = None
        self.user_timeout: float | None = None
        self.on_write: Callable[[HttpRequest, EngineError | None], None] | None = None
        self.date = ""
        self._connection = connection
        self._agent = user_agent
        # One timer for all requests takes less than half the time of aiohttp's, one for each.
        self._seconds = timeout
        self._limits = TimeLimits(timeout)
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=min(10.0, timeout))
        # Waiting happens here and not in a connection pool: a write is checked after the wait.
        self._slots = asyncio.Semaphore(concurrency)
        self._metrics = metrics
        self._session: aiohttp.ClientSession | None = None
        # Method and path of writes whose last tries all failed; the oldest first.
        self._failing: dict[tuple[str, str], None] = {}

    async def close(self) -> None:
        """Close all connections."""
        # The next session may be in another event loop, in which this timer never goes off.
        self._limits = TimeLimits(self._seconds)
        if self._session is not None:
            session, self._session = self._session, None
            await close(session)

    async def send(self, request: HttpRequest) -> bytes:
        """The body of a successful answer.

        Raises:
            ApiError: the API server rejected the request.
            ConnectionBroken: no answer.
            NotLeading: a mutating request while this process may not write.
            CredentialsError: no valid credentials.
        """
        if self.on_write is None or not request.mutating:
            return await self._repeated(request)
        try:
            answer = await self._repeated(request)
        except EngineError as error:
            self.on_write(request, error)
            raise
        self.on_write(request, None)
        return answer

    async def _repeated(self, request: HttpRequest) -> bytes:
        """Send a request as often as it may be; once only where the last tries of the same write all failed.

        The pause until such a write comes again is its caller's. Four requests in place of one would not be
        what the caller decided.
        """
        write = (request.method, request.path)
        attempt = ATTEMPTS if write in self._failing else 1
        try:
            answer = await self._tried(request, attempt)
        except (TooManyRequests, ServerUnavailable, ConnectionBroken):
            if request.mutating and not request.urgent:
                self._failing[write] = None
                if len(self._failing) > _MOST_FAILING:
                    del self._failing[next(iter(self._failing))]
            raise
        self._failing.pop(write, None)
        return answer

    async def _tried(self, request: HttpRequest, attempt: int) -> bytes:
        refresh = refreshed = False
        while True:
            headers = await self._headers(request, refresh=refresh)
            refresh = False
            try:
                return await self._once(request, headers)
            except Forbidden as error:
                if error.status != _UNAUTHORIZED or refreshed:
                    raise
                refresh = refreshed = True
            except (TooManyRequests, ServerUnavailable, ConnectionBroken) as error:
                pause = _pause(error, attempt)
                if attempt == ATTEMPTS or pause > LONGEST_PAUSE or not _may_repeat(request, error):
                    raise
                attempt += 1
                await asyncio.sleep(pause)

    async def stream(
        self, resource: str, path: str, stall: float, *, longest: int
    ) -> AsyncGenerator[bytes, None]:
        """Lines of a watch, or of a log.

        Args:
            resource: for metrics.
            path: URL path with query.
            stall: seconds of silence after which the connection counts as dead.
            longest: bytes of the longest line that is taken.

        Raises:
            ApiError: the API server rejected the request.
            ConnectionBroken: cut off in the middle, silent for too long, or a line that does not end.
        """
        rest = b""
        async with aclosing(self.chunks("watch", resource, path, stall)) as chunks:
            async for chunk in chunks:
                lines = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
                rest = lines.pop()
                if len(rest) > longest:
                    raise ConnectionBroken(f"{resource}: a line of more than {longest} bytes")
                for line in lines:
                    if line:
                        yield line
        if rest:
            raise ConnectionBroken(f"watch {resource}: cut off in the middle of an event")

    async def chunks(self, verb: str, resource: str, path: str, stall: float) -> AsyncGenerator[bytes, None]:
        """The body of an answer as it comes in; no more is read from the connection than is taken.

        Args:
            verb: for metrics and messages.
            resource: for metrics and messages.
            path: URL path with query.
            stall: seconds of silence after which the connection counts as dead.

        Raises:
            ApiError: the API server rejected the request.
            ConnectionBroken: cut off before the end of the answer, or silent for too long.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=stall)
        headers = await self._connection.headers()
        headers["Accept"] = f"{JSON}, */*"
        try:
            async with self._open("GET", path, None, headers, timeout) as response:
                self._count(verb, resource, response.status, 0.0)
                if response.status >= _SUCCESS:
                    body = await response.read()
                    if response.status == _UNAUTHORIZED:
                        await self._connection.headers(refresh=True)
                    raise from_response(response.status, body, response.headers)
                try:
                    async for chunk in response.content.iter_any():
                        yield chunk
                finally:
                    abort(response)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ConnectionBroken(f"{verb} {resource}: {_describe(error)}") from error

    async def websocket(
        self, resource: str, path: str, protocols: tuple[str, ...]
    ) -> aiohttp.ClientWebSocketResponse[bool]:
        """A connection that was upgraded to a WebSocket; it answers no pings by itself.

        Args:
            resource: for metrics and messages, for example ``pods/exec``.
            path: URL path with query.
            protocols: subprotocols, the preferred one first.

        Raises:
            ApiError: the API server, or the kubelet behind it, rejected the request.
            ConnectionBroken: no answer, or one that is no WebSocket's.
        """
        refreshed = False
        while True:
            headers = await self._connection.headers(refresh=refreshed)
            try:
                socket = await self._upgrade(resource, path, protocols, headers)
            except Forbidden as error:
                if error.status != _UNAUTHORIZED or refreshed:
                    raise
                refreshed = True
            else:
                return socket

    async def _upgrade(
        self, resource: str, path: str, protocols: tuple[str, ...], headers: CIMultiDict[str]
    ) -> aiohttp.ClientWebSocketResponse[bool]:
        connection = self._connection
        try:
            async with asyncio.timeout(self._seconds):
                socket = await self._sessions().ws_connect(
                    URL(connection.server + path, encoded=True),
                    protocols=protocols,
                    headers=headers,
                    ssl=connection.ssl_context or True,
                    server_hostname=connection.server_hostname,
                    proxy=connection.proxy,
                    autoping=False,
                    timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSING),
                    max_msg_size=LONGEST_MESSAGE,
                    decode_text=False,
                )
        except ApiError as error:
            self._count("connect", resource, error.status, 0.0)
            raise
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ConnectionBroken(f"{resource} at {connection.server}: {_describe(error)}") from error
        self._count("connect", resource, SWITCHING, 0.0)
        return socket

    async def _headers(self, request: HttpRequest, *, refresh: bool) -> CIMultiDict[str]:
        headers = await self._connection.headers(refresh=refresh)
        headers["Accept"] = request.accept
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        return headers

    async def _once(self, request: HttpRequest, headers: CIMultiDict[str]) -> bytes:
        async with _FREE if request.urgent else self._slots:
            started = time.monotonic()
            status: int | None = 0
            token = MAY_WRITE.set(self.may_write if request.mutating and not request.urgent else None)
            try:
                status, answer_headers, body = await self._answer(request, headers)
                self.date = answer_headers.get("Date", "")
            except NotLeading:
                status = None  # nothing was sent, so there is nothing to count
                raise
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise ConnectionBroken(
                    f"{request.verb} {request.resource or request.path.partition('?')[0]} at "
                    f"{self._connection.server}: {_describe(error)}"
                ) from error
            finally:
                MAY_WRITE.reset(token)
                if status is not None:
                    self._count(request.verb, request.resource, status, time.monotonic() - started)
        if status >= _SUCCESS:
            raise from_response(status, body, answer_headers)
        return body

    async def _answer(
        self, request: HttpRequest, headers: CIMultiDict[str]
    ) -> tuple[int, CIMultiDictProxy[str], bytes]:
        """Status, headers and body of an answer; TimeoutError when it takes too long."""
        task, expired = asyncio.current_task(), False
        cancelled = task.cancelling() if task is not None else 0
        self._limits.begin()
        try:
            try:
                async with self._open(
                    request.method, request.path, request.body, headers, self._timeout
                ) as response:
                    return response.status, response.headers, await response.read()
            finally:
                expired = self._limits.end()
        except asyncio.CancelledError as error:
            if expired and (task is None or task.cancelling() <= cancelled):
                raise TimeoutError from error
            raise  # somebody else has cancelled the task

    def _open(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: CIMultiDict[str],
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.client._RequestContextManager:
        connection = self._connection
        return self._sessions().request(
            method,
            URL(connection.server + path, encoded=True),
            data=body,
            headers=headers,
            ssl=connection.ssl_context or True,
            server_hostname=connection.server_hostname,
            proxy=connection.proxy,
            timeout=timeout,
            allow_redirects=False,
        )

    def _sessions(self) -> aiohttp.ClientSession:
        if self._session is None:
            # An idle connection is dropped before any usual proxy does it; bodies are not compressed,
            # which would cost the API server, the scarce thing, more than the bytes do.
            self._session = aiohttp.ClientSession(
                connector=Connector(
                    limit=0,
                    keepalive_timeout=50,
                    ttl_dns_cache=60,
                    socket_factory=functools.partial(make_socket, self.user_timeout),
                ),
                headers={"User-Agent": self._agent, "Accept-Encoding": "identity"},
                auto_decompress=True,
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=1 << 18,
                request_class=CheckedRequest,
                response_class=UpgradeResponse,
            )
        return self._session

    def _count(self, verb: str, resource: str, code: int, seconds: float) -> None:
        if self._metrics is not None:
            self._metrics.request(verb, resource, code, seconds)


def _may_repeat(request: HttpRequest, error: ApiError | ConnectionBroken) -> bool:
    """Whether a failed request may be sent again: harmless, or surely not carried out."""
    if request.repeatable or isinstance(error, TooManyRequests):
        return True
    return isinstance(error.__cause__, aiohttp.ClientConnectorError)


def _pause(error: ApiError | ConnectionBroken, attempt: int) -> float:
    """Seconds to wait: the server's Retry-After, or doubling; jittered, so that clients spread."""
    retry_after = error.retry_after if isinstance(error, ApiError) else None
    base = retry_after if retry_after is not None else FIRST_PAUSE * 2 ** (attempt - 1)
    return base * random.uniform(1.0, 1.5)  # noqa: S311 -- jitter needs no secrecy


def _describe(error: BaseException) -> str:
    """A text, also for errors whose own is empty, as that of a TimeoutError; no Python object."""
    if isinstance(error, TimeoutError):
        return "timed out"
    # The URL of a proxy that refuses to connect is in the text, with its user and password.
    return without_user(_TLS_CONTEXT.sub("", str(error))) or type(error).__name__
