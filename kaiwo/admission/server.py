"""Serves admission reviews over TLS, on the event loop of the operator."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import hdrs, web

from kaiwo.admission.request import MAX_BODY
from kaiwo.admission.tls import ServerContext
from kaiwo.engine.turns import Turns
from kaiwo.engine.workqueue import Key

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import StreamReader
    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.http import RawRequestMessage

    from kaiwo.admission.certificates import Certificates

_log = logging.getLogger(__name__)

TIME_LIMIT: Final = 2.0
"""Seconds for one review, from its first byte on; the API server waits for five."""

_KEEP_ALIVE = 180.0
"""Seconds that an idle connection stays open. The API server closes it after 90: if the server did, a request
that is on its way at that moment would be lost."""

_LARGE = 256 * 1024
_MOST_LARGE = 4
"""Large bodies that are read at the same time; the others wait in the sockets and not in memory."""

_QUIET = 1.0
_LONGEST_END = 5.0
"""Seconds without a request after which nobody is expected to call any more, and the longest wait for that.
Pods stay in the endpoints of a Service for a moment after their end has begun."""


class _Meta(msgspec.Struct):
    namespace: str = ""
    name: str = ""


class _Envelope(msgspec.Struct):
    request: _Meta = msgspec.field(default_factory=_Meta)


_decode_envelope = msgspec.json.Decoder(_Envelope).decode


class WebhookServer:
    """Serves one address until closed.

    Reviews of different namespaces take turns, so that one that sends thousands does not delay the others.
    """

    def __init__(
        self,
        address: tuple[str, int],
        review: Callable[[Key, bytes, str], bytes],
        failed: Callable[[str, str], None],
    ) -> None:
        """Prepare; nothing is served yet.

        Args:
            address: to listen on; port 0 takes a free one.
            review: answers a body, with the object that it is about and the path. What it raises
                becomes status 500, and the API server then decides by the webhook's failurePolicy.
            failed: called with path and cause for each request that got no review: timeout, too_large,
                error.
        """
        self._host, self._port = address
        self._review = review
        self._failed = failed
        self._turns = Turns()
        self._large = asyncio.Semaphore(_MOST_LARGE)
        self._tls: ServerContext | None = None
        self._runner: web.ServerRunner | None = None
        self._ending = False
        self._last = 0.0
        self._active = 0

    @property
    def serving(self) -> bool:
        """Whether connections are accepted."""
        return self._runner is not None

    @property
    def address(self) -> tuple[str, int]:
        """Where connections are accepted, with the port that was chosen where 0 was given."""
        if self._runner is None:
            return self._host, self._port
        host, port = self._runner.addresses[0][:2]
        return str(host), int(port)

    async def use(self, given: Certificates) -> None:
        """Serve with these certificates from now on; connections that are open stay so.

        Raises:
            OSError: the certificates (ssl.SSLError) or the address cannot be used.
        """
        if self._tls is None:
            self._tls = ServerContext(given)
        else:
            self._tls.use(given)
        if self._runner is None:
            await self._listen(self._tls)

    async def _listen(self, tls: ServerContext) -> None:
        # One handler serves all paths. An application's router would take a tenth of the time of a request.
        server = web.Server(
            self._handle, request_factory=_request, access_log=None, keepalive_timeout=_KEEP_ALIVE
        )
        runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=TIME_LIMIT)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port, ssl_context=tls.context).start()
        except OSError:
            await runner.cleanup()
            raise
        self._runner = runner
        host, port = self.address
        _log.info("serving webhooks on https://%s:%d", f"[{host}]" if ":" in host else host, port)

    async def close(self) -> None:
        """Answer what comes until nobody calls any more, then stop."""
        self._ending = True
        runner, self._runner = self._runner, None
        if runner is None:
            return
        began = time.monotonic()
        self._last = max(self._last, began)
        while (left := self._left(began)) > 0:  # noqa: ASYNC110  each request moves the end
            await asyncio.sleep(left)
        await runner.cleanup()

    def _left(self, began: float) -> float:
        """Seconds for which somebody may still call, of an end that began then."""
        now = time.monotonic()
        quiet = _QUIET if self._active else self._last + _QUIET - now
        return min(quiet, began + _LONGEST_END - now)

    async def _handle(self, request: web.BaseRequest) -> web.Response:
        if request.method != hdrs.METH_POST:
            return web.Response(status=405, headers={hdrs.ALLOW: hdrs.METH_POST})
        self._active += 1
        try:
            async with asyncio.timeout(TIME_LIMIT):
                response = await self._answer(request)
        except TimeoutError:
            self._failed(request.path, "timeout")
            response = web.Response(status=504, text=f"no review within {TIME_LIMIT:g} s\n")
            response.force_close()
        except web.HTTPRequestEntityTooLarge:
            self._failed(request.path, "too_large")
            response = web.Response(status=413, text=f"at most {MAX_BODY} bytes are read\n")
            response.force_close()
        finally:
            self._active -= 1
            self._last = time.monotonic()
        if self._ending:
            response.force_close()
        return response

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        length = request.content_length
        if length is not None and length <= _LARGE:
            return await self._reviewed(request.path, await request.read())
        if length is not None and length > MAX_BODY:
            raise web.HTTPRequestEntityTooLarge(MAX_BODY, length)
        async with self._large:
            return await self._reviewed(request.path, await request.read())

    async def _reviewed(self, path: str, body: bytes) -> web.Response:
        subject = subject_of(body)
        async with self._turns.turn(subject.namespace):
            try:
                answer = self._review(subject, body, path)
            except Exception:  # noqa: BLE001  of ours or of a plugin: the API server decides
                _log.exception("webhook %s: the review of %s/%s failed", path, *subject)
                self._failed(path, "error")
                return web.Response(status=500, text="internal error; the operator's log has the traceback\n")
        return web.Response(body=answer, content_type="application/json")


def _request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: web.RequestHandler,
    writer: AbstractStreamWriter,
    task: asyncio.Task[None],
) -> web.BaseRequest:
    """A request of at most `MAX_BODY`."""
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY)


def subject_of(body: bytes) -> Key:
    """The object that an AdmissionReview is about; empty names where it has none, or cannot be read."""
    try:
        request = _decode_envelope(body).request
    except (ValueError, RecursionError):
        return Key("", "")
    return Key(request.namespace, request.name)
