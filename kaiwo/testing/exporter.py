"""A fake exporter of GPU metrics that can misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

TEXT = "text/plain; version=0.0.4; charset=utf-8"


def lines(pods: dict[tuple[str, str], list[float]], metric: str = "gpu_gfx_activity") -> str:
    """Samples of pods, by namespace and name."""
    return "".join(
        f'{metric}{{gpu_id="{gpu}",gpu_uuid="u{gpu}",namespace="{namespace}",pod="{pod}"}} {value}\n'
        for (namespace, pod), values in pods.items()
        for gpu, value in enumerate(values)
    )


def server_tls(folder: Path) -> tuple[ssl.SSLContext, bytes]:
    """TLS of a server on loopback, and the certificate of its CA (PEM), which signs nothing else.

    Args:
        folder: for files; nothing in it is needed later.
    """
    from kaiwo.admission.certificates import issue

    made = issue(["exporter"], datetime.now(UTC))
    file = folder / "server.pem"
    file.write_bytes(made.certificate + made.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context, made.authorities


class Exporter:
    """Answers every path.

    Attributes:
        body: of the answers.
        kind: their type.
        status: their status.
        headers: more headers.
        answer: answers instead, None to answer with the above.
        requests: paths and queries so far.
        authorization: the header of that name of each of them, empty for none.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        """Nobody listens yet.

        Args:
            tls: certificate and key of an https server; None for http.
        """
        self.body: str | bytes = ""
        self.kind = TEXT
        self.status = 200
        self.headers: dict[str, str] = {}
        self.answer: Callable[[web.Request], Awaitable[web.StreamResponse]] | None = None
        self.requests: list[str] = []
        self.authorization: list[str] = []
        self.tls = tls
        self.port = 0

    async def __aenter__(self) -> Self:
        """Listen on a free port."""
        app = web.Application()
        app.router.add_get("/{path:.*}", self._get)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self.tls)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Stop."""
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        """Of Prometheus text."""
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}/metrics"

    async def _get(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request.path_qs)
        self.authorization.append(request.headers.get("Authorization", ""))
        if self.answer is not None:
            return await self.answer(request)
        body = self.body.encode() if isinstance(self.body, str) else self.body
        return web.Response(body=body, status=self.status, headers={"Content-Type": self.kind} | self.headers)


async def hang(_: web.Request) -> web.StreamResponse:
    """Take the request and never answer."""
    await asyncio.sleep(3600)
    raise web.HTTPGone


async def drip(request: web.Request) -> web.StreamResponse:
    """Send a byte now and then, for ever."""
    response = web.StreamResponse(headers={"Content-Type": TEXT})
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):
        while True:
            await response.write(b"#")
            await asyncio.sleep(0.01)
    return response


async def endless(request: web.Request) -> web.StreamResponse:
    """Send without an end, as fast as it goes."""
    response = web.StreamResponse(headers={"Content-Type": TEXT})
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):
        while True:
            await response.write(b"# no sample at all\n" * 50_000)
    return response
