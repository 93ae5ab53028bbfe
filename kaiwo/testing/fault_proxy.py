"""An HTTP proxy in front of a real API server that injects faults.

Tests connect a client or an operator to it and define faults: error answers, lost answers, resets, delays,
stalls, watch streams that drop, repeat or cut events, and the crash between two writes. It keeps a list of
all requests, so that a test can count writes. When the proxy ends, a fault that did not take place as often
as defined fails the test: no test of a fault passes without it.

    async with FaultProxy(connection) as proxy:
        proxy.answer(429, method="POST", path="/jobs$", retry_after=1)
        client = Client(proxy.connection)
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import aiohttp
import msgspec
from aiohttp import web
from yarl import URL

from kaiwo.engine.connections import Connector, abort, close
from kaiwo.engine.credentials import Connection
from kaiwo.testing.assertions import require
from kaiwo.testing.faults import MUTATING, STREAM_FAULTS, Fault, FaultRecord, Faults
from kaiwo.testing.kubeconfig import write_kubeconfig
from kaiwo.testing.stream_server import cut

if TYPE_CHECKING:
    from pathlib import Path

    from kaiwo.engine.resource import Object

_FORWARDED_HEADERS = ("Content-Type", "Accept", "User-Agent")
_REASONS = {410: "Expired", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}
_GONE_INTERVAL = 1.0
"""Seconds between two looks at whether the client of a stream is still there."""


class FaultProxy(Faults):
    """The proxy; an asynchronous context manager.

    Attributes:
        records: all requests so far, in the order of their answers.
        connection: for a client that goes through the proxy.
        url: base URL of the proxy.
    """

    def __init__(self, upstream: Connection, *, host: str = "127.0.0.1") -> None:
        """Prepare.

        Args:
            upstream: the API server, with credentials; clients of the proxy need none.
            host: address to listen on.
        """
        super().__init__()
        self._host = host
        self.records: list[FaultRecord] = []
        self.url = ""
        self.connection = Connection("")
        self._upstream = upstream
        self._handlers: set[asyncio.Task[object]] = set()
        self._watches: set[asyncio.Task[object]] = set()
        self._watched = asyncio.Event()
        self._cut: set[asyncio.Task[object]] = set()
        self._released = asyncio.Event()
        self._closing = False
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        """Listen on a free port."""
        application = web.Application(client_max_size=64 << 20)
        application.router.add_route("*", "/{path:.*}", self._serve)
        self._session = aiohttp.ClientSession(
            connector=Connector(limit=0), timeout=aiohttp.ClientTimeout(total=None)
        )
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        self.connection = Connection(self.url, namespace=self._upstream.namespace)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        """Stop listening, cut what is under way, and check that every fault took place.

        aiohttp forgets handlers whose client has gone. They are waited for here: a TLS connection that is
        still being made when its event loop ends could not be closed any more.

        Raises:
            AssertionError: a fault did not take place, and the block did not end with another exception.
        """
        await self._end()
        if kind is None:
            require(not self.missed(), f"faults that did not take place: {'; '.join(self.missed())}")

    async def _end(self) -> None:
        self._closing = True
        self._released.set()
        await self._cut_open_watches()
        if self._runner is not None and (server := self._runner.server) is not None:
            transports = {connection.transport for connection in server.connections}
            await self._runner.cleanup()
            # Connections that came meanwhile; of the others those whose clients read nothing are still open.
            transports |= {connection.transport for connection in server.connections}
            await cut({transport for transport in transports if transport is not None})
        if self._handlers:
            await asyncio.wait(self._handlers, timeout=10.0)
        if self._session is not None:
            await close(self._session)

    async def cut_watches(self, timeout: float = 10.0) -> None:
        """Reset all watches that are open now; wait for one if none is.

        Raises:
            AssertionError: no watch was opened in time.
        """
        try:
            await asyncio.wait_for(self._watched.wait(), timeout)
        except TimeoutError:
            raise AssertionError(f"no watch was opened within {timeout:g} s") from None
        await self._cut_open_watches()

    async def _cut_open_watches(self) -> None:
        self._cut |= self._watches
        self._watches = set()
        self._watched.clear()
        for task in self._cut:
            task.cancel()
        await asyncio.sleep(0)

    def clear(self) -> None:
        """Remove all faults; requests that hang are reset."""
        self._faults.clear()
        self._crash = None
        self._released.set()
        self._released = asyncio.Event()

    def writes(
        self, *, beside: str = r"/leases/|/leases$|/events$|/events/", since: int = 0
    ) -> list[FaultRecord]:
        """Mutating requests, without dry runs.

        Args:
            beside: leaves out paths that match; leases and Events by default.
            since: index into `records` to begin at.
        """
        return [
            r
            for r in self.records[since:]
            if r.method in MUTATING and not re.search(beside, r.path) and "dryRun=All" not in r.query
        ]

    def write_kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig that points to the proxy, for another process."""
        return write_kubeconfig(path, self.url, self._upstream.namespace)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 -- a handler runs in a task
        self._handlers.add(task)
        task.add_done_callback(self._handlers.discard)
        return await self._handle(request)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        # A log that is followed comes line by line as well, and may be as long.
        watch = any(request.query.get(name) in ("true", "1") for name in ("watch", "follow"))
        method = "WATCH" if watch else request.method
        crash, verdict = self._crash, "pass"
        if crash is not None and request.method in MUTATING and crash.path.search(request.path):
            verdict = crash.strike()
        if crash is not None and verdict == "stop":
            crash.happened.set()
            return self._abort(request, method)
        fault = self._find(
            lambda f: (
                f.kind not in STREAM_FAULTS
                and f.method in (None, method)
                and f.path.search(request.path) is not None
            )
        )
        lose, cut = verdict == "lose", False
        if fault is not None:
            if fault.kind == "answer":
                return self._answer_error(request, method, fault)
            if fault.kind == "delay":
                await asyncio.sleep(fault.seconds)
            elif fault.kind == "hang":
                await self._released.wait()
                return self._abort(request, method)
            elif fault.kind == "reset":
                return self._abort(request, method)
            lose, cut = lose or fault.kind == "lose_answer", fault.kind == "cut_answer"
        answer = await (self._stream(request) if watch else self._pass_on(request, lose=lose, cut=cut))
        if crash is not None and verdict == "lose":
            crash.happened.set()  # only now it is carried out
        return answer

    async def _pass_on(self, request: web.Request, *, lose: bool, cut: bool) -> web.StreamResponse:
        body = await request.read()
        try:
            async with await self._forward(request, body) as answer:
                content = await answer.read()
                status, kind = answer.status, answer.headers.get("Content-Type", "application/json")
        except aiohttp.ClientError:
            return self._abort(request, request.method)  # the API server itself is unreachable
        if lose:
            return self._abort(request, request.method)
        self._record(request, request.method, status, injected=False)
        if cut:
            return await _send_half(request, status, content, kind)
        return web.Response(status=status, body=content, headers={"Content-Type": kind})

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 -- a handler runs in a task
        response = web.StreamResponse()
        try:
            async with await self._forward(request, b"") as answer:
                self._watches.add(task)
                self._watched.set()
                if self._closing:
                    task.cancel()
                response.set_status(answer.status)
                response.content_type = "application/json"
                self._record(request, "WATCH", answer.status, injected=False)
                await response.prepare(request)
                leaving = asyncio.create_task(_leave_with_client(request, answer))
                try:
                    await self._copy_events(request, answer, response)
                finally:
                    leaving.cancel()
                    abort(answer)
        except asyncio.CancelledError:
            if request.transport is not None:
                request.transport.abort()
            if task not in self._cut:
                raise
            self._cut.discard(task)
            task.uncancel()
        except (aiohttp.ClientError, ConnectionResetError):
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._watches.discard(task)
            if not self._watches:
                self._watched.clear()
        return response

    async def _copy_events(
        self, request: web.Request, answer: aiohttp.ClientResponse, response: web.StreamResponse
    ) -> None:
        rest, copy = b"", _Copy()
        async for chunk in answer.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                fault = None if copy.blind else self._stream_fault(request, line)
                if fault is not None and fault.kind == "stall":
                    await self._released.wait()
                    return
                if sent := copy.of(line, fault):
                    await response.write(sent)
                if copy.ended:
                    return
        if rest:
            await response.write(rest)

    def _stream_fault(self, request: web.Request, line: bytes) -> Fault | None:
        candidates = [f for f in self._faults if f.kind in STREAM_FAULTS and f.path.search(request.path)]
        if not candidates:
            return None
        event = msgspec.json.decode(line)
        type_, name = event["type"], event["object"].get("metadata", {}).get("name")
        return self._find(
            lambda f: f in candidates and f.event in (None, type_) and (f.name is None or f.name == name)
        )

    async def _forward(self, request: web.Request, body: bytes) -> aiohttp.ClientResponse:
        assert self._session is not None  # noqa: S101 -- requests come only while the proxy listens
        headers = await self._upstream.headers()
        headers.update(
            (name, request.headers[name]) for name in _FORWARDED_HEADERS if name in request.headers
        )
        return await self._session.request(
            request.method,
            URL(self._upstream.server + request.raw_path, encoded=True),
            data=body or None,
            headers=headers,
            ssl=self._upstream.ssl_context or True,
            server_hostname=self._upstream.server_hostname,
            allow_redirects=False,
        )

    def _abort(self, request: web.Request, method: str) -> web.Response:
        self._record(request, method, 0, injected=True)
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    def _answer_error(self, request: web.Request, method: str, fault: Fault) -> web.Response:
        self._record(request, method, fault.status, injected=True)
        headers = {"Content-Type": "application/json"}
        if fault.retry_after is not None:
            headers["Retry-After"] = f"{fault.retry_after:g}"
        body = msgspec.json.encode(_status(fault.status, "injected by the fault proxy"))
        return web.Response(status=fault.status, body=body, headers=headers)

    def _record(self, request: web.Request, method: str, code: int, *, injected: bool) -> None:
        path = request.path
        last = path.rsplit("/", 1)[-1]
        subresource = last if last in ("status", "scale", "log", "exec", "binding", "eviction") else ""
        caller = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.records.append(
            FaultRecord(method, path, request.query_string, subresource, code, injected, caller)
        )


@dataclass(slots=True)
class _Copy:
    """What becomes of the events of one watch.

    Attributes:
        held: an event that is sent after the next one.
        blind: whether only bookmarks are sent any more.
        ended: whether the watch ends here.
    """

    held: bytes = b""
    blind: bool = False
    ended: bool = False

    def of(self, line: bytes, fault: Fault | None) -> bytes:
        """What is sent in place of an event.

        Args:
            line: the event.
            fault: that strikes at it; None for none.
        """
        match fault.kind if fault is not None else "blind" if self.blind else "":
            case "drop":
                return b""
            case "duplicate":
                return line + b"\n" + line + b"\n"
            case "reorder":
                self.held = line + b"\n"
                return b""
            case "truncate":
                self.ended = True
                return line[: len(line) // 2]
            case "gone":
                self.ended = True
                error = {"type": "ERROR", "object": _status(410, "too old resource version")}
                return msgspec.json.encode(error) + b"\n"
            case "blind":
                self.blind = True
                return _bookmark(line) + b"\n"
            case _:
                held, self.held = self.held, b""
                return line + b"\n" + held


async def _leave_with_client(request: web.Request, answer: aiohttp.ClientResponse) -> None:
    """End a stream whose client has gone. A handler would notice it with the next line, if one ever comes."""
    while request.transport is not None and not request.transport.is_closing():  # noqa: ASYNC110
        await asyncio.sleep(_GONE_INTERVAL)
    abort(answer)


async def _send_half(request: web.Request, status: int, content: bytes, kind: str) -> web.StreamResponse:
    """Announce a whole answer, and end in the middle of it."""
    headers = {"Content-Type": kind, "Content-Length": str(len(content))}
    response = web.StreamResponse(status=status, headers=headers)
    await response.prepare(request)
    await response.write(content[: len(content) // 2])
    if request.transport is not None:
        request.transport.close()
    return response


def _bookmark(line: bytes) -> bytes:
    """A bookmark of the version of an event, as if all events until then had been sent."""
    obj = msgspec.json.decode(line)["object"]
    kept = {key: obj[key] for key in ("apiVersion", "kind") if key in obj}
    version = {"resourceVersion": obj["metadata"]["resourceVersion"]}
    return msgspec.json.encode({"type": "BOOKMARK", "object": {**kept, "metadata": version}})


def _status(code: int, message: str) -> Object:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": _REASONS.get(code, ""),
        "code": code,
    }
